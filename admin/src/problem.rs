//! Every refusal of the Admin API as one value, in the one envelope that `docs/admin-api.md` shows.
//! Messages name fields and rules; what broke inside is logged, never shown.

use axum::response::{IntoResponse, Response};
use gateway_domain::config;
use gateway_domain::ports::StoreError;
use gateway_domain::resource::Invalid;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// `AB01` … `AB09`.
    pub code: &'static str,
    pub message: String,
    /// Every broken rule, when there may be several at once.
    pub errors: Vec<String>,
    /// What SCIM calls it.
    pub keyword: Option<&'static str>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), errors: Vec::new(), keyword: None }
    }

    /// Answers with the problem as JSON, under this request's id.
    pub(crate) fn answer(&self, request_id: Uuid) -> Response {
        let mut body = json!({
            "success": false,
            "data": {"message": self.message, "errorCode": self.code},
            "request_id": request_id,
        });
        if !self.errors.is_empty() {
            body["data"]["errors"] = json!(self.errors);
        }
        if self.code == "AB02" {
            // An unknown route is also told in another form, by `message` and `ok`; both forms live in one body.
            body["message"] = Value::from("Not Found");
            body["ok"] = Value::Bool(false);
        }
        let mut answer = (self.status, axum::Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

/// A field breaks a rule: `name must not be empty`.
pub(crate) fn bad(field: impl std::fmt::Display, rule: impl std::fmt::Display) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "AB01", format!("{field} {rule}"))
}

/// The request as a whole cannot be read.
pub(crate) fn unreadable(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "AB01", message)
}

pub(crate) fn too_large(limit: usize) -> Problem {
    let message = format!("the body must be at most {limit} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "AB01", message)
}

pub(crate) fn unauthenticated(message: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "AB05", message)
}

pub(crate) fn forbidden(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "AB03", message)
}

/// Does not exist, or belongs to another workspace: the two cannot be told apart.
pub(crate) fn missing(what: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "AB08", format!("{what} not found"))
}

pub(crate) fn unknown_route() -> Problem {
    let message = "no such route; what a provider has at such a path is reached below /v1/proxy";
    Problem::new(StatusCode::NOT_FOUND, "AB02", message)
}

/// No route of this version, where the contract has one.
pub(crate) fn not_built(method: &str, path: &str) -> Problem {
    let message = format!("{method} {path} is in the contract of this API and not in this version");
    Problem::new(StatusCode::NOT_IMPLEMENTED, "AB01", message)
}

/// This node lacks what it takes.
pub(crate) fn unavailable_here(message: &str) -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "AB01", message)
}

/// A call of a model, which this service does not make.
pub(crate) fn on_the_proxy_port() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "AB02", "this route is served on the proxy port")
}

pub(crate) fn wrong_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "AB01", "this route does not take this method")
}

/// Taken already, or still in use by what the message names.
pub(crate) fn conflict(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, "AB07", message)
}

/// Not in the state that the request asks for.
pub(crate) fn stale(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, "AB07", message)
}

/// Contradicts what the same client said before.
pub(crate) fn mismatched(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "AB01", message)
}

/// Something of ours failed; `why` is for the operator.
pub(crate) fn internal(why: impl std::fmt::Display) -> Problem {
    tracing::error!(%why, "an admin request failed");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "AB04", "internal error")
}

/// All problems of a config in one answer.
pub(crate) fn bad_config(problems: &[config::ConfigProblem]) -> Problem {
    let errors: Vec<String> = problems.iter().map(config::ConfigProblem::line).collect();
    Problem { errors: errors.clone(), ..bad("config", format_args!("is invalid: {}", errors.join("; "))) }
}

/// All problems of a guardrail in one answer, each by its check and parameter.
pub(crate) fn bad_guardrail(problems: &[gateway_guardrails::GuardrailProblem]) -> Problem {
    let errors: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Problem { errors: errors.clone(), ..bad("guardrail", format_args!("is invalid: {}", errors.join("; "))) }
}

/// A limit on requests is reached.
pub(crate) fn limited(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "AB04", message)
}

/// The gateway cannot do it now: the client may send the same request again a moment later.
pub(crate) fn busy(message: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "AB04", message)
}

impl From<Invalid> for Problem {
    fn from(rule: Invalid) -> Self {
        bad(rule.field, rule.rule)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(what) => {
                tracing::debug!(%what, "a write met a unique rule");
                conflict("one with this slug already exists")
            }
            StoreError::Unavailable(why) => {
                tracing::warn!(%why, "the store cannot be reached");
                let message = "the configuration store cannot be reached, try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "AB04", message)
            }
            StoreError::Broken(why) => internal(why),
        }
    }
}
