//! The response cache on the way of a request: before limits are asked it is looked up whether a target's answer is
//! known or on its way. A hit costs no budget and makes no call. Knows no client.

use crate::cache::{AnswerCache, CacheKey, CacheOutcome, Follower, FollowerEvent, KeyBuilder, Leader};
use crate::proxy::call::{Prepared, ResolvedTarget};
use crate::proxy::deliver::{Deadline, Outcome, WholeAnswer, timed_out};
use crate::proxy::request::Request;
use crate::proxy::target::{Aim, Credential};
use gateway_domain::Operation;
use gateway_domain::config::{CacheMode, Leaf};
use gateway_domain::record::CacheStatus;
use http::Method;
use std::sync::Arc;
use std::time::Duration;

/// What the cache knows of one target of a plan.
#[derive(Debug)]
pub(crate) struct CacheLookup {
    pub(crate) status: CacheStatus,
    /// Answered without a call.
    pub(crate) outcome: Option<Outcome>,
    /// Set where the target is to be called; what it answers goes to the leader.
    pub(crate) leader: Option<Leader>,
}

impl CacheLookup {
    const fn answered(outcome: Outcome, status: CacheStatus) -> Self {
        Self { status, outcome: Some(outcome), leader: None }
    }

    const fn to_be_called(leader: Leader, status: CacheStatus) -> Self {
        Self { status, outcome: None, leader: Some(leader) }
    }
}

/// One look.
pub(crate) struct Lookup<'a> {
    pub(crate) cache: &'a Arc<AnswerCache>,
    pub(crate) request: &'a Request,
    pub(crate) leaf: &'a Leaf,
    /// How long the call of another may be waited for.
    pub(crate) limit: Option<Deadline>,
}

impl Lookup<'_> {
    /// The config asks for it, and the call is of a kind that can be cached.
    pub(crate) fn is_wanted(request: &Request, leaf: &Leaf) -> bool {
        let asked = leaf.cache.is_some_and(|cache| cache.mode == CacheMode::Simple);
        asked
            && request.ask.headers.debug != Some(false)
            && request.ask.method == Method::POST
            && !request.ask.content.unread
            && cacheable(request)
    }

    pub(crate) async fn run(self, key: CacheKey) -> CacheLookup {
        let Self { cache, request, leaf, limit } = self;
        let most = request.caller.tenant.org.cache_max_age_s;
        let keep = Duration::from_secs(leaf.cache.map_or(0, |cache| cache.keep(most)).into());
        let fresh = request.ask.headers.cache_refresh;
        let follower = match cache.find(key, keep, fresh, request.now()).await {
            CacheOutcome::Hit(entry) => return CacheLookup::answered(Outcome::Cached(entry), CacheStatus::Hit),
            CacheOutcome::Leader(leader) => {
                let status = if fresh { CacheStatus::Refresh } else { CacheStatus::Miss };
                return CacheLookup::to_be_called(leader, status);
            }
            CacheOutcome::Follower(follower) => follower,
        };
        let joined = match limit {
            None => join(follower).await,
            Some(limit) => match pingora_timeout::timeout(limit.left(), join(follower)).await {
                Ok(joined) => joined,
                Err(_) => {
                    return CacheLookup::answered(Outcome::Fault(timed_out(limit.told)), CacheStatus::Disabled);
                }
            },
        };
        joined.unwrap_or_else(|| CacheLookup::to_be_called(cache.lead_alone(key, keep), CacheStatus::Miss))
    }
}

/// Waits for the beginning of what another call brings; `None` when it brings nothing.
async fn join(mut follower: Follower) -> Option<CacheLookup> {
    match follower.next().await {
        FollowerEvent::Begun(head) => {
            let outcome = Outcome::Followed(head, Box::new(follower));
            Some(CacheLookup::answered(outcome, CacheStatus::Hit))
        }
        FollowerEvent::Failed(failed) => {
            let outcome = Outcome::Whole(Box::new(WholeAnswer::from(failed)));
            Some(CacheLookup::answered(outcome, CacheStatus::Miss))
        }
        FollowerEvent::Piece(_) | FollowerEvent::Ended { .. } | FollowerEvent::Lost => None,
    }
}

/// Calls whose answer depends on nothing but the request.
fn cacheable(request: &Request) -> bool {
    match request.ask.route.asked() {
        Operation::Proxy => !request.ask.route.tail().split('/').any(makes_something),
        asked => asked.facts().cacheable,
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

/// Never shared across tenants or credentials; beside the body that goes up, everything that shapes what comes
/// down. Signatures and dates are left out: they are made anew for each call from what is already in.
pub(crate) fn key(request: &Request, resolved: &ResolvedTarget<'_>, prepared: &Prepared) -> CacheKey {
    let (tenant, route, aim) = (&request.caller.tenant, &request.ask.route, &resolved.aim);
    let call = resolved.call(request);
    let mut key = KeyBuilder::new();
    key.part(tenant.org.id.0.as_bytes()).part(tenant.workspace.id.0.as_bytes());
    credential(&mut key, aim);
    key.part(route.operation.name().as_bytes()).part(&[route.dialect as u8]);
    key.part(aim.adapter.info().slug.as_bytes());
    let base = &*aim.base;
    key.flags(&[base.tls]).part(base.host.as_bytes()).part(&base.port.to_le_bytes()).part(base.path.as_bytes());
    key.part(prepared.out.path.as_deref().unwrap_or_default().as_bytes());
    // The path counts where one operation is asked for on two paths, each with its own form.
    let tells = route.raw || route.operation == Operation::Rerank;
    key.part(if tells { route.tail() } else { "" }.as_bytes());
    key.part(route.query.as_deref().unwrap_or_default().as_bytes());
    key.part(aim.model.as_deref().unwrap_or_default().as_bytes());
    key.flags(&[call.stream, call.wants_usage, call.strict]);
    let mut headers: Vec<_> = prepared.head.headers().filter(|(name, value)| !made_anew(name, value)).collect();
    headers.sort_unstable();
    key.count(headers.len());
    for (name, value) in headers {
        key.part(name.as_bytes()).part(value);
    }
    key.pieces(prepared.out.body.iter().map(|piece| &piece[..]));
    let mut metadata: Vec<_> = request.caller.metadata.iter().collect();
    metadata.sort();
    key.count(metadata.len());
    for (name, value) in metadata {
        key.part(name.as_bytes()).part(value.as_bytes());
    }
    // What judges answers changes them, or keeps them back.
    key.part(resolved.guarded.as_ref().map(|guarded| &guarded.digest[..]).unwrap_or_default());
    key.part(request.ask.headers.cache_namespace.as_deref().unwrap_or_default().as_bytes());
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
