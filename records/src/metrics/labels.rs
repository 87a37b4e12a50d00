//! Labels beyond those of the tables, which operators opt into (`--metrics-labels`). Their values come from clients
//! and admins, so each label keeps a bounded number of them and calls all further ones `other`.

use gateway_domain::record::LogRecord;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::collections::HashSet;

/// Values of one label that are told apart.
const MOST_VALUES: usize = 200;
const LONGEST: usize = 128;
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelSource {
    Model,
    Config,
    Key,
    Workspace,
    Metadata(String),
}

/// One label and the values that it has shown so far.
#[derive(Debug)]
pub struct Label {
    name: String,
    source: LabelSource,
    seen: RwLock<HashSet<String>>,
}

impl Label {
    /// `model`, `config_name`, `api_key_name`, `workspace` or `metadata_<key>`.
    fn parse(text: &str) -> Result<Self, String> {
        let source = match text {
            "model" => LabelSource::Model,
            "config_name" => LabelSource::Config,
            "api_key_name" => LabelSource::Key,
            "workspace" => LabelSource::Workspace,
            _ => match text.strip_prefix("metadata_").filter(|k| !k.is_empty()) {
                Some(key) => LabelSource::Metadata(key.to_owned()),
                None => {
                    return Err(format!(
                        "--metrics-labels `{text}` is not one of model, config_name, api_key_name, workspace, metadata_<key>"
                    ));
                }
            },
        };
        let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        Ok(Self { name: text.chars().map(clean).collect(), source, seen: RwLock::default() })
    }

    pub fn models() -> Self {
        Self { name: "model".into(), source: LabelSource::Model, seen: RwLock::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value<'r>(&self, r: &'r LogRecord) -> Cow<'r, str> {
        let value: Cow<'r, str> = match &self.source {
            LabelSource::Model => Cow::Borrowed(&*r.model),
            LabelSource::Config => Cow::Borrowed(&*r.config),
            LabelSource::Key => Cow::Borrowed(&*r.key_name),
            LabelSource::Workspace => Cow::Borrowed(&*r.workspace_slug),
            LabelSource::Metadata(key) => {
                let map = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&r.metadata);
                let found = map.ok().and_then(|m| m.get(key).and_then(|v| v.as_str().map(str::to_owned)));
                Cow::Owned(found.unwrap_or_default())
            }
        };
        if value.is_empty() || self.seen.read().contains(&*value) {
            return value;
        }
        let mut seen = self.seen.write();
        if value.len() > LONGEST || seen.len() >= MOST_VALUES {
            return Cow::Borrowed(OTHER);
        }
        seen.insert(value.clone().into_owned());
        value
    }
}

/// The labels given, each once.
pub fn parse(given: &[String]) -> Result<Vec<Label>, String> {
    let mut labels: Vec<Label> = Vec::new();
    for text in given.iter().flat_map(|g| g.split(',')).map(str::trim).filter(|t| !t.is_empty()) {
        let label = Label::parse(text)?;
        if !labels.iter().any(|l| l.name == label.name) {
            labels.push(label);
        }
    }
    Ok(labels)
}
