//! What resources are called in a file: by their slugs, people by their addresses, keys by their names or, where those
//! do not tell them apart, by their hashes. Ids stand for nothing outside the gateway that gave them.

use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::{Kind, Stored};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// Before the hash of a key, where that is its name.
pub(crate) const BY_HASH: &str = "sha256:";

/// Where a name means one thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamePlace {
    pub(crate) kind: Kind,
    /// `None`: the whole organisation.
    pub(crate) workspace: Option<Uuid>,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredNames {
    ids: HashMap<NamePlace, Uuid>,
    names: HashMap<Uuid, NamePlace>,
}

impl DeclaredNames {
    /// Collects the names of stored rows, all of one organisation.
    pub(crate) fn of(rows: &[Stored]) -> Self {
        let mut names = Self::default();
        let keys = key_names(rows);
        // A seat is called by the address of whoever sits there, so people come first.
        let (seats, others): (Vec<&Stored>, Vec<&Stored>) = rows.iter().partition(|r| r.kind == Kind::Member.name());
        for row in others.into_iter().chain(seats) {
            let Some(kind) = Kind::parse(&row.kind) else { continue };
            let name = match kind {
                Kind::Member => row.slug.parse().map_or_else(|_| row.slug.clone(), |id| names.name(id)),
                _ => keys.get(&row.id).unwrap_or(&row.slug).clone(),
            };
            names.insert(place(kind, row.workspace.map(WorkspaceId), name), row.id);
        }
        names
    }

    pub(crate) fn insert(&mut self, place: NamePlace, id: Uuid) {
        self.ids.insert(place.clone(), id);
        self.names.insert(id, place);
    }

    /// What is gone keeps its id, which is all that is left of it.
    pub(crate) fn name(&self, id: Uuid) -> String {
        self.names.get(&id).map_or_else(|| id.to_string(), |place| place.name.clone())
    }

    /// Puts the name of a row in place of its id, also behind an `@`; any other text stays.
    pub(crate) fn instead_of(&self, text: &str) -> String {
        let bare = text.strip_prefix('@').unwrap_or(text);
        let known = bare.parse::<Uuid>().ok().and_then(|id| self.names.get(&id));
        known.map_or_else(|| text.to_owned(), |place| format!("{}{}", &text[..text.len() - bare.len()], place.name))
    }

    pub(crate) fn knows(&self, kind: Kind, id: Uuid) -> bool {
        self.names.get(&id).is_some_and(|place| place.kind == kind)
    }

    pub(crate) fn find(&self, kind: Kind, home: Option<WorkspaceId>, name: &str) -> Option<Uuid> {
        self.ids.get(&place(kind, home, name.to_owned())).copied()
    }
}

/// Where a name is looked up: one that is unique in its organisation lies at that level, whatever workspace it is of.
pub(crate) fn place(kind: Kind, home: Option<WorkspaceId>, name: String) -> NamePlace {
    let shared = matches!(
        kind,
        Kind::Organisation
            | Kind::Workspace
            | Kind::User
            | Kind::Plugin
            | Kind::SecretReference
            | Kind::Deployment
            | Kind::OauthClient
            | Kind::Integration
            | Kind::McpIntegration
            | Kind::AgentIntegration
            | Kind::Guardrail
            | Kind::Alert
    );
    NamePlace { kind, workspace: home.map(|w| w.0).filter(|_| !shared), name }
}

/// What each key is called among those of its workspace.
pub(crate) fn key_names(rows: &[Stored]) -> HashMap<Uuid, String> {
    let keys: Vec<&Stored> = rows.iter().filter(|row| row.kind == Kind::ApiKey.name()).collect();
    let mut same: BTreeMap<(Option<Uuid>, &str), usize> = BTreeMap::new();
    for key in &keys {
        *same.entry((key.workspace, key.name.as_str())).or_default() += 1;
    }
    let name = |key: &Stored| {
        let alone = same.get(&(key.workspace, key.name.as_str())) == Some(&1);
        if alone && !key.name.starts_with(BY_HASH) {
            return key.name.clone();
        }
        format!("{BY_HASH}{}", hash_of(key))
    };
    keys.into_iter().map(|key| (key.id, name(key))).collect()
}

/// The hash that a stored key is found by.
pub(crate) fn hash_of(key: &Stored) -> String {
    let doc: Value = serde_json::from_str(&key.doc).unwrap_or_default();
    doc["hash"].as_str().unwrap_or_default().to_owned()
}
