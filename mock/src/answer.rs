//! An answer before it meets the wire: status, headers, and a body that is whole or a list of events.
//! Says nothing of framing, delays or faults.

use super::{cohere, responses};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockDialect {
    OpenAi,
    /// OpenAI's newer API; its errors differ inside streams only.
    Responses,
    Anthropic,
    Gemini,
    Cohere,
}

#[derive(Debug)]
pub(super) struct MockResponse {
    pub(super) status: u16,
    pub(super) dialect: MockDialect,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: MockBody,
}

#[derive(Debug)]
pub(super) enum MockBody {
    Whole(Vec<u8>),
    Stream(MockEvents),
}

/// The events of a stream, framed, by the part they play; faults cut between the parts.
#[derive(Debug, Default)]
pub(super) struct MockEvents {
    pub(super) opening: Vec<String>,
    pub(super) content: Vec<String>,
    pub(super) closing: Vec<String>,
    /// `[DONE]`, `message_stop`, or whatever else comes last.
    pub(super) end: String,
}

impl MockResponse {
    pub(super) fn json(dialect: MockDialect, body: &Value) -> Self {
        Self { status: 200, dialect, headers: Vec::new(), body: MockBody::Whole(body.to_string().into_bytes()) }
    }

    pub(super) fn stream(dialect: MockDialect, events: MockEvents) -> Self {
        Self { status: 200, dialect, headers: Vec::new(), body: MockBody::Stream(events) }
    }

    pub(super) fn error(dialect: MockDialect, status: u16, message: &str) -> Self {
        Self { status, ..Self::json(dialect, &error(dialect, status, message)) }
    }
}

/// The error body as the provider spells it.
pub(super) fn error(dialect: MockDialect, status: u16, message: &str) -> Value {
    match dialect {
        MockDialect::OpenAi | MockDialect::Responses => {
            let (kind, code) = openai_error(status);
            json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
        }
        MockDialect::Anthropic => json!({
            "type": "error",
            "error": { "type": anthropic_error(status), "message": message },
            "request_id": "req_mock",
        }),
        MockDialect::Gemini => {
            json!({ "error": { "code": status, "message": message, "status": google_status(status) } })
        }
        MockDialect::Cohere => json!({ "id": "mock", "message": message }),
    }
}

/// An error inside a stream, framed, behind so many events.
pub(super) fn error_event(dialect: MockDialect, behind: usize) -> String {
    let message = "the mock failed as it was told to";
    let body = error(dialect, if dialect == MockDialect::Anthropic { 529 } else { 500 }, message);
    match dialect {
        MockDialect::Responses => {
            responses::event("error", behind, json!({ "code": "server_error", "message": message, "param": null }))
        }
        MockDialect::OpenAi | MockDialect::Gemini => format!("data: {body}\n\n"),
        MockDialect::Anthropic => format!("event: error\ndata: {body}\n\n"),
        // It has no event for errors: the last one says that the answer failed.
        MockDialect::Cohere => {
            cohere::event("message-end", json!({ "delta": { "finish_reason": "ERROR", "error": message } }))
        }
    }
}

/// Google's canonical name of a status (<https://google.aip.dev/193>).
fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

fn openai_error(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}

fn anthropic_error(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
