//! Control-plane requests that came in on the proxy port: handed to the admin service in this process, or to
//! another one's admin port (`design.md` §7, one base URL).

use super::head::HeadPlan;
use super::wire::{self, Client, Clocks, Whole};
use super::{Gateway, body, reply};
use crate::upstream::Dialer;
use axum::body::Body;
use bytes::Bytes;
use gateway_admin::ClientAddr;
use gateway_domain::egress::BaseUrl;
use gateway_domain::{Dialect, Fault, FaultKind};
use gateway_providers::Pieces;
use http::{HeaderValue, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;
use pingora::{Error, ErrorType};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tower::ServiceExt;

/// Largest body of a control-plane request; nobody has looked at its key when it is read.
const MOST_REQUEST: usize = 8 << 20;
/// Largest answer of another node's admin port that is handed on.
const MOST_ANSWER: usize = 64 << 20;

pub(crate) enum ControlPlane {
    /// In this process, on its own runtime: the database never sits on a proxy worker.
    Here { router: axum::Router, runtime: tokio::runtime::Handle },
    /// Role `proxy` with `--admin-upstream`.
    There { base: Arc<BaseUrl>, dialer: Box<Dialer> },
    /// Role `proxy` without: 404.
    Nowhere,
}

pub(crate) async fn hand_over(gateway: &Gateway, session: &mut Session) -> pingora::Result<bool> {
    if matches!(gateway.control, ControlPlane::Nowhere) {
        let fault = Fault::new(FaultKind::UnknownRoute, "Not Found: this node serves no control plane");
        return refuse(gateway, session, &fault).await;
    }
    let most = gateway.settings.max_body.min(MOST_REQUEST);
    let limits = body::BodyLimits { most, time: gateway.settings.body_timeout, trusted: false };
    let mut held = body::Permit::new(&gateway.budget);
    let content = match body::read(&mut session.downstream_session, limits, &mut held).await {
        Ok(content) => content,
        Err(body::BodyError::Gone(e)) => return Err(e.into_down()),
        Err(body::BodyError::Refused(fault) | body::BodyError::Invalid(fault, _)) => {
            session.downstream_session.set_keepalive(None);
            return refuse(gateway, session, &fault).await;
        }
    };
    let client = gateway.client_ip(session).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    match &gateway.control {
        ControlPlane::Here { router, runtime } => here(session, router.clone(), runtime, content, client).await,
        ControlPlane::There { base, dialer } => there(gateway, session, base, dialer, content, client).await,
        ControlPlane::Nowhere => Ok(true),
    }
}

async fn refuse(gateway: &Gateway, session: &mut Session, fault: &Fault) -> pingora::Result<bool> {
    reply::refuse(gateway, session, fault, Dialect::OpenAi, None).await.map(|_| true)
}

async fn here(
    session: &mut Session,
    router: axum::Router,
    runtime: &tokio::runtime::Handle,
    content: Bytes,
    client: IpAddr,
) -> pingora::Result<bool> {
    let head = session.req_header();
    let mut request = http::Request::new(Body::from(content));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    request.extensions_mut().insert(ClientAddr(client));
    let served = runtime.spawn(async move {
        let Ok(response) = router.oneshot(request).await;
        let (parts, body) = response.into_parts();
        (parts, axum::body::to_bytes(body, usize::MAX).await)
    });
    let internal = || Error::explain(ErrorType::InternalError, "the control plane gave no answer");
    let (parts, body) = served.await.map_err(|_| internal())?;
    let mut out = reply::bare_head(parts.status.as_u16());
    for (name, value) in &parts.headers {
        out.append_header(name.clone(), value.clone())?;
    }
    write(session, out, body.map_err(|_| internal())?).await
}

async fn write(session: &mut Session, mut head: Box<ResponseHeader>, body: Bytes) -> pingora::Result<bool> {
    head.set_content_length(body.len())?;
    wire::write_head(session, head, (!body.is_empty()).then_some(body), true).await.map(|()| true)
}

async fn there(
    gateway: &Gateway,
    session: &mut Session,
    base: &Arc<BaseUrl>,
    dialer: &Dialer,
    content: Bytes,
    client: IpAddr,
) -> pingora::Result<bool> {
    let head = request_head(session, base, content.len(), client)?;
    let clocks = Clocks { first_byte: gateway.settings.first_byte_timeout, idle: gateway.settings.idle_timeout };
    let unreachable = || Fault::new(FaultKind::Unreachable, "The admin service could not be reached");
    let Ok(origin) = dialer.origin(base).await else { return refuse(gateway, session, &unreachable()).await };
    let down = &mut Client::alone(&mut session.downstream_session);
    let mut up = match wire::send(down, dialer, &origin, &HeadPlan::new(head), &Pieces::One(content), clocks).await {
        Ok(up) => up,
        Err(wire::WireError::ClientGone(e)) => return Err(e.into_down()),
        Err(_) => return refuse(gateway, session, &unreachable()).await,
    };
    let mut taken = None;
    let Ok(Whole::Read(body)) = up.read_whole(down, MOST_ANSWER, (&gateway.budget, &mut taken)).await else {
        return refuse(gateway, session, &unreachable()).await;
    };
    let out = up.head().map_or_else(|| reply::bare_head(502), |h| reply::copy_head(h, true));
    up.release(gateway.settings.upstream_pool_size).await;
    write(session, out, body).await
}

/// The client's head with the admin service as host and the client's address told.
fn request_head(session: &Session, base: &BaseUrl, length: usize, client: IpAddr) -> pingora::Result<RequestHeader> {
    let from = session.req_header();
    let path = from.uri.path_and_query().map_or("/", |p| p.as_str());
    let mut head =
        RequestHeader::build_no_case(from.method.clone(), format!("{}{path}", base.path).as_bytes(), Some(12))?;
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
            head.append_header(name.clone(), value.clone())?;
        }
    }
    head.insert_header(header::HOST, base.authority())?;
    head.insert_header("x-forwarded-for", client.to_string())?;
    head.insert_header(header::CONTENT_LENGTH, HeaderValue::from(length))?;
    Ok(head)
}
