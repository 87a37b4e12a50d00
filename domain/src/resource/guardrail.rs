//! A saved guardrail: what it checks and what it does with the verdict, under a `pg-` slug. What checks mean is not
//! known here; where secrets stand in them is told by whoever saves them.

use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardrailDocument {
    /// Checks and actions as the admin wrote them, key order kept; each secret in the checks is its mask.
    pub checks: Value,
    pub actions: Value,
    /// What the masks stand for, sealed, by JSON Pointer (RFC 6901) into `checks`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    pub version_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<Uuid>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl GuardrailDocument {
    /// The checks with their secrets in place.
    pub fn opened(&self, open: &dyn Fn(&str) -> Result<Secret<String>, String>) -> Result<Value, String> {
        let mut checks = self.checks.clone();
        for (pointer, sealed) in &self.secrets {
            let place = checks.pointer_mut(pointer).ok_or_else(|| format!("has no place for the secret {pointer}"))?;
            *place = Value::String(open(sealed)?.expose().clone());
        }
        Ok(checks)
    }
}

/// Slugs of guardrails that judge every request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultGuardrails {
    #[serde(default)]
    pub input: Vec<String>,
    #[serde(default)]
    pub output: Vec<String>,
}

impl DefaultGuardrails {
    pub const fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }
}

/// Directions in which a workspace is free of the guardrails that its organisation gives to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusions {
    #[serde(default)]
    pub input: bool,
    #[serde(default)]
    pub output: bool,
}

impl Exclusions {
    pub const fn is_empty(&self) -> bool {
        !self.input && !self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_go_back_to_where_they_stood() {
        let checks = json!([{"id": "default.webhook", "parameters": {"headers": {"a/b": "****", "plain": "x"}}}]);
        let doc = |pointer: &str| GuardrailDocument {
            checks: checks.clone(),
            actions: json!({}),
            secrets: [(pointer.to_owned(), "sealed:s".to_owned())].into(),
            version_id: Uuid::nil(),
            updated_by: None,
            rest: Map::new(),
        };
        let open = |sealed: &str| match sealed.strip_prefix("sealed:") {
            Some(plain) => Ok(Secret::new(plain.to_owned())),
            None => Err("not sealed".to_owned()),
        };
        let opened = doc("/0/parameters/headers/a~1b").opened(&open).expect("opened");
        assert_eq!(opened[0]["parameters"]["headers"], json!({"a/b": "s", "plain": "x"}));
        assert!(doc("/1/parameters").opened(&open).is_err(), "a place that is not there");
        assert!(doc("/0/id").opened(&|_| Err("another key".to_owned())).is_err());
    }
}
