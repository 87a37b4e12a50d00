//! `modelWhitelist` and `modelRules`: which models may be asked.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Facts, Judge, JudgeStep};
use crate::parameters::Parameters;
use serde_json::{Value, json};

const MOST: usize = 10_000;

/// A pattern of names: `*` stands for any characters.
fn covers(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// The model as it goes to the provider, or as the client wrote it.
fn is_allowed(models: &[String], facts: &Facts) -> bool {
    let names = [facts.model.as_str(), facts.asked_model.as_str()];
    models.iter().any(|m| names.iter().any(|n| !n.is_empty() && covers(m, n)))
}

#[derive(Debug)]
struct Whitelist {
    models: Vec<String>,
    not: bool,
}

pub(super) fn whitelist(p: &Parameters<'_>) -> BuiltJudge {
    let (models, not) = (p.required_texts("models", MOST), p.flag("not", false));
    (!models.is_empty()).then(|| Box::new(Whitelist { models, not }) as _)
}

fn judged(models: &[String], not: bool, facts: &Facts) -> CheckOutcome {
    if facts.model.is_empty() && facts.asked_model.is_empty() {
        let data = json!({"explanation": "The request names no model", "allowedModels": models, "not": not});
        return CheckOutcome::failed(CheckError::open("Error", "Missing model in request")).with_data(data);
    }
    let allowed = is_allowed(models, facts);
    let verdict = allowed != not;
    let explanation = match allowed {
        true => format!("The model `{}` is in the list", facts.model),
        false => format!("The model `{}` is not in the list", facts.model),
    };
    let data = json!({"verdict": verdict, "not": not, "explanation": explanation, "requestedModel": facts.model,
        "allowedModels": models});
    CheckOutcome::new(verdict, data)
}

impl Judge for Whitelist {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        judged(&self.models, self.not, case.facts).into()
    }
}

#[derive(Debug)]
struct ModelRule {
    key: String,
    value: String,
    models: Vec<String>,
}

#[derive(Debug)]
struct ModelRuleSet {
    defaults: Vec<String>,
    rules: Vec<ModelRule>,
    not: bool,
}

fn models_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(list) if list.len() <= MOST => list.iter().map(|v| v.as_str().map(ToOwned::to_owned)).collect(),
        _ => None,
    }
}

pub(super) fn rules(p: &Parameters<'_>) -> BuiltJudge {
    let not = p.flag("not", false);
    p.required("rules")?;
    let inner = p.object("rules")?;
    let defaults = inner.texts("defaults", MOST).unwrap_or_default();
    let mut rules = Vec::new();
    for (key, values) in inner.map("metadata").into_iter().flatten() {
        let Some(values) = values.as_object() else {
            inner.problem(&format!("metadata.{key}"), "must be an object of values, each with its models");
            continue;
        };
        for (value, models) in values {
            match models_of(models) {
                Some(models) => rules.push(ModelRule { key: key.clone(), value: value.clone(), models }),
                None => inner.problem(&format!("metadata.{key}.{value}"), "must be a list of models"),
            }
        }
    }
    inner.finish();
    if defaults.is_empty() && rules.is_empty() {
        p.problem("rules", "must have `defaults` or `metadata`");
    }
    if rules.len() > MOST {
        p.problem("rules", format!("must have at most {MOST} entries"));
    }
    Some(Box::new(ModelRuleSet { defaults, rules, not }))
}

impl Judge for ModelRuleSet {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let matching = self.rules.iter().filter(|r| case.facts.metadata(&r.key) == Some(r.value.as_str()));
        let mut models: Vec<String> = matching.flat_map(|r| r.models.iter().cloned()).collect();
        if models.is_empty() {
            models.clone_from(&self.defaults);
        }
        if models.is_empty() {
            return CheckError::open("Error", "No rule applies to this request, and there are no defaults").into();
        }
        judged(&models, self.not, case.facts).into()
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("gpt-4o", "gpt-4o", true),
            ("gpt-4o", "gpt-4o-mini", false),
            ("*", "anything", true),
            ("gpt-*", "gpt-4o", true),
            ("gpt-*", "o1-gpt-4", false),
            ("*-mini", "gpt-4o-mini", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("aa*aa", "aaa", false),
            ("@team/*", "@team/gpt-4o", true),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} {name}");
        }
    }
}
