//! Heads of upstream requests. What a managed target always sends is made once per thread and state of its
//! integration; a request clones that and adds its length.

use super::handshake::{is_session, protocols};
use super::headers::{of_connection, suffix_of};
use super::request::Request;
use super::target::{Aim, Credential};
use crate::upstream::http1::{Framing, RequestHead};
use crate::upstream::{Pass, later};
use ahash::AHashMap;
use gateway_domain::catalog::AuthStyle;
use gateway_domain::cloud::{self, AwsKeys, Signing};
use gateway_domain::config::Leaf;
use gateway_domain::keys::{KeyHash, looks_minted};
use gateway_domain::record::Trace;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use gateway_providers::oci::OciSigner;
use gateway_providers::{BodyPieces, Endpoint, ProviderRequest, sigv4};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::cell::RefCell;
use std::time::SystemTime;

/// Prepared heads of states that are gone are dropped all at once when this many have gathered.
const MOST_PREPARED: usize = 4096;

/// Keys that the gateway makes are longer, and those that are given to it have no less.
const SHORTEST_KEY: usize = 32;

const SNOWFLAKE_TOKEN: HeaderName = HeaderName::from_static("x-snowflake-authorization-token-type");

/// What carries a signature of AWS's.
const SIGNED_BY: &[&str] = &["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];

type HeadKey = (u64, Operation, Dialect);

thread_local! {
    static PREPARED: RefCell<AHashMap<HeadKey, RequestHead>> = RefCell::new(AHashMap::new());
}

/// The head of one target's requests: what never changes is shared text, the rest is put behind it.
#[derive(Clone, Debug)]
pub(crate) struct HeadPlan(RequestHead);

impl HeadPlan {
    /// The head as it is sent, but for its framing.
    pub(crate) const fn request(&self) -> &RequestHead {
        &self.0
    }

    /// The head with what a sign-in led to in the place of a credential: a token, or a signature over head and body.
    pub(crate) fn admitted(&self, pass: &Pass, signing: Option<&Signing>, body: &BodyPieces) -> Result<Self, Fault> {
        let mut plan = self.clone();
        match (pass, signing) {
            (Pass::Header(token), _) => plan.0.set(header::AUTHORIZATION, token.clone()),
            (Pass::Keys(keys, ahead), Some(signing)) => plan.sign(keys, later(*ahead), signing, body)?,
            (Pass::Keys(..), None) => return Err(internal(())),
            (Pass::Oci(signer), _) => plan.sign_for_oracle(signer, body)?,
        }
        Ok(plan)
    }

    fn sign(&mut self, keys: &AwsKeys, now: SystemTime, signing: &Signing, body: &BodyPieces) -> Result<(), Fault> {
        let head = &mut self.0;
        // A client of AWS's own has signed for the gateway; that signature ends here.
        SIGNED_BY.iter().for_each(|name| head.remove(&HeaderName::from_static(name)));
        let unsignable = |why| Fault::new(FaultKind::Internal, format!("The request could not be signed: {why}"));
        if sigv4::wants_bearer(signing, head.path()) {
            head.set(header::AUTHORIZATION, sigv4::bearer(keys, signing, now).map_err(unsignable)?);
            return Ok(());
        }
        let host = host_of(head)?;
        let covered = head.headers().filter(|(name, _)| sigv4::covers(name.as_str()));
        let headers = covered.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
        let (method, target) = (head.method().as_str(), head.path());
        let request = sigv4::Unsigned { method, target, host: &host, headers, body };
        let signed = sigv4::headers(request, keys, signing, now).map_err(unsignable)?;
        signed.into_iter().for_each(|(name, value)| head.set(name, value));
        Ok(())
    }

    fn sign_for_oracle(&mut self, signer: &OciSigner, body: &BodyPieces) -> Result<(), Fault> {
        let head = &mut self.0;
        let host = host_of(head)?;
        let covered = head.headers().filter(|(name, _)| **name == header::CONTENT_TYPE);
        let headers = covered.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
        let (method, target) = (head.method().as_str(), head.path());
        let request = sigv4::Unsigned { method, target, host: &host, headers, body };
        let signed = signer.headers(&request, later(0));
        let unsignable = |why| Fault::new(FaultKind::Internal, format!("The request could not be signed: {why}"));
        signed.map_err(unsignable)?.into_iter().for_each(|(name, value)| head.set(name, value));
        Ok(())
    }

    /// Every body that is held has a length.
    pub(crate) const fn set_framing(&mut self, framing: Framing) {
        self.0.set_framing(framing);
    }

    /// All but the framing, in no order.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.headers().map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    /// Continues the trace towards the target.
    pub(crate) fn trace(&mut self, trace: &Trace, attempt: u32) {
        let made = trace.header(attempt).and_then(|text| HeaderValue::from_str(&text).ok());
        let Some(parent) = made else { return };
        self.0.set(HeaderName::from_static("traceparent"), parent);
        if let Some(state) = trace.state.as_deref().and_then(|s| HeaderValue::from_str(s).ok()) {
            self.0.set(HeaderName::from_static("tracestate"), state);
        }
    }
}

fn host_of(head: &RequestHead) -> Result<String, Fault> {
    let host = head.get(&header::HOST).map(|value| value.to_str().map(str::to_owned)).transpose();
    Ok(host.map_err(internal)?.unwrap_or_default())
}

/// Where a head leads.
#[derive(Clone, Copy)]
pub(crate) struct HeadTarget<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) aim: &'a Aim,
    pub(crate) endpoint: &'a Endpoint,
}

/// What the client sent, and by which further names it may mean the gateway.
#[derive(Clone, Copy)]
pub(crate) struct ClientHeaders<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) aliases: &'a [String],
}

impl<'a> ClientHeaders<'a> {
    /// The headers of a call that the gateway makes itself: no client has further names for the gateway.
    pub(crate) const fn of_nobody(headers: &'a HeaderMap) -> Self {
        Self { headers, aliases: &[] }
    }
}

/// The head of one upstream request, all but its framing.
pub(crate) fn build(
    request: &Request,
    target: HeadTarget<'_>,
    out: &ProviderRequest,
    client: ClientHeaders<'_>,
) -> Result<HeadPlan, Fault> {
    let HeadTarget { leaf, aim, endpoint } = target;
    let ClientHeaders { headers: client, aliases } = client;
    let fixed = !request.ask.route.raw && out.path.is_none() && leaf.custom_host.is_none();
    let mut head = match &aim.credential {
        Credential::Managed(upstream) if fixed => {
            let key = (upstream.generation, request.ask.route.operation, request.ask.route.dialect);
            prepared(key, request, aim, endpoint)?
        }
        _ => {
            let mut head = prepare(request, aim, out.path.as_deref().unwrap_or(&endpoint.path), endpoint)?;
            if passes(request) {
                pass_raw(&mut head, request, client, (aim, aliases));
            }
            head
        }
    };
    out.headers.iter().for_each(|(name, value)| head.set(name.clone(), value.clone()));
    for (name, value) in provider_headers(request, leaf, aim) {
        head.set(HeaderName::from_static(name), value.clone());
    }
    let of_the_hop = of_connection(client);
    let listed = request.ask.headers.forward_headers.as_ref().unwrap_or(&leaf.forward_headers);
    for name in listed.iter() {
        let own = suffix_of(name, aliases).is_some_and(|s| !matches!(s, "trace-id" | "span-id"));
        let own = own || of_the_hop.iter().any(|hop| hop.as_str() == &**name);
        let Some(value) = client.get(name.as_str()).filter(|v| !own && !is_fixed(aim, name) && !is_key(request, v))
        else {
            continue;
        };
        // Where the gateway key stood in one of these, it must not leave the house.
        let credential_place = matches!(name.as_str(), "authorization" | "x-api-key" | "api-key" | "x-goog-api-key");
        // A saved credential is never replaced by what a client sends.
        let saved = matches!(aim.credential, Credential::Managed(_));
        let own = matches!(auth(request, aim), AuthStyle::Header(h) | AuthStyle::BearerIn(h) if h == name.as_str());
        let credential_place = credential_place || own;
        if !credential_place || (!saved && request.ask.headers.api_key.is_some()) {
            head.set(HeaderName::from_bytes(name.as_bytes()).map_err(internal)?, value.clone());
        }
    }
    Ok(HeadPlan(head))
}

/// What request and config say of headers that the provider knows.
pub(crate) fn provider_headers<'a>(
    request: &'a Request,
    leaf: &'a Leaf,
    aim: &'a Aim,
) -> impl Iterator<Item = (&'static str, &'a HeaderValue)> {
    let set = &request.ask.headers.provider_headers;
    let unset = leaf.provider_headers.iter().filter(|(name, _)| set.iter().all(|(n, _)| n != name));
    let taken = |name: &str| aim.adapter.takes_header(name, aim.model.as_deref()) && !is_fixed(aim, name);
    set.iter().chain(unset).filter(move |(name, _)| taken(name)).map(|(name, value)| (*name, value))
}

/// The client's own headers go along.
const fn passes(request: &Request) -> bool {
    request.ask.route.raw || request.ask.upload.is_some()
}

/// Made once per thread and state of the integration.
fn prepared(key: HeadKey, request: &Request, aim: &Aim, endpoint: &Endpoint) -> Result<RequestHead, Fault> {
    if let Some(head) = PREPARED.with_borrow(|p| p.get(&key).cloned()) {
        return Ok(head);
    }
    let head = prepare(request, aim, &endpoint.path, endpoint)?.prepared();
    PREPARED.with_borrow_mut(|p| {
        if p.len() >= MOST_PREPARED {
            p.clear();
        }
        p.insert(key, head.clone());
    });
    Ok(head)
}

/// An admin's own headers on a managed target are not a client's to change.
fn is_fixed(aim: &Aim, name: &str) -> bool {
    matches!(&aim.credential, Credential::Managed(upstream) if upstream.headers.iter().any(|(n, _)| n == name))
}

/// A gateway key must not leave the house, in whatever header it stands.
fn is_key(request: &Request, value: &HeaderValue) -> bool {
    // Shorter ones are no keys, and need not be hashed.
    let known = |word: &str| {
        let long = word.len() >= SHORTEST_KEY;
        long && (looks_minted(word) || request.caller.tenant.world.snapshot.key(&KeyHash::of(word)).is_some())
    };
    let apart = |c: char| c.is_whitespace() || matches!(c, '=' | ',' | ';' | ':' | '"' | '\'' | '&' | '?');
    value.to_str().is_ok_and(|v| known(v.trim()) || v.split(apart).any(known))
}

/// Addresses are often given with what the provider's paths begin with, as its own clients want them: that is meant
/// once.
fn joined(base: &str, path: &str) -> String {
    let overlaps = |at: &usize| path.strip_prefix(&base[*at..]).is_some_and(|rest| rest.starts_with('/'));
    let shared = base.match_indices('/').map(|(at, _)| at).find(overlaps);
    [&base[..shared.unwrap_or(base.len())], path].concat()
}

/// Method, path, host, credential and the fixed headers of the target.
fn prepare(request: &Request, aim: &Aim, path: &str, endpoint: &Endpoint) -> Result<RequestHead, Fault> {
    let whole = joined(&aim.base.path, path);
    let whole = if whole.is_empty() { "/" } else { &whole };
    let mut head = addressed(request.ask.method.clone(), whole, aim)?;
    if !passes(request) {
        of_json(&mut head);
    }
    equip(&mut head, aim, endpoint, auth(request, aim))?;
    Ok(head)
}

/// The head of a call that no client asks for.
pub(crate) fn of_own(
    aim: &Aim,
    method: Method,
    (endpoint, out): (&Endpoint, &ProviderRequest),
) -> Result<HeadPlan, Fault> {
    let path = joined(&aim.base.path, out.path.as_deref().unwrap_or(&endpoint.path));
    let has_body = method != Method::GET;
    let mut head = addressed(method, &path, aim)?;
    of_json(&mut head);
    equip(&mut head, aim, endpoint, aim.adapter.auth(None))?;
    out.headers.iter().for_each(|(name, value)| head.set(name.clone(), value.clone()));
    if has_body {
        head.set_framing(Framing::Length(out.body.len()));
    }
    Ok(HeadPlan(head))
}

fn addressed(method: Method, path: &str, aim: &Aim) -> Result<RequestHead, Fault> {
    let mut head = RequestHead::new(method, path)
        .map_err(|_| Fault::new(FaultKind::BadHeader, "The path cannot be sent upstream").on("path"))?;
    head.set(header::HOST, value(&aim.base.authority())?);
    Ok(head)
}

fn of_json(head: &mut RequestHead) {
    head.set(header::ACCEPT, HeaderValue::from_static("*/*"));
    if *head.method() != Method::GET {
        head.set(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
}

/// What a target always sends, its credential among it.
fn equip(head: &mut RequestHead, aim: &Aim, endpoint: &Endpoint, auth: AuthStyle) -> Result<(), Fault> {
    head.set(header::USER_AGENT, HeaderValue::from_static(concat!("gateway/", env!("CARGO_PKG_VERSION"))));
    for (name, text) in endpoint.headers {
        head.set(HeaderName::from_static(name), HeaderValue::from_static(text));
    }
    authorize(head, aim, auth)?;
    if let Credential::Managed(upstream) = &aim.credential {
        for (name, text) in &upstream.headers {
            head.set(HeaderName::from_bytes(name.as_bytes()).map_err(internal)?, secret(text.expose())?);
        }
    }
    Ok(())
}

/// How the provider wants the credential of this call.
fn auth(request: &Request, aim: &Aim) -> AuthStyle {
    aim.adapter.auth(request.ask.route.raw.then(|| request.ask.route.tail()))
}

/// Puts the credential where the provider wants it.
fn authorize(head: &mut RequestHead, aim: &Aim, auth: AuthStyle) -> Result<(), Fault> {
    if aim.grant.is_some() {
        // A token comes in its place, when the request goes out.
        if auth == AuthStyle::Snowflake {
            head.set(SNOWFLAKE_TOKEN, HeaderValue::from_static("OAUTH"));
        }
        return Ok(());
    }
    if let Some(token) = cloud::bearer(&aim.settings) {
        head.set(header::AUTHORIZATION, secret(&format!("Bearer {token}"))?);
        return Ok(());
    }
    let key = match &aim.credential {
        Credential::None => return Ok(()),
        Credential::Managed(upstream) => match &upstream.credential {
            Some(key) => key.expose().as_str(),
            None => return Ok(()),
        },
        Credential::Own(key) => key.expose().as_str(),
    };
    match auth {
        AuthStyle::None => {}
        AuthStyle::Snowflake => {
            head.set(header::AUTHORIZATION, secret(&format!("Bearer {key}"))?);
            head.set(SNOWFLAKE_TOKEN, HeaderValue::from_static(cloud::snowflake_token_type(key)));
        }
        AuthStyle::Bearer => head.set(header::AUTHORIZATION, secret(&format!("Bearer {key}"))?),
        AuthStyle::Scheme(scheme) => head.set(header::AUTHORIZATION, secret(&format!("{scheme} {key}"))?),
        AuthStyle::Header(name) => head.set(HeaderName::from_static(name), secret(key)?),
        AuthStyle::BearerIn(name) => head.set(HeaderName::from_static(name), secret(&format!("Bearer {key}"))?),
    }
    Ok(())
}

/// Headers of a pass-through request: the client's own, without what belongs to the hop, to the gateway or
/// to its credential.
fn pass_raw(head: &mut RequestHead, request: &Request, client: &HeaderMap, (aim, aliases): (&Aim, &[String])) {
    static OWN: &[&str] = &[
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        // A compressed answer could not be metered, and is smaller by little.
        "accept-encoding",
        "expect",
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    ];
    let fixed: &[(String, _)] = match &aim.credential {
        Credential::Managed(upstream) => &upstream.headers,
        _ => &[],
    };
    let style = auth(request, aim);
    let mut replaced: Vec<&HeaderName> = Vec::new();
    let listed = of_connection(client);
    for (name, value) in client {
        let text = name.as_str();
        let auth = matches!(style, AuthStyle::Header(h) | AuthStyle::BearerIn(h) if h == text);
        let auth = auth || (style == AuthStyle::Snowflake && *name == SNOWFLAKE_TOKEN);
        // Keys among protocols are taken out below, and what extensions make of frames nobody here could read.
        let of_socket = *name == header::SEC_WEBSOCKET_PROTOCOL
            || (*name == header::SEC_WEBSOCKET_EXTENSIONS
                && is_session(request.ask.route.operation, request.ask.upload));
        let own = of_socket || OWN.contains(&text) || listed.contains(name) || suffix_of(text, aliases).is_some();
        if own || auth || fixed.iter().any(|(n, _)| n == text) || is_key(request, value) {
            continue;
        }
        if replaced.contains(&name) {
            head.append(name.clone(), value.clone());
        } else {
            head.set(name.clone(), value.clone());
            replaced.push(name);
        }
    }
    if let Some(protocols) = protocols(client).filter(|value| !is_key(request, value)) {
        head.set(header::SEC_WEBSOCKET_PROTOCOL, protocols);
    }
}

fn value(text: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(text).map_err(internal)
}

/// A credential with bytes that no header can carry is the client's or the admin's mistake; it is not shown.
fn secret(text: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Fault::new(FaultKind::BadHeader, "The upstream credential cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn internal<E>(_: E) -> Fault {
    Fault::new(FaultKind::Internal, "A header for the upstream could not be made")
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn what_an_address_and_a_path_share_stands_once() {
        for (base, path, whole) in [
            ("", "/v1/chat", "/v1/chat"),
            ("/v1", "/chat", "/v1/chat"),
            ("/v1", "/v1/chat", "/v1/chat"),
            ("/gateway/v1", "/v1/chat", "/gateway/v1/chat"),
            ("/compatible-mode/v1", "/compatible-mode/v1/chat", "/compatible-mode/v1/chat"),
            ("/v1", "/compatible-mode/v1/chat", "/v1/compatible-mode/v1/chat"),
            ("/v1", "/v10/chat", "/v1/v10/chat"),
            ("/v1", "/v1", "/v1/v1"),
            ("/v1", "", "/v1"),
        ] {
            assert_eq!(joined(base, path), whole, "{base} {path}");
        }
    }
}
