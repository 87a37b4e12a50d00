//! What is kept of a call's messages for its record: references to bytes that were there anyway, and heads with
//! their secrets taken out, of those calls that the policy of capture names.
//! Knows nothing of what becomes of it: the writer joins, masks and stores.

use crate::proxy::body::{BufferBudget, Permit};
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::head::HeadPlan;
use crate::proxy::headers::suffix_of;
use crate::proxy::request::Request;
use crate::proxy::settings::ProxySettings;
use bytes::Bytes;
use gateway_domain::Secret;
use gateway_domain::record::{Bodies, BodyLease, LogRecord, RecordedBody, RecordedMessage, mask};
use gateway_providers::BodyPieces;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::proxy::Session;
use std::sync::Arc;

/// Taken from the budget at a time while a stream goes past.
const GRANT: usize = 16 * 1024;

/// What went to the provider.
#[derive(Debug)]
pub(crate) struct SentRequest {
    /// `https` or `http`.
    pub(crate) scheme: &'static str,
    pub(crate) head: HeadPlan,
    pub(crate) body: BodyPieces,
}

/// The two sides of an answer as they go past. Without a [`CapturePolicy`] it takes nothing.
#[derive(Debug, Default)]
pub(crate) struct BodyCapture {
    on: bool,
    received: RecordedBody,
    sent: RecordedBody,
    permit: Option<Permit>,
    granted: usize,
}

impl BodyCapture {
    pub(crate) fn new(policy: CapturePolicy, budget: &Arc<BufferBudget>) -> Self {
        let on = policy != CapturePolicy::Nothing;
        Self { on, permit: on.then(|| Permit::new(budget)), ..Self::default() }
    }

    /// An answer that went past without being looked at.
    pub(crate) fn unseen(length: u64) -> Self {
        Self { sent: RecordedBody::unseen(length), ..Self::default() }
    }

    /// Keeps a piece that came from the provider.
    pub(crate) fn received(&mut self, piece: &Bytes) {
        if self.grants(piece) {
            self.received.add(piece);
        }
    }

    /// Keeps a piece that went to the client.
    pub(crate) fn sent(&mut self, piece: &Bytes) {
        if self.grants(piece) {
            self.sent.add(piece);
        }
    }

    /// Keeps a body that went to the client, and makes it only when it is wanted.
    pub(crate) fn sent_if_wanted(&mut self, body: impl FnOnce() -> Bytes) {
        if self.on {
            self.sent(&body());
        }
    }

    /// What came from the provider so far, in one piece.
    pub(crate) fn take(self) -> Bytes {
        self.received.text().unwrap_or_default().into()
    }

    /// Gives up keeping where the budget has no room to spare, so that it is never filled by copies for records.
    fn grants(&mut self, piece: &Bytes) -> bool {
        if !self.on {
            return false;
        }
        let kept = self.received.kept() + self.sent.kept() + piece.len().min(RecordedBody::MOST);
        if kept > self.granted {
            let wanted = kept.next_multiple_of(GRANT);
            self.on = self.permit.as_mut().is_some_and(|p| p.spare(wanted));
            self.granted = wanted;
        }
        self.on
    }
}

/// A whole answer as the provider sent it.
pub(crate) struct Received<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
}

/// Everything that a record may keep of its call, once the call is over.
pub(crate) struct RecordBodies<'a> {
    pub(crate) settings: &'a ProxySettings,
    pub(crate) budget: &'a Arc<BufferBudget>,
    pub(crate) session: &'a Session,
    pub(crate) request: &'a Request,
    pub(crate) sent: Option<&'a SentRequest>,
    /// The request's body where a guardrail changed it: what it took out is not kept.
    pub(crate) rewritten: Option<&'a Bytes>,
}

impl RecordBodies<'_> {
    /// Puts the bodies into the record of the target whose answer the client got, or would have got.
    pub(crate) fn answered(&self, record: &mut LogRecord, capture: BodyCapture) {
        if !self.request.caller.keep.wants(record) {
            return;
        }
        let written = self.session.response_written();
        let status = written.map_or(record.status, |h| h.status.as_u16());
        let headers = written.map(|h| self.headers(&h.headers)).unwrap_or_default();
        let theirs = self.sent.filter(|_| capture.received.length() > 0).map(|_| {
            let own = |name: &str| suffix_of(name, &self.settings.header_alias).is_some();
            let headers = headers.iter().filter(|(n, _)| !own(n)).cloned().collect();
            RecordedMessage { status, headers, body: capture.received, ..RecordedMessage::default() }
        });
        let response = RecordedMessage { status, headers, body: capture.sent, ..RecordedMessage::default() };
        record.bodies = self.keep(theirs, Some(response), capture.permit);
    }

    /// Puts the bodies into the record of a target that was left for the next one.
    pub(crate) fn left(&self, record: &mut LogRecord, received: Option<Received<'_>>) {
        if !self.request.caller.keep.wants(record) {
            return;
        }
        let received = received.map(|answer| RecordedMessage {
            status: record.status,
            headers: self.headers(answer.headers),
            body: RecordedBody::of(answer.body),
            ..RecordedMessage::default()
        });
        record.bodies = self.keep(received, None, None);
    }

    fn keep(
        &self,
        received: Option<RecordedMessage>,
        response: Option<RecordedMessage>,
        permit: Option<Permit>,
    ) -> Option<Box<Bodies>> {
        let request = self.request;
        let client = &self.session.req_header().headers;
        let mut bodies = Box::new(Bodies {
            request: RecordedMessage {
                method: request.ask.method.as_str().to_owned(),
                url: mask::url(&request.ask.route.path, request.ask.route.query.as_deref()),
                headers: self.headers(client),
                body: self.asked(),
                ..RecordedMessage::default()
            },
            received,
            response,
            ..Bodies::default()
        });
        bodies.secrets = secrets(client);
        bodies.sent = self.sent.map(|sent| self.forwarded(sent, &mut bodies.secrets));
        let mut permit = permit.unwrap_or_else(|| Permit::new(self.budget));
        permit.spare(bodies.kept()).then(|| {
            bodies.held = BodyLease::new(permit);
            bodies
        })
    }

    /// A relayed body went past unseen.
    fn asked(&self) -> RecordedBody {
        let content = &self.request.ask.content;
        if let Some(rewritten) = self.rewritten {
            return RecordedBody::of(rewritten);
        }
        if content.form.is_some() {
            return RecordedBody::unseen(content.bytes.len() as u64);
        }
        if content.unread && content.bytes.is_empty() {
            return RecordedBody::unseen(self.session.body_bytes_read() as u64);
        }
        RecordedBody::of(&content.bytes)
    }

    fn forwarded(&self, sent: &SentRequest, known: &mut Vec<Secret<String>>) -> RecordedMessage {
        let head = sent.head.request();
        known.extend(secrets(head.headers()));
        let host = head.get(&header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        let (path, query) =
            head.path().split_once('?').map_or((head.path(), None), |(path, query)| (path, Some(query)));
        let mut body = RecordedBody::default();
        match self.request.ask.content.form {
            // Files of clients are not kept.
            Some(_) => body = RecordedBody::unseen(sent.body.len() as u64),
            None => sent.body.iter().for_each(|piece| body.add(piece)),
        }
        RecordedMessage {
            method: head.method().as_str().to_owned(),
            url: format!("{}://{host}{}", sent.scheme, mask::url(path, query)),
            headers: self.headers(head.headers()),
            body,
            ..RecordedMessage::default()
        }
    }

    fn headers<'h>(&self, headers: impl IntoIterator<Item = HeaderLine<'h>>) -> Vec<(String, String)> {
        let settings = self.settings;
        let sensitive = self.request.ask.headers.sensitive.as_deref().unwrap_or_default();
        let shown = |(name, value): HeaderLine<'h>| {
            let own = suffix_of(name.as_str(), &settings.header_alias);
            let value = if value.is_sensitive() {
                "***".to_owned()
            } else {
                mask::header(name.as_str(), own, value.as_bytes(), &settings.log_headers, sensitive)
            };
            (name.as_str().to_owned(), value)
        };
        headers.into_iter().map(shown).collect()
    }
}

/// A header as maps and prepared heads give it.
type HeaderLine<'h> = (&'h HeaderName, &'h HeaderValue);

/// Texts of a head that must not stand in any body either: providers like to quote the key that they refuse.
pub(crate) fn secrets<'h>(headers: impl IntoIterator<Item = HeaderLine<'h>>) -> Vec<Secret<String>> {
    let secret = |(name, value): HeaderLine<'h>| {
        let name = name.as_str();
        let is_key = value.is_sensitive() || matches!(name, "authorization" | "cookie") || name.ends_with("api-key");
        let text = value.to_str().ok().filter(|_| is_key)?;
        let bare = text.split_once(' ').map_or(text, |(_, rest)| rest).trim();
        Some(Secret::new(bare.to_owned()))
    };
    headers.into_iter().filter_map(secret).collect()
}
