//! Exa's and Tavily's searches of the web: what they find about the last message is told to the model in the system
//! message (<https://docs.exa.ai/reference/search>,
//! <https://docs.tavily.com/documentation/api-reference/endpoint/search>).

use super::json_of;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::{
    BodyShape, Content, JsonKind, Rewrite, Selection, Tape, TapeNode, quoted, splice, with_last_member,
};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, Sign};
use crate::parameters::Parameters;
use crate::partners::CheckCredentials;
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value, json};

/// Bytes of what was found that go to the model.
const MOST_FOUND: usize = 64 * 1024;

#[derive(Debug)]
struct Search {
    url: &'static str,
    key: (HeaderName, HeaderValue),
    /// The body without its query.
    body: Map<String, Value>,
    /// Where a result's text stands.
    text_key: &'static str,
    prefix: String,
    suffix: String,
    timeout_ms: u32,
}

fn key(p: &Parameters<'_>, name: HeaderName, value: String) -> Option<(HeaderName, HeaderValue)> {
    match HeaderValue::try_from(value) {
        Ok(mut value) => {
            value.set_sensitive(true);
            Some((name, value))
        }
        Err(_) => {
            p.problem("credentials.apiKey", "must be a text that a header can hold");
            None
        }
    }
}

fn fences(p: &Parameters<'_>) -> (String, String) {
    let text = |key: &'static str, default: &str| p.text(key).unwrap_or(default).to_owned();
    (text("prefix", "\n<web_search_context>"), text("suffix", "\n</web_search_context>"))
}

pub(super) fn exa(p: &Parameters<'_>, credentials: &CheckCredentials) -> Option<Box<dyn Judge>> {
    let mut body = Map::new();
    body.insert("numResults".into(), p.number("numResults", 10, 1..=100).into());
    for name in ["includeDomains", "excludeDomains", "includeText", "excludeText"] {
        body.extend(p.texts(name, 100).filter(|l| !l.is_empty()).map(|l| (name.to_owned(), json!(l))));
    }
    body.insert("contents".into(), json!({"text": true}));
    let (prefix, suffix) = fences(p);
    let timeout_ms = p.number("timeout", 10_000, 1..=60_000) as u32;
    let key = key(p, HeaderName::from_static("x-api-key"), credentials.get("apiKey")?.to_owned())?;
    let url = "https://api.exa.ai/search";
    Some(Box::new(Search { url, key, body, text_key: "text", prefix, suffix, timeout_ms }))
}

pub(super) fn tavily(p: &Parameters<'_>, credentials: &CheckCredentials) -> Option<Box<dyn Judge>> {
    let mut body = Map::new();
    body.insert("max_results".into(), p.number("maxResults", 5, 1..=20).into());
    for (name, sent) in [("includeDomains", "include_domains"), ("excludeDomains", "exclude_domains")] {
        body.extend(p.texts(name, 100).filter(|l| !l.is_empty()).map(|l| (sent.to_owned(), json!(l))));
    }
    body.insert("topic".into(), p.choice("topic", &["general", "news"]).into());
    body.insert("search_depth".into(), p.choice("searchDepth", &["basic", "advanced"]).into());
    let (prefix, suffix) = fences(p);
    let timeout_ms = p.number("timeout", 30_000, 1..=60_000) as u32;
    let key = key(p, header::AUTHORIZATION, format!("Bearer {}", credentials.get("apiKey")?))?;
    let url = "https://api.tavily.com/search";
    Some(Box::new(Search { url, key, body, text_key: "content", prefix, suffix, timeout_ms }))
}

impl Search {
    /// What was found, as the model reads it.
    fn found(&self, results: &[Value]) -> String {
        let mut out = String::new();
        for result in results {
            for key in ["title", "url", self.text_key] {
                if let Some(text) = result.get(key).and_then(Value::as_str) {
                    out.push('\n');
                    out.push_str(text);
                }
            }
            out.push('\n');
        }
        let mut end = out.len().min(MOST_FOUND);
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        out.truncate(end);
        format!("{}{out}{}", self.prefix, self.suffix)
    }
}

/// The text behind what the system message says; a system message where there is none.
fn append_to_system(content: &Content, text: &str) -> Option<String> {
    let body = std::str::from_utf8(content.body()).ok()?;
    let tape = Tape::parse(body).ok()?;
    let root = tape.root().filter(|r| r.kind() == JsonKind::Object)?;
    let field = match content.shape() {
        BodyShape::Messages => "system",
        BodyShape::Responses => "instructions",
        BodyShape::Chat => {
            let messages = root.get("messages")?;
            let is_system = |m: &TapeNode<'_>| {
                m.get("role").and_then(TapeNode::text).is_some_and(|r| r == "system" || r == "developer")
            };
            return match messages.elements().find(is_system).and_then(|m| m.get("content")) {
                Some(content) => behind(body, content, text),
                None => {
                    let at = messages.span().start + 1;
                    let comma = if messages.elements().next().is_some() { "," } else { "" };
                    let message = format!("{{\"role\":\"system\",\"content\":{}}}{comma}", quoted(text));
                    Some(splice(body, vec![(at..at, message)]))
                }
            };
        }
        _ => return None,
    };
    match root.get(field) {
        Some(found) => behind(body, found, text),
        None => with_last_member(body, field, &quoted(text)),
    }
}

fn behind(body: &str, content: TapeNode<'_>, text: &str) -> Option<String> {
    match content.kind() {
        JsonKind::Text => Some(splice(body, vec![(content.span(), quoted(&format!("{}{text}", content.text()?)))])),
        JsonKind::Array => {
            let at = content.span().end - 1;
            let comma = if content.elements().next().is_some() { "," } else { "" };
            Some(splice(body, vec![(at..at, format!("{comma}{{\"type\":\"text\",\"text\":{}}}", quoted(text)))]))
        }
        _ => Some(splice(body, vec![(content.span(), quoted(text))])),
    }
}

impl Judge for Search {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let query = case.content.joined(Selection::TEXT).into_iter().map(|j| j.text).next().unwrap_or_default();
        if query.trim().is_empty() {
            return CheckError::missing_text().into();
        }
        let mut body = Map::new();
        body.insert("query".into(), Value::from(query));
        body.extend(self.body.clone());
        let json = HeaderValue::from_static("application/json");
        JudgeStep::Ask(vec![CheckQuery::Call(Box::new(CheckRequest {
            method: Method::POST,
            url: self.url.to_owned(),
            headers: vec![(header::CONTENT_TYPE, json), self.key.clone()],
            body: Value::Object(body).to_string().into(),
            timeout_ms: self.timeout_ms,
            most_reply: REPLY,
            redirects: 0,
            sign: Sign::Nothing,
        }))])
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let reply = match json_of(answers.first()) {
            Ok(reply) => reply,
            Err(error) => return error.into(),
        };
        let Some(results) = reply.get("results").and_then(Value::as_array) else {
            return CheckError::open("InvalidReply", "The service's reply holds no results").into();
        };
        let data = json!({"explanation": format!("{} results were found", results.len()), "results": results.len()});
        if results.is_empty() {
            return CheckOutcome::new(true, data).into();
        }
        let rewrite = append_to_system(case.content, &self.found(results)).map(|body| Rewrite::Body(body.into()));
        CheckOutcome::rewriting(true, data, rewrite).into()
    }

    fn rewrites(&self) -> bool {
        true
    }
}
