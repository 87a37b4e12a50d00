//! The first step: who asks, for which operation, with which headers and body. Nothing is looked up in a
//! database and nothing of the body is read before the key is known to be good.

mod caller;
mod mcp_tokens;
mod permits;

pub(super) use permits::NO_MCP;

use super::admission_guard::AdmissionGuard;
use super::capture_policy::CapturePolicy;
use super::client_address::client_ip;
use super::gateway_key::credentials;
use super::headers::GatewayHeaders;
use super::mcp::McpAuthorization;
use super::own_tokens::OwnTokens;
use super::refusal::Refused;
use super::request::{AskedFor, Caller, LastLook, RawNames, Request, RequestContent, Tenant, Waited};
use super::route_match::{AskedPath, asked, name_session, takes_short_keys};
use super::settings::ProxySettings;
use super::short_keys::{ShortKey, goes_round};
use super::trace;
use crate::batches::LineCallers;
use crate::issuers::Issuers;
use crate::runtime_config::ConfigHandle;
use caller::{authenticate, is_gateway_key, parent};
use gateway_domain::ports::{IdSeal, KeyUses};
use gateway_domain::{Fault, Operation, Secret, Timestamp};
use permits::{permit, saved_only, unknown_route};
use pingora::proxy::Session;
use std::sync::OnceLock;
use std::time::Instant;

/// What of the gateway it takes to know who asks.
pub(crate) struct IntakeParts<'a> {
    pub(crate) settings: &'a ProxySettings,
    pub(crate) live: &'a ConfigHandle,
    pub(crate) issuers: &'a Issuers,
    pub(crate) shield: &'a AdmissionGuard,
    pub(crate) own_tokens: &'a OwnTokens,
    /// Lines of batches come as callers of their own.
    pub(crate) callers: &'a LineCallers,
    /// Opens short keys.
    pub(crate) ids: &'a dyn IdSeal,
    pub(crate) uses: &'a dyn KeyUses,
    /// Set where clients sign in for MCP servers.
    pub(crate) signing_in: Option<&'a McpAuthorization>,
}

/// Everything up to the body. The request it gives has an empty [`RequestContent`].
pub(crate) fn receive(
    parts: &IntakeParts<'_>,
    session: &Session,
    started: Instant,
    at: Timestamp,
) -> Result<Box<Request>, Refused> {
    let head = session.req_header();
    let uri = &head.uri;
    let AskedPath { mut route, prompt } = asked(&head.method, uri)?;
    name_session(&mut route, session);
    let client_ip = client_ip(session, &parts.settings.trusted_proxies);
    let (key_text, credential) = credentials(&head.headers, &parts.settings.header_alias)?;
    let is_call = route.operation == Operation::RealtimeCall;
    let short = takes_short_keys(&route).then(|| ShortKey::open(key_text, parts.ids, at)).flatten();
    let tenant = match &short {
        Some(short) => parent(parts, short, at)?,
        None => {
            let of_server = mcp_tokens::caller(parts, (key_text, &route), client_ip, at)?;
            of_server.map_or_else(|| authenticate(parts, key_text, client_ip, at), Ok)?
        }
    };
    if !tenant.supposed {
        parts.uses.note(&tenant.key, at);
    }
    let auth_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let credential = credential.filter(|c| !is_gateway_key(&tenant, c));
    let parsed = GatewayHeaders::parse(&head.headers, &parts.settings.header_alias, &parts.settings.trusted);
    let (mut headers, mut bad_header) = match parsed {
        Ok(headers) => (headers, None),
        Err(fault) => (GatewayHeaders::default(), Some(fault)),
    };
    if let Some(short) = &short {
        bad_header = bad_header.or_else(|| short.lead(&mut route, &mut headers).err());
    }
    let keep = CapturePolicy::decide(parts.settings.log_bodies, &tenant.org, &headers);
    let trace = trace::id(&headers, at);
    let span = trace::of(&headers, &trace, parts.settings.traced);
    let metadata = merge_metadata(&tenant, &headers);
    // Made in its place: made before, all of it would be copied.
    let room = Box::new_uninit();
    let request = Box::write(
        room,
        Request {
            caller: Caller {
                tenant,
                client_ip,
                started,
                at,
                looked: LastLook::default(),
                auth_us,
                waited: Waited::default(),
                trace,
                span,
                metadata,
                keep,
            },
            ask: AskedFor {
                method: head.method.clone(),
                route,
                headers,
                credential: credential.map(|c| Secret::new(c.to_owned())),
                content: RequestContent::default(),
                prompt,
                reckoned: OnceLock::new(),
                untouched_model: None,
                pin: None,
                raw_names: RawNames::default(),
                upload: None,
                continues: None,
                first_event: short.and_then(|short| short.first_event(is_call)),
                call: None,
            },
        },
    );
    match bad_header.or_else(|| refusal(parts, &request)) {
        Some(fault) => Err(Refused::of(fault, request)),
        None => Ok(request),
    }
}

/// Why a request of a known caller goes no further.
fn refusal(parts: &IntakeParts<'_>, request: &Request) -> Option<Fault> {
    permit(parts, request)
        .or_else(|| unknown_route(request))
        .or_else(|| saved_only(parts, request))
        .or_else(|| request.ask.headers.not_built.clone())
        .or_else(|| goes_round(request))
}

fn merge_metadata(tenant: &Tenant, headers: &GatewayHeaders) -> Vec<(String, String)> {
    let mut merged = headers.metadata.clone();
    let own = |k: &String| headers.metadata.iter().any(|(have, _)| have == k);
    merged.extend(headers.baggage.iter().filter(|(k, _)| !own(k)).cloned());
    let key = tenant.key.defaults.iter().flat_map(|d| d.metadata.iter().map(|(k, v)| (k, v)));
    let here = tenant.world.snapshot.deployment(&tenant.org).into_iter();
    let here = here.flat_map(|deployment| deployment.config.metadata.iter());
    for (k, v) in key.chain(tenant.workspace.metadata.iter()).chain(here) {
        merged.retain(|(have, _)| have != k);
        merged.push((k.clone(), v.clone()));
    }
    merged
}
