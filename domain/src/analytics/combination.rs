//! What the rows of a rollup are told apart by. Rows have to stay few, so what clients choose freely (the user, the
//! model's name, metadata) has its values kept up to a bound; what is beyond it stays in the sums and loses its name.

use super::{Dimension, USER};
use crate::id::{KeyId, OrgId, WorkspaceId};
use crate::record::LogRecord;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use uuid::Uuid;

/// Metadata keys that an organisation may name beside `_user`.
pub const MOST_NAMED: usize = 8;

/// Longer names of models are no names.
const LONGEST: usize = 255;

/// Which values were too many to be kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CutValues(pub i64);

impl CutValues {
    pub const USER: Self = Self(1);
    pub const MODEL: Self = Self(2);
    pub const METADATA: Self = Self(4);

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Combination {
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub key: Option<KeyId>,
    /// `_user` of metadata, or empty.
    pub user: SmolStr,
    pub provider: SmolStr,
    pub virtual_key: SmolStr,
    pub model: SmolStr,
    pub status: u16,
    pub config: SmolStr,
    /// Slug of the saved prompt, or empty.
    pub prompt: SmolStr,
    /// A JSON object with each key that the organisation names, and null where the record has none: a row that does not
    /// hold a key was written before it was named.
    pub metadata: SmolStr,
    pub cut: CutValues,
}

impl Combination {
    pub fn of(record: &LogRecord, named: &[SmolStr]) -> Self {
        let given = read(&record.metadata);
        let mut made = Self {
            org: record.org,
            workspace: record.workspace,
            key: record.key,
            user: text(&given, USER),
            provider: record.provider.clone(),
            virtual_key: record.virtual_key.clone(),
            model: record.model.clone(),
            status: record.status,
            config: record.config.clone(),
            prompt: record.prompt_slug().map_or_else(SmolStr::default, SmolStr::clone),
            metadata: chosen(&given, named),
            cut: CutValues::default(),
        };
        if made.model.len() > LONGEST {
            made.lose(CutValues::MODEL);
        }
        made
    }

    /// Takes out what is too much to be kept apart.
    pub fn lose(&mut self, what: CutValues) {
        self.cut = self.cut.with(what);
        for (cut, place) in [(CutValues::USER, &mut self.user), (CutValues::MODEL, &mut self.model)] {
            if what.has(cut) {
                *place = SmolStr::default();
            }
        }
        if what.has(CutValues::METADATA) {
            self.metadata = SmolStr::new_static("{}");
        }
    }

    /// Names its row within the span that begins at `start`. Two programs that name one differently have two rows of
    /// it, whose sums are those of both.
    pub fn id(&self, grain: i64, start: i64) -> Uuid {
        let mut hash = Sha256::new();
        for number in [grain, start, i64::from(self.status), self.cut.0] {
            hash.update(number.to_le_bytes());
        }
        for id in [self.org.0, self.workspace.0, self.key.map_or(Uuid::nil(), |key| key.0)] {
            hash.update(id.as_bytes());
        }
        let texts = [&self.user, &self.provider, &self.virtual_key, &self.model, &self.config, &self.metadata];
        // Calls without a prompt have the rows that they had before prompts were told.
        let prompt = Some(&self.prompt).filter(|prompt| !prompt.is_empty());
        for text in texts.into_iter().chain(prompt) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Uuid::from_bytes(bytes)
    }

    pub fn value(&self, dimension: &Dimension) -> SmolStr {
        match dimension {
            Dimension::Workspace => self.workspace.to_string().into(),
            Dimension::Key => self.key.map_or_else(SmolStr::default, |key| key.to_string().into()),
            Dimension::User => self.user.clone(),
            Dimension::Provider => self.provider.clone(),
            Dimension::VirtualKey => self.virtual_key.clone(),
            Dimension::Model => self.model.clone(),
            Dimension::Status => self.status.to_string().into(),
            Dimension::Config => self.config.clone(),
            Dimension::Prompt => self.prompt.clone(),
            Dimension::Trace => SmolStr::default(),
            Dimension::Metadata(key) => value_in(&self.metadata, key),
        }
    }
}

/// The value of a key in a JSON object of texts; empty where there is none.
pub(super) fn value_in(metadata: &str, key: &str) -> SmolStr {
    text(&read(metadata), key)
}

fn read(metadata: &str) -> Map<String, Value> {
    if metadata.len() <= 2 { Map::new() } else { serde_json::from_str(metadata).unwrap_or_default() }
}

fn text(given: &Map<String, Value>, key: &str) -> SmolStr {
    given.get(key).and_then(Value::as_str).map(SmolStr::from).unwrap_or_default()
}

fn chosen(given: &Map<String, Value>, named: &[SmolStr]) -> SmolStr {
    if named.is_empty() {
        return SmolStr::new_static("{}");
    }
    let pair = |key: &SmolStr| (key.to_string(), given.get(key.as_str()).cloned().unwrap_or_default());
    Value::Object(named.iter().map(pair).collect()).to_string().into()
}
