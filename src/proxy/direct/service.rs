//! Calls of one target's services, as the gateway makes them itself: addressed, signed and sent as calls of clients
//! are. Knows neither what is asked nor what an answer means, but for what a refusal says.

use super::{DirectStop, ProviderSaid};
use crate::downloads::{self, moved_to};
use crate::proxy::call::raw_call;
use crate::proxy::deliver::{fallen, timed_out};
use crate::proxy::exchange::CallParts;
use crate::proxy::head::{of_own, provider_headers};
use crate::proxy::objects;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target::{self, Aim};
use crate::upstream::http1::{self, Framing, PeerTimeouts, RequestBody, Response, SendError};
use crate::upstream::{Pass, StreamedBody};
use bytes::Bytes;
use gateway_domain::cloud::CloudService;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use gateway_providers::native_batches::{BatchBody, BatchCall};
use gateway_providers::stored_files::xml_error_message;
use gateway_providers::{Adapter as _, BodyPieces, Call, Endpoint, ProviderRequest, Raw};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a refusal.
const MOST_ERROR: usize = 1 << 20;

pub(super) struct Services<'a> {
    parts: &'a CallParts,
    pub(super) request: &'a Request,
    routing: &'a Routing,
    aim: Aim,
    /// Paths are written, and headers sent, as for calls of clients that pass as they are.
    pub(super) relays: bool,
    /// Microseconds that the provider was waited for.
    waited: AtomicU64,
}

/// One call, by a path below the address of a service.
pub(super) struct ServiceCall {
    pub(super) at: CloudService,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: ServiceBody,
}

pub(super) enum ServiceBody {
    None,
    /// JSON.
    Held(Bytes),
    Streamed(StreamedBody),
}

impl ServiceCall {
    /// A call without a body.
    pub(super) const fn bare(at: CloudService, method: Method, path: String) -> Self {
        Self { at, method, path, headers: Vec::new(), body: ServiceBody::None }
    }

    /// `None`: lines would go with it, and here are none.
    pub(super) fn of_batch(call: BatchCall) -> Option<Self> {
        let BatchCall { at, method, path, body, .. } = call;
        let body = match body {
            BatchBody::None => ServiceBody::None,
            BatchBody::Json(body) => ServiceBody::Held(body.to_string().into()),
            BatchBody::Lines(_) => return None,
        };
        Some(Self { body, ..Self::bare(at, method, path) })
    }
}

impl<'a> Services<'a> {
    pub(super) fn new(parts: &'a CallParts, (request, routing): (&'a Request, &'a Routing), aim: Aim) -> Self {
        Self { parts, request, routing, aim, relays: false, waited: AtomicU64::new(0) }
    }

    pub(super) const fn aim(&self) -> &Aim {
        &self.aim
    }

    pub(super) fn slug(&self) -> &'static str {
        self.aim.adapter.info().slug
    }

    pub(super) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    /// Whether a service can be asked at all, before anything is read for it.
    pub(super) fn permit(&self, at: CloudService) -> Result<Aim, Fault> {
        target::at_service(&self.aim, self.routing.plan.leaf(), self.request, at)
    }

    /// An answer that is none of a refusal. What the provider has moved is read where it says, without its credential.
    pub(super) async fn open(&self, call: ServiceCall) -> Result<Response, DirectStop> {
        let (began, is_read) = (Instant::now(), call.method == Method::GET);
        let sent = match self.within() {
            None => self.send(call).await,
            Some(most) => match pingora_timeout::timeout(most, self.send(call)).await {
                Ok(sent) => sent,
                Err(_) => Err(timed_out(most)),
            },
        };
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited.fetch_add(micros, Ordering::Relaxed);
        let mut response = sent?;
        let status = response.status();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        if let Some(url) = moved_to(&response).filter(|_| is_read) {
            return Ok(self.download(url).await?);
        }
        if (300..400).contains(&status) {
            let why = format!("{} answers with a redirect (status {status}) that leads nowhere", self.slug());
            return Err(Fault::new(FaultKind::UpstreamBroken, why).into());
        }
        let body = self.whole(&mut response, MOST_ERROR).await?;
        Err(self.said(status, response.head().headers(), &body))
    }

    /// What is at an address that the provider told, without its credential.
    pub(super) async fn download(&self, url: &str) -> Result<Response, Fault> {
        let broken = |why: String| Fault::new(FaultKind::UpstreamBroken, format!("{}: {why}", self.slug()));
        let response = self.parts.downloads.open(url).await.map_err(|e| broken(e.to_string()))?;
        match response.status() {
            200..=299 => Ok(response),
            status => Err(broken(format!("the address of its file answers with status {status}"))),
        }
    }

    /// All of a small answer.
    pub(super) async fn fetch(&self, call: ServiceCall, most: usize) -> Result<Bytes, DirectStop> {
        let response = self.open(call).await?;
        Ok(self.whole_of(response, most).await?)
    }

    pub(super) async fn whole_of(&self, mut response: Response, most: usize) -> Result<Bytes, Fault> {
        let body = self.whole(&mut response, most).await?;
        response.release(self.parts.delivery.settings.upstream_pool_size);
        Ok(body)
    }

    /// `None`: it has more bytes. What is left of it is not read.
    pub(super) async fn whole_within(&self, mut response: Response, most: usize) -> Result<Option<Bytes>, Fault> {
        let body = self.read_within(&mut response, most).await?;
        if body.is_some() {
            response.release(self.parts.delivery.settings.upstream_pool_size);
        }
        Ok(body)
    }

    async fn whole(&self, response: &mut Response, most: usize) -> Result<Bytes, Fault> {
        let too_much = || {
            let why = format!("{} answers with more than {most} bytes", self.slug());
            Fault::new(FaultKind::UpstreamBroken, why)
        };
        self.read_within(response, most).await?.ok_or_else(too_much)
    }

    async fn read_within(&self, response: &mut Response, most: usize) -> Result<Option<Bytes>, Fault> {
        downloads::read_within(response, most).await.map_err(|e| fallen(e, self.slug()))
    }

    /// Which of these objects the workspace made; `None`: those of workspaces are not kept apart here.
    pub(super) async fn own_among(&self, natives: &[&str]) -> Result<Option<HashSet<String>>, Fault> {
        if !objects::is_isolated(&self.aim) {
            return Ok(None);
        }
        let keeper = objects::keeper_of(&self.aim, self.request);
        let workspace = self.request.caller.tenant.workspace.id;
        let own = self.parts.kept_objects.own_among((workspace, &keeper), natives).await;
        own.map(Some).map_err(|e| {
            tracing::warn!(error = %e, "whose the objects of a list are is not known: it is not shown");
            let why = "Whose the objects of this list are cannot be found out for the moment";
            Fault::new(FaultKind::Busy, why).retry_after_ms(2_000)
        })
    }

    /// What one call may take, as the request or its config says.
    fn within(&self) -> Option<Duration> {
        let own = self.request.ask.headers.request_timeout_ms;
        own.or(self.routing.plan.leaf().timeout_ms).map(Duration::from_millis)
    }

    async fn send(&self, call: ServiceCall) -> Result<Response, Fault> {
        let aim = self.permit(call.at)?;
        let known = Raw(aim.adapter).endpoint(Operation::Proxy, Dialect::OpenAi);
        let endpoint = known.unwrap_or(Endpoint { path: "".into(), headers: &[] });
        let path = self.relayed(&aim, &call)?;
        let (held, upload) = match call.body {
            ServiceBody::None => (Bytes::new(), None),
            ServiceBody::Held(bytes) => (bytes, None),
            ServiceBody::Streamed(upload) => (Bytes::new(), Some(upload)),
        };
        let body = BodyPieces::One(held);
        let mut headers = call.headers;
        if self.relays {
            let told = provider_headers(self.request, self.routing.plan.leaf(), &aim);
            headers.extend(told.map(|(name, value)| (HeaderName::from_static(name), value.clone())));
        }
        let out = ProviderRequest { path: Some(path), headers, body, adjusted: Vec::new() };
        let mut head = of_own(&aim, call.method, (&endpoint, &out))?;
        if let Some(upload) = &upload {
            head.set_framing(Framing::Length(upload.length));
        }
        let mut pass = None;
        if let Some(grant) = &aim.grant {
            let signed_in = self.parts.credentials.token(grant).await.map_err(|fault| {
                Fault::new(fault.kind(), format!("No token for {}: {}", self.slug(), fault.message()))
            })?;
            head = head.admitted(&signed_in, grant.signing.as_ref(), &out.body)?;
            pass = Some((grant, signed_in));
        }
        let lost = |e| fallen(SendError::NoConnection(e), self.slug());
        let origin = self.parts.dialer.origin(&aim.base).await.map_err(lost)?;
        let settings = &self.parts.delivery.settings;
        let clocks = PeerTimeouts { first_byte: settings.first_byte_timeout, idle: settings.idle_timeout };
        let body = match upload {
            Some(upload) => RequestBody::Streaming(upload.source),
            None => RequestBody::Held(&out.body),
        };
        let response = http1::send(&self.parts.dialer, &origin, head.request(), body, clocks).await;
        let response = response.map_err(|e| fallen(e, self.slug()))?;
        // AWS says 403 of keys that have ended.
        let refused = |pass: &Pass| response.status() == if matches!(pass, Pass::Keys(..)) { 403 } else { 401 };
        if let Some((grant, pass)) = pass.filter(|(_, pass)| refused(pass)) {
            self.parts.credentials.refused(grant, &pass, Some(response.head().headers()));
        }
        Ok(response)
    }

    /// The path as the target writes it.
    fn relayed(&self, aim: &Aim, call: &ServiceCall) -> Result<String, Fault> {
        if !self.relays {
            return Ok(call.path.clone());
        }
        let (operation, method, settings) = (Operation::Proxy, &call.method, &*aim.settings);
        let body = &Bytes::new();
        let (tail, query) = call.path.split_once('?').map_or((call.path.as_str(), None), |(tail, q)| (tail, Some(q)));
        let passing = Call { operation, method, tail, query, body, form: None, settings, ..raw_call(self.request) };
        Ok(Raw(aim.adapter).relayed(&passing)?.unwrap_or_else(|| call.path.clone()))
    }

    /// A refusal as clients of OpenAI's read it. Stores speak XML.
    fn said(&self, status: u16, headers: &HeaderMap, body: &Bytes) -> DirectStop {
        let body = match xml_error_message(body) {
            Some(message) if self.slug() == "bedrock" => json!({ "message": message }).to_string().into(),
            Some(message) => json!({ "error": { "code": status, "message": message } }).to_string().into(),
            None => body.clone(),
        };
        let call = Call { operation: Operation::ChatCompletions, ..raw_call(self.request) };
        let failure = self.aim.adapter.failed(&call, status, headers, &body);
        DirectStop::Told(ProviderSaid { status: failure.status, body: failure.body })
    }
}
