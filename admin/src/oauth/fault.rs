//! Why somebody gets nothing: in the words of OAuth (RFC 6749, 5.2) for clients, as a page for people. Nothing that was
//! sent is said again.

use super::page;
use crate::problem::Problem;
use crate::reply::AdminReply;
use http::{StatusCode, header};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OauthFault {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) told: String,
}

impl OauthFault {
    fn new(status: StatusCode, error: &'static str, told: impl Into<String>) -> Self {
        Self { status, error, told: told.into() }
    }

    pub(super) fn bad(error: &'static str, told: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, told)
    }

    pub(super) fn request(told: impl Into<String>) -> Self {
        Self::bad("invalid_request", told)
    }

    /// A code or a refresh token is refused; nobody is told why it is no good.
    pub(super) fn grant() -> Self {
        Self::bad("invalid_grant", "the code or token is not good, or not for this client")
    }

    pub(super) fn client() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_client", "there is no such client: it registers anew")
    }

    pub(super) fn forbidden(told: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "access_denied", told)
    }

    pub(super) fn too_long(most: usize) -> Self {
        let told = format!("the body must come whole and hold at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", told)
    }

    pub(super) fn too_many() -> Self {
        let told = "too many requests come from this address, try again in a minute";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable", told)
    }

    pub(super) fn busy(told: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", told)
    }

    /// A server elsewhere does not do its part.
    pub(super) fn bad_server(told: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "temporarily_unavailable", told)
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal error")
    }

    /// This installation signs nobody in by itself.
    pub(super) fn off() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "nobody signs in here")
    }

    pub(super) fn reply(&self, to_client: bool) -> AdminReply {
        let reply = if to_client {
            AdminReply::json(json!({"error": self.error, "error_description": self.told}))
        } else {
            page::trouble(&self.told)
        };
        let reply = reply.with_status(self.status);
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => reply.with_header(header::RETRY_AFTER, "60".to_owned()),
            StatusCode::SERVICE_UNAVAILABLE => reply.with_header(header::RETRY_AFTER, "1".to_owned()),
            StatusCode::UNAUTHORIZED => reply.with_header(header::WWW_AUTHENTICATE, "Bearer".to_owned()),
            _ => reply,
        }
    }
}

impl From<Problem> for OauthFault {
    fn from(problem: Problem) -> Self {
        match problem.status {
            StatusCode::SERVICE_UNAVAILABLE => Self::busy(problem.message),
            status if status.is_server_error() => Self::internal(),
            _ => Self::request(problem.message),
        }
    }
}

impl From<gateway_domain::ports::StoreError> for OauthFault {
    fn from(error: gateway_domain::ports::StoreError) -> Self {
        Problem::from(error).into()
    }
}
