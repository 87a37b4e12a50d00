//! A realtime session: a WebSocket whose frames pass both ways unchanged while the gateway reads what they say. Each
//! response is asked of the limits before it goes up, settled when it is done, and has a record of its own; a limit
//! that runs out ends the session. How a connection to the provider is come by is the exchange's business, as with any
//! call.

mod call_leases;
mod call_row;
mod calls;
mod close_state;
mod guardrail_stage;
mod held_output;
mod listener;
mod live_api;
mod responses;
mod session;
mod session_guardrails;
mod session_metrics;
mod session_validity;
mod sideband;
mod takeover;
mod termination;
mod transcriber;
mod turns;
mod watch;

pub(crate) use call_leases::{CallRows, NotedCalls};
pub(crate) use session_metrics::LiveCounts;
pub(crate) use session_validity::standing_now;
pub(crate) use sideband::PartClaims;
pub(crate) use takeover::CallTakeover;
pub(crate) use watch::{CallWatch, WatchSeat, WatchSeats};

use super::attempt::Attempt;
use super::{Exchange, Holds};
use crate::proxy::client::ClientLeft;
use crate::proxy::deliver::{Delivery, Outcome, PassthroughResponse, passed_head};
use crate::proxy::handshake;
use crate::proxy::record::{self, BodyCapture};
use crate::runtime_config::ConfigHandle;
use crate::writer::Records;
use gateway_domain::record::{LogRecord, RealtimeNote};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderMap, StatusCode, header};
use listener::Listener;
use pingora::http::ResponseHeader;
use session::LiveSession;
use std::sync::Arc;
use std::time::Duration;

/// What sessions need of the gateway beside what every call does.
pub(crate) struct LiveParts {
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) records: Records,
    pub(crate) counts: LiveCounts,
    /// Silence in both directions.
    pub(crate) idle: Duration,
    /// The longest that a session lasts, however much it says.
    pub(crate) longest: Duration,
    /// Decides which session counts a response that several sessions hear.
    pub(crate) claims: PartClaims,
    pub(crate) seats: WatchSeats,
    /// Calls that are watched, as other nodes know of them.
    pub(crate) noted: Arc<NotedCalls>,
    /// Whether the process takes leave.
    pub(crate) draining: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for LiveParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveParts").field("idle", &self.idle).field("longest", &self.longest).finish_non_exhaustive()
    }
}

impl Exchange<'_> {
    /// Whether the provider opened a session that is to be watched.
    pub(super) fn opens_session(&self, outcome: &Outcome) -> bool {
        let ask = &self.request.ask;
        let is_session = handshake::is_session(ask.route.operation, ask.upload);
        outcome.status() == 101 && matches!(outcome, Outcome::Passthrough(_)) && is_session
    }

    pub(super) async fn converse(
        &mut self,
        mut attempt: Attempt,
        outcome: Outcome,
        mut record: Box<LogRecord>,
    ) -> Result<(), ClientLeft> {
        let Outcome::Passthrough(mut passing) = outcome else { return Ok(()) };
        let target = std::mem::take(&mut attempt.reservation);
        let holds = Holds { caller: self.admission.take(), target, lost: self.lost };
        let head = match opening(&mut passing, &self.client.view().req_header().headers) {
            Ok(head) => head,
            Err(fault) => {
                holds.release();
                return self.refuse_opening(attempt, &fault, record).await;
            }
        };
        let Some(upload) = self.client.open_session() else {
            holds.release();
            return Ok(());
        };
        let (charges, _slot) = holds.open_session();
        record.charges = charges;
        record.status = 101;
        self.client.begin_answer(self.parts.delivery.settings.idle_timeout);
        record.timings.first_byte_us = self.request.look();
        let opened = self.client.head(head, false).await;
        let ended = match opened {
            Ok(()) => {
                let gate = super::AdmissionGate { parts: self.parts, request: self.request, routing: &self.routing };
                let session = LiveSession::new(
                    gate,
                    Listener::Client(&mut self.client),
                    (upload, passing.response),
                    &attempt.info,
                );
                Some(Box::pin(session.run()).await)
            }
            Err(_) => None,
        };
        self.request.look();
        record.request_bytes = self.client.view().body_bytes_read() as u64;
        match ended {
            Some(ended) => {
                record.response_bytes = ended.written;
                record.fault = ended.fault;
                let call_id = self.request.beside().unwrap_or_default().into();
                if let Some(llm) = record.llm_mut() {
                    llm.realtime = Some(Arc::new(RealtimeNote { call_id, ..ended.note }));
                }
            }
            None => record.fault = Some("client_gone"),
        }
        record::finish(&mut record, self.request);
        let capture = BodyCapture::unseen(record.response_bytes);
        self.bodies(&attempt).answered(&mut record, capture);
        self.records.push_noted(record, attempt.info.hooks.take());
        Ok(())
    }

    /// The provider agreed to what nobody asked for.
    async fn refuse_opening(
        &mut self,
        mut attempt: Attempt,
        fault: &Fault,
        mut record: Box<LogRecord>,
    ) -> Result<(), ClientLeft> {
        let mut capture = BodyCapture::new(self.request.caller.keep, &self.parts.delivery.budget);
        let mut judge = None;
        let mut none = Holds::default();
        let delivery = Delivery {
            parts: &self.parts.delivery,
            client: &mut self.client,
            request: self.request,
            info: &attempt.info,
            record: &mut record,
            capture: &mut capture,
            growth: none.growth(),
            leader: None,
            keeper: None,
            judge: &mut judge,
            run: &mut None,
        };
        let told = delivery.run(Outcome::Fault(fault.clone())).await;
        record::finish(&mut record, self.request);
        self.bodies(&attempt).answered(&mut record, capture);
        self.records.push_noted(record, attempt.info.hooks.take());
        told
    }
}

/// The head by which the session opens towards the client.
fn opening(passing: &mut PassthroughResponse, client: &HeaderMap) -> Result<Box<ResponseHeader>, Fault> {
    let broken = |why: &'static str| Fault::new(FaultKind::UpstreamBroken, why);
    let mut head = passed_head(passing.response.take_head(), false);
    if head.headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err(broken("The provider answered with an extension of WebSockets that it was not asked for"));
    }
    let chosen = handshake::chosen(client, &head.headers);
    head.remove_header(&header::SEC_WEBSOCKET_PROTOCOL);
    let written = head
        .set_status(StatusCode::SWITCHING_PROTOCOLS)
        .and_then(|()| head.insert_header(header::UPGRADE, "websocket"))
        .and_then(|()| head.insert_header(header::CONNECTION, "Upgrade"))
        .and_then(|()| match chosen {
            Some(name) => head.insert_header(header::SEC_WEBSOCKET_PROTOCOL, name),
            None => Ok(()),
        });
    written.map(|()| head).map_err(|_| broken("The provider's answer to a WebSocket cannot be passed on"))
}
