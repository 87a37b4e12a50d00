//! `jsonSchema` and `jsonKeys`: JSON inside a text, in fences or bare, held against a schema or a list of keys.

use super::code::blocks;
use super::{BuiltJudge, selection};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

/// Values in one text that are looked at.
const MOST_CANDIDATES: usize = 64;
/// Places of one text at which a value might begin that are tried.
const MOST_TRIES: usize = 1_000;
const LARGEST_SCHEMA: usize = 256 * 1024;
const DEEPEST_SCHEMA: usize = 64;
/// Bytes that each pattern of a schema may take.
const PATTERN_SIZE: usize = 1 << 20;
const MOST_ERRORS: usize = 20;
const MOST_KEYS: usize = 1_000;

/// What of a text is JSON: fenced blocks; if none is, the whole; if that is none, each object and array in it.
fn candidates(text: &str) -> Result<Vec<Value>, CheckError> {
    let too_many = || {
        let message = format!("The text holds more than {MOST_CANDIDATES} JSON values");
        CheckError::closed("CandidateLimit", message)
    };
    let parse = |t: &str| serde_json::from_str::<Value>(t.trim()).ok();
    let fenced: Vec<Value> = blocks(text).iter().take(MOST_TRIES).filter_map(|b| parse(b.inside)).collect();
    if fenced.len() > MOST_CANDIDATES {
        return Err(too_many());
    }
    if !fenced.is_empty() {
        return Ok(fenced);
    }
    if let Some(whole) = parse(text) {
        return Ok(vec![whole]);
    }
    let (mut found, mut at, mut tries) = (Vec::new(), 0, 0);
    while let Some(open) = text[at..].find(['{', '[']) {
        let start = at + open;
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        tries += 1;
        match values.next() {
            Some(Ok(value)) => {
                found.push(value);
                at = start + values.byte_offset();
            }
            _ => at = start + 1,
        }
        if found.len() > MOST_CANDIDATES || tries > MOST_TRIES {
            return Err(too_many());
        }
    }
    Ok(found)
}

#[derive(Debug)]
struct SchemaCheck {
    validator: Validator,
    not: bool,
    selection: Selection,
}

pub(super) fn schema(p: &Parameters<'_>) -> BuiltJudge {
    let not = p.flag("not", false);
    let selection = selection(p, Selection::TEXT);
    let parsed;
    let schema = match p.required("schema")? {
        // Forms write it as text.
        Value::String(text) => {
            let Ok(value) = serde_json::from_str::<Value>(text) else {
                p.problem("schema", "must be a JSON schema");
                return None;
            };
            parsed = value;
            &parsed
        }
        value => value,
    };
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        p.problem("schema", "must be a JSON schema");
        return None;
    }
    if schema.to_string().len() > LARGEST_SCHEMA {
        p.problem("schema", format!("must have at most {LARGEST_SCHEMA} bytes"));
        return None;
    }
    if depth(schema) > DEEPEST_SCHEMA {
        p.problem("schema", format!("must nest at most {DEEPEST_SCHEMA} deep"));
        return None;
    }
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE));
    match options.build(schema) {
        Ok(validator) => Some(Box::new(SchemaCheck { validator, not, selection })),
        Err(error) => {
            let message: String = error.to_string().chars().take(300).collect();
            p.problem("schema", format!("is no schema that can be used: {message}"));
            None
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl SchemaCheck {
    fn one(&self, text: &str) -> CheckOutcome {
        let candidates = match candidates(text) {
            Ok(candidates) => candidates,
            Err(error) => return error.into(),
        };
        if candidates.is_empty() {
            let data = json!({"matchedJson": null, "not": self.not, "validationErrors": [],
                "explanation": "There is no JSON in the text", "textExcerpt": excerpt(text)});
            return CheckOutcome::new(false, data);
        }
        let mut best: Option<(&Value, Vec<Value>)> = None;
        for candidate in &candidates {
            let errors: Vec<Value> = self
                .validator
                .iter_errors(candidate)
                .take(MOST_ERRORS)
                .map(|e| json!({"path": e.instance_path().to_string(), "message": e.to_string()}))
                .collect();
            if best.as_ref().is_none_or(|(_, fewest)| errors.len() < fewest.len()) {
                best = Some((candidate, errors));
            }
        }
        let (matched, errors) = best.map_or((&Value::Null, Vec::new()), |b| b);
        let valid = errors.is_empty();
        let explanation = if valid { "The JSON keeps to the schema" } else { "The JSON does not keep to the schema" };
        let data = json!({"matchedJson": matched, "not": self.not, "validationErrors": errors,
            "explanation": explanation, "textExcerpt": excerpt(text)});
        CheckOutcome::new(valid != self.not, data)
    }
}

impl Judge for SchemaCheck {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        each_text(case, self.selection, false, |joined| self.one(&joined.text)).into()
    }
}

#[derive(Debug)]
struct JsonKeys {
    keys: Vec<String>,
    operator: &'static str,
    selection: Selection,
}

pub(super) fn keys(p: &Parameters<'_>) -> BuiltJudge {
    let keys = p.required_texts("keys", MOST_KEYS);
    let operator = p.choice("operator", &["any", "all", "none"]);
    let selection = selection(p, Selection::TEXT);
    (!keys.is_empty()).then(|| Box::new(JsonKeys { keys, operator, selection }) as _)
}

impl JsonKeys {
    fn holds(&self, present: usize) -> bool {
        match self.operator {
            "all" => present == self.keys.len(),
            "none" => present == 0,
            _ => present > 0,
        }
    }

    fn one(&self, text: &str) -> CheckOutcome {
        let candidates = match candidates(text) {
            Ok(candidates) => candidates,
            Err(error) => return error.into(),
        };
        let objects: Vec<&Value> = candidates.iter().filter(|c| c.is_object()).collect();
        let present = |v: &Value| self.keys.iter().filter(|k| v.get(k.as_str()).is_some()).count();
        // The object with the most keys is judged and told of: for `none` the worst one, else the best one.
        let Some(best) = objects.into_iter().reduce(|a, b| if present(b) > present(a) { b } else { a }) else {
            let data = json!({"requiredKeys": self.keys, "operator": self.operator,
                "explanation": "There is no JSON object in the text", "textExcerpt": excerpt(text)});
            return CheckOutcome::new(false, data);
        };
        let (there, missing): (Vec<&String>, Vec<&String>) =
            self.keys.iter().partition(|k| best.get(k.as_str()).is_some());
        let verdict = self.holds(there.len());
        let explanation = format!("{} of {} keys are there", there.len(), self.keys.len());
        let data = json!({"matchedJson": best, "verdict": verdict, "explanation": explanation, "presentKeys": there,
            "missingKeys": missing, "operator": self.operator, "textExcerpt": excerpt(text)});
        CheckOutcome::new(verdict, data)
    }
}

impl Judge for JsonKeys {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        each_text(case, self.selection, false, |joined| self.one(&joined.text)).into()
    }
}
