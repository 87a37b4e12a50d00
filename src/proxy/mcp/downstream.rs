//! The way to the client: one JSON message, or events as they come and a last one. Once a stream has begun everything
//! is told in it.

use super::McpParts;
use super::SESSION;
use super::legacy_streams::LegacyStream;
use super::request_head::Posted;
use crate::proxy::body::Permit;
use crate::proxy::client::{COMMENT, Client, ClientLeft, settle_unread_body};
use crate::proxy::deliver::{own_head, refusal};
use crate::proxy::request::Request;
use bytes::Bytes;
use gateway_domain::{Dialect, Fault};
use gateway_mcp::sse::{self, McpEvent};
use gateway_mcp::{McpVersion, RpcError, RpcId};
use http::{HeaderName, HeaderValue, header};
use pingora::http::ResponseHeader;
use std::sync::Arc;

/// A message on its way to the client, as the last one of its request.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct LastMessage {
    pub(in crate::proxy) status: u16,
    pub(in crate::proxy) body: String,
    /// A limit refused: its headers go along.
    pub(in crate::proxy) fault: Option<Fault>,
    /// The status of the record, where it is another.
    pub(in crate::proxy) recorded: Option<u16>,
    /// What the record calls a failure.
    pub(in crate::proxy) label: Option<&'static str>,
    /// How the client may come again.
    pub(in crate::proxy) challenge: Option<HeaderValue>,
    /// There is no account to call with: nobody was called.
    pub(in crate::proxy) is_unconnected: bool,
    /// There is none: the answer comes on the stream that the client opens next.
    pub(in crate::proxy) is_elsewhere: bool,
    /// What of an upstream it is made of counts with all that is held until it is sent.
    pub(in crate::proxy) held: Option<Arc<Permit>>,
}

impl LastMessage {
    pub(in crate::proxy) const fn ok(body: String) -> Self {
        Self {
            status: 200,
            body,
            fault: None,
            recorded: None,
            label: None,
            challenge: None,
            is_unconnected: false,
            is_elsewhere: false,
            held: None,
        }
    }

    pub(in crate::proxy) fn elsewhere() -> Self {
        Self { is_elsewhere: true, ..Self::ok(String::new()) }
    }

    pub(in crate::proxy) fn error(error: &RpcError, id: Option<&RpcId>) -> Self {
        Self { status: error.status, label: Some("mcp_error"), ..Self::ok(error.body(id)) }
    }
}

pub(in crate::proxy) struct McpDown<'a, 's> {
    pub(in crate::proxy) client: Client<'s>,
    parts: McpParts<'a>,
    request: &'a Request,
    pub(in crate::proxy) takes_json: bool,
    pub(in crate::proxy) takes_events: bool,
    /// Issued with this answer.
    pub(in crate::proxy) session: Option<String>,
    has_begun: bool,
    pub(in crate::proxy) bytes: u64,
    /// Where the client hears what is said, if not here.
    elsewhere: Option<Arc<LegacyStream>>,
}

impl<'a, 's> McpDown<'a, 's> {
    pub(in crate::proxy) fn new(
        client: Client<'s>,
        parts: McpParts<'a>,
        request: &'a Request,
        posted: &Posted,
    ) -> Self {
        let (takes_json, takes_events) = (posted.takes_json, posted.takes_events);
        let (session, has_begun, bytes, elsewhere) = (None, false, 0, None);
        Self { client, parts, request, takes_json, takes_events, session, has_begun, bytes, elsewhere }
    }

    /// The client has its answer here: what is said from now on goes down its stream.
    pub(in crate::proxy) fn answer_elsewhere(&mut self, stream: Arc<LegacyStream>) {
        self.client.answer_elsewhere(stream.over());
        (self.has_begun, self.elsewhere) = (false, Some(stream));
    }

    /// The version that an `initialize` is answered with.
    pub(in crate::proxy) fn negotiated(&self, asked: &str) -> McpVersion {
        let oldest = McpVersion::V2024_11_05;
        if self.elsewhere.is_some() && asked == oldest.name() { oldest } else { McpVersion::negotiated(asked) }
    }

    pub(in crate::proxy) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn head(&self, status: u16, kind: &'static str) -> Result<Box<ResponseHeader>, ClientLeft> {
        let mut head = own_head(&self.parts.calls.delivery.names, status, self.request);
        head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static(kind)).map_err(ClientLeft::Gone)?;
        if let Some(id) = self.session.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
            head.insert_header(SESSION, id).map_err(ClientLeft::Gone)?;
        }
        Ok(head)
    }

    /// Begins the stream of events to the client: its head goes down.
    pub(in crate::proxy) async fn begin(&mut self) -> Result<(), ClientLeft> {
        if self.has_begun || self.elsewhere.is_some() {
            return Ok(());
        }
        let mut head = self.head(200, "text/event-stream")?;
        let steady = HeaderValue::from_static("no-cache, no-transform");
        head.insert_header(header::CACHE_CONTROL, steady).map_err(ClientLeft::Gone)?;
        let unbuffered = HeaderName::from_static("x-accel-buffering");
        head.insert_header(unbuffered, HeaderValue::from_static("no")).map_err(ClientLeft::Gone)?;
        self.client.begin_answer(self.parts.calls.delivery.settings.idle_timeout);
        self.has_begun = true;
        self.client.begin(head, None, false).await
    }

    pub(in crate::proxy) async fn event(&mut self, event: &McpEvent) -> Result<(), ClientLeft> {
        if let Some(stream) = &self.elsewhere {
            if !event.data.is_empty() {
                stream.push(&event.data);
            }
            return Ok(());
        }
        self.begin().await?;
        let text = sse::write(event);
        self.bytes += text.len() as u64;
        self.client.piece(Some(Bytes::from(text)), false).await
    }

    /// A word for whoever closes connections that say nothing.
    pub(in crate::proxy) async fn comment_if_begun(&mut self) -> Result<(), ClientLeft> {
        if self.has_begun { self.client.piece(Some(COMMENT), false).await } else { Ok(()) }
    }

    pub(in crate::proxy) async fn finish(&mut self) -> Result<(), ClientLeft> {
        if self.elsewhere.is_some() {
            return Ok(());
        }
        self.client.piece(None, true).await
    }

    /// The answer, in the form that the client takes.
    pub(in crate::proxy) async fn last(&mut self, message: LastMessage) -> Result<(), ClientLeft> {
        if message.is_elsewhere {
            return self.finish().await;
        }
        if let Some(stream) = &self.elsewhere {
            if let Some(issued) = self.session.take() {
                *stream.session.lock() = Some(issued);
            }
            stream.push(&message.body);
            if message.status == 404 {
                stream.end();
            }
            return Ok(());
        }
        if self.has_begun || (!self.takes_json && message.status == 200) {
            self.begin().await?;
            let text = sse::message(&message.body);
            self.bytes += text.len() as u64;
            return self.client.piece(Some(Bytes::from(text)), true).await;
        }
        let mut head = self.head(message.status, "application/json")?;
        if let Some(fault) = &message.fault {
            let names = &self.parts.calls.delivery.names;
            head = refusal(names, fault, Dialect::OpenAi, Some(self.request)).head;
        }
        if let Some(challenge) = message.challenge {
            head.insert_header(header::WWW_AUTHENTICATE, challenge).map_err(ClientLeft::Gone)?;
        }
        self.whole(head, message.body.into()).await
    }

    pub(in crate::proxy) async fn error(&mut self, error: &RpcError, id: Option<&RpcId>) -> Result<(), ClientLeft> {
        if let Some(stream) = self.elsewhere.as_ref().filter(|_| id.is_none()) {
            // It answers nothing that the client asked; a session that is lost can only be begun anew.
            if error.status == 404 {
                stream.end();
            }
            return Ok(());
        }
        self.last(LastMessage::error(error, id)).await
    }

    /// An answer without a body.
    pub(in crate::proxy) async fn empty(&mut self, status: u16) -> Result<(), ClientLeft> {
        if self.elsewhere.is_some() {
            return Ok(());
        }
        let head = own_head(&self.parts.calls.delivery.names, status, self.request);
        self.whole(head, Bytes::new()).await
    }

    async fn whole(&mut self, head: Box<ResponseHeader>, body: Bytes) -> Result<(), ClientLeft> {
        settle_unread_body(self.client.session()).await;
        self.client.begin_answer(self.parts.calls.delivery.settings.idle_timeout);
        self.bytes += body.len() as u64;
        self.has_begun = true;
        self.client.whole(head, body).await
    }
}
