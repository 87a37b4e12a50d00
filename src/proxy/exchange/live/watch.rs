//! Calls over WebRTC and SIP that the gateway watches. Their media go round it, so it opens a socket of its own beside
//! each, hears there what every session tells, and hangs up where a session would be ended. How many a node watches is
//! bounded.

use super::call_leases::{CallEnd, KnownModels, NotedCall};
use super::listener::Listener;
use super::session::LiveSession;
use super::session_validity::{again, standing_now};
use super::sideband::BesideCall;
use crate::clock;
use crate::guardrails::NotedRecord;
use crate::in_flight::InFlightGuard;
use crate::metrics::Metrics;
use crate::proxy::admission_guard::ConcurrencySlot;
use crate::proxy::call::{Prepared, ResolvedTarget};
use crate::proxy::client::Upload;
use crate::proxy::deliver::Outcome;
use crate::proxy::exchange::attempt::TargetCall;
use crate::proxy::exchange::{AdmissionGate, CallParts};
use crate::proxy::head::ClientHeaders;
use crate::proxy::realtime_call_request::{CallAsk, path_of};
use crate::proxy::record::{self, AttemptInfo, Tried};
use crate::proxy::request::{Request, RequestContent};
use crate::proxy::route_match;
use crate::proxy::routing::Routing;
use crate::proxy::target;
use crate::upstream::http1::{Framing, RequestBody, Response};
use bytes::Bytes;
use gateway_domain::record::{RealtimeNote, Steps};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderMap, HeaderValue, Method, header};
use prometheus::IntGauge;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A call that was made just now may not be known everywhere yet.
const TRIES: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(250);
/// The most time for one try to open a socket, and for a call to be hung up.
const WITHIN: Duration = Duration::from_secs(5);
/// The key of a handshake proves nothing between two that know each other.
const HANDSHAKE_KEY: &str = "Z2F0ZXdheS13YXRjaGVzIQ==";

/// How many calls a node may watch.
#[derive(Debug)]
pub(crate) struct WatchSeats {
    most: usize,
    taken: IntGauge,
}

/// Taken until it is dropped.
#[derive(Debug)]
pub(crate) struct WatchSeat(IntGauge);

impl Drop for WatchSeat {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl WatchSeats {
    pub(crate) fn new(most: usize, metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let taken = IntGauge::new("gateway_realtime_calls", "Calls over WebRTC and SIP that are watched")?;
        metrics.register(Box::new(taken.clone()))?;
        Ok(Self { most, taken })
    }

    pub(super) fn are_free(&self) -> bool {
        self.taken.get() < i64::try_from(self.most).unwrap_or(i64::MAX)
    }

    /// `None`: all are taken. Each is taken before it is counted, so that two never share the last.
    pub(crate) fn take(&self) -> Option<WatchSeat> {
        self.taken.inc();
        let seat = WatchSeat(self.taken.clone());
        (self.taken.get() <= i64::try_from(self.most).unwrap_or(i64::MAX)).then_some(seat)
    }
}

/// A call, with the socket beside it.
pub(crate) struct CallWatch {
    call: Arc<str>,
    request: Box<Request>,
    routing: Routing,
    info: AttemptInfo,
    headers: HeaderMap,
    socket: (Upload, Response),
    seat: WatchSeat,
    slot: Option<ConcurrencySlot>,
    noted: Arc<NotedCall>,
    goes_on: Option<GoesOn>,
}

/// What is known of a call that another watched before.
pub(super) struct GoesOn {
    /// The time since the call began.
    pub(super) age: Duration,
    pub(super) known: Option<KnownModels>,
}

/// Why a socket beside a call could not be opened.
#[derive(Debug)]
pub(super) struct SideFault {
    /// The provider knows no such call.
    pub(super) is_over: bool,
    pub(super) fault: Fault,
}

impl From<Fault> for SideFault {
    fn from(fault: Fault) -> Self {
        Self { is_over: false, fault }
    }
}

/// What a watch begins with.
pub(super) struct WatchedCall<'a> {
    pub(super) call: &'a str,
    pub(super) seat: WatchSeat,
    pub(super) slot: Option<ConcurrencySlot>,
    pub(super) info: &'a AttemptInfo,
    /// The headers of the client that began the call.
    pub(super) headers: &'a HeaderMap,
    /// Others know of it.
    pub(super) noted: Arc<NotedCall>,
    pub(super) goes_on: Option<GoesOn>,
}

impl CallWatch {
    /// `Err`: nobody hears what is said in it.
    pub(super) async fn open(gate: AdmissionGate<'_>, watched: WatchedCall<'_>) -> Result<Box<Self>, SideFault> {
        let WatchedCall { call, seat, slot, info, headers, noted, goes_on } = watched;
        let mut request = Box::new(beside(gate.request, call)?);
        request.ask.upload = Some(Framing::WebSocket);
        let routing = gate.routing.here();
        let mut last = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(BETWEEN).await;
            }
            let gate = AdmissionGate { parts: gate.parts, request: &request, routing: &routing };
            match side_socket(gate).await {
                Ok(socket) => {
                    let info = AttemptInfo {
                        option_index: info.option_index.clone(),
                        provider: info.provider,
                        is_clients_host: info.is_clients_host,
                        virtual_key: info.virtual_key.clone(),
                        model: info.model.clone(),
                        card: info.card.clone(),
                        stream: true,
                        ..AttemptInfo::default()
                    };
                    let (call, headers) = (call.into(), headers.clone());
                    return Ok(Box::new(Self {
                        call,
                        request,
                        routing,
                        info,
                        headers,
                        socket,
                        seat,
                        slot,
                        noted,
                        goes_on,
                    }));
                }
                Err(side) => last = Some(side),
            }
        }
        Err(last.unwrap_or_else(|| Fault::new(FaultKind::Internal, "A call was not watched").into()))
    }

    /// Listens until the call is over, or has to be.
    pub(crate) async fn run(self: Box<Self>, parts: Arc<CallParts>, _ticket: InFlightGuard) {
        let Self { call, request, routing, info, headers, socket, seat, slot, noted, goes_on } = *self;
        let gate = AdmissionGate { parts: &parts, request: &request, routing: &routing };
        let age = goes_on.as_ref().map_or(Duration::ZERO, |goes_on| goes_on.age);
        let beside = BesideCall::watched(&call, noted.clone(), goes_on);
        let session = LiveSession::new(gate, Listener::Nobody(&headers), socket, &info).watching(beside, age);
        let ended = Box::pin(session.run()).await;
        // Whoever says that it ends knows best, and one that another node watches goes on.
        if !ended.by_provider && !ended.is_handed_over {
            hang_up(gate, &call).await;
        }
        let note = RealtimeNote { call_id: (*call).into(), ..ended.note };
        note_session(&parts, (&request, Some(&routing)), &info, SessionEnd { note, fault: ended.fault });
        noted.end(if ended.is_handed_over { CallEnd::HandedOver } else { CallEnd::Over }).await;
        drop((seat, slot));
    }
}

/// What the watch of a call came to.
pub(super) struct SessionEnd {
    pub(super) note: RealtimeNote,
    pub(super) fault: Option<&'static str>,
}

/// Writes the record of what was heard of a call.
pub(super) fn note_session(
    parts: &CallParts,
    (request, routing): (&Request, Option<&Routing>),
    info: &AttemptInfo,
    SessionEnd { note, fault }: SessionEnd,
) {
    request.look();
    let mut record = record::of(request, &Steps::default(), routing, Some(Tried { info, status: 101, fault }), 1);
    if let Some(llm) = record.llm_mut() {
        llm.realtime = Some(Arc::new(note));
    }
    record::finish(&mut record, request);
    parts.guardrails.background().send(NotedRecord { record, notes: None }, &parts.live.records);
}

/// The request of a session beside a call that `request` began.
fn beside(request: &Request, call: &str) -> Result<Request, Fault> {
    let mut side = again(request, request.caller.tenant.clone(), clock::now());
    side.ask.method = Method::GET;
    side.ask.route = route_match::route(&Method::GET, "/v1/realtime", Some(&format!("call_id={call}")))?;
    side.ask.content.unread = false;
    Ok(side)
}

/// The target as the gateway asks it for itself.
pub(super) fn resolved(gate: AdmissionGate<'_>) -> Result<ResolvedTarget<'_>, Fault> {
    let leaf = &**gate.routing.plan.leaf();
    let aim = target::resolve(leaf, gate.routing.inline, gate.request)?;
    let content = Cow::Borrowed(&gate.request.ask.content);
    Ok(ResolvedTarget { leaf, aim, content, guarded: None, binder: None, keeps: false })
}

async fn side_socket(gate: AdmissionGate<'_>) -> Result<(Upload, Response), SideFault> {
    let resolved = resolved(gate)?;
    let mut handshake = HeaderMap::new();
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_KEY, HANDSHAKE_KEY),
    ] {
        handshake.insert(name, HeaderValue::from_static(value));
    }
    let prepared = Prepared::new(gate.request, &resolved, ClientHeaders::of_nobody(&handshake))?;
    let upload = Upload::of_own(&gate.parts.delivery.budget);
    let body = RequestBody::Streaming(Box::new(upload.clone()));
    let call = TargetCall { gate, resolved: &resolved, prepared: &prepared, whole_at: &mut None };
    match tokio::time::timeout(WITHIN, call.run(body)).await {
        Ok(Outcome::Passthrough(passing)) if passing.response.status() == 101 => {
            upload.begin();
            Ok((upload, passing.response))
        }
        Ok(Outcome::Fault(fault)) => Err(fault.into()),
        Ok(other) => {
            let why = format!("{} answered with the status {}", resolved.provider(), other.status());
            let fault = Fault::new(FaultKind::UpstreamBroken, why);
            Err(SideFault { is_over: other.status() == 404, fault })
        }
        Err(_) => {
            let why = format!("{} did not answer in time", resolved.provider());
            Err(Fault::new(FaultKind::UpstreamSilent, why).into())
        }
    }
}

/// Ends a call as far as that is in the gateway's hands.
pub(super) async fn hang_up(gate: AdmissionGate<'_>, call: &str) {
    let told = tokio::time::timeout(WITHIN, hung_up(gate, call)).await;
    let why = match told {
        Ok(Ok(200..300 | 404)) => return,
        Ok(Ok(status)) => format!("its provider answered with the status {status}"),
        Ok(Err(fault)) => fault.message().to_owned(),
        Err(_) => "its provider did not answer in time".to_owned(),
    };
    tracing::warn!(call, why, "a call could not be hung up");
}

async fn hung_up(gate: AdmissionGate<'_>, call: &str) -> Result<u16, Fault> {
    let opened = &gate.request.caller.tenant;
    // Whoever may no more could when the call began.
    let tenant = standing_now(&gate.parts.live, opened, clock::now()).unwrap_or_else(|_| opened.clone());
    let mut request = again(gate.request, tenant, gate.request.caller.at);
    request.ask.method = Method::POST;
    request.ask.route = route_match::route(&Method::POST, &path_of(call, "hangup"), None)?;
    request.ask.content =
        RequestContent { model: request.ask.content.model, bytes: Bytes::new(), ..RequestContent::default() };
    request.ask.call = Some(Box::new(CallAsk::hangup()));
    request.ask.upload = None;
    let gate = AdmissionGate { request: &request, ..gate };
    let resolved = resolved(gate)?;
    let prepared = Prepared::new(&request, &resolved, ClientHeaders::of_nobody(&HeaderMap::new()))?;
    let asked = TargetCall { gate, resolved: &resolved, prepared: &prepared, whole_at: &mut None };
    let outcome = asked.run(RequestBody::Held(&prepared.out.body)).await;
    let status = match &outcome {
        Outcome::Fault(fault) => return Err(fault.clone()),
        other => other.status(),
    };
    outcome.discard(gate.parts.delivery.settings.upstream_pool_size).await;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_calls_are_watched_than_may_be() {
        let seats = WatchSeats { most: 2, taken: IntGauge::new("calls", "Calls").expect("a gauge") };
        let (one, two) = (seats.take(), seats.take());
        assert!(one.is_some() && two.is_some() && seats.take().is_none());
        drop(one);
        assert!(seats.take().is_some(), "a seat that was given back is free");
        assert_eq!(seats.taken.get(), 1);
    }
}
