//! Guardrails of Amazon Bedrock, asked about each text by itself
//! (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html>). The caller signs.

use super::json_of;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::checks::selection;
use crate::content::{Rewrite, Selection};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, Sign};
use crate::parameters::Parameters;
use crate::partners::CheckCredentials;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};

const MOST_CALLS: usize = 32;

#[derive(Debug)]
struct BedrockGuardrails {
    url: String,
    region: String,
    credentials: CheckCredentials,
    redacts: bool,
    timeout_ms: u32,
    selection: Selection,
}

pub(super) fn make(p: &Parameters<'_>, credentials: &CheckCredentials) -> Option<Box<dyn Judge>> {
    let piece = |key: &'static str| {
        let text = p.required_text(key);
        let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if !is_plain {
            p.problem(key, "must be letters, digits and hyphens");
        }
        (is_plain && !text.is_empty()).then_some(text)
    };
    let (guardrail, version) = (piece("guardrailId"), piece("guardrailVersion"));
    let (redacts, timeout_ms) = (p.flag("redact", false), p.number("timeout", 5_000, 1..=60_000) as u32);
    let selection = selection(p, Selection::TEXT_AND_TOOL);
    let region = credentials.get("awsRegion")?.to_owned();
    let is_role = credentials.get("awsAuthType") == Some("assumedRole");
    let has_key = |id: &str, secret: &str| credentials.get(id).is_some() && credentials.get(secret).is_some();
    let has_keys = has_key("accessKeyId", "accessKeySecret") || has_key("awsAccessKeyId", "awsSecretAccessKey");
    match (is_role, credentials.get("awsRoleArn").is_some(), has_keys) {
        (true, false, _) => p.problem("credentials.awsRoleArn", "is required with `awsAuthType` assumedRole"),
        (_, _, false) => p.problem("credentials.awsAccessKeyId", "and `awsSecretAccessKey` are required"),
        _ => {}
    }
    let host = match credentials.get("customHost") {
        Some(host) => host.to_owned(),
        None => format!("https://bedrock-runtime.{region}.amazonaws.com"),
    };
    let url = format!("{host}/guardrail/{}/version/{}/apply", guardrail?, version?);
    Some(Box::new(BedrockGuardrails { url, region, credentials: credentials.clone(), redacts, timeout_ms, selection }))
}

impl BedrockGuardrails {
    fn parts(&self, case: &Case<'_>) -> Vec<usize> {
        let mut parts = case.content.chosen(self.selection);
        parts.retain(|at| !case.content.parts()[*at].text.trim().is_empty());
        parts
    }
}

/// Whether nothing but personal data and patterns was found.
fn only_pii(assessments: &[Value]) -> bool {
    let names = assessments.iter().filter_map(Value::as_object).flat_map(|a| a.iter());
    let mut fired = names.filter(|(name, value)| name.ends_with("Policy") && !value.is_null()).peekable();
    fired.peek().is_some() && fired.all(|(name, _)| name == "sensitiveInformationPolicy")
}

/// The text with each find replaced by its kind.
fn masked(text: &str, assessments: &[Value]) -> String {
    let mut out = text.to_owned();
    for list in ["piiEntities", "regexes"] {
        let found = assessments.iter().filter_map(|a| a.pointer(&format!("/sensitiveInformationPolicy/{list}")));
        for find in found.filter_map(Value::as_array).flatten() {
            let name = find.get("type").or_else(|| find.get("name")).and_then(Value::as_str).unwrap_or("REDACTED");
            if let Some(value) = find.get("match").and_then(Value::as_str).filter(|m| !m.is_empty()) {
                out = out.replace(value, &format!("{{{name}}}"));
            }
        }
    }
    out
}

impl Judge for BedrockGuardrails {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let parts = self.parts(case);
        if parts.is_empty() {
            return CheckError::missing_text().into();
        }
        if parts.len() > MOST_CALLS {
            return CheckError::closed("PartLimit", format!("There are more than {MOST_CALLS} texts to ask about"))
                .into();
        }
        let source = if case.is_input() { "INPUT" } else { "OUTPUT" };
        let ask = |at: &usize| {
            let body = json!({"source": source, "content": [{"text": {"text": &*case.content.parts()[*at].text}}]});
            CheckQuery::Call(Box::new(CheckRequest {
                method: Method::POST,
                url: self.url.clone(),
                headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
                body: body.to_string().into(),
                timeout_ms: self.timeout_ms,
                most_reply: REPLY,
                redirects: 0,
                sign: Sign::Aws {
                    region: self.region.clone(),
                    service: "bedrock",
                    credentials: self.credentials.clone(),
                },
            }))
        };
        JudgeStep::Ask(parts.iter().map(ask).collect())
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let (mut texts, mut told, mut verdict) = (Vec::new(), Vec::new(), true);
        for (at, answer) in self.parts(case).iter().zip(answers) {
            let reply = match json_of(Some(answer)) {
                Ok(reply) => reply,
                Err(error) => return error.into(),
            };
            match reply.get("action").and_then(Value::as_str) {
                Some("GUARDRAIL_INTERVENED") => {}
                Some(_) => continue,
                None => return CheckError::open("InvalidReply", "The service's reply holds no verdict").into(),
            }
            let assessments = reply.get("assessments").and_then(Value::as_array).cloned().unwrap_or_default();
            let text = &case.content.parts()[*at].text;
            if self.redacts && only_pii(&assessments) {
                let outputs = reply.get("outputs").or_else(|| reply.get("output"));
                let output = outputs.and_then(|o| o.pointer("/0/text")).and_then(Value::as_str);
                let new = output.map_or_else(|| masked(text, &assessments), ToOwned::to_owned);
                texts.push((*at, new));
            } else {
                verdict = false;
            }
            told.extend(kinds(&assessments));
        }
        told.sort_unstable();
        told.dedup();
        let explanation = match (verdict, texts.is_empty()) {
            (false, _) => "The guardrail intervened",
            (true, false) => "Personal data was found and replaced",
            (true, true) => "The guardrail found nothing",
        };
        let rewrite = (!texts.is_empty()).then_some(Rewrite::Texts(texts));
        CheckOutcome::rewriting(verdict, json!({"explanation": explanation, "policies": told}), rewrite).into()
    }

    fn rewrites(&self) -> bool {
        self.redacts
    }
}

/// The policies that found something; what they found is not told.
fn kinds(assessments: &[Value]) -> Vec<String> {
    let entries = assessments.iter().filter_map(Value::as_object).flat_map(|a| a.iter());
    entries.filter(|(k, v)| k.ends_with("Policy") && !v.is_null()).map(|(k, _)| k.clone()).collect()
}
