//! `requiredMetadataKeys` and `requiredMetadataKeyPairs`: what a request has to say of itself.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::parameters::Parameters;
use crate::pattern::{Pattern, PatternFlags};
use serde_json::{Map, Value, json};

const MOST: usize = 1_000;

/// Whether as many of a list hold as the operator asks for.
fn holds(operator: &str, held: usize, all: usize) -> bool {
    match operator {
        "any" => held > 0,
        "none" => held == 0,
        _ => held == all,
    }
}

#[derive(Debug)]
struct MetadataKeys {
    keys: Vec<String>,
    operator: &'static str,
}

pub(super) fn keys(p: &Parameters<'_>) -> BuiltJudge {
    let keys = p.required_texts("metadataKeys", MOST);
    let operator = p.choice("operator", &["all", "any", "none"]);
    (!keys.is_empty()).then(|| Box::new(MetadataKeys { keys, operator }) as _)
}

impl Judge for MetadataKeys {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let (found, missing): (Vec<&String>, Vec<&String>) =
            self.keys.iter().partition(|k| case.facts.metadata(k).is_some());
        let verdict = holds(self.operator, found.len(), self.keys.len());
        let explanation = format!("{} of {} metadata keys are there", found.len(), self.keys.len());
        let data = json!({"explanation": explanation, "verdict": verdict, "found_metadata_keys": found,
            "missing_metadata_keys": missing, "operator": self.operator});
        CheckOutcome::new(verdict, data).into()
    }
}

#[derive(Debug)]
enum MetadataCondition {
    Exact(Vec<String>),
    Contains(Vec<String>),
    ContainsAll(Vec<String>),
    Matches(Vec<Pattern>),
}

impl MetadataCondition {
    fn is_met(&self, value: &str) -> Result<bool, CheckError> {
        Ok(match self {
            Self::Exact(list) => list.iter().any(|w| w == value),
            Self::Contains(list) => list.iter().any(|w| value.contains(w)),
            Self::ContainsAll(list) => list.iter().all(|w| value.contains(w)),
            Self::Matches(list) => {
                for pattern in list {
                    if pattern.is_match(value)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

#[derive(Debug)]
struct Pair {
    key: String,
    told: Value,
    wanted: MetadataCondition,
}

#[derive(Debug)]
struct Pairs {
    pairs: Vec<Pair>,
    operator: &'static str,
}

pub(super) fn pairs(p: &Parameters<'_>) -> BuiltJudge {
    let operator = p.choice("operator", &["all", "any", "none"]);
    let match_type = p.choice("matchType", &["exact", "contains", "containsAll", "regex"]);
    let written = p.required("metadataPairs")?;
    let entries: Vec<(String, &Value)> = match written {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        // A list of `{key, value}`, or of objects with one member.
        Value::Array(list) => list.iter().filter_map(Value::as_object).flat_map(entries_of).collect(),
        _ => Vec::new(),
    };
    if entries.is_empty() || entries.len() > MOST {
        p.problem("metadataPairs", format!("must be an object of 1..{MOST} metadata keys with their values"));
        return None;
    }
    let mut pairs = Vec::new();
    for (key, value) in entries {
        let field = format!("metadataPairs.{key}");
        let one = |v: &Value| match v {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(v.to_string()),
            _ => None,
        };
        let list = match value {
            Value::Array(list) if !list.is_empty() => list.iter().map(one).collect::<Option<Vec<_>>>(),
            other => one(other).map(|v| vec![v]),
        };
        let Some(list) = list.filter(|l| l.len() <= MOST) else {
            p.problem(&field, "must be a text, or a list of texts");
            continue;
        };
        let wanted = match match_type {
            "contains" => MetadataCondition::Contains(list),
            "containsAll" => MetadataCondition::ContainsAll(list),
            "regex" => MetadataCondition::Matches(
                list.iter().filter_map(|s| p.compiled(&field, s, PatternFlags::default())).collect(),
            ),
            _ => MetadataCondition::Exact(list),
        };
        pairs.push(Pair { key, told: value.clone(), wanted });
    }
    Some(Box::new(Pairs { pairs, operator }))
}

fn entries_of(entry: &Map<String, Value>) -> Vec<(String, &Value)> {
    match (entry.get("key").and_then(Value::as_str), entry.get("value")) {
        (Some(key), Some(value)) => vec![(key.to_owned(), value)],
        _ => entry.iter().map(|(k, v)| (k.clone(), v)).collect(),
    }
}

impl Judge for Pairs {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for pair in &self.pairs {
            let told = json!({"key": pair.key, "value": pair.told});
            let met = case.facts.metadata(&pair.key).map_or(Ok(false), |value| pair.wanted.is_met(value));
            match met {
                Ok(true) => found.push(told),
                Ok(false) => missing.push(told),
                Err(error) => return error.into(),
            }
        }
        let verdict = holds(self.operator, found.len(), self.pairs.len());
        let explanation = format!("{} of {} metadata pairs are there", found.len(), self.pairs.len());
        let data = json!({"explanation": explanation, "verdict": verdict, "found_metadata_pairs": found,
            "missing_metadata_pairs": missing, "operator": self.operator});
        CheckOutcome::new(verdict, data).into()
    }
}
