//! Control-plane requests that came in on the proxy port: handed to the admin service in this process, or to
//! another one's admin port. That service looks at the key, and only when it asks for the body is the body read:
//! whoever has no key has nothing of it in memory, and holds up neither other requests nor the process's end.

use super::admission_guard::AdmissionGuard;
use super::body::{self, BodyError, BodyLimits, BufferBudget, Incoming, Permit};
use super::client::{
    Client, ClientLeft, Upload, answer_early, frame, framing, linger, send_head, send_piece, settle_unread_body,
};
use super::client_address::client_ip;
use super::deliver::{ReplyNames, bare_head, passed_head, refusal};
use super::gateway_key::{credentials, known_key};
use super::settings::ProxySettings;
use crate::in_flight::InFlight;
use crate::issuers::Issuers;
use crate::runtime_config::ConfigHandle;
use crate::upstream::Dialer;
use crate::upstream::http1::{self, Framing, PeerTimeouts, RequestBody, RequestHead, Response};
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use gateway_admin::ClientAddr;
use gateway_domain::egress::BaseUrl;
use gateway_domain::keys::KeyHash;
use gateway_domain::{Dialect, Fault, FaultKind, token};
use gateway_providers::BodyPieces;
use http::{HeaderName, HeaderValue, header};
use pingora::proxy::Session;
use pingora::{Error, ErrorType};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tower::ServiceExt;
use uuid::Uuid;

/// Largest body of a control-plane request.
const MOST_REQUEST: usize = 8 << 20;

pub(crate) enum ControlPlane {
    /// It runs in this process, on its own runtime: the database never sits on a proxy worker.
    Here { router: axum::Router, runtime: Handle },
    /// Role `proxy` with `--admin-upstream`.
    There { base: Arc<BaseUrl>, dialer: Box<Dialer> },
    /// Role `proxy` without: 404.
    Nowhere,
}

/// What of the gateway it takes to hand a request over.
pub(crate) struct ControlParts<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) settings: &'a ProxySettings,
    pub(crate) live: &'a ConfigHandle,
    pub(crate) issuers: &'a Issuers,
    pub(crate) shield: &'a AdmissionGuard,
    pub(crate) names: &'a ReplyNames,
    pub(crate) budget: &'a Arc<BufferBudget>,
    pub(crate) flight: &'a InFlight,
}

pub(crate) async fn hand_over(parts: ControlParts<'_>, session: &mut Session) -> pingora::Result<bool> {
    let known = match standing(&parts, session) {
        Ok(known) => known,
        Err(fault) => return refuse(&parts, session, &fault).await,
    };
    // Counted as under way, and held to the number of those, is only what comes with a key.
    let _ticket = match known.map(|_| parts.flight.enter(parts.settings.max_connections)).transpose() {
        Ok(ticket) => ticket,
        Err(fault) => return refuse(&parts, session, &fault).await,
    };
    let mut held = Permit::new(parts.budget);
    held.charge(known.unwrap_or(Uuid::max()));
    match parts.plane {
        ControlPlane::Here { router, runtime } => here(&parts, session, (router.clone(), runtime), held).await,
        ControlPlane::There { base, dialer } => there(&parts, session, base, dialer).await,
        ControlPlane::Nowhere => {
            let fault = Fault::new(FaultKind::UnknownRoute, "Not Found: this node serves no control plane");
            refuse(&parts, session, &fault).await
        }
    }
}

/// The key that a control-plane request comes with, by its id, where it can be told without a signature; `Err` for a
/// token from where too many unknown ones come. Whether it may do anything the admin service says.
fn standing(parts: &ControlParts<'_>, session: &Session) -> Result<Option<Uuid>, Fault> {
    let (headers, aliases) = (&session.req_header().headers, &parts.settings.header_alias);
    let known = known_key(parts.live, headers, aliases);
    if known.is_none()
        && let Ok((text, _)) = credentials(headers, aliases)
        && token::looks_signed(text)
        && !parts.issuers.knows(&KeyHash::of(text))
        && parts.shield.is_flooded_by(client_ip(session, &parts.settings.trusted_proxies))
    {
        return Err(parts.shield.unknown_keys());
    }
    Ok(known)
}

async fn refuse(parts: &ControlParts<'_>, session: &mut Session, fault: &Fault) -> pingora::Result<bool> {
    if matches!(fault.kind(), FaultKind::Flooded | FaultKind::TooLarge | FaultKind::SlowClient | FaultKind::Busy) {
        session.downstream_session.set_keepalive(None);
    }
    answer_early(session, refusal(parts.names, fault, Dialect::OpenAi, None)).await.map(|()| true)
}

fn client(parts: &ControlParts<'_>, session: &Session) -> IpAddr {
    client_ip(session, &parts.settings.trusted_proxies).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

type AdminServed = Result<Result<axum::response::Response, Infallible>, JoinError>;

async fn here(
    parts: &ControlParts<'_>,
    session: &mut Session,
    (router, runtime): (axum::Router, &Handle),
    held: Permit,
) -> pingora::Result<bool> {
    let (body, feed) = lazy_body();
    let head = session.req_header();
    let mut request = http::Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    request.extensions_mut().insert(ClientAddr(client(parts, session)));
    if session.downstream_session.is_body_empty() {
        *request.body_mut() = Body::empty();
    }
    // Left to itself when the client leaves: a change under way is made, or not, by its own rules.
    let served = runtime.spawn(router.oneshot(request));
    let served = match attend(parts, session, served, feed, held).await {
        Ok(served) => served,
        Err(BodyError::Gone(e)) => return Err(e.into_down()),
        Err(BodyError::Refused(fault) | BodyError::Invalid(fault, _)) => return refuse(parts, session, &fault).await,
    };
    let Ok(Ok(response)) = served else {
        return Err(Error::explain(ErrorType::InternalError, "the control plane gave no answer"));
    };
    if response.status() == 401
        && let Some(fault) = parts.shield.count_unknown_key(client_ip(session, &parts.settings.trusted_proxies))
    {
        return refuse(parts, session, &fault).await;
    }
    send(parts, session, response).await
}

/// The other end of a body of which nothing is read until somebody asks for it.
struct LazyFeed {
    asked: oneshot::Receiver<()>,
    pieces: mpsc::Sender<AdminPiece>,
}

fn lazy_body() -> (Body, LazyFeed) {
    let (ask, asked) = oneshot::channel();
    let (feed, mut pieces) = mpsc::channel(1);
    let mut ask = Some(ask);
    let stream = poll_fn(move |cx| {
        if let Some(ask) = ask.take() {
            // Nobody listens when the request is over.
            let _ = ask.send(());
        }
        pieces.poll_recv(cx)
    });
    (Body::from_stream(stream), LazyFeed { asked, pieces: feed })
}

type AdminPiece = Result<Bytes, BrokenOff>;

#[derive(Debug, thiserror::Error)]
#[error("the client broke off its body")]
struct BrokenOff;

/// Waits for the answer, and hands over the body once it is asked for.
async fn attend(
    parts: &ControlParts<'_>,
    session: &mut Session,
    served: JoinHandle<Result<axum::response::Response, Infallible>>,
    LazyFeed { asked, pieces: feed }: LazyFeed,
    mut held: Permit,
) -> Result<AdminServed, BodyError> {
    let mut served = pin!(served);
    tokio::select! { biased;
        served = &mut served => return Ok(served),
        Ok(()) = asked => {}
    }
    let fed = async {
        let fed = hand_body(parts, session, &feed, &mut held).await;
        if fed.is_err() {
            // What came so far must not be taken for the whole.
            let _ = feed.send(Err(BrokenOff)).await;
        }
        drop(feed);
        fed
    };
    tokio::select! { biased;
        served = &mut served => return Ok(served),
        fed = fed => fed?,
    }
    // All is here: what is done with it is not left half done, whoever sent it.
    let _ticket = parts.flight.board();
    Ok(served.await)
}

async fn hand_body(
    parts: &ControlParts<'_>,
    session: &mut Session,
    feed: &mpsc::Sender<AdminPiece>,
    held: &mut Permit,
) -> Result<(), BodyError> {
    let session = &mut session.downstream_session;
    let limits = BodyLimits { most: most(parts), time: parts.settings.body_timeout };
    let mut incoming = Incoming::begin(session, limits).await?;
    while let Some(piece) = incoming.next(session, held).await? {
        if feed.send(Ok(piece)).await.is_err() || session.is_body_done() {
            break;
        }
    }
    Ok(())
}

fn most(parts: &ControlParts<'_>) -> usize {
    parts.settings.max_body.min(MOST_REQUEST)
}

/// Sends an answer down as it comes.
async fn send(
    parts: &ControlParts<'_>,
    session: &mut Session,
    response: axum::response::Response,
) -> pingora::Result<bool> {
    let (told, body) = response.into_parts();
    settle_unread_body(session).await;
    session.downstream_session.set_write_timeout(Some(parts.settings.idle_timeout));
    let mut head = bare_head(told.status.as_u16());
    for (name, value) in &told.headers {
        head.append_header(name.clone(), value.clone())?;
    }
    let bare = session.req_header().method == http::Method::HEAD;
    match body.size_hint().exact() {
        // An answer to HEAD has the length that GET would give.
        Some(_) if bare && told.headers.contains_key(header::CONTENT_LENGTH) => {}
        Some(length) => head.set_content_length(usize::try_from(length).unwrap_or(usize::MAX))?,
        None => frame(&session.downstream_session, &mut head),
    }
    let mut pieces = body.into_data_stream();
    let mut next = pieces.next().await;
    if bare || next.is_none() {
        send_head(session, head, None, true).await?;
    } else {
        let mut head = Some(head);
        while let Some(piece) = next {
            let piece = piece.map_err(|_| Error::explain(ErrorType::InternalError, "the control plane broke off"))?;
            next = pieces.next().await;
            let end = next.is_none();
            match head.take() {
                Some(head) => send_head(session, head, Some(piece), end).await?,
                None => send_piece(session, Some(piece), end).await?,
            }
        }
    }
    linger(session).await;
    Ok(true)
}

async fn there(
    parts: &ControlParts<'_>,
    session: &mut Session,
    base: &Arc<BaseUrl>,
    dialer: &Dialer,
) -> pingora::Result<bool> {
    let framing = (!session.downstream_session.is_body_empty()).then(|| framing(&session.downstream_session));
    if matches!(framing, Some(Framing::Length(length)) if length > most(parts)) {
        let told = format!("The request body is larger than {} bytes", most(parts));
        return refuse(parts, session, &Fault::new(FaultKind::TooLarge, told)).await;
    }
    let Some(head) = request_head(session, base, framing, client(parts, session)) else {
        return refuse(parts, session, &Fault::new(FaultKind::BadHeader, "The path cannot be sent on").on("path"))
            .await;
    };
    let clocks = PeerTimeouts { first_byte: parts.settings.first_byte_timeout, idle: parts.settings.idle_timeout };
    let unreachable = || Fault::new(FaultKind::Unreachable, "The admin service could not be reached");
    let Ok(origin) = dialer.origin(base).await else { return refuse(parts, session, &unreachable()).await };
    let mut client = Client::new(session);
    let none = BodyPieces::One(Bytes::new());
    let body = match framing {
        None => RequestBody::Held(&none),
        Some(_) => {
            let downstream = &mut client.session().downstream_session;
            let upload = Upload::of(downstream, parts.settings.body_timeout, parts.budget);
            client.set_upload(upload.clone());
            RequestBody::Streaming(Box::new(upload))
        }
    };
    let call = async {
        let mut response = http1::send(dialer, &origin, &head, body, clocks).await.ok()?;
        // The first of it is waited for: an answer that breaks off before is none.
        let first = if response.is_done() { None } else { response.read().await.ok()? };
        Some((response, first))
    };
    let (response, first) = match client.during(None, call).await {
        Ok(Some(answer)) => answer,
        Ok(None) => return refuse(parts, session, &unreachable()).await,
        Err(ClientLeft::Silent) => return refuse(parts, session, &body::slow_client()).await,
        Err(left) => return Err(left.into_error()),
    };
    if response.status() == 401
        && let Some(fault) = parts.shield.count_unknown_key(client_ip(session, &parts.settings.trusted_proxies))
    {
        return refuse(parts, session, &fault).await;
    }
    pass_on(parts, session, response, first).await
}

/// Sends the answer of another node down as it comes: none of it is held but the piece on its way.
async fn pass_on(
    parts: &ControlParts<'_>,
    session: &mut Session,
    mut response: Response,
    first: Option<Bytes>,
) -> pingora::Result<bool> {
    settle_unread_body(session).await;
    session.downstream_session.set_write_timeout(Some(parts.settings.idle_timeout));
    let bare = session.req_header().method == http::Method::HEAD;
    // An answer to HEAD keeps the length that it came with: the one that GET would give.
    let mut head = passed_head(response.take_head(), !bare);
    if bare {
        head.remove_header(&header::TRANSFER_ENCODING);
    } else if response.is_done() {
        head.set_content_length(first.as_ref().map_or(0, Bytes::len))?;
    } else {
        frame(&session.downstream_session, &mut head);
    }
    let broken = |_| Error::explain(ErrorType::InternalError, "the admin service broke off");
    let mut whole = response.is_done();
    send_head(session, head, first, whole).await?;
    while !whole {
        let piece = response.read().await.map_err(broken)?;
        whole = piece.is_none() || response.is_done();
        send_piece(session, piece, whole).await?;
    }
    response.release(parts.settings.upstream_pool_size);
    linger(session).await;
    Ok(true)
}

/// The client's head with the admin service as host and the client's address told.
fn request_head(session: &Session, base: &BaseUrl, framing: Option<Framing>, client: IpAddr) -> Option<RequestHead> {
    let from = session.req_header();
    let path = from.uri.path_and_query().map_or("/", |p| p.as_str());
    let mut head = RequestHead::new(from.method.clone(), &format!("{}{path}", base.path)).ok()?;
    for (name, value) in &from.headers {
        let hop = matches!(
            name.as_str(),
            "host"
                | "connection"
                | "keep-alive"
                | "proxy-connection"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
                | "content-length"
                | "expect"
                | "x-forwarded-for"
        );
        if !hop {
            head.append(name.clone(), value.clone());
        }
    }
    head.set(header::HOST, HeaderValue::from_str(&base.authority()).ok()?);
    head.set(HeaderName::from_static("x-forwarded-for"), HeaderValue::from_str(&client.to_string()).ok()?);
    head.set_framing(framing.unwrap_or(Framing::Length(0)));
    Some(head)
}
