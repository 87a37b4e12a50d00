//! What an MCP server says that its tools are, and what of it somebody has accepted: a tool that describes itself anew
//! is another tool, whatever it is called. Knows no protocol beyond the members of an item.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What a definition is: everything that a model or a client goes by when it calls.
const TOLD: &[&str] = &["annotations", "description", "inputSchema", "outputSchema", "title"];

/// What becomes of what a server offers for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NewCapabilities {
    #[default]
    Enabled,
    /// It is switched off until somebody switches it on.
    Disabled,
}

/// The definitions that were accepted, by the name of the tool. One that was taken away and comes back is held to what
/// it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AcceptedTools(pub BTreeMap<String, String>);

impl AcceptedTools {
    /// Twice what a server may offer: the rest is of tools that have gone.
    pub const MOST: usize = 10_000;

    /// Whether a tool is what was accepted under its name.
    pub fn holds(&self, name: &str, item: &Value) -> bool {
        self.0.get(name).is_some_and(|accepted| *accepted == digest(item))
    }

    /// Takes tools that nobody has seen before as they are. Which of the others differ is the answer.
    pub fn meet(&mut self, items: &[Value]) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for item in items {
            let Some(name) = item["name"].as_str() else { continue };
            let now = digest(item);
            match self.0.get(name) {
                Some(accepted) if *accepted == now => {}
                Some(_) => drop(changed.insert(name.to_owned())),
                None => drop(self.0.insert(name.to_owned(), now)),
            }
        }
        self.forget_gone(items);
        changed
    }

    fn forget_gone(&mut self, items: &[Value]) {
        if self.0.len() <= Self::MOST {
            return;
        }
        let here: BTreeSet<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
        let gone: Vec<String> = self.0.keys().filter(|name| !here.contains(name.as_str())).cloned().collect();
        for name in gone.into_iter().take(self.0.len() - Self::MOST) {
            self.0.remove(&name);
        }
    }
}

/// A name for what a tool says of itself: the same whatever the order of its members.
pub fn digest(item: &Value) -> String {
    let mut text = String::new();
    for member in TOLD {
        text.push_str(member);
        write_sorted(&item[*member], &mut text);
    }
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(16).fold(String::with_capacity(32), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut all: Vec<(&String, &Value)> = members.iter().collect();
            all.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in all {
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_sorted(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_is_its_texts_and_schemas_in_any_order() {
        let one = json!({"name": "t", "description": "d", "inputSchema": {"type": "object", "required": ["a", "b"]}});
        let two = json!({"inputSchema": {"required": ["a", "b"], "type": "object"}, "description": "d", "name": "t",
            "icons": [], "_meta": {"x": 1}});
        assert_eq!(digest(&one), digest(&two));
        for (member, value) in [
            ("description", json!("e")),
            ("title", json!("T")),
            ("inputSchema", json!({"type": "object", "required": ["b", "a"]})),
            ("outputSchema", json!({})),
            ("annotations", json!({"destructiveHint": true})),
        ] {
            let mut other = one.clone();
            other[member] = value;
            assert_ne!(digest(&one), digest(&other), "{member}");
        }
        // What moves from one member to the next is no longer the same.
        let (left, right) = (json!({"title": "ab"}), json!({"description": "ab"}));
        assert_ne!(digest(&left), digest(&right));
    }

    #[test]
    fn what_is_new_is_taken_and_what_changed_is_told() {
        let tool = |name: &str, told: &str| json!({"name": name, "description": told});
        let mut accepted = AcceptedTools::default();
        assert!(accepted.meet(&[tool("a", "1"), tool("b", "1")]).is_empty());
        assert!(accepted.holds("a", &tool("a", "1")) && !accepted.holds("c", &tool("c", "1")));
        let changed = accepted.meet(&[tool("a", "2"), tool("c", "1")]);
        assert_eq!(changed, BTreeSet::from(["a".to_owned()]));
        assert!(!accepted.holds("a", &tool("a", "2")), "it is not accepted by being seen");
        // Gone and back is no way around.
        assert_eq!(accepted.meet(&[tool("b", "2")]), BTreeSet::from(["b".to_owned()]));
    }

    #[test]
    fn what_is_accepted_is_bounded_by_what_has_gone() {
        let tool = |n: usize| json!({"name": format!("t{n:05}"), "description": "d"});
        let mut accepted = AcceptedTools::default();
        let first: Vec<Value> = (0..AcceptedTools::MOST).map(tool).collect();
        accepted.meet(&first);
        let later: Vec<Value> = (AcceptedTools::MOST..AcceptedTools::MOST + 10).map(tool).collect();
        accepted.meet(&later);
        assert_eq!(accepted.0.len(), AcceptedTools::MOST);
        assert!(later.iter().all(|item| accepted.holds(item["name"].as_str().unwrap_or_default(), item)));
    }
}
