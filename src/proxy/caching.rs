//! The response cache on the way of a request: before limits are taken it is asked whether a target's answer is
//! known or on its way, and what a target answers is told to it. A hit costs no budget and makes no call.

use super::Gateway;
use super::admit::Held;
use super::answer::{Answer, Told};
use super::attempt::{Facts, Prepared, Tried, timed_out};
use super::request::Request;
use super::routing::Routing;
use super::target::{self, Aim, Credential};
use super::wire::{self, WireError};
use super::{reply, shape};
use crate::cache::{Event, Failed, Follow, Found, Head, Key, KeyBuilder, Lead};
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::config::CacheMode;
use gateway_domain::record::CacheStatus;
use http::{HeaderValue, Method, header};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use std::time::Duration;

/// What the cache knows of one target of a plan.
#[derive(Debug)]
pub(crate) enum Looked {
    /// Not asked for, or not for such a call.
    Off,
    /// To be called; what it answers goes to the lead.
    Lead(Lead, CacheStatus),
    /// Answered without a call.
    Answered(Box<Tried>),
}

impl Looked {
    /// The client gets an answer that was paid for by another call.
    pub(crate) fn is_hit(&self) -> bool {
        matches!(self, Self::Answered(tried) if matches!(tried.answer, Ok(Answer::Kept(_) | Answer::Followed(..))))
    }
}

/// Calls whose answer depends on nothing but the request (`spec/config-object.md`, "not cached").
fn cacheable(request: &Request) -> bool {
    match request.route.asked() {
        Operation::ChatCompletions
        | Operation::Completions
        | Operation::Embeddings
        | Operation::Messages
        | Operation::Responses
        | Operation::Moderations
        | Operation::Rerank
        | Operation::ImagesGenerate
        | Operation::Speech => true,
        Operation::Proxy => !request.route.tail().split('/').any(makes_something),
        _ => false,
    }
}

/// Segments of pass-through paths behind which things are made that a provider keeps: each call makes another.
fn makes_something(segment: &str) -> bool {
    const KEPT: &[&str] = &[
        "files",
        "uploads",
        "batches",
        "fine_tuning",
        "fine-tunes",
        "assistants",
        "threads",
        "conversations",
        "vector_stores",
        "containers",
        "evals",
    ];
    KEPT.contains(&segment)
}

/// An `Err` means that the client left while it waited.
pub(crate) async fn look(
    gateway: &Gateway,
    session: &mut Session,
    request: &Request,
    routing: &Routing,
) -> Result<Looked, WireError> {
    let leaf = &**routing.plan.leaf();
    let Some(cache) = leaf.cache.filter(|c| c.mode == CacheMode::Simple) else { return Ok(Looked::Off) };
    let asked = request.headers.debug != Some(false) && request.method == Method::POST;
    if !asked || request.content.unread || !cacheable(request) {
        return Ok(Looked::Off);
    }
    // What cannot even be prepared is told by the attempt itself.
    let Ok(aim) = target::resolve(leaf, routing.inline, request) else { return Ok(Looked::Off) };
    let Ok(content) = shape::content(request, leaf) else { return Ok(Looked::Off) };
    let Ok(prepared) = Prepared::new(gateway, session, request, leaf, &aim, content) else { return Ok(Looked::Off) };
    let (key, stream) = (key(request, &prepared), prepared.content.stream);
    let adjusted = prepared.out.adjusted.clone();
    let facts = Facts {
        option_index: leaf.path.clone(),
        provider: aim.adapter.info().slug,
        virtual_key: aim.virtual_key.clone(),
        model: aim.model.clone(),
        cache: CacheStatus::Hit,
        adjusted,
        stream,
        ..Facts::default()
    };
    let keep = Duration::from_secs(cache.keep(request.tenant.org.cache_max_age_s).into());
    let fresh = request.headers.cache_refresh;
    match gateway.cache.find(key, keep, fresh, request.now()).await {
        Found::Hit(entry) => {
            let tried = Tried { facts, hold: Held::default(), sent: None, answer: Ok(Answer::Kept(entry)) };
            Ok(Looked::Answered(Box::new(tried)))
        }
        Found::Lead(lead) => Ok(Looked::Lead(lead, if fresh { CacheStatus::Refresh } else { CacheStatus::Miss })),
        Found::Follow(follow) => {
            let limit = prepared.clock(gateway, request);
            let joined = match limit {
                None => join(session, follow, facts).await?,
                Some((limit, told)) => match pingora_timeout::timeout(limit, join(session, follow, facts)).await {
                    Ok(joined) => joined?,
                    Err(_) => Some(Tried::refused(leaf, timed_out(told))),
                },
            };
            Ok(match joined {
                Some(tried) => Looked::Answered(Box::new(tried)),
                None => Looked::Lead(gateway.cache.lead_alone(key, keep), CacheStatus::Miss),
            })
        }
    }
}

/// Waits for the beginning of what another call brings; `None` when it brings nothing.
async fn join(session: &mut Session, mut follow: Follow, facts: Facts) -> Result<Option<Tried>, WireError> {
    let event = tokio::select! { biased;
        event = follow.next() => event,
        gone = wire::client_gone(&mut session.downstream_session) => return Err(WireError::ClientGone(gone)),
    };
    Ok(match event {
        Event::Begun(head) => Some(Tried {
            facts,
            hold: Held::default(),
            sent: None,
            answer: Ok(Answer::Followed(head, Box::new(follow))),
        }),
        Event::Failed(Failed { status, head, body, message }) => {
            let reply = Told { failure: message, ..Told::default() };
            let facts = Facts { cache: CacheStatus::Miss, ..facts };
            Some(Tried {
                facts,
                hold: Held::default(),
                sent: None,
                answer: Ok(Answer::Whole { status, head, body, reply }),
            })
        }
        Event::Piece(_) | Event::Ended { .. } | Event::Lost => None,
    })
}

/// Never shared across tenants or credentials; beside the body that goes up, everything that shapes what comes
/// down. Signatures and dates are left out: they are made anew for each call from what is already in.
fn key(request: &Request, prepared: &Prepared<'_>) -> Key {
    let (tenant, route, aim) = (&request.tenant, &request.route, prepared.aim);
    let call = prepared.call(request);
    let mut key = KeyBuilder::new();
    key.part(tenant.org.id.0.as_bytes()).part(tenant.workspace.id.0.as_bytes());
    credential(&mut key, aim);
    key.part(route.operation.name().as_bytes()).part(&[route.dialect as u8]);
    key.part(aim.adapter.info().slug.as_bytes());
    let base = &*aim.base;
    key.flags(&[base.tls]).part(base.host.as_bytes()).part(&base.port.to_le_bytes()).part(base.path.as_bytes());
    key.part(prepared.out.path.as_deref().unwrap_or_default().as_bytes());
    key.part(if route.raw { route.tail() } else { "" }.as_bytes());
    key.part(route.query.as_deref().unwrap_or_default().as_bytes());
    key.part(aim.model.as_deref().unwrap_or_default().as_bytes());
    key.flags(&[call.stream, call.wants_usage, call.strict]);
    let mut headers: Vec<_> = prepared.headers().filter(|(name, value)| !made_anew(name, value)).collect();
    headers.sort_unstable();
    key.count(headers.len());
    for (name, value) in headers {
        key.part(name.as_bytes()).part(value);
    }
    key.pieces(prepared.out.body.iter().map(|piece| &piece[..]));
    let mut metadata: Vec<_> = request.metadata.iter().collect();
    metadata.sort();
    key.count(metadata.len());
    for (name, value) in metadata {
        key.part(name.as_bytes()).part(value.as_bytes());
    }
    key.part(request.headers.cache_namespace.as_deref().unwrap_or_default().as_bytes());
    key.finish()
}

/// Headers that differ between calls that ask the same: traces, signatures and their dates.
fn made_anew(name: &str, value: &[u8]) -> bool {
    match name {
        "traceparent" | "tracestate" | "baggage" | "x-request-id" => true,
        "x-amz-date" | "x-amz-security-token" | "x-amz-content-sha256" => true,
        "authorization" => value.starts_with(b"AWS4-"),
        _ => false,
    }
}

fn credential(key: &mut KeyBuilder, aim: &Aim) {
    match &aim.credential {
        Credential::None => key.part(b"none"),
        Credential::Own(secret) => key.part(b"own").part(secret.expose().as_bytes()),
        Credential::Managed(upstream) => {
            key.part(b"managed").part(upstream.integration.0.as_bytes());
            key.part(upstream.credential.as_ref().map(|s| s.expose().as_bytes()).unwrap_or_default())
        }
    };
    // Tokens come and go: what counts is whose they are.
    key.part(aim.grant.as_ref().map(|grant| &grant.id[..]).unwrap_or_default());
    key.count(aim.settings.iter().count());
    for (name, value) in aim.settings.iter() {
        key.part(name.as_bytes()).part(value.as_bytes());
    }
}

/// Tells the lead of an answer that the plan moves on from: a failure is everybody's who waited, a refusal of
/// the gateway's own concerns this caller alone.
pub(crate) fn tell_failure(lead: Lead, answer: &Answer) {
    if let Answer::Whole { status, head, body, reply } = answer {
        lead.fail(failed(*status, head, body, reply));
    }
}

pub(crate) fn failed(status: u16, head: &ResponseHeader, body: &Bytes, told: &Told) -> Failed {
    Failed { status, head: Box::new(head.clone()), body: body.clone(), message: told.failure.clone() }
}

/// How an answer begins, as an entry keeps it.
pub(crate) fn beginning(head: &ResponseHeader, stream: bool) -> Head {
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    Head { status: head.status.as_u16(), content_type: content_type.to_owned(), stream }
}

/// The head of an answer from the cache, before the gateway's own headers.
pub(crate) fn head_of(status: u16, content_type: &str) -> Box<ResponseHeader> {
    let mut head = reply::bare_head(status);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        let set = head.insert_header(header::CONTENT_TYPE, value);
        debug_assert!(set.is_ok(), "a constant name and a checked value");
    }
    head
}

/// A whole answer, told to the cache before its client has it, so that nobody waits for a slow client.
pub(crate) fn keep_whole(
    gateway: &Gateway,
    mut lead: Lead,
    (head, body): (&ResponseHeader, &Bytes),
    told: &Told,
    request: &Request,
) {
    lead.begin(beginning(head, false));
    lead.push(body);
    end(gateway, lead, true, told.usage, told.model.clone(), request);
}

/// The shared shelf is told in the background: the next request on this connection does not wait for it.
pub(crate) fn end(
    gateway: &Gateway,
    lead: Lead,
    good: bool,
    usage: Option<gateway_domain::Usage>,
    model: Option<String>,
    request: &Request,
) {
    if let Some(publication) = lead.end(good, usage, model, request.now()) {
        gateway.background.spawn(publication.send());
    }
}
