//! The first step: who asks, for which operation, with which headers and body. Nothing is looked up in a
//! database and nothing of the body is read before the key is known to be good.

mod caller;
mod mcp_tokens;
mod permits;

pub(super) use permits::NO_MCP;

use super::Gateway;
use super::asked_path::{AskedPath, asked, name_session, takes_short_keys};
use super::capture_policy::CapturePolicy;
use super::client_address::client_ip;
use super::gateway_key::{credentials, known_key};
use super::headers::GatewayHeaders;
use super::refused::Refused;
use super::request::{AskedFor, Caller, Content, LastLook, RawNames, Request, Tenant, Waited};
use super::short_keys::{ShortKey, goes_round};
use super::trace;
use caller::{authenticate, is_gateway_key, parent};
use gateway_domain::keys::KeyHash;
use gateway_domain::{Fault, Operation, Secret, Timestamp, token};
use http::HeaderValue;
use permits::{permit, saved_only, unknown_route};
use pingora::proxy::Session;
use std::sync::OnceLock;
use std::time::Instant;
use uuid::Uuid;

/// Everything up to the body. The request it gives has an empty [`Content`].
pub(crate) fn receive(
    gateway: &Gateway,
    session: &Session,
    started: Instant,
    at: Timestamp,
) -> Result<Box<Request>, Refused> {
    let head = session.req_header();
    let uri = &head.uri;
    let AskedPath { mut route, prompt } = asked(&head.method, uri)?;
    name_session(&mut route, session);
    let client_ip = client_ip(session, &gateway.settings.trusted_proxies);
    let (key_text, credential) = credentials(&head.headers, &gateway.settings.header_alias)?;
    let is_call = route.operation == Operation::RealtimeCall;
    let short = takes_short_keys(&route).then(|| ShortKey::open(key_text, &*gateway.calls.ids, at)).flatten();
    let tenant = match &short {
        Some(short) => parent(gateway, short, at)?,
        None => {
            let of_server = mcp_tokens::caller(gateway, (key_text, &route), client_ip, at)?;
            of_server.map_or_else(|| authenticate(gateway, key_text, client_ip, at), Ok)?
        }
    };
    if !tenant.supposed {
        gateway.uses.note(&tenant.key, at);
    }
    let auth_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let credential = credential.filter(|c| !is_gateway_key(&tenant, c));
    let parsed = GatewayHeaders::parse(&head.headers, &gateway.settings.header_alias, &gateway.settings.trusted);
    let (mut headers, mut bad_header) = match parsed {
        Ok(headers) => (headers, None),
        Err(fault) => (GatewayHeaders::default(), Some(fault)),
    };
    if let Some(short) = &short {
        bad_header = bad_header.or_else(|| short.lead(&mut route, &mut headers).err());
    }
    let keep = CapturePolicy::decide(gateway.settings.log_bodies, &tenant.org, &headers);
    let trace = trace::id(&headers, at);
    let span = trace::of(&headers, &trace, gateway.settings.traced);
    let metadata = merge_metadata(&tenant, &headers);
    let request = Box::new(Request {
        caller: Caller {
            tenant,
            client_ip,
            started,
            at,
            looked: LastLook::default(),
            auth_us,
            waited: Waited::default(),
            trace_value: HeaderValue::from_str(&trace).unwrap_or_else(|_| HeaderValue::from_static("?")),
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
            content: Content::default(),
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
    });
    let refusal = bad_header.or_else(|| permit(gateway, &request)).or_else(|| unknown_route(&request));
    let refusal = refusal.or_else(|| saved_only(gateway, &request));
    let refusal = refusal.or_else(|| request.ask.headers.not_built.clone());
    let refusal = refusal.or_else(|| goes_round(&request));
    match refusal {
        Some(fault) => Err(Refused::of(fault, request)),
        None => Ok(request),
    }
}

/// The key that a control-plane request comes with, by its id, where it can be told without a signature; `Err` for a
/// token from where too many unknown ones come. Whether it may do anything the admin service says.
pub(super) fn standing(gateway: &Gateway, session: &Session) -> Result<Option<Uuid>, Fault> {
    let (headers, aliases) = (&session.req_header().headers, &gateway.settings.header_alias);
    let known = known_key(&gateway.live, headers, aliases);
    if known.is_none()
        && let Ok((text, _)) = credentials(headers, aliases)
        && token::looks_signed(text)
        && !gateway.issuers.knows(&KeyHash::of(text))
        && gateway.shield.is_flooded_by(client_ip(session, &gateway.settings.trusted_proxies))
    {
        return Err(gateway.shield.unknown_keys());
    }
    Ok(known)
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
