//! One target: found, admitted, called, and called again as the retry rules say. Gives an answer that is not
//! yet delivered, so that the plan may still move on.

use super::Gateway;
use super::admit::{self, Held, Target};
use super::answer::{Answer, ended_by, read};
use super::capture::{Keep, Sent};
use super::head::{self, HeadPlan};
use super::herald::Herald;
use super::patience::{Next, Patience};
use super::request::{Content, Request};
use super::routing::Routing;
use super::shape;
use super::target::{self, Aim, TargetPrices};
use super::upload::{Framing, Upload};
use super::wire::{self, Client, Clocks, WireError};
use crate::cache::Lead;
use crate::upstream::Pass;
use bytes::Bytes;
use gateway_domain::cloud::{Grant, Settings};
use gateway_domain::config::{Leaf, Retry};
use gateway_domain::counters::Standings;
use gateway_domain::price::PriceCard;
use gateway_domain::record::CacheStatus;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_policies::Hold;
use gateway_providers::{Call, Endpoint, Outgoing, Pieces};
use pingora::proxy::Session;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the client is told, and the record keeps, of the target that answered.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) option_index: Arc<str>,
    pub(crate) provider: &'static str,
    pub(crate) virtual_key: Arc<str>,
    pub(crate) model: Option<Arc<str>>,
    /// The price of the target where it is not what everybody pays.
    pub(crate) card: Option<Arc<PriceCard>>,
    /// Prices to look the model of the answer up in, where the one that was asked for has none.
    pub(crate) late_prices: Option<Box<TargetPrices>>,
    /// 0 none, n the retry that answered, -1 used up (`spec/config-object.md`, retry).
    pub(crate) retries: i32,
    pub(crate) adjusted: Vec<&'static str>,
    pub(crate) cache: CacheStatus,
    /// Waiting that was not the gateway's own work.
    pub(crate) upstream: Duration,
    pub(crate) paused: Duration,
    /// The same of targets tried before.
    pub(crate) earlier: Duration,
    pub(crate) request_bytes: u64,
    pub(crate) stream: bool,
    /// Of the tightest limits that the request was held to.
    pub(crate) limits: Standings,
}

#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) facts: Facts,
    /// `None` when nothing went out, or nothing of it may be kept.
    pub(crate) sent: Option<Box<Sent>>,
    pub(crate) hold: Held,
    /// `Err` only when the client is gone.
    pub(crate) answer: Result<Answer, WireError>,
}

impl Tried {
    /// Not called, and told why.
    pub(crate) fn refused(leaf: &Leaf, fault: Fault) -> Self {
        let facts = Facts { option_index: leaf.path.clone(), ..Facts::default() };
        Self { facts, sent: None, hold: Held::default(), answer: Ok(Answer::Fault(fault)) }
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// 1 for the first target tried.
    pub(crate) number: u32,
    /// What targets tried before this one took.
    pub(crate) earlier: Duration,
    /// What the caller's limits gave.
    pub(crate) caller: &'a Hold,
    /// Who speaks to the client meanwhile.
    pub(crate) herald: Option<&'a mut Herald>,
    /// The body, where it streams up.
    pub(crate) upload: Option<&'a mut Upload>,
}

/// Tries one target.
pub(crate) async fn run(
    gateway: &Gateway,
    session: &mut Session,
    request: &Request,
    routing: &Routing,
    Turn { number, earlier, caller, herald, upload }: Turn<'_>,
    lead: Option<&Lead>,
) -> Tried {
    let leaf = &**routing.plan.leaf();
    let mut facts = Facts { option_index: leaf.path.clone(), earlier, ..Facts::default() };
    facts.limits = caller.standings();
    let refused = |facts, fault, hold| Tried { facts, hold, sent: None, answer: Ok(Answer::Fault(fault)) };
    let aim = match target::resolve(leaf, routing.inline, request) {
        Ok(aim) => aim,
        Err(fault) => return refused(facts, fault, Held::default()),
    };
    facts.provider = aim.adapter.info().slug;
    facts.virtual_key = aim.virtual_key.clone();
    facts.model = aim.model.clone();
    let prices = aim.prices();
    facts.card = prices.own(aim.model.as_deref());
    if request.is_untouched() && prices.of(aim.model.as_deref()).is_none() {
        facts.late_prices = Some(Box::new(prices));
    }
    let content = match shape::content(request, leaf) {
        Ok(content) => content,
        Err(fault) => return refused(facts, fault, Held::default()),
    };
    let target = Target { aim: &aim, leaf, content: &content };
    let hold = match admit::target(gateway, request, routing, &target, caller).await {
        Ok(hold) => hold,
        Err(fault) => return refused(facts, fault, Held::default()),
    };
    facts.limits = facts.limits.tighter(hold.standings());
    if counts_here(request, &aim) {
        let answer = counted(content.bytes.clone()).await;
        return Tried { facts, hold, sent: None, answer: Ok(answer) };
    }
    let mut prepared = match Prepared::new(gateway, session, request, leaf, &aim, content) {
        Ok(prepared) => prepared,
        Err(fault) => return refused(facts, fault, hold),
    };
    // What passes through untouched keeps what the client says of its trace.
    if let Some(trace) = request.span.as_deref().filter(|_| !request.route.raw && request.upload.is_none()) {
        prepared.head.trace(trace, number);
    }
    facts.adjusted.clone_from(&prepared.out.adjusted);
    facts.request_bytes = prepared.out.body.len() as u64;
    facts.stream = prepared.content.stream;
    let down = Client { session: &mut session.downstream_session, lead, herald, upload };
    let answer = with_retries(gateway, down, request, &prepared, &leaf.retry, &mut facts).await;
    let sent = (request.keep != Keep::Nothing && request.upload.is_none())
        .then(|| Box::new(Sent { head: prepared.head, body: prepared.out.body }));
    Tried { facts, hold, sent, answer }
}

/// Tokens are counted here for a provider that answers prompts and has no way to count them.
fn counts_here(request: &Request, aim: &Aim) -> bool {
    let has = |operation| aim.adapter.endpoint(operation, request.route.dialect).is_some();
    request.route.asked() == Operation::CountTokens && !has(Operation::CountTokens) && has(Operation::Messages)
}

/// An estimate, and called so: the provider's own tokenizer is not at hand.
async fn counted(body: Bytes) -> Answer {
    let Ok(tokens) = tokio::task::spawn_blocking(move || gateway_providers::tokens::prompt(&body)).await else {
        return Answer::Fault(Fault::new(FaultKind::Internal, "The tokens could not be counted"));
    };
    Answer::made(serde_json::json!({ "input_tokens": tokens, "estimated": true }).to_string())
}

/// Everything of a target's request that its retries share.
pub(crate) struct Prepared<'a> {
    pub(crate) aim: &'a Aim,
    pub(crate) leaf: &'a Leaf,
    pub(crate) content: Cow<'a, Content>,
    head: HeadPlan,
    pub(crate) out: Outgoing,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(
        gateway: &Gateway,
        session: &Session,
        request: &Request,
        leaf: &'a Leaf,
        aim: &'a Aim,
        content: Cow<'a, Content>,
    ) -> Result<Self, Fault> {
        let route = &request.route;
        let operation = route.asked();
        let endpoint = match aim.adapter.endpoint(operation, route.dialect) {
            Some(endpoint) => endpoint,
            None if route.raw => Endpoint { path: "".into(), headers: &[] },
            None if request.upload == Some(Framing::WebSocket) && operation == Operation::Realtime => {
                Endpoint { path: route.tail().to_owned().into(), headers: &[] }
            }
            None => return Err(unsupported(operation, aim.adapter.info().slug)),
        };
        let out = match request.upload {
            None => aim.adapter.request(&call(request, leaf, aim, &content))?,
            Some(_) => unread(request, aim, &endpoint)?,
        };
        let client = &session.req_header().headers;
        let mut head = head::build(request, leaf, aim, &endpoint, &out, client, &gateway.settings.header_alias)?;
        if let Some(framing) = request.upload {
            head.set_framing(framing);
        } else if !out.body.is_empty() || matches!(request.method, http::Method::POST | http::Method::PUT) {
            head.set_framing(Framing::Length(out.body.len()));
        }
        Ok(Self { aim, leaf, content, head, out })
    }

    /// All that goes upstream beside path and body; a token that is fetched for the call is not among them.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.head.headers()
    }

    /// How long one try may take, and the time that [`timed_out`] names then; `None`: as long as it likes.
    pub(crate) fn clock(&self, gateway: &Gateway, request: &Request) -> Option<(Duration, Duration)> {
        let timeout = request.headers.request_timeout_ms.or(self.leaf.timeout_ms).map(Duration::from_millis);
        match (timeout, gateway.left(request)) {
            (Some(timeout), left) if left.is_none_or(|left| timeout <= left) => Some((timeout, timeout)),
            (_, left) => left.map(|left| (left, gateway.settings.total_timeout.unwrap_or(left))),
        }
    }

    /// The call as the adapter reads it.
    pub(crate) fn call<'b>(&'b self, request: &'b Request) -> Call<'b> {
        call(request, self.leaf, self.aim, &self.content)
    }
}

/// What goes up unread is led by its path alone.
fn unread(request: &Request, aim: &Aim, endpoint: &Endpoint) -> Result<Outgoing, Fault> {
    let route = &request.route;
    let call = Call { raw: route.raw, model: aim.model.as_deref(), settings: &aim.settings, ..raw_call(request) };
    let bare = if route.raw { route.tail() } else { &endpoint.path };
    let path = aim.adapter.relayed(&call)?.unwrap_or_else(|| match &route.query {
        Some(query) => format!("{bare}?{query}"),
        None => bare.to_owned(),
    });
    Ok(Outgoing { path: Some(path), headers: Vec::new(), body: Pieces::One(Bytes::new()), adjusted: Vec::new() })
}

fn call<'b>(request: &'b Request, leaf: &Leaf, aim: &'b Aim, content: &'b Content) -> Call<'b> {
    let route = &request.route;
    Call {
        operation: route.asked(),
        dialect: route.dialect,
        method: &request.method,
        tail: route.tail(),
        query: route.query.as_deref(),
        raw: route.raw,
        body: &content.bytes,
        model: aim.model.as_deref(),
        model_span: content.model_span.clone(),
        stream: content.stream,
        wants_usage: content.wants_usage,
        strict: leaf.strict && !request.headers.lenient,
        now_ms: request.at.micros() / 1000,
        dice: u64::from_le_bytes(first_eight(request.trace.as_bytes())),
        origin: aim.origin,
        settings: &aim.settings,
    }
}

/// A call that nothing may touch, as an adapter reads its answer.
pub(crate) fn raw_call(request: &Request) -> Call<'_> {
    let route = &request.route;
    Call {
        operation: route.asked(),
        dialect: route.dialect,
        method: &request.method,
        tail: route.tail(),
        query: route.query.as_deref(),
        raw: true,
        body: &request.content.bytes,
        model: None,
        model_span: None,
        stream: request.content.stream,
        wants_usage: true,
        strict: false,
        now_ms: request.at.micros() / 1000,
        dice: 0,
        origin: 0,
        settings: Settings::none(),
    }
}

/// Any eight bytes of the trace id do as a seed: it only has to differ between requests.
fn first_eight(bytes: &[u8]) -> [u8; 8] {
    let tail = &bytes[bytes.len().saturating_sub(8)..];
    let mut out = [0; 8];
    out[..tail.len()].copy_from_slice(tail);
    out
}

fn unsupported(operation: Operation, provider: &str) -> Fault {
    if operation.is_about_kept_response() {
        let why = format!("{provider} keeps no responses: ask a provider with the Responses API of its own");
        return Fault::new(FaultKind::Refused, why).on("response_id");
    }
    Fault::new(FaultKind::Unsupported, format!("{} is not supported by {provider}", operation.name()))
}

async fn with_retries(
    gateway: &Gateway,
    mut down: Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
    retry: &Retry,
    facts: &mut Facts,
) -> Result<Answer, WireError> {
    let mut patience = Patience::default();
    loop {
        let started = Instant::now();
        let answer = once(gateway, &mut down, request, prepared).await;
        facts.upstream += started.elapsed();
        let answer = answer?;
        facts.retries = i32::try_from(patience.tries).unwrap_or(i32::MAX);
        if !wants_retry(&answer, retry) || !down.can_repeat() {
            return Ok(answer);
        }
        let wished = if answer.status() == 429 { answer.retry_after() } else { None };
        let wait = match patience.next(retry, wished, gateway.left(request)) {
            Next::Wait(wait) => wait,
            Next::Stop { used_up } => {
                if used_up {
                    facts.retries = -1;
                }
                return Ok(answer);
            }
        };
        answer.discard(&mut down, gateway.settings.upstream_pool_size).await;
        facts.paused += wait;
        tokio::select! { biased;
            () = tokio::time::sleep(wait) => {}
            gone = down.gone() => return Err(WireError::ClientGone(gone)),
        }
    }
}

/// Network failures always count; the gateway's own time-out and every status only when listed.
fn wants_retry(answer: &Answer, retry: &Retry) -> bool {
    match answer {
        Answer::Fault(fault) => match fault.kind() {
            FaultKind::Unreachable | FaultKind::UpstreamBroken | FaultKind::UpstreamSilent => true,
            _ => retry.statuses.contains(&fault.status()) && !fault.kind().row().exception,
        },
        other => retry.statuses.contains(&other.status()),
    }
}

impl Gateway {
    /// What is left of the time that a whole request may take; `None` when that is unlimited.
    pub(crate) fn left(&self, request: &Request) -> Option<Duration> {
        self.settings.total_timeout.map(|t| t.saturating_sub(request.started.elapsed()))
    }

    /// The whole request took longer than it may.
    pub(crate) fn overdue(&self) -> Fault {
        timed_out(self.settings.total_timeout.unwrap_or_default())
    }
}

/// One try, under the clocks of the attempt.
async fn once(
    gateway: &Gateway,
    down: &mut Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
) -> Result<Answer, WireError> {
    let Some((limit, told)) = prepared.clock(gateway, request) else {
        return unlimited(gateway, down, request, prepared).await;
    };
    let until = Instant::now() + limit;
    match pingora_timeout::timeout(limit, unlimited(gateway, down, request, prepared)).await {
        Ok(Ok(Answer::Raw(mut passing))) => {
            passing.until = passing.is_json().then_some((until, told));
            Ok(Answer::Raw(passing))
        }
        Ok(answer) => answer,
        // The target waited as well: this says nothing of its health.
        Err(_) if down.is_awaited() => Ok(Answer::Fault(Fault::new(FaultKind::SlowClient, overlong(told)))),
        Err(_) => Ok(Answer::Fault(timed_out(told))),
    }
}

pub(crate) fn timed_out(after: Duration) -> Fault {
    Fault::new(FaultKind::TimedOut, overlong(after))
}

fn overlong(after: Duration) -> String {
    format!("Request exceeded the timeout sent in the request: {}ms", after.as_millis())
}

async fn unlimited(
    gateway: &Gateway,
    down: &mut Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
) -> Result<Answer, WireError> {
    let clocks = Clocks { first_byte: gateway.settings.first_byte_timeout, idle: gateway.settings.idle_timeout };
    let origin = match gateway.dialer.origin(&prepared.aim.base).await {
        Ok(origin) => origin,
        Err(e) => return ended_by(WireError::NoConnection(e), prepared).map(Answer::Fault),
    };
    let (head, token) = match &prepared.aim.grant {
        None => (Cow::Borrowed(&prepared.head), None),
        Some(grant) => match token(gateway, down, prepared, grant).await? {
            Ok(Pass::Keys(..)) if request.upload.is_some() => {
                let why = "What streams up cannot be signed: use an API key, or send JSON";
                return Ok(Answer::Fault(Fault::new(FaultKind::Unsupported, why)));
            }
            Ok(pass) => match prepared.head.admitted(&pass, grant.signing.as_ref(), &prepared.out.body) {
                Ok(head) => (Cow::Owned(head), Some((grant, pass))),
                Err(fault) => return Ok(Answer::Fault(fault)),
            },
            Err(fault) => return Ok(Answer::Fault(fault)),
        },
    };
    match wire::send(down, &gateway.dialer, &origin, &head, &prepared.out.body, clocks).await {
        Ok(up) => {
            // AWS says 403 of keys that have ended, and of a clock that is off.
            let refused = |pass: &Pass| up.status() == if matches!(pass, Pass::Keys(..)) { 403 } else { 401 };
            if let Some((grant, token)) = token.filter(|(_, pass)| refused(pass)) {
                gateway.credentials.refused(grant, &token, up.head().map(|head| &head.headers));
            }
            let answer = read(gateway, down, request, prepared, up).await?;
            Ok(answer.without_credential(&head))
        }
        Err(e) => ended_by(e, prepared).map(Answer::Fault),
    }
}

/// The token for this try; `Err` outside when the client left while it was fetched.
async fn token(
    gateway: &Gateway,
    down: &mut Client<'_>,
    prepared: &Prepared<'_>,
    grant: &Arc<Grant>,
) -> Result<Result<Pass, Fault>, WireError> {
    let fetched = tokio::select! { biased;
        fetched = gateway.credentials.token(grant) => fetched,
        gone = down.gone() => return Err(WireError::ClientGone(gone)),
    };
    Ok(fetched.map_err(|fault| sign_in_failed(&fault, prepared.aim.adapter.info().slug)))
}

/// Says whose credential it was.
pub(crate) fn sign_in_failed(fault: &Fault, provider: &str) -> Fault {
    Fault::new(fault.kind(), format!("No token for {provider}: {}", fault.message()))
}
