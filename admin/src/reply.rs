//! What a handler answers with: a document, a text, a file or nothing, and what its headers say of it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use gateway_domain::ports::Revision;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use uuid::Uuid;

/// What a handler answers with.
#[derive(Debug)]
pub(crate) struct AdminReply {
    status: StatusCode,
    content: ReplyContent,
    revision: Option<Revision>,
    /// Headers of this one answer, such as its entity tag.
    headers: Vec<(HeaderName, String)>,
}

/// An answer as it is kept for a client that asks again.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct KeptReply {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) revision: Option<Revision>,
}

#[derive(Debug)]
enum ReplyContent {
    Nothing,
    Json(Value),
    /// JSON under another name.
    Typed(&'static str, Value),
    Text(&'static str, Cow<'static, str>),
    File(FileReply),
    /// JSON that is made while it is sent.
    Streamed(Body),
}

/// Bytes that are fetched to be kept.
#[derive(Debug)]
struct FileReply {
    content_type: &'static str,
    name: String,
    body: Body,
}

impl AdminReply {
    pub(crate) const fn json(value: Value) -> Self {
        Self::of(ReplyContent::Json(value))
    }

    const fn of(content: ReplyContent) -> Self {
        Self { status: StatusCode::OK, content, revision: None, headers: Vec::new() }
    }

    /// JSON under a name of its own.
    pub(crate) const fn typed(content_type: &'static str, value: Value) -> Self {
        Self::of(ReplyContent::Typed(content_type, value))
    }

    pub(crate) const fn nothing(status: StatusCode) -> Self {
        Self::of(ReplyContent::Nothing).with_status(status)
    }

    /// Adds the entity tag of what the reply shows.
    pub(crate) fn tagged(mut self, tag: String) -> Self {
        self.headers.push((header::ETAG, tag));
        self
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// One more of them: each stands in a header of its own (RFC 6265, 3).
    pub(crate) fn cookie(self, cookie: String) -> Self {
        self.with_header(header::SET_COOKIE, cookie)
    }

    /// What stands for an answer that the client has.
    pub(crate) fn unchanged(tag: String) -> Self {
        Self::nothing(StatusCode::NOT_MODIFIED).tagged(tag)
    }

    /// The text of a document that is shown whole.
    pub(crate) fn shows(&self) -> Option<Vec<u8>> {
        match &self.content {
            ReplyContent::Json(value) if self.status == StatusCode::OK => serde_json::to_vec(value).ok(),
            _ => None,
        }
    }

    /// `None`: it is no document.
    pub(crate) fn kept(&self) -> Option<KeptReply> {
        match &self.content {
            ReplyContent::Json(body) => {
                Some(KeptReply { status: self.status.as_u16(), body: body.clone(), revision: self.revision })
            }
            _ => None,
        }
    }

    /// Given before, to the same request.
    pub(crate) fn once_more(kept: KeptReply) -> Self {
        let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
        let mut reply = Self { revision: kept.revision, ..Self::json(kept.body).with_status(status) };
        reply.headers.push((HeaderName::from_static("idempotency-replayed"), "true".to_owned()));
        reply
    }

    /// Adds the address of what was made.
    pub(crate) fn located(mut self, at: &str) -> Self {
        self.headers.push((header::LOCATION, at.to_owned()));
        self
    }

    pub(crate) fn text(content_type: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self::of(ReplyContent::Text(content_type, text.into()))
    }

    /// `name` holds nothing that would have to be written otherwise in a header.
    pub(crate) const fn file(content_type: &'static str, name: String, body: Body) -> Self {
        Self::of(ReplyContent::File(FileReply { content_type, name, body }))
    }

    /// JSON in pieces, each made when it is its turn.
    pub(crate) const fn streamed(body: Body) -> Self {
        Self::of(ReplyContent::Streamed(body))
    }

    pub(crate) const fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The revision that this write made, told in `x-config-revision`.
    pub(crate) const fn at(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }

    pub(crate) fn answer(self, request_id: Uuid) -> Response {
        let mut answer = match self.content {
            ReplyContent::Nothing => self.status.into_response(),
            ReplyContent::Json(value) => (self.status, axum::Json(value)).into_response(),
            ReplyContent::Typed(kind, value) => {
                (self.status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
            }
            ReplyContent::Text(kind, text) => (self.status, [(header::CONTENT_TYPE, kind)], text).into_response(),
            ReplyContent::Streamed(body) => {
                (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            ReplyContent::File(FileReply { content_type, name, body }) => {
                let named = format!("attachment; filename=\"{name}\"");
                let headers = [(header::CONTENT_TYPE, content_type.to_owned()), (header::CONTENT_DISPOSITION, named)];
                (self.status, headers, body).into_response()
            }
        };
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                answer.headers_mut().append(name, value);
            }
        }
        if let Some(revision) = self.revision {
            answer.headers_mut().insert(HeaderName::from_static("x-config-revision"), HeaderValue::from(revision));
        }
        stamp(answer, request_id)
    }
}

/// Answers hold keys and settings: no cache on the way may keep them.
pub(crate) fn stamp(mut answer: Response, request_id: Uuid) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Nothing here is to be shown inside a page of somebody else's.
    let unframed = HeaderValue::from_static("frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(unframed);
    if let Ok(id) = HeaderValue::try_from(request_id.to_string()) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    answer
}
