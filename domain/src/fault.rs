//! Every error the data plane can answer with, as one table: status, codes, metric label and retry class.
//! A fault is rendered in the dialect of the client; nothing else in the house writes an error body.

use crate::counters::RateLimitStandings;
use crate::operation::Dialect;
use crate::time::Timestamp;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Which of the documented envelopes rides beside the client's own error shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// E1, E2: `{"status":"failure","message"}`, with `errors` for a config's problems.
    Failure,
    /// E6: `{"success":false,"data":{"message","errorCode"}}`.
    Account(&'static str),
    /// E7: `{"status":"failure","error":{"code","message","field"},"message"}`.
    SavedOnly,
    /// E8: `{"message","ok":false}`.
    NotFound,
    /// E3: the client's dialect alone.
    Plain,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    pub status: u16,
    /// Metric and record label.
    pub label: &'static str,
    pub openai_type: &'static str,
    pub anthropic_type: &'static str,
    pub envelope: Envelope,
    /// Raised by the gateway itself while trying a target: fallback stops here, and the answer says so in
    /// `x-gateway-gateway-exception`.
    pub exception: bool,
}

macro_rules! faults {
    ($($kind:ident: $status:literal $label:literal $openai:literal $anthropic:literal $envelope:expr, $exception:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultKind { $($kind),+ }

        impl FaultKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            pub const fn row(self) -> FaultRow {
                match self {$(
                    Self::$kind => FaultRow {
                        status: $status, label: $label, openai_type: $openai, anthropic_type: $anthropic,
                        envelope: $envelope, exception: $exception,
                    },
                )+}
            }
        }
    };
}

use Envelope::{Account, Failure, NotFound, Plain, SavedOnly};

faults! {
    Unauthenticated: 401 "unauthenticated" "invalid_request_error" "authentication_error" Account("AB05"), false;
    SignInRefused:   401 "sign_in_refused" "authentication_error" "authentication_error" Plain, false;
    Forbidden:       403 "forbidden" "permission_error" "permission_error" Account("AB03"), false;
    Flooded:         429 "flooded" "rate_limit_error" "rate_limit_error" Account("AB06"), false;
    BadPath:         400 "bad_path" "invalid_request_error" "invalid_request_error" Failure, false;
    BadHeader:       400 "bad_header" "invalid_request_error" "invalid_request_error" Failure, false;
    BadBody:         400 "bad_body" "invalid_request_error" "invalid_request_error" Failure, false;
    BadConfig:       400 "bad_config" "invalid_request_error" "invalid_request_error" Failure, false;
    NoProvider:      400 "no_provider" "invalid_request_error" "invalid_request_error" Failure, false;
    BadHost:         400 "bad_custom_host" "invalid_request_error" "invalid_request_error" Failure, false;
    Refused:         400 "not_translatable" "invalid_request_error" "invalid_request_error" Failure, false;
    InlineBlocked:   400 "inline_blocked" "invalid_request_error" "invalid_request_error" SavedOnly, false;
    UnknownRoute:    404 "unknown_route" "invalid_request_error" "not_found_error" NotFound, false;
    UnknownPrompt:   404 "unknown_prompt" "invalid_request_error" "not_found_error" Failure, false;
    UnknownObject:   404 "unknown_object" "invalid_request_error" "not_found_error" Failure, false;
    SlowClient:      408 "slow_client" "timeout_error" "timeout_error" Plain, false;
    TimedOut:        408 "request_timeout" "timeout_error" "timeout_error" Plain, false;
    BudgetExhausted: 412 "budget_exhausted" "insufficient_quota" "permission_error" Plain, false;
    TooLarge:        413 "too_large" "invalid_request_error" "request_too_large" Failure, false;
    RateLimited:     429 "rate_limited" "rate_limit_error" "rate_limit_error" Plain, false;
    ClientGone:      499 "client_gone" "server_error" "api_error" Plain, false;
    Internal:        500 "internal" "server_error" "api_error" Failure, true;
    Unsupported:     500 "unsupported" "invalid_request_error" "invalid_request_error" Failure, true;
    SignInFailed:    502 "sign_in_failed" "server_error" "api_error" Plain, false;
    UpstreamBroken:  502 "upstream_broken" "server_error" "api_error" Plain, false;
    Unreachable:     503 "upstream_unreachable" "server_error" "api_error" Plain, false;
    Busy:            503 "busy" "server_error" "overloaded_error" Failure, false;
    SecretAway:      503 "secret_away" "server_error" "api_error" Plain, false;
    LimitsAway:      503 "limits_away" "server_error" "overloaded_error" Plain, false;
    UpstreamSilent:  504 "upstream_silent" "server_error" "timeout_error" Plain, false;
}

/// An error on its way to a client. `message` never holds a secret: it names fields and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<FaultDetail>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FaultDetail {
    kind: FaultKind,
    message: Cow<'static, str>,
    param: Option<String>,
    code: Option<&'static str>,
    errors: Vec<String>,
    retry_after_ms: Option<u64>,
    begins_anew: Option<Timestamp>,
    standings: RateLimitStandings,
}

/// Google's canonical name of a status (<https://google.aip.dev/193>).
fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        412 => "FAILED_PRECONDITION",
        413 | 429 => "RESOURCE_EXHAUSTED",
        408 | 504 => "DEADLINE_EXCEEDED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        502 | 503 => "UNAVAILABLE",
        400..=498 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

/// How Google's APIs name a field that is at fault.
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";

/// Bytes of a message: readers of JSON quote what they found in the wrong place, which may be a whole image.
const MAX_MESSAGE: usize = 1000;

fn shortened(message: Cow<'static, str>) -> Cow<'static, str> {
    if message.len() <= MAX_MESSAGE {
        return message;
    }
    // What is wrong stands at either end, what was quoted between them.
    let whole = |at: &usize| message.is_char_boundary(*at);
    let head = (0..MAX_MESSAGE - 200).rfind(whole).unwrap_or_default();
    let tail = (message.len() - 190..message.len()).find(whole).unwrap_or(message.len());
    Cow::Owned([&message[..head], " … ", &message[tail..]].concat())
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = shortened(message.into());
        let (param, code, errors, retry_after_ms) = (None, None, Vec::new(), None);
        let (begins_anew, standings) = (None, RateLimitStandings::default());
        Self(Box::new(FaultDetail { kind, message, param, code, errors, retry_after_ms, begins_anew, standings }))
    }

    /// The field or header that is at fault.
    #[must_use]
    pub fn on(mut self, param: impl Into<String>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Every problem of a config at once: `path: a,b, message: m`.
    #[must_use]
    pub fn listing(mut self, errors: Vec<String>) -> Self {
        self.0.errors = errors;
        self
    }

    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.0.retry_after_ms = Some(ms);
        self
    }

    /// When what is used up begins anew: for whoever waits for as long as that, which no client does.
    #[must_use]
    pub fn begins_anew(mut self, at: Timestamp) -> Self {
        self.0.begins_anew = Some(at);
        self
    }

    /// How the limit stands that refused.
    #[must_use]
    pub fn standings(mut self, standings: RateLimitStandings) -> Self {
        self.0.standings = standings;
        self
    }

    pub fn limits(&self) -> RateLimitStandings {
        self.0.standings
    }

    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    pub fn status(&self) -> u16 {
        self.0.kind.row().status
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn param(&self) -> Option<&str> {
        self.0.param.as_deref()
    }

    pub fn retry_after(&self) -> Option<u64> {
        self.0.retry_after_ms
    }

    pub fn anew_at(&self) -> Option<Timestamp> {
        self.0.begins_anew
    }

    /// The error object as `dialect` spells it.
    pub fn error_object(&self, dialect: Dialect) -> Value {
        let row = self.0.kind.row();
        match dialect {
            Dialect::OpenAi => json!({
                "message": self.0.message, "type": row.openai_type, "param": self.0.param, "code": self.0.code,
            }),
            Dialect::Anthropic => {
                let mut error = json!({ "type": row.anthropic_type, "message": self.0.message });
                // Where Anthropic's own SDKs look for what they can act on.
                if let Some(code) = self.0.code {
                    error["details"] = json!({ "error_code": code });
                }
                error
            }
            Dialect::Google => {
                let (status, message) = (google_status(row.status), &self.0.message);
                let mut error = json!({ "code": row.status, "message": message, "status": status });
                if let Some(field) = &self.0.param {
                    let violation = json!([{ "field": field, "description": message }]);
                    error["details"] = json!([{ "@type": BAD_REQUEST, "fieldViolations": violation }]);
                }
                error
            }
        }
    }

    /// The JSON body: the client's dialect first, then the documented envelope's keys beside it, so that
    /// an official SDK and a client of the documented shape both find what they look for.
    pub fn body(&self, dialect: Dialect) -> Vec<u8> {
        let row = self.0.kind.row();
        let mut body = Map::new();
        if dialect == Dialect::Anthropic {
            body.insert("type".into(), "error".into());
        }
        let mut error = self.error_object(dialect);
        if row.envelope == SavedOnly {
            error["code"] = json!(self.0.code);
            error["field"] = json!(self.0.param);
        }
        body.insert("error".into(), error);
        match row.envelope {
            Failure | SavedOnly => {
                // Google's SDKs take it for the status of the error.
                if dialect != Dialect::Google {
                    body.insert("status".into(), "failure".into());
                }
            }
            Account(code) => {
                body.insert("success".into(), false.into());
                body.insert("data".into(), json!({ "message": self.0.message, "errorCode": code }));
            }
            NotFound => {
                body.insert("message".into(), "Not Found".into());
                body.insert("ok".into(), false.into());
            }
            Plain => {}
        }
        // Where SDKs of APIs that pass through look for it, Amazon's and Cohere's among them.
        body.entry("message").or_insert_with(|| json!(self.0.message));
        if !self.0.errors.is_empty() {
            body.insert("errors".into(), json!(self.0.errors));
        }
        Value::Object(body).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(f: &Fault, d: Dialect) -> Value {
        serde_json::from_slice(&f.body(d)).unwrap_or_default()
    }

    #[test]
    fn both_readers_find_their_shape() {
        let f = Fault::new(FaultKind::BadBody, "n must be 1..128").on("n");
        assert_eq!(
            body(&f, Dialect::OpenAi),
            json!({"error": {"message": "n must be 1..128", "type": "invalid_request_error", "param": "n", "code": null},
                   "status": "failure", "message": "n must be 1..128"})
        );
        assert_eq!(body(&f, Dialect::Anthropic)["type"], "error");
        assert_eq!(
            body(&f, Dialect::Google),
            json!({"error": {"code": 400, "message": "n must be 1..128", "status": "INVALID_ARGUMENT", "details": [
                       {"@type": BAD_REQUEST, "fieldViolations": [{"field": "n", "description": "n must be 1..128"}]}]},
                   "message": "n must be 1..128"})
        );
        let f = Fault::new(FaultKind::Refused, "no threads").code("thread_unsupported_request");
        assert_eq!(
            body(&f, Dialect::Anthropic)["error"]["details"],
            json!({ "error_code": "thread_unsupported_request" })
        );
        let f = Fault::new(FaultKind::Forbidden, "no");
        assert_eq!(body(&f, Dialect::OpenAi)["data"]["errorCode"], "AB03");
    }

    #[test]
    fn what_is_quoted_does_not_make_a_message_long() {
        let quoted = format!("content[0] is no part: invalid type: string \"{}\", expected a map", "ä".repeat(1 << 20));
        let f = Fault::new(FaultKind::BadBody, quoted);
        assert!(f.message().len() <= MAX_MESSAGE, "{}", f.message().len());
        assert!(f.message().starts_with("content[0] is no part") && f.message().ends_with("expected a map"));
    }

    #[test]
    fn saved_only_names_code_and_field() {
        let f = Fault::new(FaultKind::InlineBlocked, "saved only").code("inline_config_blocked").on("x-gateway-config");
        let b = body(&f, Dialect::OpenAi);
        assert_eq!(
            (&b["error"]["code"], &b["error"]["field"]),
            (&json!("inline_config_blocked"), &json!("x-gateway-config"))
        );
    }

    #[test]
    fn labels_are_unique() {
        let mut labels: Vec<_> = FaultKind::ALL.iter().map(|k| k.row().label).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), FaultKind::ALL.len());
    }
}
