//! What was done with a document, or would be, said so that a person can check it and a program can read it.

use super::difference::FieldChange;
use super::item::ItemName;
use crate::change::Action;
use serde_json::{Value, json};
use std::fmt;

/// What was written of an organisation: the names of the secrets that the document leaves out, and how much it holds.
#[derive(Debug)]
pub struct ExportedConfiguration {
    pub secrets: Vec<String>,
    pub resources: usize,
}

/// What is to be done with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestAct {
    /// Put it in force, or only say what that would change.
    Import { dry_run: bool },
    /// Say how it differs from what is stored.
    Diff,
    /// Delete what its lists do not hold, or only say what that would be.
    Prune { dry_run: bool },
}

/// One resource that is made, changed or deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemChange {
    /// `create`, `update` or `delete`; `unmentioned` for what is stored and stands in none of the lists.
    pub action: &'static str,
    pub section: &'static str,
    pub workspace: Option<String>,
    pub name: String,
    pub fields: Vec<FieldChange>,
}

/// The secret of a key that had none, told this once.
#[derive(Clone, Debug)]
pub struct NewSecret {
    pub workspace: Option<String>,
    pub name: String,
    pub key: String,
}

#[derive(Clone, Debug, Default)]
pub struct ConfigurationReport {
    /// Nothing was written.
    pub dry_run: bool,
    pub unchanged: usize,
    pub changes: Vec<ItemChange>,
    pub keys: Vec<NewSecret>,
    /// Names of secrets that the document refers to and that are not set.
    pub missing_secrets: Vec<String>,
    pub(super) revision: Option<i64>,
}

fn in_workspace(name: &ItemName) -> Option<String> {
    Some(name.workspace.clone()).filter(|workspace| !workspace.is_empty())
}

impl ItemChange {
    pub(super) fn new(action: &'static str, section: &'static str, name: &ItemName, fields: Vec<FieldChange>) -> Self {
        Self { action, section, workspace: in_workspace(name), name: name.name.clone(), fields }
    }
}

impl NewSecret {
    pub(super) fn new(name: &ItemName, key: String) -> Self {
        Self { workspace: in_workspace(name), name: name.name.clone(), key }
    }
}

impl ConfigurationReport {
    fn count(&self, action: &str) -> usize {
        self.changes.iter().filter(|change| change.action == action).count()
    }

    /// Whether what is stored is what the document says.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn json(&self) -> Value {
        let changes = self.changes.iter().map(|change| {
            json!({
                "action": change.action,
                "section": change.section,
                "workspace": change.workspace,
                "name": change.name,
                "fields": change.fields.iter()
                    .map(|f| json!({"path": f.path, "before": f.before, "after": f.after})).collect::<Vec<_>>(),
            })
        });
        let keys = self.keys.iter().map(|k| json!({"workspace": k.workspace, "name": k.name, "key": k.key}));
        json!({
            "object": "configuration-report",
            "dry_run": self.dry_run,
            "created": self.count(Action::Create.name()),
            "updated": self.count(Action::Update.name()),
            "deleted": self.count(Action::Delete.name()),
            "unmentioned": self.count(UNMENTIONED),
            "unchanged": self.unchanged,
            "changes": changes.collect::<Vec<_>>(),
            "keys": keys.collect::<Vec<_>>(),
            "missing_secrets": self.missing_secrets,
        })
    }
}

/// What is stored and in none of the lists that the document has.
pub(super) const UNMENTIONED: &str = "unmentioned";

/// The report for a person to read: one line for each resource, and below a changed one a line for each field.
impl fmt::Display for ConfigurationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            let sign = match change.action {
                "create" => '+',
                "update" => '~',
                "delete" => '-',
                _ => '?',
            };
            let place = change.workspace.as_ref().map_or_else(String::new, |workspace| format!("{workspace}/"));
            let more = if change.action == UNMENTIONED { " (stored, and not in the document)" } else { "" };
            writeln!(f, "{sign} {} {place}{}{more}", change.section, change.name)?;
            for field in change.fields.iter().filter(|_| change.action == "update") {
                writeln!(f, "    {}: {} -> {}", field.path, short(field.before.as_ref()), short(field.after.as_ref()))?;
            }
        }
        for key in &self.keys {
            let place = key.workspace.as_ref().map_or_else(String::new, |workspace| format!("{workspace}/"));
            writeln!(f, "New key {place}{}: {} (shown this once)", key.name, key.key)?;
        }
        for name in &self.missing_secrets {
            writeln!(f, "! {name} is not set")?;
        }
        let counts = [("create", "created"), ("update", "updated"), ("delete", "deleted")];
        let counts = counts.iter().map(|(action, word)| format!("{} {word}", self.count(action)));
        let counts: Vec<String> = counts.chain([format!("{} unchanged", self.unchanged)]).collect();
        let would = if self.dry_run { "Nothing was written. Would be: " } else { "" };
        writeln!(f, "{would}{}", counts.join(", "))
    }
}

fn short(value: Option<&Value>) -> String {
    const LONGEST: usize = 100;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        text
    } else {
        format!("{}…", text.chars().take(LONGEST).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::{StoredDeclaration, differences};
    use super::*;
    use crate::resource::declared::secrets::ShownSecret;
    use serde_json::Map;

    fn declaration(fields: Value, secret: Option<&str>) -> StoredDeclaration {
        let path = vec!["key".to_owned()];
        let shown = secret.map(|plain| ShownSecret { path, plain: plain.to_owned() }).into_iter().collect();
        let Value::Object(fields) = fields else { return StoredDeclaration { fields: Map::new(), shown } };
        StoredDeclaration { fields, shown }
    }

    #[test]
    fn differences_are_told_where_they_are_and_secrets_are_not() {
        let before =
            declaration(json!({"name": "a", "key": "", "list": [1, {"x": 1}], "gone": true}), Some("old-secret"));
        let after = declaration(json!({"name": "a", "key": "", "list": [1, {"x": 2}], "new": "n"}), Some("new-secret"));
        let changes = differences(Some(&before), &after);
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["gone", "key", "list.1.x", "new"]);
        let report = ConfigurationReport {
            changes: vec![ItemChange::new(
                "update",
                "integrations",
                &ItemName { workspace: String::new(), name: "openai".to_owned() },
                changes,
            )],
            ..ConfigurationReport::default()
        };
        let text = report.to_string();
        assert!(text.contains("~ integrations openai\n") && text.contains("list.1.x: 1 -> 2"), "{text}");
        assert!(!text.contains("secret") && !report.json().to_string().contains("secret\""), "{text}");
        assert!(differences(Some(&after), &after).is_empty());
    }
}
