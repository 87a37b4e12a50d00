//! The first step: who asks, for which operation, with which headers and body. Nothing is looked up in a
//! database and nothing of the body is read before the key is known to be good.

mod mcp_tokens;

use super::Gateway;
use super::body::{self, BodyError, BodyLimits, Permit};
use super::body_mode::is_websocket;
use super::call_ask::call_in_path;
use super::capture_policy::CapturePolicy;
use super::client_address::client_ip;
use super::headers::{GatewayHeaders, SELF, suffix_of};
use super::request::{
    AskedFor, Caller, Content, LastLook, PromptAsk, RawNames, Request, Route, Tenant, TenantGuardrails, Waited,
    chat_route, prompt_asked,
};
use super::short_keys::{ShortKey, goes_round};
use super::{handshake, tenants, trace};
use crate::runtime_config::{ConfigHandle, RuntimeConfig};
use bytes::Bytes;
use gateway_domain::bounds::{peek, peek_form};
use gateway_domain::form::{ClientForm, FormError};
use gateway_domain::id::UserId;
use gateway_domain::keys::{KeyHash, looks_minted};
use gateway_domain::operation::{self, Body};
use gateway_domain::path::normal;
use gateway_domain::ports::{Revision, Tokens as _};
use gateway_domain::realtime_paths;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::{Scope, Scopes};
use gateway_domain::snapshot::Key;
use gateway_domain::stranger::{Stranger, Unwelcome};
use gateway_domain::token::{self, TokenError};
use gateway_domain::{Dialect, Fault, FaultKind, Operation, OrgId, Secret, Timestamp};
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use pingora::proxy::Session;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use uuid::Uuid;

/// A refusal, with the tenant when it was known by then (its refusals are recorded).
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) request: Option<Box<Request>>,
    /// The token may be good once the issuers of this organisation were asked for their keys again.
    pub(crate) unknown_signer: Option<OrgId>,
    /// Refused for whom it came from, which nothing else tells of.
    pub(crate) stranger: Option<Stranger>,
    /// The token may be good once this node has heard of as much.
    pub(crate) awaits: Option<Revision>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, request: None, unknown_signer: None, stranger: None, awaits: None }
    }
}

impl Refused {
    pub(crate) fn of(fault: Fault, request: Box<Request>) -> Self {
        Self { request: Some(request), ..fault.into() }
    }

    fn stranger(fault: Fault, stranger: Stranger) -> Self {
        Self { stranger: Some(stranger), ..fault.into() }
    }

    /// A token that names this organisation, which nobody vouches for.
    fn token(error: &TokenError, org: Option<OrgId>) -> Self {
        let told = error.to_string();
        let (why, kind, unknown_signer) = match error {
            TokenError::Forbidden(_) => (Unwelcome::NoPlace, FaultKind::Forbidden, None),
            TokenError::Invalid(_) => (Unwelcome::BadToken, FaultKind::Unauthenticated, None),
            TokenError::UnknownKey(org) => (Unwelcome::BadToken, FaultKind::Unauthenticated, Some(*org)),
        };
        Self { unknown_signer, ..Self::stranger(Fault::new(kind, told), Stranger::with_token(why, org)) }
    }
}

/// The dialect that errors about this path are told in.
pub(crate) fn dialect(method: &Method, path: &str) -> Dialect {
    let path = normal(path).unwrap_or(Cow::Borrowed(path));
    operation::route(method, &path).map_or(Dialect::OpenAi, |r| r.dialect)
}

pub(crate) fn route(method: &Method, path: &str, query: Option<&str>) -> Result<Route, Fault> {
    let path = normal(path).map_err(|why| Fault::new(FaultKind::BadPath, why.to_string()))?;
    let routed = operation::route(method, &path)
        .filter(|_| matches!(*method, Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::PATCH))
        .ok_or_else(|| Fault::new(FaultKind::UnknownRoute, "Not Found: every route begins with /v1"))?;
    Ok(Route {
        operation: routed.operation,
        dialect: routed.dialect,
        raw: routed.raw,
        body: routed.body,
        tail: routed.path.len() - routed.tail.len()..routed.path.len(),
        path: routed.path.into(),
        query: query.map(Into::into),
    })
}

/// What a path asks for.
struct AskedPath {
    route: Route,
    /// Of a call of a saved prompt, which becomes a chat request.
    prompt: Option<Box<PromptAsk>>,
}

/// Looks for prompts where nothing else is known, so that what is known pays nothing for it.
fn asked(method: &Method, uri: &Uri) -> Result<AskedPath, Fault> {
    let found = route(method, uri.path(), uri.query());
    if !matches!(&found, Ok(route) if route.operation != Operation::Proxy)
        && let Some(ask) = prompt_asked(method, uri.path())
    {
        return Ok(AskedPath { route: chat_route(), prompt: Some(Box::new(ask)) });
    }
    Ok(AskedPath { route: found?, prompt: None })
}

/// A session is watched by whatever path it is opened.
fn name_session(route: &mut Route, session: &Session) {
    if route.operation == Operation::Proxy
        && is_websocket(session)
        && let Some(operation) = realtime_paths::session(route.tail())
    {
        route.operation = operation;
    }
}

/// Sessions, and calls that begin, are what keys of browsers are for.
fn takes_short_keys(route: &Route) -> bool {
    match route.operation {
        Operation::Realtime => true,
        Operation::RealtimeCall => call_in_path(route.tail()).is_none(),
        _ => false,
    }
}

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

/// Where official SDKs put a key when it is no bearer token: Anthropic's, Azure's and Google's, whose clients work
/// unchanged that way.
const KEY_HEADERS: &[&str] = &["x-api-key", "api-key", "x-goog-api-key"];

/// Where [`credentials`] looks.
const NO_KEY: &str =
    "No gateway key: send it in x-gateway-api-key, Authorization: Bearer, x-api-key, api-key or x-goog-api-key";

/// The gateway key, and what is meant for the upstream: with `x-gateway-api-key` present the other
/// places hold the upstream's credential (see `docs/security.md`).
fn credentials<'a>(headers: &'a HeaderMap, aliases: &[String]) -> Result<(&'a str, Option<&'a str>), Refused> {
    let text = |value: &'a HeaderValue| value.to_str().ok().map(str::trim);
    let bearer = headers.get(header::AUTHORIZATION).and_then(text).map(|v| {
        let cut = v.get(..7).filter(|p| p.eq_ignore_ascii_case("bearer "));
        cut.map_or(v, |_| v[7..].trim())
    });
    // One walk: to look for names that are not standard ones costs more than to see what there is.
    let mut places = [None; KEY_HEADERS.len()];
    let (mut own, mut aliased, mut opens_socket) = (None, None, false);
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().ends_with("key")) {
        let name = name.as_str();
        if let Some(place) = KEY_HEADERS.iter().position(|known| *known == name) {
            places[place] = places[place].or(Some(value));
        } else if name == "x-gateway-api-key" {
            own = own.or(Some(value));
        } else if suffix_of(name, aliases) == Some("api-key") {
            aliased = aliased.or(Some(value));
        } else {
            opens_socket |= name == "sec-websocket-key";
        }
    }
    let named = places.into_iter().flatten().find_map(|value| text(value).filter(|k| !k.is_empty()));
    // Browsers can send a header of none of these names with a handshake.
    let named = named.or_else(|| opens_socket.then(|| handshake::key(headers)).flatten());
    match own.or(aliased) {
        Some(own) => {
            let own = own.to_str().map_err(|_| {
                let fault = unauthenticated("The gateway key must be visible ASCII");
                Refused::stranger(fault, Stranger::unknown(Unwelcome::UnknownKey))
            })?;
            Ok((own.trim(), bearer.filter(|b| !b.is_empty()).or(named)))
        }
        None => match bearer.filter(|b| !b.is_empty()).or(named) {
            Some(key) => Ok((key, None)),
            None => Err(Refused::stranger(unauthenticated(NO_KEY), Stranger::unknown(Unwelcome::NoKey))),
        },
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

/// The key of a request by its id, where it is one of ours and no token.
pub(crate) fn known_key(live: &ConfigHandle, headers: &HeaderMap, aliases: &[String]) -> Option<Uuid> {
    let (text, _) = credentials(headers, aliases).ok()?;
    live.current().snapshot.key(&KeyHash::of(text)).map(|key| key.id.0)
}

/// What a caller signs in with.
pub(crate) fn key_text(headers: &HeaderMap, aliases: &[String]) -> Option<String> {
    credentials(headers, aliases).ok().map(|(text, _)| text.to_owned())
}

fn unauthenticated(message: &'static str) -> Fault {
    Fault::new(FaultKind::Unauthenticated, message)
}

/// A gateway key found where an upstream credential belongs is dropped, never forwarded.
fn is_gateway_key(tenant: &Tenant, text: &str) -> bool {
    looks_minted(text) || tenant.world.snapshot.key(&KeyHash::of(text)).is_some()
}

fn authenticate(gateway: &Gateway, text: &str, from: Option<IpAddr>, now: Timestamp) -> Result<Arc<Tenant>, Refused> {
    let world = gateway.live.current();
    if let Some(tenant) = tenants::find(&world, text) {
        return in_force(&tenant.key, now).map(|()| tenant);
    }
    let hash = KeyHash::of(text);
    let known = world.snapshot.key(&hash);
    let mut guest = None;
    let key = match known {
        Some(key) => key.clone(),
        None if token::looks_signed(text) && gateway.shield.is_flooded_by(from) && !gateway.issuers.knows(&hash) => {
            // To check a signature takes longer than all else.
            return Err(gateway.shield.unknown_keys().into());
        }
        None if token::looks_signed(text) => {
            let found = gateway.issuers.key(&world.snapshot, text, &hash, now);
            found.map_err(|error| Refused::token(&error, gateway.issuers.named(&world.snapshot, text)))?
        }
        None => {
            guest = gateway.batches.callers.guest(&hash);
            let of_guest = guest.as_ref().and_then(|guest| world.snapshot.key_by_id(guest.key));
            let unknown = || Refused::stranger(unknown_key(), Stranger::unknown(Unwelcome::UnknownKey));
            of_guest.ok_or_else(unknown)?.clone()
        }
    };
    in_force(&key, now)?;
    let supposed = guest.as_ref().is_some_and(|guest| guest.supposes);
    let line = guest.and_then(|guest| guest.line);
    let tenant = Arc::new(Tenant { supposed, line, ..tenant(&world, key)? });
    if known.is_some() {
        tenants::keep(&world, text, &tenant);
    }
    Ok(tenant)
}

fn in_force(key: &Key, now: Timestamp) -> Result<(), Refused> {
    let why = match key.expires_at {
        Some(at) if at <= now => Unwelcome::ExpiredKey,
        _ if key.active => return Ok(()),
        _ => Unwelcome::InactiveKey,
    };
    let fault = unauthenticated("The gateway key has expired or is not active");
    Err(Refused::stranger(fault, Stranger::with_key(why, key)))
}

/// Whom a short key stands for.
fn parent(gateway: &Gateway, short: &ShortKey, now: Timestamp) -> Result<Arc<Tenant>, Refused> {
    let world = gateway.live.current();
    let unknown = || Refused::stranger(unknown_key(), Stranger::unknown(Unwelcome::UnknownKey));
    let key = world.snapshot.key_by_id(short.parent()).ok_or_else(unknown)?.clone();
    in_force(&key, now)?;
    tenant(&world, key).map(Arc::new)
}

fn unknown_key() -> Fault {
    unauthenticated("The gateway key is not valid")
}

fn tenant(world: &Arc<RuntimeConfig>, key: Arc<Key>) -> Result<Tenant, Refused> {
    let workspace = match (key.kind, key.workspace) {
        (KeyKind::WorkspaceService | KeyKind::WorkspaceUser, Some(id)) => id,
        _ => {
            let fault = Fault::new(FaultKind::Forbidden, "Admin keys cannot call models; use a workspace key");
            return Err(Refused::stranger(fault, Stranger::with_key(Unwelcome::WrongKind, &key)));
        }
    };
    let homeless = || Refused::stranger(unknown_key(), Stranger::with_key(Unwelcome::InactiveKey, &key));
    let workspace = world.snapshot.workspace(workspace).filter(|w| w.active).ok_or_else(homeless)?.clone();
    let org = world.snapshot.org(key.org).ok_or_else(homeless)?.clone();
    if !world.snapshot.serves(&org, workspace.id) {
        return Err(Refused::stranger(Tenant::served_elsewhere(), Stranger::with_key(Unwelcome::NoPlace, &key)));
    }
    let guardrails = TenantGuardrails::of(&world.snapshot, &org, &workspace);
    Ok(Tenant { world: world.clone(), key, org, workspace, guardrails, supposed: false, line: None })
}

/// The key's own scopes, and of a person's key no more than the roles of the person allow now.
fn scopes(tenant: &Tenant) -> Scopes {
    let own = tenant.key.scopes;
    let Some(person) = tenant.key.owner else { return own };
    let snapshot = &tenant.world.snapshot;
    let standing = snapshot.standing(UserId(person), &tenant.workspace);
    standing
        .map_or_else(Scopes::default, |(org, seat)| own.meet(&snapshot.security(&tenant.workspace).bound(org, seat)))
}

/// What a key without the scope of MCP servers is told.
pub(super) const NO_MCP: &str = "The key lacks the scope mcp.invoke";

/// The scope that routes of the data plane ask for.
fn permit(gateway: &Gateway, request: &Request) -> Option<Fault> {
    const RENDER: Scope = Scope::named("prompts.render");
    let scopes = scopes(&request.caller.tenant);
    if request.is_rendered_only() {
        let told = "The key lacks the scope prompts.render";
        return (!scopes.has(RENDER)).then(|| Fault::new(FaultKind::Forbidden, told));
    }
    if request.ask.route.operation == Operation::McpSession {
        let opens = scopes.has(Scope::MCP_INVOKE)
            || gateway.mcp.authorization().is_some_and(|signing_in| signing_in.admits(&request.caller.tenant));
        return (!opens).then(|| Fault::new(FaultKind::Forbidden, NO_MCP));
    }
    if request.ask.route.operation == Operation::A2aCard {
        let told = "The key lacks the scope agents.invoke";
        return (!scopes.has(Scope::AGENTS_INVOKE)).then(|| Fault::new(FaultKind::Forbidden, told));
    }
    let listing = request.ask.route.asked() == Operation::ListModels
        && (scopes.has(Scope::MODELS_LIST) || scopes.has(Scope::VIRTUAL_KEYS_LIST));
    if listing || scopes.has(Scope::COMPLETIONS_WRITE) {
        return None;
    }
    Some(Fault::new(FaultKind::Forbidden, "The key lacks the scope completions.write"))
}

/// A path that is nothing but the provider's, where the organisation wants none of those.
fn unknown_route(request: &Request) -> Option<Fault> {
    let unknown = request.ask.route.operation == Operation::Proxy && request.caller.tenant.org.known_routes_only;
    let told = "Not Found: the organisation has opened known routes only (known_routes_only)";
    unknown.then(|| Fault::new(FaultKind::UnknownRoute, told))
}

/// Saved-only mode: of several violations the first in this order is told.
fn saved_only(gateway: &Gateway, request: &Request) -> Option<Fault> {
    let tenant = &request.caller.tenant;
    let here = tenant.world.snapshot.deployment(&tenant.org).is_some_and(|d| d.config.block_inline_config);
    if !gateway.settings.block_inline_config && !tenant.org.block_inline_config && !here {
        return None;
    }
    let headers = &request.ask.headers;
    let inline_config = headers.config.as_ref().is_some_and(|c| c.as_bytes().trim_ascii_start().starts_with(b"{"));
    let inline_provider = headers.provider.as_deref().is_some_and(|p| !p.starts_with('@') && p != SELF);
    let (code, field, what) = if inline_config {
        ("inline_config_blocked", "x-gateway-config", "Inline configs are")
    } else if inline_provider {
        ("inline_provider_blocked", "x-gateway-provider", "Providers that are not saved are")
    } else if headers.custom_host.is_some() {
        ("inline_custom_host_blocked", "x-gateway-custom-host", "Custom hosts by header are")
    } else if let Some(field) = headers.provider_url {
        ("inline_provider_url_blocked", field, "Addresses of providers by header are")
    } else if headers.forward_headers.is_some() {
        ("inline_forward_headers_blocked", "x-gateway-forward-headers", "Forwarded headers by header are")
    } else {
        return None;
    };
    Some(Fault::new(FaultKind::InlineBlocked, format!("{what} blocked in this organisation")).code(code).on(field))
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

/// The model of a session stands in its address, where it may name a provider as the `model` of a body may.
pub(crate) fn read_session_model(request: &mut Request) {
    let route = &request.ask.route;
    if !route.operation.facts().opens_session || route.raw {
        return;
    }
    let pairs = url::form_urlencoded::parse(route.query.as_deref().unwrap_or_default().as_bytes());
    let mut named = pairs.filter(|(name, _)| name == "model");
    let model = named.next().filter(|(_, model)| model.starts_with('@'));
    let alone = named.next().is_none();
    request.ask.content.model = model.filter(|_| alone).map(|(_, model)| model.into());
}

/// Parsing a body above this takes long enough to hold up the other connections of a worker.
const LARGE: usize = 256 * 1024;

/// Reads and bounds the body of an exchanged request.
pub(crate) async fn read_content(
    gateway: &Gateway,
    session: &mut Session,
    route: &Route,
    held: &mut Permit,
) -> Result<Content, BodyError> {
    let limits = BodyLimits { most: gateway.settings.max_body, time: gateway.settings.body_timeout };
    let started = Instant::now();
    let bytes = body::read(&mut session.downstream_session, limits, held).await?;
    let waited_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    if bytes.is_empty() && route.body != Some(Body::Json) {
        return Ok(Content::default());
    }
    if let Some(kind) = form_type(session, route) {
        return form_content(&kind, route.operation, bytes, waited_us);
    }
    let found = look(&bytes, route.asked()).await;
    let found = found.map_err(|fault| BodyError::Invalid(fault, bytes.clone()))?;
    // Of a body that makes no sense here the provider may make any.
    let unread = found.unread && !bytes.is_empty();
    Ok(Content { bytes, unread, waited_us, ..found })
}

/// What of a body matters to routing, with the body held to its bounds.
pub(crate) async fn look(bytes: &Bytes, operation: Operation) -> Result<Content, Fault> {
    let look = |bytes: &Bytes, operation| peek(operation, bytes).map(|p| own(&p));
    if bytes.len() <= LARGE {
        return look(bytes, operation);
    }
    let bytes = bytes.clone();
    let looked = tokio::task::spawn_blocking(move || look(&bytes, operation)).await;
    looked.unwrap_or_else(|_| Err(Fault::new(FaultKind::Internal, "The request body could not be read")))
}

/// The content type of a form on a route that reads forms.
fn form_type(session: &Session, route: &Route) -> Option<String> {
    if route.body != Some(Body::Form) {
        return None;
    }
    let told = session.get_header(header::CONTENT_TYPE)?.to_str().ok()?;
    let is_form = told.get(..19).is_some_and(|start| start.eq_ignore_ascii_case("multipart/form-data"));
    is_form.then(|| told.to_owned())
}

/// To find where the parts of a form stand is one search for its boundary, whatever its files hold.
fn form_content(kind: &str, operation: Operation, bytes: Bytes, waited_us: u64) -> Result<Content, BodyError> {
    let invalid = |fault| BodyError::Invalid(fault, bytes.clone());
    let form = ClientForm::read(kind, &bytes).map_err(|why| {
        let fault = Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}"));
        invalid(if why == FormError::Boundary { fault.on("content-type") } else { fault })
    })?;
    let found = peek_form(operation, &form, &bytes).map(|peek| own(&peek)).map_err(invalid)?;
    Ok(Content { bytes, form: Some(Arc::new(form)), waited_us, ..found })
}

fn own(peek: &gateway_domain::bounds::Peek<'_>) -> Content {
    Content {
        model: peek.model.as_deref().map(Arc::from),
        model_span: peek.model_span.clone(),
        stream: peek.stream,
        wants_usage: peek.wants_usage,
        unread: !peek.read,
        model_respelled: peek.model_respelled,
        names_no_object: peek.names_no_object,
        ..Content::default()
    }
}
