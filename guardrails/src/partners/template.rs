//! JSON with places in it: `$text`, `{param.x}`, `{cred.x}`, and one value for requests and another for answers. What
//! has no value drops its key.

use super::CheckCredentials;
use crate::check::Case;
use crate::content::Content;
use serde_json::{Map, Value, json};

/// What a template is filled from.
pub(super) struct Fill<'a> {
    pub(super) case: &'a Case<'a>,
    pub(super) credentials: &'a CheckCredentials,
    pub(super) params: &'a Map<String, Value>,
    /// The texts that one call is about.
    pub(super) texts: &'a [String],
}

impl Fill<'_> {
    pub(super) fn value(&self, template: &Value) -> Option<Value> {
        match template {
            Value::String(text) => self.text(text),
            Value::Array(list) => Some(Value::Array(list.iter().filter_map(|v| self.value(v)).collect())),
            Value::Object(map) => self.object(map),
            other => Some(other.clone()),
        }
    }

    fn object(&self, map: &Map<String, Value>) -> Option<Value> {
        if !map.is_empty() && map.keys().all(|k| k == "$input" || k == "$output") {
            let side = if self.case.is_input() { "$input" } else { "$output" };
            return map.get(side).and_then(|v| self.value(v));
        }
        // `{"$flags": "{param.scanners}"}`: a list of names as an object of trues.
        if let (Some(flags), 1) = (map.get("$flags"), map.len()) {
            let names = self.value(flags)?;
            let entries = names.as_array()?.iter().filter_map(|n| Some((n.as_str()?.to_owned(), Value::Bool(true))));
            return Some(Value::Object(entries.collect()));
        }
        // `{"$json": …}`: the value as a text of JSON.
        if let (Some(inner), 1) = (map.get("$json"), map.len()) {
            return Some(Value::from(self.value(inner)?.to_string()));
        }
        let members = map.iter().filter_map(|(k, v)| Some((k.clone(), self.value(v)?)));
        Some(Value::Object(members.collect()))
    }

    fn text(&self, text: &str) -> Option<Value> {
        if let Some(name) = text.strip_prefix('$') {
            return self.variable(name);
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'))
            && !inner.contains('{')
        {
            return self.place(inner);
        }
        self.interpolated(text, |value| value).map(Value::from)
    }

    /// A text with places; `None` where one of them has no value.
    pub(super) fn interpolated(&self, text: &str, encode: impl Fn(String) -> String) -> Option<String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(open) = rest.find('{') {
            let Some(close) = rest[open..].find('}') else { break };
            out.push_str(&rest[..open]);
            let place = &rest[open + 1..open + close];
            let value = match self.place(place)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            out.push_str(&if place.starts_with("url.") { value } else { encode(value) });
            rest = &rest[open + close + 1..];
        }
        out.push_str(rest);
        Some(out)
    }

    /// `url.x` is a credential that is an address, and stands in another as it is.
    fn place(&self, name: &str) -> Option<Value> {
        let (kind, name) = name.split_once('.')?;
        match kind {
            "param" => self.params.get(name).cloned(),
            "cred" | "url" => self.credentials.get(name).map(Value::from),
            _ => None,
        }
    }

    fn variable(&self, name: &str) -> Option<Value> {
        let facts = self.case.facts;
        let filled = |text: &str| (!text.is_empty()).then(|| Value::from(text));
        match name {
            "text" => Some(Value::from(self.texts.join("\n"))),
            "texts" => Some(json!(self.texts)),
            "messages" => Some(Value::Array(self.messages())),
            "request" => self.case.request.map_or_else(|| parsed(self.case.content), parsed),
            "response" => (!self.case.is_input()).then(|| parsed(self.case.content)).flatten(),
            "prompt" => filled(&self.prompt()),
            "hook" => Some(Value::from(if self.case.is_input() { "input" } else { "output" })),
            "model" => filled(&facts.model),
            "provider" => filled(&facts.provider),
            "trace_id" => filled(&facts.trace_id),
            "metadata" => Some(Value::Object(crate::checks::metadata_of(self.case))),
            "tools" => self.case.request.or(Some(self.case.content)).and_then(parsed)?.get("tools").cloned(),
            other => facts.metadata(other.strip_prefix("metadata.")?).map(Value::from),
        }
    }

    /// What was asked, in one text.
    fn prompt(&self) -> String {
        match self.case.request {
            Some(request) => {
                let joined = request.joined(crate::content::Selection::TEXT);
                joined.into_iter().map(|j| j.text).collect::<Vec<_>>().join("\n")
            }
            None => self.texts.join("\n"),
        }
    }

    /// The conversation: that of the request, with what is judged as its end where that is an answer.
    fn messages(&self) -> Vec<Value> {
        let request = self.case.request.unwrap_or(self.case.content);
        let body = parsed(request).unwrap_or_default();
        let mut messages = match body.get("messages") {
            Some(Value::Array(list)) => list.clone(),
            _ => vec![json!({"role": "user", "content": self.prompt()})],
        };
        if let Some(system @ Value::String(_)) = body.get("system") {
            messages.insert(0, json!({"role": "system", "content": system}));
        }
        if !self.case.is_input() {
            let said = parsed(self.case.content).unwrap_or_default();
            // The calls of tools that a choice made are part of what it said.
            let whole = said.pointer("/choices/0/message").filter(|m| m.get("tool_calls").is_some());
            let text = json!({"role": "assistant", "content": self.texts.join("\n")});
            messages.push(whole.cloned().unwrap_or(text));
        }
        messages
    }
}

fn parsed(content: &Content) -> Option<Value> {
    serde_json::from_slice(content.body()).ok()
}
