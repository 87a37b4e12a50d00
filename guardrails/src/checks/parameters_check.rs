//! `requestParametersCheck`: which tools and which parameters a request may have.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::{Content, JsonKind, Tape, TapeNode};
use crate::parameters::Parameters;
use serde_json::{Value, json};

const MOST: usize = 1_000;

/// A list of what is allowed, and one of what is not; without the first all is.
#[derive(Debug)]
struct Lists {
    allowed: Vec<String>,
    blocked: Vec<String>,
}

impl Lists {
    fn read(p: Option<&Parameters<'_>>, allowed_key: &'static str, blocked_key: &'static str) -> Self {
        let Some(p) = p else { return Self { allowed: Vec::new(), blocked: Vec::new() } };
        let list = |key| p.texts(key, MOST).unwrap_or_default();
        let lists = Self { allowed: list(allowed_key), blocked: list(blocked_key) };
        if let Some(both) = lists.allowed.iter().find(|a| lists.blocked.contains(a)) {
            p.problem(blocked_key, format!("must not hold `{both}`, which is allowed too"));
        }
        lists
    }

    /// What the lists have against a name.
    fn reasons(&self, kind: &str, name: Option<&str>, out: &mut Vec<String>) {
        if name.is_some_and(|n| self.blocked.iter().any(|b| b == n)) {
            out.push(format!("{kind}_blocked"));
        }
        if !self.allowed.is_empty() && !name.is_some_and(|n| self.allowed.iter().any(|a| a == n)) {
            out.push(format!("{kind}_not_allowed"));
        }
    }
}

#[derive(Debug)]
struct ValueRule {
    key: String,
    allowed: Vec<Value>,
    blocked: Vec<Value>,
}

#[derive(Debug)]
struct RequestParameters {
    types: Lists,
    names: Lists,
    keys: Lists,
    values: Vec<ValueRule>,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let (tools, params) = (p.object("tools"), p.object("params"));
    let types = Lists::read(tools.as_ref(), "allowedTypes", "blockedTypes");
    let names = Lists::read(tools.as_ref(), "allowedFunctionNames", "blockedFunctionNames");
    let keys = Lists::read(params.as_ref(), "allowedKeys", "blockedKeys");
    let mut values = Vec::new();
    if let Some(params) = &params {
        let written = params.map("values");
        for (key, rule) in written.into_iter().flatten() {
            values.extend(value_rule(params, key, rule));
        }
        params.finish();
    }
    if let Some(tools) = &tools {
        tools.finish();
    }
    if tools.is_none() && params.is_none() {
        p.problem("params", "or `tools` is required");
    }
    Some(Box::new(RequestParameters { types, names, keys, values }))
}

fn value_rule(p: &Parameters<'_>, key: &str, rule: &Value) -> Option<ValueRule> {
    let field = format!("values.{key}");
    let Some(map) = rule.as_object() else {
        p.problem(&field, "must be an object");
        return None;
    };
    let list = |name: &str| match map.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) if list.len() <= MOST => list.clone(),
        Some(_) => {
            p.problem(&format!("{field}.{name}"), format!("must be a list of at most {MOST} values"));
            Vec::new()
        }
    };
    let (allowed, blocked) = (list("allowedValues"), list("blockedValues"));
    for unknown in map.keys().filter(|k| !matches!(k.as_str(), "allowedValues" | "blockedValues")) {
        p.problem(&format!("{field}.{unknown}"), "is not a parameter of this check");
    }
    if allowed.iter().any(|a| blocked.contains(a)) {
        p.problem(&format!("{field}.blockedValues"), "must not hold a value that is allowed too");
    }
    Some(ValueRule { key: key.to_owned(), allowed, blocked })
}

/// Primitives only: a list or an object equals nothing. 1 and 1.0 are one number.
fn equals(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(_) | Value::Object(_), _) => false,
        _ => a == b,
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

impl RequestParameters {
    fn blocked_tools(&self, body: &[(String, Value)]) -> Vec<Value> {
        let lists = body.iter().filter(|(k, _)| k == "tools" || k == "functions").filter_map(|(_, v)| v.as_array());
        let mut blocked = Vec::new();
        for tool in lists.flatten() {
            // A list of functions without types is the older form of tools.
            let kind = text(tool.get("type")).or_else(|| tool.get("name").map(|_| "function"));
            let function = tool.get("function").or_else(|| tool.get("custom"));
            let name = text(function.and_then(|f| f.get("name"))).or_else(|| text(tool.get("name"))).or(kind);
            let mut reasons = Vec::new();
            self.types.reasons("type", kind, &mut reasons);
            self.names.reasons("name", name, &mut reasons);
            if !reasons.is_empty() {
                blocked.push(json!({"type": kind, "name": name, "reasons": reasons}));
            }
        }
        blocked
    }

    fn blocked_params(&self, body: &[(String, Value)]) -> Vec<Value> {
        let mut blocked = Vec::new();
        for (key, value) in body {
            let mut reasons = Vec::new();
            self.keys.reasons("key", Some(key), &mut reasons);
            for rule in self.values.iter().filter(|r| r.key == *key) {
                if rule.blocked.iter().any(|b| equals(b, value)) {
                    reasons.push("value_blocked".to_owned());
                }
                if !rule.allowed.is_empty() && !rule.allowed.iter().any(|a| equals(a, value)) {
                    reasons.push("value_not_allowed".to_owned());
                }
            }
            if !reasons.is_empty() {
                let shown = if value.is_array() || value.is_object() { &Value::Null } else { value };
                blocked.push(json!({"param": key, "value": shown, "reasons": reasons}));
            }
        }
        blocked
    }
}

/// Every top-level member, also those whose key stands twice: which of them counts is the provider's choice.
fn members(content: &Content) -> Option<Vec<(String, Value)>> {
    let tape = Tape::parse(std::str::from_utf8(content.body()).ok()?).ok()?;
    let root = tape.root().filter(|r| r.kind() == JsonKind::Object)?;
    let read = |(key, node): (std::borrow::Cow<'_, str>, TapeNode<'_>)| {
        Some((key.into_owned(), serde_json::from_str(node.raw()).ok()?))
    };
    root.members().map(read).collect()
}

impl Judge for RequestParameters {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let request = case.request.unwrap_or(case.content);
        let Some(body) = members(request) else {
            return CheckError::closed("UnreadableBody", "The body is no JSON object").into();
        };
        let (tools, params) = (self.blocked_tools(&body), self.blocked_params(&body));
        let verdict = tools.is_empty() && params.is_empty();
        let explanation = match verdict {
            true => "All tools and parameters are allowed".to_owned(),
            false => format!("{} tools and {} parameters are not allowed", tools.len(), params.len()),
        };
        let data = json!({"verdict": verdict, "explanation": explanation, "blockedToolsFound": tools,
            "blockedParamsFound": params});
        CheckOutcome::new(verdict, data).into()
    }
}
