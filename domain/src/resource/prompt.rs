//! Saved prompts: templates of chat requests under a `pp-` slug, the partials that they share (`pl-`), the collections
//! that they lie in and the labels that point at their versions.

use super::Invalid;
use super::edition::Editions;
use crate::id::WorkspaceId;
use crate::mustache::partials_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Bytes of the text of one template.
pub const LONGEST_TEMPLATE: usize = 100 * 1024;

/// What a version of a prompt says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptContent {
    /// The messages as JSON, each of their texts a template, or one text that is the user's message. Where it
    /// [is raw](Self::is_raw_template) the whole is one template, which gives the messages as JSON.
    pub string: String,
    /// What else the request says; a caller may say otherwise.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider of the workspace that is asked, unless the caller names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Notes of whoever edits it.
    #[serde(default)]
    pub template_metadata: Map<String, Value>,
    #[serde(default)]
    pub is_raw_template: bool,
}

/// Who else of the organisation may read, call and fork what lies in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Every workspace.
    Organisation,
    Workspaces(BTreeSet<WorkspaceId>),
}

impl Sharing {
    pub fn reaches(&self, workspace: WorkspaceId) -> bool {
        match self {
            Self::Organisation => true,
            Self::Workspaces(named) => named.contains(&workspace),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptDocument {
    /// `None`: the workspace's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Uuid>,
    pub editions: Editions<PromptContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartialDocument {
    pub editions: Editions<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionDocument {
    /// `None`: lies in the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Uuid>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelDocument {
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub color_code: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A label that every organisation has.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInLabel {
    pub id: Uuid,
    pub name: &'static str,
    pub color_code: &'static str,
}

const fn label(number: u128, name: &'static str, color_code: &'static str) -> BuiltInLabel {
    BuiltInLabel { id: Uuid::from_u128(0x0000_0000_0000_8000_8000_0000_0000_0000 + number), name, color_code }
}

pub static BUILT_IN_LABELS: &[BuiltInLabel] =
    &[label(1, "production", "#38A169"), label(2, "staging", "#D69E2E"), label(3, "development", "#3182CE")];

/// Words behind `@` that mean something else than a label.
const TAKEN: &[&str] = &["latest", "default"];

pub fn check_label_name(name: &str) -> Result<(), Invalid> {
    super::check_slug("name", name)?;
    if TAKEN.contains(&name) || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Invalid::new("name", "must not be latest, default or a number, which mean versions"));
    }
    if BUILT_IN_LABELS.iter().any(|l| l.name == name) {
        return Err(Invalid::new("name", "is the name of a label that every organisation has"));
    }
    Ok(())
}

/// A name and what stands behind its `@`.
pub fn split_version(name: &str) -> (&str, Option<&str>) {
    name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)))
}

pub fn check_template(text: &str) -> Result<(), Invalid> {
    if text.len() > LONGEST_TEMPLATE {
        return Err(Invalid::new("string", format!("must be at most {LONGEST_TEMPLATE} bytes")));
    }
    partials_of(text).map(|_| ()).map_err(|why| Invalid::new("string", why.to_string()))
}

impl PromptContent {
    /// The messages, where they are written as JSON; `None`: one text.
    pub fn messages(&self) -> Result<Option<Vec<Value>>, Invalid> {
        if self.is_raw_template || !self.string.trim_start().starts_with('[') {
            return Ok(None);
        }
        let messages: Vec<Value> = serde_json::from_str(&self.string).map_err(|e| {
            Invalid::new("string", format!("must be the JSON of messages, or text (column {})", e.column()))
        })?;
        let is_message = |m: &Value| m.get("role").is_some_and(Value::is_string);
        if messages.is_empty() || !messages.iter().all(is_message) {
            return Err(Invalid::new("string", "must hold messages, each with a role"));
        }
        Ok(Some(messages))
    }

    /// Every text in it that is a template.
    fn templates(&self) -> Result<Vec<String>, Invalid> {
        let Some(messages) = self.messages()? else { return Ok(vec![self.string.clone()]) };
        let mut texts = Vec::new();
        let mut open = messages;
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => texts.push(text),
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.into_iter().map(|(_, value)| value)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        Ok(texts)
    }

    /// The partials that it asks for, as they are named. Fails for what cannot be read.
    pub fn partials(&self) -> Result<Vec<String>, Invalid> {
        let mut names = Vec::new();
        for text in self.templates()? {
            check_template(&text)?;
            let found = partials_of(&text).unwrap_or_default();
            names.extend(found.into_iter().map(str::to_owned));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    pub fn check(&self) -> Result<(), Invalid> {
        if self.string.trim().is_empty() {
            return Err(Invalid::new("string", "must not be empty"));
        }
        if self.string.len() > LONGEST_TEMPLATE {
            return Err(Invalid::new("string", format!("must be at most {LONGEST_TEMPLATE} bytes")));
        }
        for name in ["messages", "prompt", "variables"] {
            if self.parameters.contains_key(name) {
                return Err(Invalid::new(
                    format!("parameters.{name}"),
                    "is not a parameter: string holds the messages",
                ));
            }
        }
        self.partials().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(string: &str) -> PromptContent {
        PromptContent { string: string.to_owned(), ..PromptContent::default() }
    }

    #[test]
    fn prompts_are_text_or_messages() {
        for (string, partials) in [
            ("Hi {{name}}", vec![]),
            ("{{>pl-a}} and {{>pl-b@2}}", vec!["pl-a", "pl-b@2"]),
            (r#"[{"role": "user", "content": [{"type": "text", "text": "{{>pl-a}}"}]}]"#, vec!["pl-a"]),
        ] {
            assert_eq!(prompt(string).check(), Ok(()), "{string}");
            assert_eq!(prompt(string).partials().expect("readable"), partials);
        }
        for string in ["", " ", "{{#a}}", "[", "[]", "[{}]", "[1]", r#"[{"role": "user", "content": "{{a"}]"#] {
            let said = prompt(string).check().expect_err(string);
            assert_eq!(said.field, "string", "{string}");
        }
        let raw = PromptContent { is_raw_template: true, ..prompt("[{{#a}}{{.}}{{/a}}]") };
        assert_eq!(raw.check(), Ok(()));
        let mut told = prompt("a");
        told.parameters.insert("messages".into(), Value::Null);
        assert_eq!(told.check().map_err(|e| e.field), Err("parameters.messages".to_owned()));
    }

    #[test]
    fn labels_have_names_that_mean_nothing_else() {
        assert_eq!(check_label_name("canary-2"), Ok(()));
        for name in ["", "latest", "default", "12", "production", "a b", "a@b", "a/b"] {
            assert!(check_label_name(name).is_err(), "{name}");
        }
        assert_eq!(split_version("pp-a@3"), ("pp-a", Some("3")));
        assert_eq!(split_version("pp-a"), ("pp-a", None));
    }
}
