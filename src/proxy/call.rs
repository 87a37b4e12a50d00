//! One call as a provider's adapter reads it, and what goes up for it: made once for a target, shared by its retries.

use super::handshake::is_session;
use super::head::{self, ClientHeaders, HeadPlan, HeadTarget};
use super::objects::Binder;
use super::realtime_call_request::without_model;
use super::request::{Request, RequestContent};
use super::target::Aim;
use crate::guardrails::TargetGuards;
use crate::upstream::http1::Framing;
use bytes::Bytes;
use gateway_domain::catalog::ended;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::config::Leaf;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::{Adapter, BodyPieces, Call, Endpoint, ProviderRequest, Raw, ResponseKeeping};
use std::borrow::Cow;
use std::sync::Arc;

/// A target as it is to be called: what the config, the request and the provider make of it together.
pub(crate) struct ResolvedTarget<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) aim: Aim,
    pub(crate) content: Cow<'a, RequestContent>,
    /// What judges its answers; `None`: nothing.
    pub(crate) guarded: Option<Arc<TargetGuards>>,
    /// What binds ids in its answers; `None`: they stay as they are.
    pub(crate) binder: Option<Arc<Binder>>,
    /// Responses that are made of its answers are kept.
    pub(crate) keeps: bool,
}

impl ResolvedTarget<'_> {
    /// The call as the adapter reads it.
    pub(crate) fn call<'b>(&'b self, request: &'b Request) -> Call<'b> {
        let content = &*self.content;
        let route = &request.ask.route;
        Call {
            operation: if self.reshapes(request) { route.operation } else { route.asked() },
            body: &content.bytes,
            form: content.form.as_deref(),
            model: self.aim.model.as_deref(),
            model_span: content.model_span.clone(),
            stream: content.stream,
            wants_usage: content.wants_usage,
            strict: self.leaf.strict.unwrap_or(true) && request.ask.headers.strict != Some(false),
            dice: u64::from_le_bytes(last_eight(request.caller.trace.as_bytes())),
            origin: self.aim.origin,
            settings: &self.aim.settings,
            keeps: self.keeps.then_some(ResponseKeeping { continues: request.ask.continues.as_deref() }),
            ..raw_call(request)
        }
    }

    /// A call about a kept object that is no OpenAI's, by a client of OpenAI's: Anthropic's own say their version.
    pub(crate) fn reshapes(&self, request: &Request) -> bool {
        let (route, headers) = (&request.ask.route, &request.ask.headers.provider_headers);
        self.aim.adapter.reshapes(route.operation)
            && !route.path.starts_with("/v1/proxy/")
            && !headers.iter().any(|(name, _)| *name == "anthropic-version")
    }

    /// What the target is asked with, where its family serves this at all.
    pub(crate) fn asked(&self, request: &Request) -> Result<ProviderRequest, Fault> {
        let (operation, adapter) = (request.ask.route.asked(), self.aim.adapter);
        match adapter.endpoint(operation, request.ask.route.dialect) {
            Some(_) => self.asked_of(adapter, request),
            None => Err(unsupported(operation, self.provider())),
        }
    }

    fn asked_of(&self, adapter: &dyn Adapter, request: &Request) -> Result<ProviderRequest, Fault> {
        let out = adapter.request(&self.call(request))?;
        self.check_adjusted(request, &out.adjusted)?;
        Ok(out)
    }

    /// Strict compliance that somebody asked for, and not just what is so by default.
    fn is_held_to_openai(&self, request: &Request) -> bool {
        match request.ask.headers.strict {
            None => self.leaf.strict == Some(true),
            Some(strict) => strict && self.leaf.strict != Some(false),
        }
    }

    /// Refuses what the target would not get as it was asked for, where the client or the config wants that.
    fn check_adjusted(&self, request: &Request, adjusted: &[&'static str]) -> Result<(), Fault> {
        let emulated = adjusted.iter().find(|field| EMULATED.contains(field));
        if let Some(field) = emulated.filter(|_| self.is_held_to_openai(request)) {
            let why = "could only be asked for in words, which strict compliance (strict_open_ai_compliance) forbids";
            return Err(refused(self.provider(), field, why));
        }
        match adjusted {
            [first, ..] if request.ask.headers.unadjusted => {
                let all = adjusted.join(", ");
                let why = format!("would not arrive as asked ({all}), which x-gateway-adjusted-params: refuse forbids");
                Err(refused(self.provider(), first, &why))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn provider(&self) -> &'static str {
        self.aim.adapter.info().slug
    }
}

/// The field that is done by an instruction where the provider has no switch for it, as chat and as Responses call it.
const EMULATED: [&str; 2] = ["response_format", "text.format"];

fn refused(provider: &str, field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} at {provider} {why}")).on(field)
}

/// Everything of a target's request that its retries share.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) head: HeadPlan,
    pub(crate) out: ProviderRequest,
}

impl Prepared {
    /// `client`: the headers that the client sent.
    pub(crate) fn new(
        request: &Request,
        resolved: &ResolvedTarget<'_>,
        client: ClientHeaders<'_>,
    ) -> Result<Self, Fault> {
        let (route, aim) = (&request.ask.route, &resolved.aim);
        let reshapes = resolved.reshapes(request);
        let operation = if reshapes { route.operation } else { route.asked() };
        let raw = Raw(aim.adapter);
        let adapter: &dyn Adapter = if route.raw && !reshapes { &raw } else { aim.adapter };
        let endpoint = match adapter.endpoint(operation, route.dialect) {
            Some(endpoint) => endpoint,
            None if is_session(operation, request.ask.upload) => {
                Endpoint { path: route.tail().to_owned().into(), headers: &[] }
            }
            None => return Err(unsupported(operation, resolved.provider())),
        };
        let out = match (request.ask.upload, &request.ask.call) {
            (None, Some(call)) => call.outgoing(
                &path_of_calls(request, resolved, &endpoint)?,
                route.tail(),
                &resolved.content.bytes,
                aim.model.as_deref(),
            )?,
            (None, None) => resolved.asked_of(adapter, request)?,
            (Some(_), _) => unread(request, (adapter, aim), &endpoint)?,
        };
        let target = HeadTarget { leaf: resolved.leaf, aim, endpoint: &endpoint };
        let mut head = head::build(request, target, &out, client)?;
        if let Some(framing) = request.ask.upload {
            head.set_framing(framing);
        } else if !out.body.is_empty() || matches!(request.ask.method, http::Method::POST | http::Method::PUT) {
            head.set_framing(Framing::Length(out.body.len()));
        }
        Ok(Self { head, out })
    }
}

/// Where a target has its calls; the model is said in what goes up, and nowhere else.
fn path_of_calls(request: &Request, resolved: &ResolvedTarget<'_>, endpoint: &Endpoint) -> Result<String, Fault> {
    let aim = &resolved.aim;
    let query = request.ask.route.query.as_deref().map(without_model).filter(|query| !query.is_empty());
    let call = Call { query: query.as_deref(), settings: &aim.settings, ..raw_call(request) };
    Ok(aim.adapter.relayed(&call)?.unwrap_or_else(|| match &query {
        Some(query) => format!("{}?{query}", endpoint.path),
        None => endpoint.path.to_string(),
    }))
}

/// What goes up unread is led by its path alone.
fn unread(
    request: &Request,
    (adapter, aim): (&dyn Adapter, &Aim),
    endpoint: &Endpoint,
) -> Result<ProviderRequest, Fault> {
    let route = &request.ask.route;
    let call = Call { model: aim.model.as_deref(), settings: &aim.settings, ..raw_call(request) };
    let path = adapter.relayed(&call)?.unwrap_or_else(|| match &route.query {
        Some(query) => format!("{}?{}", endpoint.path, led(query, aim.model.as_deref())),
        None => endpoint.path.to_string(),
    });
    Ok(ProviderRequest {
        path: Some(path),
        headers: Vec::new(),
        body: BodyPieces::One(Bytes::new()),
        adjusted: Vec::new(),
    })
}

/// A model that is written `@slug/model` in a query goes up without the slug.
fn led<'q>(query: &'q str, model: Option<&str>) -> Cow<'q, str> {
    let names = |pair: &&str| {
        let value = pair.strip_prefix("model=").unwrap_or_default();
        value.starts_with('@') || value.starts_with("%40")
    };
    let (Some(model), true) = (model, query.split('&').any(|pair| names(&pair))) else { return query.into() };
    let bare = format!("model={}", url::form_urlencoded::byte_serialize(model.as_bytes()).collect::<String>());
    let pairs = query.split('&').map(|pair| if names(&pair) { bare.as_str() } else { pair });
    pairs.collect::<Vec<_>>().join("&").into()
}

/// A call that nothing may touch, as an adapter reads its answer.
pub(crate) fn raw_call(request: &Request) -> Call<'_> {
    let route = &request.ask.route;
    Call {
        operation: route.asked(),
        dialect: route.dialect,
        method: &request.ask.method,
        tail: route.tail(),
        query: route.query.as_deref(),
        body: &request.ask.content.bytes,
        form: request.ask.content.form.as_deref(),
        sound_ms: request.ask.headers.sound_ms,
        model: None,
        model_span: None,
        stream: request.ask.content.stream,
        wants_usage: true,
        strict: false,
        now_ms: request.caller.at.micros() / 1000,
        dice: 0,
        origin: 0,
        settings: CloudSettings::none(),
        keeps: None,
    }
}

/// Any eight bytes of the trace id do as a seed: it only has to differ between requests.
fn last_eight(bytes: &[u8]) -> [u8; 8] {
    let tail = &bytes[bytes.len().saturating_sub(8)..];
    let mut out = [0; 8];
    out[..tail.len()].copy_from_slice(tail);
    out
}

fn unsupported(operation: Operation, provider: &str) -> Fault {
    if operation.facts().about_kept_response {
        let why = format!("{provider} keeps no responses: ask a provider with the Responses API of its own");
        return Fault::new(FaultKind::Refused, why).on("response_id");
    }
    let why = ended(provider).map(|service| format!(": {}", service.says)).unwrap_or_default();
    Fault::new(FaultKind::Unsupported, format!("{} is not supported by {provider}{why}", operation.name()))
}
