//! Clients of 2024-11-05: one GET opens a stream of events, whose first one says where messages are posted, and every
//! answer comes over that stream. A message goes the way of all messages, with its own sign-in, rights, limits and
//! record; only its answer goes elsewhere. Streams lie on this node alone, and belong to whoever opened them.

use super::call::McpTurn;
use super::downstream::McpDown;
use super::legacy_streams::{LegacyStream, OpenStream};
use super::request_head::{self, Posted};
use super::target::McpServed;
use super::watch::{LOOK, ListWatch, WatchedLists};
use super::{McpParts, McpStop, find_session, plain, read_message};
use crate::proxy::body::Permit;
use crate::proxy::client::{Client, ClientLeft};
use crate::proxy::record::PendingRecords;
use crate::proxy::request::Request;
use gateway_domain::resource::mcp::check_server_slug;
use gateway_mcp::session::McpSession;
use gateway_mcp::sse::McpEvent;
use gateway_mcp::{RpcBody, RpcMessage};
use http::{Method, Uri};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long is waited, once the stream has ended, for what is under way to be taken back.
const BRIEF: Duration = Duration::from_secs(2);
/// Silence after which the client hears that it is not forgotten.
const TICK: Duration = Duration::from_secs(15);
/// The member of the query by which a posted message names its stream.
const SESSION: &str = "sessionId=";

/// What such a client wants of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LegacyAsk {
    Stream,
    /// The client posts a message for the stream with this id.
    Message(Arc<str>),
}

/// Finds out whether a path is one of such clients, and puts that of the server in its place.
pub(crate) fn take(head: &mut RequestHeader) -> Option<LegacyAsk> {
    let (asked, path) = asked(&head.method, &head.uri)?;
    head.set_uri(path.parse().ok()?);
    Some(asked)
}

fn asked(method: &Method, uri: &Uri) -> Option<(LegacyAsk, String)> {
    let (slug, last) = uri.path().strip_prefix('/')?.split_once('/')?;
    check_server_slug(slug).ok()?;
    let asked = match (method, last) {
        (&Method::GET, "sse") => LegacyAsk::Stream,
        (&Method::POST, "messages") => {
            let named = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(SESSION));
            LegacyAsk::Message(named.unwrap_or_default().into())
        }
        _ => return None,
    };
    Some((asked, format!("/{slug}/mcp")))
}

/// What answers one request of such a client, beside its session of Pingora's.
pub(super) struct LegacyServing<'a> {
    pub(super) parts: McpParts<'a>,
    pub(super) request: &'a mut Request,
    pub(super) served: &'a mut McpServed,
    pub(super) records: &'a mut PendingRecords,
}

/// What a turn is made of.
struct TurnParts<'a> {
    parts: McpParts<'a>,
    request: &'a Request,
    served: &'a McpServed,
    records: &'a mut PendingRecords,
}

impl<'a> TurnParts<'a> {
    fn turn<'s>(self, posted: &'a Posted, down: McpDown<'a, 's>, session: Option<McpSession>) -> McpTurn<'a, 's> {
        let Self { parts, request, served, records } = self;
        McpTurn {
            parts,
            request,
            served,
            target: &served.targets[0],
            called: &served.server,
            posted,
            records,
            down,
            session,
            issued: None,
            has_places: false,
        }
    }
}

impl LegacyServing<'_> {
    pub(super) async fn stream(self, session: &mut Session) -> Result<(), McpStop> {
        let Self { parts, request, served, records } = self;
        if let Err(status) = request_head::stream(session) {
            return plain(parts, session, request, status).await;
        }
        let streams = &parts.state.legacy;
        let Some(stream) = streams.open(&served.principal, &served.server.id.to_string()) else {
            return plain(parts, session, request, 503).await;
        };
        let open = OpenStream { streams, stream: stream.clone() };
        let posted = Posted::of_stream(None);
        let mut down = McpDown::new(Client::new(session), parts, request, &posted);
        let watch = ListWatch::new(parts, request, served);
        let done = read(parts, &stream, &mut down, (watch, place(parts, served))).await;
        drop(open);
        let until = Instant::now() + BRIEF;
        while stream.under_way() > 0 && Instant::now() < until {
            pingora_timeout::sleep(Duration::from_millis(10)).await;
        }
        // The server's own session ends with the stream, as the client has no other way to say so.
        let named = stream.session.lock().take();
        let found = named.as_deref().and_then(|id| McpSession::open(id, parts.state));
        if let (Some(named), Some(found)) = (named, found) {
            served.keep_session(&found);
            let posted = Posted::of_stream(Some(named));
            let mut down = McpDown::new(Client::new(session), parts, request, &posted);
            down.answer_elsewhere(stream);
            let turn = TurnParts { parts, request, served, records }.turn(&posted, down, Some(found));
            end(turn).await;
        }
        done.map_err(|left| McpStop::Gone(left.into_error()))
    }

    pub(super) async fn message(self, session: &mut Session, id: &str, held: &mut Permit) -> Result<(), McpStop> {
        let Self { parts, request, served, records } = self;
        if let Err(status) = request_head::content(session) {
            return plain(parts, session, request, status).await;
        }
        let found = parts.state.legacy.find(id, &served.principal, &served.server.id.to_string());
        let Some(stream) = found else { return plain(parts, session, request, 404).await };
        let Some(_under_way) = stream.enter() else { return plain(parts, session, request, 503).await };
        let bytes = read_message(parts, session, held).await?;
        let Some(begins) = begins(&bytes) else { return plain(parts, session, request, 400).await };
        request.ask.content.bytes = bytes;
        let posted = Posted::of_stream(stream.session.lock().clone()).traced_by(session);
        let found = find_session(parts, served, &posted);
        // The connection is not used again: whoever sends the next message must not wait until this one is answered.
        session.downstream_session.set_keepalive(None);
        let mut down = McpDown::new(Client::new(session), parts, request, &posted);
        down.empty(202).await.map_err(|left| McpStop::Gone(left.into_error()))?;
        let Ok(found) = found else {
            stream.end();
            return Ok(());
        };
        if let Some(found) = &found {
            served.keep_session(found);
        }
        down.answer_elsewhere(stream.clone());
        let mut turn = TurnParts { parts, request, served, records }.turn(&posted, down, found);
        // That the stream has ended is the end of what it was told, and no fault of this exchange.
        let answered = Box::pin(turn.post()).await;
        if answered.is_ok() && begins {
            let _ = Box::pin(turn.listen()).await;
        }
        Ok(())
    }
}

async fn end(mut turn: McpTurn<'_, '_>) {
    let _ = Box::pin(turn.end_session()).await;
}

/// Whether a message says that the client is ready; `None`: it is no message.
fn begins(bytes: &[u8]) -> Option<bool> {
    match RpcBody::parse(bytes) {
        Ok(RpcBody::One(text)) => RpcMessage::parse(text).map(|message| is_ready(&message)).ok(),
        Ok(RpcBody::Batch(_)) | Err(_) => None,
    }
}

/// Whether the message says that the client is ready: from then on it hears what the server says by itself.
fn is_ready(message: &RpcMessage<'_>) -> bool {
    matches!(message, RpcMessage::Notification { method, .. } if method == "notifications/initialized")
}

/// Where messages of the stream are posted: below the place where clients reach the gateway, if somebody said which
/// that is.
fn place(parts: McpParts<'_>, served: &McpServed) -> String {
    let public = parts.state.settings.public_url.as_deref().unwrap_or_default();
    let rest = public.split_once("://").map_or("", |(_, rest)| rest);
    let below = rest.find('/').map_or("", |at| &rest[at..]);
    format!("{below}/{}/messages?{SESSION}", served.server.slug)
}

async fn read(
    parts: McpParts<'_>,
    stream: &LegacyStream,
    down: &mut McpDown<'_, '_>,
    (mut watch, place): (ListWatch<'_>, String),
) -> Result<(), ClientLeft> {
    let data = format!("{place}{}", stream.id);
    down.event(&McpEvent { event: "endpoint".to_owned(), data, ..McpEvent::default() }).await?;
    let (began, mut quiet) = (Instant::now(), Instant::now());
    loop {
        match down.client.during(None, pingora_timeout::timeout(LOOK, stream.mail.next())).await? {
            Err(_) => {}
            Ok(Ok(Some(event))) => {
                down.client.piece(Some(event), false).await?;
                quiet = Instant::now();
            }
            Ok(Ok(None) | Err(_)) => break,
        }
        let lasts = began.elapsed() < parts.state.settings.session_ttl && !parts.state.is_draining();
        if !lasts || matches!(watch.look(), WatchedLists::Over) {
            break;
        }
        if quiet.elapsed() >= TICK {
            down.comment_if_begun().await?;
            quiet = Instant::now();
        }
    }
    down.finish().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_such_clients_lead_to_the_server() {
        let of = |method: Method, uri: &str| asked(&method, &uri.parse().expect("a path"));
        assert_eq!(of(Method::GET, "/files/sse"), Some((LegacyAsk::Stream, "/files/mcp".to_owned())));
        let message = LegacyAsk::Message("a1".into());
        assert_eq!(of(Method::POST, "/files/messages?x=1&sessionId=a1"), Some((message, "/files/mcp".to_owned())));
        for (method, uri) in [
            (Method::POST, "/v1/messages"),
            (Method::POST, "/v1/x/messages"),
            (Method::POST, "/files/sse"),
            (Method::GET, "/files/messages"),
            (Method::GET, "/files/sse/"),
            (Method::GET, "/a/b/sse"),
            (Method::GET, "/sse"),
            (Method::GET, "/health/sse"),
        ] {
            assert_eq!(of(method, uri), None, "{uri}");
        }
    }
}
