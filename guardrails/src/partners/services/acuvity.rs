//! Acuvity's scan: what it found in each text, with how sure it is, against the thresholds of the check. Its address
//! stands in the token (<https://docs.acuvity.ai/>).

use super::json_of;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::checks::selection;
use crate::content::{Rewrite, Selection};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, Sign};
use crate::parameters::{Parameters, checked_address};
use crate::partners::CheckCredentials;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderValue, Method, header};
use serde_json::{Map, Value, json};

/// Finds by the parameter that asks about them, with where they stand in an extraction.
const FINDS: &[(&str, &str, &str)] = &[
    ("prompt_injection", "prompt_injection_threshold", "exploits"),
    ("jail_break", "jail_break_threshold", "exploits"),
    ("malicious_url", "malicious_url_threshold", "exploits"),
    ("toxic", "toxic_threshold", "malcontents"),
    ("biased", "biased_threshold", "malcontents"),
    ("harmful", "harmful_threshold", "malcontents"),
];

#[derive(Debug)]
struct Threshold {
    name: &'static str,
    group: &'static str,
    least: f64,
}

#[derive(Debug)]
struct Acuvity {
    url: String,
    credentials: CheckCredentials,
    thresholds: Vec<Threshold>,
    languages: Option<Vec<String>>,
    pii: Option<Vec<String>>,
    secrets: Option<Vec<String>>,
    redactions: Vec<String>,
    timeout_ms: u32,
    selection: Selection,
}

pub(super) fn make(p: &Parameters<'_>, credentials: &CheckCredentials) -> Option<Box<dyn Judge>> {
    let mut thresholds = Vec::new();
    for (name, threshold, group) in FINDS.iter().copied() {
        let is_asked = p.flag(name, false);
        let least = match p.value(threshold) {
            None => 0.5,
            Some(value) => value.as_f64().filter(|f| (0.0..=1.0).contains(f)).unwrap_or_else(|| {
                p.problem(threshold, "must be a number of 0..1");
                0.5
            }),
        };
        if is_asked {
            thresholds.push(Threshold { name, group, least });
        }
    }
    let listed = |flag: &'static str, list: &'static str| {
        let entries = p.texts(list, 200).unwrap_or_default();
        p.flag(flag, false).then_some(entries)
    };
    let languages = listed("language", "language_values");
    let (pii, secrets) = (listed("pii", "pii_categories"), listed("secrets", "secrets_categories"));
    let mut redactions = Vec::new();
    if p.flag("pii_redact", false) {
        redactions.extend(pii.clone().unwrap_or_default());
    }
    if p.flag("secrets_redact", false) {
        redactions.extend(secrets.clone().unwrap_or_default());
    }
    let timeout_ms = p.number("timeout", 5_000, 1..=60_000) as u32;
    let selection = selection(p, Selection::TEXT_AND_TOOL);
    let base = credentials.get("apexUrl").map(ToOwned::to_owned).or_else(|| apex_url(credentials.get("apiKey")?));
    let Some(base) = base.filter(|b| b.starts_with("https://") && checked_address(b, p.trusted()).is_ok()) else {
        if credentials.get("apiKey").is_some() {
            p.problem("credentials.apiKey", "must be a token that names an address, or `apexUrl` must be given");
        }
        return None;
    };
    let url = format!("{}/_acuvity/scan", base.trim_end_matches('/'));
    Some(Box::new(Acuvity {
        url,
        credentials: credentials.clone(),
        thresholds,
        languages,
        pii,
        secrets,
        redactions,
        timeout_ms,
        selection,
    }))
}

/// The address that a token names for itself, in a claim of its own.
fn apex_url(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let url = claims.pointer("/opaque/apex-url")?.as_str()?;
    Some(if url.contains("://") { url.to_owned() } else { format!("https://{url}") })
}

impl Acuvity {
    /// What is wrong with one text.
    fn found(&self, extraction: &Value) -> Vec<String> {
        let mut out = Vec::new();
        for threshold in &self.thresholds {
            let value = extraction.get(threshold.group).and_then(|g| g.get(threshold.name)).and_then(Value::as_f64);
            if value.is_some_and(|v| v >= threshold.least) {
                out.push(threshold.name.to_owned());
            }
        }
        if let (Some(allowed), Some(held)) = (&self.languages, extraction.get("languages").and_then(Value::as_object))
            && !held.is_empty()
            && !held.keys().any(|l| allowed.contains(l))
        {
            out.push("language".to_owned());
        }
        for (wanted, key) in [(&self.pii, "PIIs"), (&self.secrets, "secrets")] {
            let held = extraction.get(key).or_else(|| extraction.get("piIs")).and_then(Value::as_object);
            for name in held.into_iter().flat_map(Map::keys) {
                if wanted.as_ref().is_some_and(|w| w.is_empty() || w.contains(name)) {
                    out.push(name.clone());
                }
            }
        }
        out
    }
}

impl Judge for Acuvity {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let parts = case.content.chosen(self.selection);
        let texts: Vec<&str> = parts.iter().map(|at| &*case.content.parts()[*at].text).collect();
        if texts.iter().all(|t| t.trim().is_empty()) {
            return CheckError::missing_text().into();
        }
        let kind = if case.is_input() { "Input" } else { "Output" };
        let body =
            json!({"anonymization": "FixedSize", "messages": texts, "redactions": self.redactions, "type": kind});
        let key = format!("Bearer {}", self.credentials.get("apiKey").unwrap_or_default());
        let Ok(mut key) = HeaderValue::try_from(key) else {
            return CheckError::open("Error", "The credential cannot stand in a header").into();
        };
        key.set_sensitive(true);
        let json = HeaderValue::from_static("application/json");
        JudgeStep::Ask(vec![CheckQuery::Call(Box::new(CheckRequest {
            method: Method::POST,
            url: self.url.clone(),
            headers: vec![(header::CONTENT_TYPE, json), (header::AUTHORIZATION, key)],
            body: body.to_string().into(),
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
        let Some(extractions) = reply.get("extractions").and_then(Value::as_array) else {
            return CheckError::open("InvalidReply", "The service's reply holds no verdict").into();
        };
        let parts = case.content.chosen(self.selection);
        let (mut found, mut texts) = (Vec::new(), Vec::new());
        for (at, extraction) in parts.iter().zip(extractions) {
            let old = &case.content.parts()[*at].text;
            let new = extraction.get("data").and_then(Value::as_str).filter(|_| !self.redactions.is_empty());
            texts.extend(new.filter(|n| *n != &**old).map(|n| (*at, n.to_owned())));
            // What is redacted was dealt with.
            found.extend(self.found(extraction).into_iter().filter(|f| !self.redactions.contains(f)));
        }
        let explanation = if found.is_empty() { "The service found nothing" } else { "The service found something" };
        let data = json!({"explanation": explanation, "found": found});
        let rewrite = (!texts.is_empty()).then_some(Rewrite::Texts(texts));
        CheckOutcome::rewriting(found.is_empty(), data, rewrite).into()
    }

    fn rewrites(&self) -> bool {
        !self.redactions.is_empty()
    }
}
