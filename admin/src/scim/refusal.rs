//! Refusals in the protocol's own form (RFC 7644, 3.12): a status, a keyword where there is one, and a sentence.

use crate::problem::{Problem, bad, conflict, unreadable};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

pub(crate) const MEDIA_TYPE: &str = "application/scim+json";

pub(super) const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// What the Admin API calls a problem, as the protocol tells it.
pub(crate) fn answer(problem: &Problem) -> Response {
    let mut body = json!({
        "schemas": [ERROR],
        "status": problem.status.as_u16().to_string(),
        "detail": problem.message,
    });
    if let Some(keyword) = problem.keyword {
        body["scimType"] = Value::from(keyword);
    }
    let mut answer = (problem.status, axum::Json(body)).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if problem.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if problem.status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

impl Problem {
    pub(super) const fn keyed(mut self, keyword: &'static str) -> Self {
        self.keyword = Some(keyword);
        self
    }
}

pub(super) fn invalid_filter(why: impl std::fmt::Display) -> Problem {
    bad("filter", why).keyed("invalidFilter")
}

pub(super) fn invalid_path(path: &str, why: &str) -> Problem {
    const MOST: usize = 80;
    let shown: String = path.chars().take(MOST).collect();
    bad(format_args!("path `{shown}`"), why).keyed("invalidPath")
}

pub(super) fn invalid_value(field: impl std::fmt::Display, rule: impl std::fmt::Display) -> Problem {
    bad(field, rule).keyed("invalidValue")
}

pub(super) fn invalid_syntax(message: impl Into<String>) -> Problem {
    unreadable(message).keyed("invalidSyntax")
}

/// A list would have to look at more than is looked at for one question.
pub(super) fn too_many(most: usize) -> Problem {
    unreadable(format!("filter would have to look at more than {most} resources; compare an attribute with `eq`"))
        .keyed("tooMany")
}

pub(super) fn taken(field: &str) -> Problem {
    conflict(format!("{field} is that of another one already")).keyed("uniqueness")
}

/// The resource is not in the version that was named.
pub(super) fn stale() -> Problem {
    let message = "If-Match names another version than the one that is stored";
    Problem { status: StatusCode::PRECONDITION_FAILED, ..conflict(message) }
}
