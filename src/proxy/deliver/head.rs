//! Heads of answers: what of the upstream's is passed on, and the gateway's own headers beside it, under every
//! prefix that clients know. Sends nothing.

mod gateway_headers;

use crate::proxy::client::SmallAnswer;
use crate::proxy::headers::{PREFIX, suffix_of};
use crate::proxy::record::AttemptInfo;
use crate::proxy::request::Request;
use crate::upstream::http1::ResponseHead;
use bytes::Bytes;
use gateway_domain::counters::RateLimitStandings;
use gateway_domain::{Dialect, Fault, FaultKind};
use gateway_headers::{GatewayResponseHeaders, OwnNames, free_bare_limits};
use http::response::Parts as RespParts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use pingora::http::ResponseHeader;

/// Names made once at start.
#[derive(Debug)]
pub(crate) struct ReplyNames {
    own: OwnNames,
    /// Prefixes beside the usual one.
    aliases: Vec<String>,
}

/// What the head of an answer of the gateway's own has room for without growing.
const FEW_HEADERS: usize = 6;
/// Bytes of the gateway's own headers, nearly always.
const USUAL_LINES: usize = 1000;
/// Official SDKs wait no longer than this because they are told to; they would repeat sooner, for nothing.
const LONGEST_SDK_WAIT_MS: u64 = 60_000;

impl ReplyNames {
    pub(crate) fn new(aliases: &[String]) -> Self {
        let prefixes: Vec<&str> = std::iter::once(PREFIX).chain(aliases.iter().map(String::as_str)).collect();
        Self { own: OwnNames::new(&prefixes), aliases: aliases.to_vec() }
    }
}

fn empty_head() -> ResponseHeader {
    http::Response::new(()).into_parts().0.into()
}

/// A head without names' casing (cheaper to write), never failing for a valid status.
pub(crate) fn bare_head(status: u16) -> Box<ResponseHeader> {
    Box::new(ResponseHeader::build_no_case(status, Some(FEW_HEADERS)).unwrap_or_else(|_| empty_head()))
}

/// Edits the map itself: Pingora's setters parse and copy each name anew, which names made at start do not need.
/// Only for heads without names' casing, which would be lost.
fn edit(head: &mut ResponseHeader, with: impl FnOnce(&mut HeaderMap)) {
    let mut parts = RespParts::from(std::mem::replace(head, empty_head()));
    with(&mut parts.headers);
    *head = parts.into();
}

/// The upstream's head without what belongs to the hop; `remade` drops what no longer fits a body that the
/// gateway wrote anew.
pub(crate) fn passed_head(from: ResponseHead, remade: bool) -> Box<ResponseHeader> {
    let mut parts = RespParts::from(empty_head());
    parts.status = StatusCode::from_u16(from.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    parts.headers = from.into_headers();
    if remade {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    // Another address of the provider's is none of the gateway's.
    let is_foreign = |name: &&HeaderName| name.as_str() == "alt-svc" || name.as_str().starts_with(PREFIX);
    while let Some(foreign) = parts.headers.keys().find(is_foreign).cloned() {
        parts.headers.remove(foreign);
    }
    Box::new(parts.into())
}

/// Nobody but the gateway speaks under its names: what a provider says there is dropped.
fn drop_own(names: &ReplyNames, head: &mut ResponseHeader) {
    if names.aliases.is_empty() {
        return;
    }
    let own = |name: &&HeaderName| suffix_of(name.as_str(), &names.aliases).is_some();
    let theirs: Vec<HeaderName> = head.headers.keys().filter(own).cloned().collect();
    theirs.iter().for_each(|name| drop(head.remove_header(name)));
}

/// What of the gateway's own headers is known before any target has answered.
pub(crate) fn announce(names: &ReplyNames, head: &mut ResponseHeader, request: &Request) {
    edit(head, |headers| {
        gateway_headers::put(headers, &names.own.trace_id, gateway_headers::text(&request.caller.trace))
    });
}

/// The gateway's own headers on an answer of a target.
pub(crate) fn decorate(names: &ReplyNames, head: &mut ResponseHeader, request: &Request, info: &AttemptInfo) {
    drop_own(names, head);
    mark(names, head, GatewayResponseHeaders { request, info: Some(info), limits: info.limits });
    name_status(head);
}

/// Decorates a head with the gateway's headers as lines of text, which are put behind it when it is written.
pub(crate) fn decorate_beside(
    names: &ReplyNames,
    (head, lines): (&mut ResponseHeader, &mut Vec<u8>),
    request: &Request,
    info: &AttemptInfo,
) {
    drop_own(names, head);
    let bare = free_bare_limits(&names.own, info.limits, head);
    lines.reserve(USUAL_LINES);
    GatewayResponseHeaders { request, info: Some(info), limits: info.limits }.put(&names.own, lines, bare);
    name_status(head);
}

fn name_status(head: &mut ResponseHeader) {
    if head.status.as_u16() == 246 {
        let named = head.set_reason_phrase(Some("Hooks failed"));
        debug_assert!(named.is_ok(), "a plain phrase");
    }
}

/// The gateway's own headers, among those of `head`.
fn mark(names: &ReplyNames, head: &mut ResponseHeader, told: GatewayResponseHeaders<'_>) {
    let bare = free_bare_limits(&names.own, told.limits, head);
    edit(head, |headers| told.put(&names.own, headers, bare));
}

pub(crate) fn fault_head(
    names: &ReplyNames,
    request: &Request,
    fault: &Fault,
    info: &AttemptInfo,
) -> Box<ResponseHeader> {
    let mut head = plain_fault_head(names, fault);
    let limits = info.limits.tighter(fault.limits());
    mark(names, &mut head, GatewayResponseHeaders { request, info: Some(info), limits });
    edit(&mut head, |headers| set_line_retry_after(headers, request, fault));
    head
}

/// Tells a line of a batch, which waits for as long as that, when a budget begins anew.
fn set_line_retry_after(headers: &mut HeaderMap, request: &Request, fault: &Fault) {
    if let (Some(at), true) = (fault.anew_at(), request.caller.tenant.line.is_some()) {
        let wait = at.micros().saturating_sub(request.now().micros()).max(0) / 1_000_000;
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait + 1));
    }
}

fn plain_fault_head(names: &ReplyNames, fault: &Fault) -> Box<ResponseHeader> {
    let mut head = bare_head(fault.status());
    edit(&mut head, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(ms) = fault.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
            headers.insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(ms));
        }
        let hopeless = fault.retry_after().is_some_and(|ms| ms > LONGEST_SDK_WAIT_MS);
        let never = matches!(fault.kind(), FaultKind::BudgetExhausted | FaultKind::Unsupported);
        if never || (fault.kind() == FaultKind::RateLimited && hopeless) {
            headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        if fault.kind().row().exception {
            gateway_headers::put(headers, &names.own.exception, gateway_headers::text("true"));
        }
    });
    head
}

/// The answer to a request that never reached a target.
pub(crate) fn refusal(names: &ReplyNames, fault: &Fault, dialect: Dialect, request: Option<&Request>) -> SmallAnswer {
    let mut head = plain_fault_head(names, fault);
    if let Some(request) = request {
        mark(names, &mut head, GatewayResponseHeaders { request, info: None, limits: fault.limits() });
        edit(&mut head, |headers| set_line_retry_after(headers, request, fault));
    }
    SmallAnswer { head, body: fault.body(dialect).into() }
}

/// The head of an answer that no target gave and no fault is.
pub(crate) fn own_head(names: &ReplyNames, status: u16, request: &Request) -> Box<ResponseHeader> {
    let mut head = bare_head(status);
    mark(names, &mut head, GatewayResponseHeaders { request, info: None, limits: RateLimitStandings::default() });
    head
}

/// A small answer of the gateway's own to a known caller.
pub(crate) fn json_answer(names: &ReplyNames, request: &Request, body: Bytes) -> SmallAnswer {
    let mut head = bare_head(200);
    edit(&mut head, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    });
    decorate(names, &mut head, request, &AttemptInfo::default());
    SmallAnswer { head, body }
}

/// The head of an answer from the cache, before the gateway's own headers.
pub(crate) fn head_of(status: u16, content_type: &str) -> Box<ResponseHeader> {
    let mut head = bare_head(status);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        edit(&mut head, |headers| drop(headers.insert(header::CONTENT_TYPE, value)));
    }
    head
}
