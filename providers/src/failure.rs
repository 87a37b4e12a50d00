//! Error bodies: what a provider's error says, and how a client of either dialect is told.
//! The only place in this crate that writes an error body.

use crate::adapter::Failure;
use bytes::Bytes;
use gateway_domain::{Dialect, Usage};
use serde_json::{Map, Value, json};

/// Longer messages are cut: an error page is no message.
const MAX_MESSAGE: usize = 1000;

/// An upstream error, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProviderError {
    pub(crate) message: String,
    pub(crate) kind: Option<String>,
    pub(crate) param: Value,
    pub(crate) code: Value,
}

impl ProviderError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Reads the error shapes that are in use; `None` when `body` is no JSON object.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let Value::Object(mut body) = serde_json::from_slice(body).ok()? else { return None };
        Some(match body.remove("error") {
            Some(Value::Object(error)) => Self::of(error),
            Some(Value::Null) | None => Self::of(body),
            Some(other) => Self { message: text(&other), ..Self::of(body) },
        })
    }

    fn of(mut error: Map<String, Value>) -> Self {
        // A list of them: the first one is told (Cloudflare), or all where they are sentences (Stability AI).
        match error.get("errors").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::Object(first), ..]) => return Self::of(first.clone()),
            Some(said @ [Value::String(_), ..]) => {
                let kind = error.get("name").and_then(Value::as_str).map(str::to_owned);
                let said: Vec<String> = said.iter().map(text).collect();
                return Self { kind, ..Self::new(said.join("; ")) };
            }
            _ => {}
        }
        let message =
            ["message", "Message", "detail", "details", "msg"].iter().find_map(|key| error.get(*key).map(text));
        Self {
            message: message.unwrap_or_else(|| text(&Value::Object(error.clone()))),
            kind: error.get("type").and_then(Value::as_str).map(str::to_owned),
            param: error.remove("param").unwrap_or_default(),
            code: error.remove("code").unwrap_or_default(),
        }
    }

    /// The status that an error inside a 200 stands for.
    pub(crate) fn status(&self) -> u16 {
        let code = self.code.as_u64().or_else(|| self.code.as_str()?.parse().ok());
        if let Some(code) = code.and_then(|c| u16::try_from(c).ok()).filter(|c| (400..600).contains(c)) {
            return code;
        }
        let named = self.kind.as_deref().into_iter().chain(self.code.as_str());
        named.filter_map(status_of).next().unwrap_or(500)
    }

    /// E4 for an OpenAI client, Anthropic's error object for an Anthropic one.
    pub(crate) fn render(&self, slug: &str, status: u16, dialect: Dialect) -> Failure {
        let message = cut(&self.message);
        let body = match dialect {
            Dialect::OpenAi | Dialect::Google => json!({
                "error": {
                    "message": format!("{slug} error: {message}"),
                    "type": self.kind, "param": self.param, "code": self.code,
                },
                "provider": slug,
            }),
            // Its clients know a closed list of types.
            Dialect::Anthropic => json!({
                "type": "error",
                "error": {
                    "type": self.anthropics(status), "message": format!("{slug} error: {message}"),
                    "provider_type": self.kind,
                },
                "provider": slug,
            }),
        };
        Failure { status, body: body.to_string().into(), message: without_secrets(message), usage: None }
    }

    /// Its type in Anthropic's words: SDKs and agents act by it.
    fn anthropics(&self, status: u16) -> &str {
        let known = self.kind.as_deref().filter(|kind| status_of(kind) == Some(status) && *kind != "server_error");
        known.filter(|kind| kind.ends_with("_error")).unwrap_or(type_of(status))
    }

    /// The provider's own words, when they already are what the client reads.
    pub(crate) fn verbatim(&self, status: u16, body: Bytes) -> Failure {
        Failure { status, body, message: without_secrets(cut(&self.message)), usage: None }
    }
}

/// A 2xx answer, or an event, that the provider's dialect does not allow.
pub(crate) fn unreadable(slug: &str, what: &str, body: &[u8], dialect: Dialect) -> Failure {
    let shown = String::from_utf8_lossy(&body[..body.len().min(200)]);
    let message = match shown.trim() {
        "" => format!("{what} is empty"),
        shown => format!("{what} is not what its API allows: {shown}"),
    };
    ProviderError { kind: Some("api_error".to_owned()), ..ProviderError::new(message) }.render(slug, 502, dialect)
}

/// An answer that was to be JSON; it was paid for all the same.
pub(crate) fn no_json(slug: &str, usage: Option<Usage>, dialect: Dialect) -> Failure {
    let kind = Some("api_error".to_owned());
    let trouble = ProviderError {
        kind,
        ..ProviderError::new("the model did not answer with the JSON object that was asked for")
    };
    Failure { usage: usage.map(Box::new), ..trouble.render(slug, 502, dialect) }
}

/// A stream that would have to be held for ever.
pub(crate) fn oversized(slug: &str, dialect: Dialect) -> Failure {
    let kind = Some("api_error".to_owned());
    ProviderError { kind, ..ProviderError::new("an event of the stream is above 8 MiB") }.render(slug, 502, dialect)
}

/// What the error types of OpenAI's and Anthropic's APIs stand for, and the codes of Alibaba's
/// (<https://www.alibabacloud.com/help/en/model-studio/error-code>), of which what stands behind a dot tells more of
/// the same.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind.split_once('.').map_or(kind, |(kind, _)| kind) {
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" | "bad_request" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" | "permission_denied" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" | "tokens" | "requests" => 429,
        "api_error" | "server_error" | "internal_server_error" => 500,
        "service_unavailable" | "engine_overloaded" => 503,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        "InvalidParameter" | "DataInspectionFailed" | "data_inspection_failed" | "Arrearage" | "InvalidURL" => 400,
        "InvalidApiKey" => 401,
        "AccessDenied" | "Model" | "Workspace" | "App" => 403,
        "ModelNotFound" | "model_not_supported" => 404,
        "Throttling" | "LimitRequests" => 429,
        "InternalError" | "SystemError" => 500,
        "ModelServingError" | "ModelUnavailable" | "ServiceUnavailable" => 503,
        _ => return None,
    })
}

/// Anthropic's error type for a status.
fn type_of(status: u16) -> &'static str {
    match status {
        400 | 422 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        _ => "api_error",
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(message: &str) -> &str {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => &message[..end],
        None => message,
    }
}

/// Providers repeat the key they were given ("Incorrect API key provided: sk-…"); records must not.
fn without_secrets(message: &str) -> String {
    const MARKS: &[&str] = &["sk-", "sk_", "gsk_", "xai-", "pplx-", "hf_", "r8_", "AIza", "gw_", "key-"];
    let secret = |word: &str| {
        let bare = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        bare.len() >= 12 && MARKS.iter().any(|mark| bare.starts_with(mark))
    };
    let words: Vec<&str> = message.split(' ').map(|word| if secret(word) { "***" } else { word }).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> ProviderError {
        ProviderError::read(body.as_bytes()).expect("JSON")
    }

    #[test]
    fn shapes_in_use() {
        let t = read(r#"{"error":{"message":"no","type":"rate_limit_error","param":"n","code":"x"}}"#);
        assert_eq!(
            (t.message.as_str(), t.kind.as_deref(), t.param, t.code),
            ("no", Some("rate_limit_error"), json!("n"), json!("x"))
        );
        assert_eq!(read(r#"{"error":"gone"}"#).message, "gone");
        assert_eq!(read(r#"{"detail":"Not Found"}"#).message, "Not Found");
        assert_eq!(
            read(r#"{"object":"error","message":"bad","type":"invalid_request_error","code":3051}"#).code,
            json!(3051)
        );
        assert_eq!(read(r#"{"detail":[{"loc":["body"]}]}"#).message, r#"[{"loc":["body"]}]"#);
        let cloudflares =
            read(r#"{"result":null,"success":false,"errors":[{"code":10000,"message":"no"}],"messages":[]}"#);
        assert_eq!((cloudflares.message.as_str(), cloudflares.code), ("no", json!(10000)));
        let several = read(r#"{"id":"x","name":"bad_request","errors":["prompt: is required","seed: is negative"]}"#);
        assert_eq!(
            (several.message.as_str(), several.kind.as_deref()),
            ("prompt: is required; seed: is negative", Some("bad_request"))
        );
        assert_eq!(read(r#"{"errors":[],"message":"plain"}"#).message, "plain");
        assert_eq!(ProviderError::read(b"<html>"), None);
        assert_eq!(ProviderError::read(b"[]"), None);
    }

    #[test]
    fn statuses_that_errors_stand_for() {
        assert_eq!(read(r#"{"error":{"code":502}}"#).status(), 502);
        assert_eq!(read(r#"{"error":{"code":"429"}}"#).status(), 429);
        assert_eq!(read(r#"{"error":{"type":"overloaded_error"}}"#).status(), 529);
        assert_eq!(read(r#"{"error":{"type":"x","code":"rate_limit_exceeded"}}"#).status(), 429);
        assert_eq!(read(r#"{"error":{"type":"x","code":17}}"#).status(), 500);
        for (code, status) in [
            ("Throttling.AllocationQuota", 429),
            ("InvalidParameter", 400),
            ("InvalidApiKey", 401),
            ("Model.AccessDenied", 403),
            ("InternalError.Algo", 500),
            ("ModelServingError", 503),
        ] {
            assert_eq!(read(&format!(r#"{{"code":"{code}","message":"m"}}"#)).status(), status, "{code}");
        }
    }

    #[test]
    fn keys_stay_out_of_records() {
        let t = ProviderError::new("Incorrect API key provided: sk-abcdefghijklmnop. See the page.");
        assert_eq!(t.render("x", 401, Dialect::OpenAi).message, "Incorrect API key provided: *** See the page.");
        assert_eq!(
            ProviderError::new("é".repeat(2000)).render("x", 400, Dialect::OpenAi).message.chars().count(),
            MAX_MESSAGE
        );
    }

    #[test]
    fn errors_are_rendered_in_either_dialect() {
        let f = ProviderError::new("no").render("groq", 429, Dialect::OpenAi);
        let body: Value = serde_json::from_slice(&f.body).expect("JSON");
        assert_eq!(
            body,
            json!({"error": {"message": "groq error: no", "type": null, "param": null, "code": null}, "provider": "groq"})
        );
        let f = unreadable("mock", "the answer", b"", Dialect::Anthropic);
        let body: Value = serde_json::from_slice(&f.body).expect("JSON");
        assert_eq!((f.status, &body["error"]["type"]), (502, &json!("api_error")));
    }
}
