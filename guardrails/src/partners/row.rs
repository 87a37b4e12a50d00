//! A partner's check as a row: where to ask, with what, and how to read the reply. One check type serves all rows.

use super::template::Fill;
use super::{CheckCredentials, MadePartner};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep, Streaming};
use crate::checks::{forwarded, selection};
use crate::content::{Rewrite, Selection};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, Sign};
use crate::parameters::Parameters;
use http::{HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Calls that one judgement may take: choices of an answer, or parts.
const MOST_CALLS: usize = 32;
/// Bytes of one value of a reply that results tell.
const MOST_DATA: usize = 16 * 1024;

/// The table. A test holds that it can be read and that every row is sound.
pub(super) static ROWS: LazyLock<Vec<PartnerRow>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/partners.json")).unwrap_or_default());

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Per {
    /// One call for a request, one for each choice of an answer.
    #[default]
    Request,
    Part,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartnerRow {
    pub(super) id: String,
    /// `i`, `o` or `io`.
    pub(super) hooks: String,
    /// The public page that shows the reply, or `unverified`.
    #[expect(dead_code, reason = "read by whoever mends the row")]
    source: String,
    #[serde(default)]
    pub(super) credentials: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) params: BTreeMap<String, String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    per: Per,
    #[serde(default = "default_timeout")]
    timeout: u64,
    body: Value,
    /// Else it is an error.
    #[serde(default)]
    ok: Vec<ReplyTest>,
    /// Any of them fails the check.
    #[serde(default)]
    fail: Vec<ReplyTest>,
    /// All of them pass it.
    #[serde(default)]
    pass: Vec<ReplyTest>,
    #[serde(default)]
    data: BTreeMap<String, String>,
    rewrite: Option<RewriteRule>,
    #[serde(default)]
    streams: bool,
    /// `azure`: a token of the cloud's sign-in in place of a key, where the credentials say so.
    auth: Option<String>,
}

fn default_timeout() -> u64 {
    5_000
}

/// What must be found at a place of the reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyTest {
    /// A JSON pointer; `*` is every member, `{param.x}` every entry of a list.
    at: String,
    /// Only members that hold one of these values are looked at: `{"category": ["A"]}` beside `at: /scores/*`.
    #[serde(rename = "where")]
    only: Option<BTreeMap<String, Vec<Value>>>,
    /// Where the value to test stands below each member that is looked at.
    value: Option<String>,
    is: Option<Value>,
    not: Option<Value>,
    #[serde(rename = "in")]
    within: Option<Value>,
    gt: Option<Value>,
    gte: Option<Value>,
    present: Option<bool>,
    /// It is a text that begins otherwise.
    unlike: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RewriteRule {
    /// `param.redact`: without it every reply that has texts rewrites.
    #[serde(rename = "if")]
    when: Option<String>,
    /// Tests of the reply that all must hold.
    #[serde(default)]
    only: Vec<ReplyTest>,
    /// Tests of which none may hold.
    #[serde(default)]
    unless: Vec<ReplyTest>,
    /// Texts in the order of those that were asked about.
    texts: Option<String>,
    /// The conversation as it was sent, with other texts in it.
    messages: Option<String>,
    /// Finds in the text, each with its first character and the one behind its last.
    spans: Option<Spans>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spans {
    at: String,
    start: String,
    end: String,
    /// Names what stood there; else the text is masked.
    kind: Option<String>,
}

pub(super) fn compile(row: &'static PartnerRow, p: &Parameters<'_>, saved: Option<&Map<String, Value>>) -> MadePartner {
    let specs = row.credentials.iter().map(|(n, s)| (n.as_str(), s.as_str()));
    let credentials = CheckCredentials::read(specs, p, saved);
    let mode = credentials.get("azureAuthMode");
    if mode == Some("apiKey") && credentials.get("apiKey").is_none() {
        p.problem("credentials.apiKey", "is required with `azureAuthMode` apiKey");
    }
    if mode == Some("entra") {
        for name in ["azureEntraTenantId", "azureEntraClientId", "azureEntraClientSecret"] {
            if credentials.get(name).is_none() {
                p.problem(&format!("credentials.{name}"), "is required with `azureAuthMode` entra");
            }
        }
    }
    let params = read_params(row, p);
    let timeout_ms = p.number("timeout", row.timeout, 1..=60_000) as u32;
    let selection = selection(p, Selection::TEXT_AND_TOOL);
    let headers = p.headers("headers");
    let forwarded = p.forwarded("forwardHeaders");
    let check = RowCheck { row, credentials, params, timeout_ms, selection, headers, forwarded };
    MadePartner { judge: Some(Box::new(check)), input: row.hooks.contains('i'), output: row.hooks.contains('o') }
}

/// Parameters by their specification: `bool=false`, `text*`, `texts`, `number=0.5`, `one(a|b)`, `object`.
fn read_params(row: &'static PartnerRow, p: &Parameters<'_>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, spec) in &row.params {
        let (spec, default) = spec.split_once('=').map_or((spec.as_str(), None), |(s, d)| (s, Some(d)));
        let (spec, required) = spec.strip_suffix('*').map_or((spec, false), |s| (s, true));
        let found = if required { p.required(name) } else { p.value(name) };
        let value = match found {
            None => default.map(|d| serde_json::from_str(d).unwrap_or_else(|_| Value::from(d))),
            Some(value) => {
                let rule = wrong(spec, value);
                if let Some(message) = &rule {
                    p.problem(name, message.clone());
                }
                rule.is_none().then(|| value.clone())
            }
        };
        out.extend(value.map(|v| (name.clone(), v)));
    }
    out
}

/// What a value breaks of its specification.
fn wrong(spec: &str, value: &Value) -> Option<String> {
    if let Some(choices) = spec.strip_prefix("one(").and_then(|s| s.strip_suffix(')')) {
        let fits = choices.split('|').any(|c| value.as_str() == Some(c));
        return (!fits).then(|| format!("must be one of: {}", choices.replace('|', ", ")));
    }
    let (fits, message) = match spec {
        "bool" => (value.is_boolean(), "must be true or false"),
        "number" => (value.is_number(), "must be a number"),
        "object" => (value.is_object(), "must be an object"),
        "list" => (value.is_array(), "must be a list"),
        "texts" => {
            let fits = value.as_array().is_some_and(|l| l.len() <= 1_000 && l.iter().all(Value::is_string));
            (fits, "must be a list of strings")
        }
        _ => (value.as_str().is_some_and(|t| !t.is_empty()), "must be a string that is not empty"),
    };
    (!fits).then(|| message.to_owned())
}

#[derive(Debug)]
struct RowCheck {
    row: &'static PartnerRow,
    credentials: CheckCredentials,
    params: Map<String, Value>,
    timeout_ms: u32,
    selection: Selection,
    headers: Vec<(HeaderName, HeaderValue)>,
    forwarded: Vec<HeaderName>,
}

/// What one call is about.
struct About {
    /// Positions of parts.
    parts: Vec<usize>,
    texts: Vec<String>,
}

/// What a reply says.
struct ReplyVerdict {
    fails: bool,
    data: Map<String, Value>,
    texts: Vec<(usize, String)>,
}

impl RowCheck {
    fn about(&self, case: &Case<'_>) -> Vec<About> {
        let text = |at: &usize| case.content.parts()[*at].text.to_string();
        let joined = case.content.joined(self.selection).into_iter();
        let all = joined.map(|j| About { texts: j.parts.iter().map(text).collect(), parts: j.parts });
        let filled = all.filter(|a| a.texts.iter().any(|t| !t.trim().is_empty()));
        if self.row.per == Per::Request {
            return filled.collect();
        }
        let single = filled.flat_map(|a| a.parts.into_iter().zip(a.texts));
        let filled = single.filter(|(_, text)| !text.trim().is_empty());
        filled.map(|(part, text)| About { parts: vec![part], texts: vec![text] }).collect()
    }

    fn outgoing(&self, case: &Case<'_>, about: &About) -> Result<CheckQuery, CheckError> {
        let fill = Fill { case, credentials: &self.credentials, params: &self.params, texts: &about.texts };
        let unset = || CheckError::open("Error", "The check's address lacks a credential");
        let url = fill.interpolated(&self.row.url, |v| encoded(&v)).ok_or_else(unset)?;
        let body = fill.value(&self.row.body).unwrap_or_else(|| json!({}));
        let mut headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        for (name, template) in &self.row.headers {
            let value = fill.interpolated(template, |v| v).and_then(|v| HeaderValue::try_from(v).ok());
            if let (Ok(name), Some(mut value)) = (HeaderName::try_from(name.as_str()), value) {
                value.set_sensitive(true);
                headers.push((name, value));
            }
        }
        let mode = self.credentials.get("azureAuthMode").unwrap_or("apiKey");
        let sign = match self.row.auth.as_deref() {
            Some("azure") if mode != "apiKey" => {
                headers.retain(|(name, _)| name != "ocp-apim-subscription-key");
                let scope = "https://cognitiveservices.azure.com/.default";
                Sign::Azure { scope, credentials: self.credentials.clone() }
            }
            _ => Sign::Nothing,
        };
        // The check's own credentials stand last, so that no other header takes their place.
        for (name, value) in forwarded(case, &self.forwarded, &self.headers).into_iter().chain(self.headers.clone()) {
            if !headers.iter().any(|(n, _)| *n == name) {
                headers.push((name, value));
            }
        }
        Ok(CheckQuery::Call(Box::new(CheckRequest {
            method: Method::POST,
            url,
            headers,
            body: body.to_string().into(),
            timeout_ms: self.timeout_ms,
            most_reply: REPLY,
            redirects: 0,
            sign,
        })))
    }

    fn may_rewrite(&self) -> bool {
        let Some(rule) = &self.row.rewrite else { return false };
        let name = rule.when.as_deref().and_then(|w| w.strip_prefix("param."));
        name.is_none_or(|n| self.params.get(n) == Some(&Value::Bool(true)))
    }

    fn read_one(&self, case: &Case<'_>, about: &About, answer: &CheckReply) -> Result<ReplyVerdict, CheckError> {
        let body = match answer {
            CheckReply::Reply { status, body } if (200..300).contains(status) => body,
            CheckReply::Reply { status, .. } => {
                return Err(CheckError::open("HttpError", format!("The service answered with status {status}")));
            }
            CheckReply::Failed(failure) => return Err(failure.into()),
            _ => return Err(CheckError::open("Error", "The service gave no answer")),
        };
        let reply: Value = serde_json::from_slice(body)
            .map_err(|_| CheckError::open("InvalidReply", "The service's reply is no JSON"))?;
        let missing = |_| CheckError::open("InvalidReply", "The service's reply holds no verdict");
        for test in &self.row.ok {
            if !test.holds(&reply, &self.params).map_err(missing)? {
                return Err(CheckError::open("ServiceError", "The service could not judge the text"));
            }
        }
        let mut fails = false;
        for test in &self.row.fail {
            fails |= test.holds(&reply, &self.params).unwrap_or(false);
        }
        for test in &self.row.pass {
            fails |= !test.holds(&reply, &self.params).map_err(missing)?;
        }
        let mut data = Map::new();
        for (name, pointer) in &self.row.data {
            let value = find(&reply, pointer, &self.params).into_iter().next();
            let value = value.filter(|v| v.to_string().len() <= MOST_DATA);
            data.extend(value.map(|v| (name.clone(), v.clone())));
        }
        match self.rewritten(case, about, &reply) {
            Some(texts) => Ok(ReplyVerdict { fails, data, texts }),
            None => Ok(ReplyVerdict { fails: true, data, texts: Vec::new() }),
        }
    }

    /// The texts that the service puts in the places of others; `None` where it wants to and it cannot be told where.
    fn rewritten(&self, case: &Case<'_>, about: &About, reply: &Value) -> Option<Vec<(usize, String)>> {
        let Some(rule) = self.row.rewrite.as_ref().filter(|_| self.may_rewrite()) else { return Some(Vec::new()) };
        let holds = |t: &ReplyTest| t.holds(reply, &self.params).unwrap_or(false);
        if !rule.only.iter().all(holds) || rule.unless.iter().any(holds) {
            return Some(Vec::new());
        }
        if let Some(spans) = &rule.spans {
            return Some(spans.texts(about, reply, &self.params));
        }
        if let Some(at) = &rule.messages {
            return self.rewritten_messages(case, about, &find(reply, at, &self.params));
        }
        let found = rule.texts.as_deref().map(|at| find(reply, at, &self.params)).unwrap_or_default();
        let texts: Vec<&str> = match found.as_slice() {
            [Value::Array(list)] => list.iter().filter_map(Value::as_str).collect(),
            values => values.iter().filter_map(|v| v.as_str()).collect(),
        };
        // Texts that cannot be told apart are not put in the places of others: what was found stays found.
        if texts.len() != about.parts.len() {
            return Some(Vec::new());
        }
        let changed = about.parts.iter().zip(&about.texts).zip(texts).filter(|((_, old), new)| old != new);
        Some(changed.map(|((part, _), new)| (*part, new.to_owned())).collect())
    }

    /// Texts of messages that stand where they stood when they were sent, each the only text of its message.
    fn rewritten_messages(&self, case: &Case<'_>, about: &About, found: &[&Value]) -> Option<Vec<(usize, String)>> {
        let messages = found.first().and_then(|v| v.as_array())?;
        let parts = case.content.parts();
        let mut out = Vec::new();
        for at in &about.parts {
            let group = parts[*at].group;
            let message = if case.is_input() { messages.get(group as usize) } else { messages.last() }?;
            let is_alone = parts.iter().filter(|p| p.group == group).count() == 1;
            let text = message.get("content").and_then(Value::as_str).filter(|_| is_alone)?;
            if *text != *parts[*at].text {
                out.push((*at, text.to_owned()));
            }
        }
        Some(out)
    }
}

/// A value as one piece of a path, or of a host.
fn encoded(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:".contains(&b);
    let mut out = String::new();
    for byte in value.bytes() {
        match plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The values at a pointer.
fn find<'v>(value: &'v Value, pointer: &str, params: &Map<String, Value>) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in pointer.split('/').skip(1) {
        let place = step.strip_prefix("{param.").and_then(|s| s.strip_suffix('}'));
        let names: Vec<String> = match place.map(|name| params.get(name)) {
            None => vec![step.replace("~1", "/").replace("~0", "~")],
            Some(Some(Value::Array(list))) => list.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            Some(Some(Value::String(name))) => vec![name.clone()],
            Some(_) => Vec::new(),
        };
        let below = |value: &'v Value| -> Vec<&'v Value> {
            match value {
                Value::Array(list) if step == "*" => list.iter().collect(),
                Value::Object(map) if step == "*" => map.values().collect(),
                Value::Array(list) => names.iter().filter_map(|n| list.get(n.parse::<usize>().ok()?)).collect(),
                Value::Object(map) => names.iter().filter_map(|n| map.get(n)).collect(),
                _ => Vec::new(),
            }
        };
        found = found.into_iter().flat_map(below).collect();
    }
    found
}

/// Nothing stands where a test looks.
struct Missing;

impl ReplyTest {
    fn holds(&self, reply: &Value, params: &Map<String, Value>) -> Result<bool, Missing> {
        let mut found = find(reply, &self.at, params);
        if found.is_empty() && !self.at.contains('*') {
            return if self.present == Some(false) { Ok(true) } else { Err(Missing) };
        }
        if let Some(only) = &self.only {
            found.retain(|v| only.iter().all(|(key, values)| v.get(key).is_some_and(|held| values.contains(held))));
        }
        if let Some(below) = &self.value {
            found = found.into_iter().flat_map(|v| find(v, below, params)).collect();
        }
        Ok(found.into_iter().any(|v| self.fits(v, params)))
    }

    fn fits(&self, value: &Value, params: &Map<String, Value>) -> bool {
        let wanted = |v: &Value| match v.as_str().and_then(|t| t.strip_prefix("{param.")?.strip_suffix('}')) {
            Some(name) => params.get(name).cloned().unwrap_or(Value::Null),
            None => v.clone(),
        };
        let number = |v: &Value| wanted(v).as_f64();
        let is_there = !matches!(value, Value::Null | Value::Bool(false))
            && !value.as_array().is_some_and(Vec::is_empty)
            && !value.as_object().is_some_and(Map::is_empty)
            && value.as_str() != Some("");
        let held = value.as_f64();
        self.is.as_ref().is_none_or(|w| wanted(w) == *value)
            && self.not.as_ref().is_none_or(|w| wanted(w) != *value)
            && self.within.as_ref().is_none_or(|w| wanted(w).as_array().is_some_and(|l| l.contains(value)))
            && self.gt.as_ref().is_none_or(|w| held.zip(number(w)).is_some_and(|(h, w)| h > w))
            && self.gte.as_ref().is_none_or(|w| held.zip(number(w)).is_some_and(|(h, w)| h >= w))
            && self.present.is_none_or(|p| p == is_there)
            && self.unlike.as_ref().is_none_or(|start| value.as_str().is_some_and(|t| !t.starts_with(start.as_str())))
    }
}

impl Spans {
    /// Spans count characters of the one text that was asked about; those that overlap are one.
    fn texts(&self, about: &About, reply: &Value, params: &Map<String, Value>) -> Vec<(usize, String)> {
        let (Some(part), [text]) = (about.parts.first(), about.texts.as_slice()) else { return Vec::new() };
        let number = |v: &Value, at: &str| find(v, at, params).first().and_then(|v| v.as_u64()).map(|n| n as usize);
        let mut spans: Vec<Masked> = Vec::new();
        for value in find(reply, &self.at, params) {
            if let (Some(start), Some(end)) = (number(value, &self.start), number(value, &self.end))
                && start < end
            {
                let kind = self.kind.as_deref().and_then(|at| find(value, at, params).first().and_then(|v| v.as_str()));
                spans.push(Masked { start, end, kind: kind.unwrap_or("REDACTED").to_owned() });
            }
        }
        spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
        let chars: Vec<char> = text.chars().collect();
        let (mut out, mut done) = (String::new(), 0);
        for Masked { start, end, kind } in spans {
            if end > chars.len() || end <= done {
                continue;
            }
            if start >= done {
                out.extend(&chars[done..start]);
                out.push_str(&format!("[{kind}]"));
            }
            done = end;
        }
        out.extend(&chars[done..]);
        if out == *text { Vec::new() } else { vec![(*part, out)] }
    }
}

struct Masked {
    start: usize,
    end: usize,
    kind: String,
}

impl Judge for RowCheck {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let about = self.about(case);
        if about.is_empty() {
            return CheckError::missing_text().into();
        }
        if about.len() > MOST_CALLS {
            return CheckError::closed("PartLimit", format!("There are more than {MOST_CALLS} texts to ask about"))
                .into();
        }
        match about.iter().map(|a| self.outgoing(case, a)).collect::<Result<Vec<_>, _>>() {
            Ok(asks) => JudgeStep::Ask(asks),
            Err(error) => error.into(),
        }
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let (mut texts, mut told, mut fails) = (Vec::new(), Map::new(), false);
        for (about, answer) in self.about(case).iter().zip(answers) {
            match self.read_one(case, about, answer) {
                Err(error) => return error.into(),
                Ok(read) => {
                    // What was found and replaced is no failure.
                    let fails_here = read.fails && read.texts.is_empty();
                    // Results tell of the first that failed, else of the first.
                    if told.is_empty() || (fails_here && !fails) {
                        told = read.data;
                    }
                    fails |= fails_here;
                    texts.extend(read.texts);
                }
            }
        }
        let explanation = match (fails, texts.is_empty()) {
            (true, _) => "The service found something that must not be there",
            (false, false) => "The service replaced what must not be there",
            (false, true) => "The service found nothing",
        };
        told.insert("explanation".into(), Value::from(explanation));
        let rewrite = (!texts.is_empty()).then_some(Rewrite::Texts(texts));
        CheckOutcome::rewriting(!fails, Value::Object(told), rewrite).into()
    }

    fn rewrites(&self) -> bool {
        self.may_rewrite()
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        // A rewritten window cannot be laid over the text that overlaps it.
        (self.row.streams && !self.may_rewrite()).then_some(Streaming::Outside)
    }
}
