//! Anthropic's Messages for its models, through InvokeModel: the body as it came, but for the model, which stands in
//! the path, and the version, which stands in the body
//! (<https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html>).

use super::path;
use crate::adapter::{BodyPieces, Call, ProviderRequest};
use crate::convert::chat::unthreaded;
use crate::wire::{JsonStr, speaks};
use crate::{edit, model};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::Fault;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

const VERSION: &str = "\"bedrock-2023-05-31\"";
const GUARDRAILS: &[&str] = &["guardrailConfig", "guardrail_config"];

/// Beside this body a guardrail stands in headers
/// (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html>).
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedGuardrail<'a> {
    #[serde(borrow)]
    guardrail_identifier: Option<JsonStr<'a>>,
    #[serde(borrow)]
    guardrail_version: Option<JsonStr<'a>>,
    #[serde(borrow)]
    trace: Option<JsonStr<'a>>,
}

#[derive(Default, Deserialize)]
struct BedrockExtraFields<'a> {
    #[serde(borrow, rename = "guardrailConfig", alias = "guardrail_config")]
    guardrail: Option<NamedGuardrail<'a>>,
    anthropic_version: Option<serde::de::IgnoredAny>,
    max_tokens: Option<serde::de::IgnoredAny>,
    thinking: Option<BedrockThinkingBudget>,
    #[serde(borrow)]
    thread: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct BedrockThinkingBudget {
    budget_tokens: Option<u64>,
}

fn own(body: &[u8]) -> Result<BedrockExtraFields<'_>, Fault> {
    serde_json::from_slice(body).map_err(|e| model::not_an_object(&e))
}

fn changed(body: &Bytes, own: &BedrockExtraFields<'_>, limit: Option<&str>) -> Result<Bytes, Fault> {
    let mut changes = vec![("model", None), ("stream", None)];
    changes.extend(GUARDRAILS.iter().map(|name| (*name, None)));
    if own.anthropic_version.is_none() {
        changes.push(("anthropic_version", Some(VERSION)));
    }
    if let (None, Some(limit)) = (&own.max_tokens, limit) {
        changes.push(("max_tokens", Some(limit)));
    }
    edit::set_top_level(body, &changes).map_err(|e| model::not_an_object(&e))
}

pub(super) fn request(call: &Call<'_>, model: &str) -> Result<ProviderRequest, Fault> {
    let own = own(call.body)?;
    if speaks(own.thread) {
        return Err(unthreaded());
    }
    let body = changed(call.body, &own, None)?;
    let mut headers = Vec::new();
    let guardrail = own.guardrail.unwrap_or_default();
    let trace = guardrail.trace.map(|t| t.0.to_ascii_uppercase());
    for (name, text) in [
        ("x-amzn-bedrock-guardrailidentifier", guardrail.guardrail_identifier.map(|t| t.0.into_owned())),
        ("x-amzn-bedrock-guardrailversion", guardrail.guardrail_version.map(|t| t.0.into_owned())),
        ("x-amzn-bedrock-trace", trace),
    ] {
        let Some(text) = text else { continue };
        let value = HeaderValue::from_str(&text)
            .map_err(|_| super::refused("guardrailConfig", "must hold what a header can carry"))?;
        headers.push((HeaderName::from_static(name), value));
    }
    let verb = if call.stream { "invoke-with-response-stream" } else { "invoke" };
    Ok(ProviderRequest {
        path: Some(path::of(model, verb)),
        headers,
        body: BodyPieces::One(body),
        adjusted: Vec::new(),
    })
}

/// `CountTokens` of a body that could be sent: one with a limit, which a count does not need
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html>).
pub(super) fn count(body: &Bytes) -> Result<Vec<u8>, Fault> {
    let own = own(body)?;
    let limit = own.thinking.as_ref().and_then(|t| t.budget_tokens).unwrap_or(0) + 1024;
    let body = changed(body, &own, Some(&limit.to_string()))?;
    let wrapped = serde_json::json!({ "input": { "invokeModel": { "body": STANDARD.encode(&body) } } });
    Ok(wrapped.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::read;

    #[test]
    fn what_is_counted_could_be_sent() {
        let body =
            Bytes::from_static(br#"{"model":"m","messages":[],"thinking":{"type":"enabled","budget_tokens":2000}}"#);
        let wrapped: serde_json::Value = serde_json::from_slice(&count(&body).expect("counted")).expect("JSON");
        let inner = wrapped["input"]["invokeModel"]["body"].as_str().expect("text");
        let inner = read::<serde_json::Value>(&STANDARD.decode(inner).expect("base64")).expect("JSON");
        assert_eq!((&inner["model"], &inner["max_tokens"]), (&serde_json::Value::Null, &3024.into()));
        assert_eq!(inner["anthropic_version"], "bedrock-2023-05-31");
    }
}
