//! WebSockets: Pingora's phases carry them both ways, by the same plan, limits and retry rules until one is open.
//! Nothing is rewritten, and of what is said on them nothing is read.

use super::admit::{self, Held, Holds, Target};
use super::attempt::{Facts, raw_call, sign_in_failed, timed_out};
use super::capture::{Scene, Tape};
use super::head;
use super::headers::suffix_of;
use super::patience::{Next, Patience, retry_after};
use super::record;
use super::reply::{self, micros};
use super::request::Request;
use super::routing::Routing;
use super::target::{self, Aim, Credential};
use super::wire::client_gone;
use super::{Ctx, Gateway};
use crate::upstream::{DialError, Pass};
use gateway_domain::record::LogRecord;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_policies::Hold;
use gateway_providers::Call;
use http::{HeaderName, HeaderValue, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::{FailToProxy, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use std::time::{Duration, Instant};

/// A relayed request between its phases.
pub(crate) struct Relay {
    request: Box<Request>,
    routing: Routing,
    patience: Patience,
    wait: Duration,
    aim: Option<Aim>,
    /// Below the current target's address, query included, where it is not what the client asked for.
    path: Option<String>,
    /// For the current target, where it wants one.
    token: Option<HeaderValue>,
    facts: Facts,
    /// Why the current target gave no answer.
    fault: Option<Fault>,
    /// Of header or config; over it the answer is a 408.
    timeout: Option<Duration>,
    /// What the current target's limits gave; a target that is left gives it back.
    hold: Option<Held>,
    caller: Hold,
    clock: Clock,
}

/// When things happened, for the record: Pingora's phases do not tell.
#[derive(Default)]
struct Clock {
    /// The gateway's own work: until a head first went to a provider.
    own: Option<u64>,
    /// When the head went to the current target, until it answers.
    asked: Option<Instant>,
    /// Waiting for the current target, uploads included, of all tries.
    waited: Duration,
    /// Until the client's answer began.
    first_us: u64,
}

impl Clock {
    fn ask(&mut self, request: &Request) {
        self.own.get_or_insert_with(|| request.elapsed_us());
        self.asked = Some(Instant::now());
    }

    fn hear(&mut self) {
        self.waited += self.asked.take().map(|at| at.elapsed()).unwrap_or_default();
    }
}

impl Relay {
    pub(crate) fn new(request: Box<Request>, routing: Routing, caller: Hold) -> Self {
        Self {
            request,
            routing,
            patience: Patience::default(),
            wait: Duration::ZERO,
            aim: None,
            path: None,
            token: None,
            facts: Facts::default(),
            fault: None,
            timeout: None,
            hold: None,
            caller,
            clock: Clock::default(),
        }
    }

    /// Moves to the next try or target after `status`. Returns the record of a target that is left behind.
    fn advance(&mut self, gateway: &Gateway, status: u16, why: Why) -> Option<Option<Box<LogRecord>>> {
        let left = gateway.left(&self.request);
        let retry = &self.routing.plan.leaf().retry;
        let (again, wished) = match why {
            Why::Answered { wished } => (retry.statuses.contains(&status), wished.filter(|_| status == 429)),
            Why::Network => (true, None),
            Why::Refused { .. } => (false, None),
        };
        match again.then(|| self.patience.next(retry, wished, left)) {
            Some(Next::Wait(wait)) => {
                self.wait = wait;
                return Some(None);
            }
            Some(Next::Stop { used_up: true }) => self.facts.retries = -1,
            Some(Next::Stop { used_up: false }) | None => {}
        }
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        let exception = matches!(why, Why::Refused { exception: true });
        let number = self.routing.plan.number();
        if !self.routing.next(&self.request, status, exception) {
            return None;
        }
        let mut left = self.record(status, number);
        if let Some(hold) = self.hold.take() {
            left.charges = hold.leave(status);
        }
        self.patience = Patience::default();
        self.aim = None;
        self.clock.waited = Duration::ZERO;
        Some(Some(left))
    }

    fn record(&self, status: u16, number: u32) -> Box<LogRecord> {
        let mut record = record::of(&self.request, Some(&self.routing), None, number);
        record.status = status;
        record.fault = self.fault.as_ref().map(|f| f.kind().row().label);
        record.option_index = record::short(&self.facts.option_index);
        record.provider = smol_str::SmolStr::new_static(self.facts.provider);
        record.virtual_key = record::short(&self.facts.virtual_key);
        record.retries = self.facts.retries;
        record.card.clone_from(&self.facts.card);
        record.timings.upstream_us = micros(self.clock.waited);
        record.timings.first_byte_us = self.clock.first_us;
        if let Some(own) = self.clock.own {
            record.timings.gateway_us = own;
            record.steps.before_us = own;
        }
        record
    }
}

/// Why a target's answer is not the one.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// By the provider, which may ask for a wait; or by the try's timeout.
    Answered { wished: Option<Duration> },
    /// No connection, a broken answer, silence: retried whatever the list says.
    Network,
    /// By the gateway itself, before anything was sent: other targets may do, the same one would not.
    Refused { exception: bool },
}

fn relayed(ctx: &mut Ctx) -> pingora::Result<&mut Relay> {
    let none = || Error::explain(ErrorType::InternalError, "a phase of the relay without a relayed request");
    ctx.relay.as_deref_mut().ok_or_else(none)
}

/// What must be known of the connection before Pingora takes over.
pub(crate) fn start(gateway: &Gateway, session: &mut Session, ctx: &Ctx) {
    if ctx.relay.is_some() {
        session.downstream_session.set_read_timeout(None);
        session.downstream_session.set_write_timeout(Some(gateway.settings.idle_timeout));
    }
}

/// The current target's peer; a target that cannot be used is passed over as the plan says.
pub(crate) async fn peer(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) -> pingora::Result<Box<HttpPeer>> {
    loop {
        let relay = relayed(ctx)?;
        let wait = std::mem::take(&mut relay.wait);
        if !wait.is_zero() {
            pause(session, wait).await?;
        }
        match find(gateway, relay).await {
            Ok(peer) => return Ok(peer),
            Err(fault) => {
                let (status, exception) = (fault.status(), fault.kind().row().exception);
                let network = fault.kind() == FaultKind::Unreachable;
                relay.fault = Some(fault);
                match relay.advance(gateway, status, if network { Why::Network } else { Why::Refused { exception } }) {
                    Some(left) => ctx.records.0.extend(left),
                    None => return Err(Error::explain(ErrorType::HTTPStatus(status), "no target left")),
                }
            }
        }
    }
}

/// Sits out a wait for as long as the client does.
async fn pause(session: &mut Session, wait: Duration) -> pingora::Result<()> {
    tokio::select! { biased;
        () = tokio::time::sleep(wait) => Ok(()),
        gone = client_gone(&mut session.downstream_session) => Err(gone.into_down()),
    }
}

async fn find(gateway: &Gateway, relay: &mut Relay) -> Result<Box<HttpPeer>, Fault> {
    relay.routing.agree(&relay.request).await;
    let leaf = relay.routing.plan.leaf().clone();
    relay.facts = Facts { option_index: leaf.path.clone(), ..Facts::default() };
    relay.facts.retries = i32::try_from(relay.patience.tries).unwrap_or(0);
    let aim = target::resolve(&leaf, relay.routing.inline, &relay.request)?;
    relay.facts.provider = aim.adapter.info().slug;
    relay.facts.virtual_key.clone_from(&aim.virtual_key);
    relay.facts.card = aim.own_card(&relay.request);
    let route = &relay.request.route;
    let served = route.raw
        || route.operation == Operation::Realtime
        || aim.adapter.endpoint(route.operation, route.dialect).is_some();
    if !served {
        let why = format!("{} is not supported by {}", route.operation.name(), relay.facts.provider);
        return Err(Fault::new(FaultKind::Unsupported, why));
    }
    if relay.hold.is_none() {
        let content = &relay.request.content;
        let target = Target { aim: &aim, leaf: &leaf, content };
        let hold = admit::target(gateway, &relay.request, &relay.routing, &target, &relay.caller).await?;
        relay.facts.limits = relay.caller.standings().tighter(hold.standings());
        relay.hold = Some(hold);
    }
    relay.token = match &aim.grant {
        Some(grant) => {
            let pass = gateway.credentials.token(grant).await.map_err(|f| sign_in_failed(&f, relay.facts.provider))?;
            let Pass::Header(token) = pass else {
                let why = "A WebSocket cannot be signed for: use an API key";
                return Err(Fault::new(FaultKind::Unsupported, why));
            };
            Some(token)
        }
        None => None,
    };
    let origin = gateway.dialer.origin(&aim.base).await.map_err(|e| match e {
        DialError::Forbidden(why) => Fault::new(FaultKind::BadHost, format!("The provider's host {why}")),
        DialError::Failed(why) => Fault::new(FaultKind::Unreachable, why),
    })?;
    let (address, _) = gateway.dialer.address(&origin);
    let mut peer = gateway.dialer.peer(&origin, address);
    // An open WebSocket may be silent for as long as both sides like, unless a request timeout was asked for:
    // Pingora has one clock for the handshake and for what follows.
    relay.timeout = relay.request.headers.request_timeout_ms.or(leaf.timeout_ms).map(Duration::from_millis);
    peer.options.read_timeout = relay.timeout;
    peer.options.write_timeout = Some(gateway.settings.idle_timeout);
    peer.options.idle_timeout = Some(Duration::from_secs(55));
    let call =
        Call { raw: route.raw, model: aim.model.as_deref(), settings: &aim.settings, ..raw_call(&relay.request) };
    relay.path = aim.adapter.relayed(&call)?;
    relay.aim = Some(aim);
    Ok(Box::new(peer))
}

/// Turns the client's head into the target's: path, host and credential are the target's, the gateway's own
/// headers stay here.
pub(crate) fn aim(gateway: &Gateway, session: &Session, out: &mut RequestHeader, ctx: &mut Ctx) -> pingora::Result<()> {
    let relay = relayed(ctx)?;
    let internal = || Error::explain(ErrorType::InternalError, "the request could not be aimed at its target");
    relay.clock.ask(&relay.request);
    let aim = relay.aim.as_ref().ok_or_else(internal)?;
    let route = &relay.request.route;
    let endpoint = if route.raw { None } else { aim.adapter.endpoint(route.operation, route.dialect) };
    let path = match endpoint {
        Some(endpoint) => endpoint.path.into_owned(),
        None if route.raw || route.operation == Operation::Realtime => route.tail().to_owned(),
        None => return Err(internal()),
    };
    let whole = match (&relay.path, &route.query) {
        (Some(own), _) => format!("{}{own}", aim.base.path),
        (None, Some(query)) => format!("{}{path}?{query}", aim.base.path),
        (None, None) => format!("{}{path}", aim.base.path),
    };
    out.set_uri(whole.parse().map_err(|_| internal())?);
    let client = &session.req_header().headers;
    for name in client.keys() {
        let text = name.as_str();
        let own = suffix_of(text, &gateway.settings.header_alias).is_some();
        if own
            || matches!(
                text,
                "authorization" | "x-api-key" | "api-key" | "x-goog-api-key" | "cookie" | "forwarded" | "x-real-ip"
            )
            || text.starts_with("x-forwarded-")
        {
            out.remove_header(name);
        }
    }
    out.insert_header(header::HOST, aim.base.authority())?;
    head::authorize(out, aim).map_err(|_| internal())?;
    if let Some(token) = &relay.token {
        out.insert_header(header::AUTHORIZATION, token.clone())?;
    }
    if let Credential::Managed(upstream) = &aim.credential {
        for (name, text) in &upstream.headers {
            out.insert_header(
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| internal())?,
                text.expose().as_str(),
            )?;
        }
    }
    Ok(())
}

/// While nothing went down, another try is possible.
fn can_repeat(session: &Session) -> bool {
    session.downstream_session.response_written().is_none_or(|h| h.status.is_informational())
}

pub(crate) fn judge(
    gateway: &Gateway,
    session: &mut Session,
    head: &mut ResponseHeader,
    ctx: &mut Ctx,
) -> pingora::Result<()> {
    let status = head.status.as_u16();
    let repeatable = can_repeat(session);
    let relay = relayed(ctx)?;
    relay.fault = None;
    if status >= 200 {
        relay.clock.hear();
        relay.routing.tell(&relay.request, status);
    }
    if status < 200 || !repeatable {
        return Ok(());
    }
    let Some(left) = relay.advance(gateway, status, Why::Answered { wished: retry_after(&head.headers) }) else {
        return Ok(());
    };
    ctx.records.0.extend(left);
    let mut e = Error::explain(ErrorType::HTTPStatus(status), "another target is tried").into_up();
    e.set_retry(true);
    Err(e)
}

pub(crate) fn decorate(gateway: &Gateway, head: &mut ResponseHeader, ctx: &mut Ctx) -> pingora::Result<()> {
    if let Some(relay) = ctx.relay.as_deref_mut()
        && head.status != 101
    {
        if head.status.as_u16() >= 200 {
            relay.clock.first_us = relay.request.elapsed_us();
        }
        reply::decorate_kept(gateway, head, &relay.request, &relay.facts);
    }
    Ok(())
}

pub(crate) fn not_reached(gateway: &Gateway, session: &Session, ctx: &mut Ctx, e: Box<Error>) -> Box<Error> {
    let why = e.etype().as_str().to_owned();
    settle(gateway, session, ctx, e, |provider| {
        Fault::new(FaultKind::Unreachable, format!("{provider} could not be reached: {why}"))
    })
}

pub(crate) fn broke_off(gateway: &Gateway, session: &Session, ctx: &mut Ctx, e: Box<Error>) -> Box<Error> {
    if *e.esource() == ErrorSource::Downstream || matches!(e.etype(), ErrorType::HTTPStatus(_)) {
        return e;
    }
    let silent = matches!(e.etype(), ErrorType::ReadTimedout | ErrorType::WriteTimedout);
    let why = e.etype().as_str().to_owned();
    let timeout = ctx.relay.as_deref().and_then(|r| r.timeout);
    settle(gateway, session, ctx, e, |provider| {
        if let Some(timeout) = timeout.filter(|_| silent) {
            timed_out(timeout)
        } else if silent {
            Fault::new(FaultKind::UpstreamSilent, format!("{provider} did not answer in time"))
        } else {
            Fault::new(FaultKind::UpstreamBroken, format!("{provider} broke off: {why}"))
        }
    })
}

fn settle(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut Ctx,
    mut e: Box<Error>,
    fault: impl FnOnce(&str) -> Fault,
) -> Box<Error> {
    let repeatable = can_repeat(session);
    let mut again = false;
    if let Some(relay) = ctx.relay.as_deref_mut() {
        let fault = fault(relay.facts.provider);
        let (status, fault_kind) = (fault.status(), fault.kind());
        relay.fault = Some(fault);
        relay.clock.hear();
        relay.routing.tell(&relay.request, status);
        let why = if fault_kind == FaultKind::TimedOut { Why::Answered { wished: None } } else { Why::Network };
        if repeatable && let Some(left) = relay.advance(gateway, status, why) {
            ctx.records.0.extend(left);
            again = true;
        }
    }
    e.set_retry(again);
    e
}

/// The last word when no target gave an answer.
pub(crate) async fn failed(gateway: &Gateway, session: &mut Session, e: &Error, ctx: &mut Ctx) -> FailToProxy {
    let gone = *e.esource() == ErrorSource::Downstream;
    let untouched = session.response_written().is_none_or(|h| h.status.is_informational());
    let relay = ctx.relay.as_deref();
    let fault = relay
        .and_then(|r| r.fault.clone())
        .unwrap_or_else(|| Fault::new(FaultKind::Internal, "The request could not be proxied"));
    if untouched && !gone {
        let dialect = relay.map_or(gateway_domain::Dialect::OpenAi, |r| r.request.route.dialect);
        session.downstream_session.set_keepalive(None);
        // A client that cannot be written to is gone; the record says so.
        let _ = reply::refuse(gateway, session, &fault, dialect, relay.map(|r| &*r.request)).await;
    }
    FailToProxy { error_code: if gone { 499 } else { fault.status() }, can_reuse_downstream: false }
}

/// The record of the target whose answer the client got.
pub(crate) fn finish(gateway: &Gateway, session: &Session, e: Option<&Error>, ctx: &mut Ctx) {
    let Some(relay) = ctx.relay.take() else { return };
    let answered = session.response_written().map_or(499, |h| h.status.as_u16());
    let gone = e.is_some_and(|e| *e.esource() == ErrorSource::Downstream);
    let mut relay = relay;
    relay.clock.hear();
    let target = relay.hold.take().unwrap_or_default();
    // A connection that was upgraded has answered; nobody reads what is said on it.
    let settled = if answered == 101 { 200 } else { answered };
    let charges = Holds { caller: std::mem::take(&mut relay.caller), target }.settle(settled, None);
    let mut record = relay.record(if gone { 499 } else { answered }, relay.routing.plan.number());
    record.charges = charges;
    if gone {
        record.fault = Some("client_gone");
    }
    record.request_bytes = session.body_bytes_read() as u64;
    record.response_bytes = session.body_bytes_sent() as u64;
    record::finish(&mut record, &relay.request);
    let scene = Scene { gateway, session, request: &relay.request, sent: None };
    scene.answered(&mut record, Tape::unseen(session.body_bytes_sent() as u64));
    ctx.records.push(record);
}
