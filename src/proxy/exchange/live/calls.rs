//! A call that its provider took: it is noted and watched before its caller hears of it, and where nobody could watch
//! it though a limit or a guardrail wants to know what is said, it is ended and refused.

use super::call_leases::CallEnd;
use super::call_row::CallRow;
use super::watch::{CallWatch, WatchedCall, hang_up};
use crate::proxy::client::ClientLeft;
use crate::proxy::deliver::{Outcome, PassthroughResponse};
use crate::proxy::exchange::attempt::Attempt;
use crate::proxy::exchange::{AdmissionGate, Exchange};
use crate::proxy::hooks;
use crate::proxy::objects::Binder;
use crate::proxy::realtime_call_request::{call_in_path, is_id};
use crate::proxy::target;
use gateway_domain::record::{LogRecord, RealtimeNote};
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_policies::Hold;
use http::{HeaderValue, header};
use std::sync::Arc;

impl Exchange<'_> {
    /// Whether the provider took a call that is to be watched.
    pub(in crate::proxy::exchange) fn begins_call(&self, outcome: &Outcome) -> bool {
        let route = &self.request.ask.route;
        let is_call = route.operation == Operation::RealtimeCall && !route.raw;
        is_call && matches!(outcome, Outcome::Passthrough(passing) if (200..300).contains(&passing.response.status()))
    }

    pub(in crate::proxy::exchange) async fn take_call(
        &mut self,
        mut attempt: Attempt,
        outcome: Outcome,
        mut record: Box<LogRecord>,
    ) -> Result<(), ClientLeft> {
        let Outcome::Passthrough(mut passing) = outcome else { return Ok(()) };
        let call = self.call_of(&passing);
        let watched = match &call {
            Some(call) => self.watch(call, &mut attempt).await,
            None => Err(Fault::new(FaultKind::UpstreamBroken, "The provider did not name the call")),
        };
        let is_watched = watched.is_ok();
        match watched {
            Ok(watch) => self.watch = Some(watch),
            Err(fault) if self.must_be_watched() => {
                let gate = AdmissionGate { parts: self.parts, request: self.request, routing: &self.routing };
                if let Some(call) = &call {
                    hang_up(gate, call).await;
                }
                Outcome::Passthrough(passing).discard(self.parts.delivery.settings.upstream_pool_size).await;
                let why = format!(
                    "The call was ended: limits or guardrails apply to it, and it could not be watched: {}",
                    fault.message()
                );
                let refused = Outcome::Fault(Fault::new(fault.kind(), why));
                (record.status, record.fault) = (refused.status(), refused.fault_label());
                return self.deliver(&mut attempt, refused, record).await;
            }
            Err(fault) => tracing::warn!(why = fault.message(), "a call goes on that nobody watches"),
        }
        passing.location = call.as_deref().and_then(|call| self.location(call));
        let call_id = call.unwrap_or_default().as_str().into();
        let note = RealtimeNote { call_id, watched: Some(is_watched), ..RealtimeNote::default() };
        if let Some(llm) = record.llm_mut() {
            llm.realtime = Some(Arc::new(note));
        }
        self.deliver(&mut attempt, Outcome::Passthrough(passing), record).await
    }

    async fn watch(&mut self, call: &str, attempt: &mut Attempt) -> Result<Box<CallWatch>, Fault> {
        let seat = self.seat.take().ok_or_else(|| Fault::new(FaultKind::Busy, "No more calls are watched"))?;
        let gate = AdmissionGate { parts: self.parts, request: self.request, routing: &self.routing };
        let headers = &self.client.view().req_header().headers;
        // Before anything else: whatever happens to this node from here on, another goes on.
        let row = CallRow::of(gate, call, headers).written();
        let noted = Arc::new(self.parts.live.noted.note(self.request.caller.tenant.org.id, &row).await?);
        let (slot, info) = (attempt.reservation.take_slot(), &attempt.info);
        let watched = WatchedCall { call, seat, slot, info, headers, noted: noted.clone(), goes_on: None };
        match CallWatch::open(gate, watched).await {
            Ok(watch) => Ok(watch),
            Err(side) => {
                let ending = async move { noted.end(CallEnd::Over).await };
                // Awaited by nobody: what is left of it is taken over, and found to be over.
                self.parts.delivery.background.spawn(ending);
                Err(side.fault)
            }
        }
    }

    /// The provider's own id of the call: of one that it made it stands in the answer.
    fn call_of(&self, passing: &PassthroughResponse) -> Option<String> {
        if let Some(call) = call_in_path(self.request.ask.route.tail()) {
            return Some(call.to_owned());
        }
        let location = passing.response.head().headers().get(header::LOCATION)?.to_str().ok()?;
        let path = location.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        path.rsplit('/').next().filter(|id| is_id(id)).map(str::to_owned)
    }

    /// Where the caller finds the call: here.
    fn location(&self, call: &str) -> Option<HeaderValue> {
        if call_in_path(self.request.ask.route.tail()).is_some() {
            return None;
        }
        let aim = target::resolve(self.routing.plan.leaf(), self.routing.inline, self.request).ok();
        let bound = aim.filter(|_| self.routing.binds);
        let id = bound
            .map(|aim| Binder::new((&self.parts.ids, &self.parts.kept_objects), &aim, self.request).bound_id(call));
        HeaderValue::from_str(&format!("/v1/realtime/calls/{}", id.as_deref().unwrap_or(call))).ok()
    }

    /// Somebody has to know what is said in it.
    fn must_be_watched(&self) -> bool {
        let leaf = &**self.routing.plan.leaf();
        if !hooks::is_unguarded(self.request, leaf) {
            return true;
        }
        let gate = AdmissionGate { parts: self.parts, request: self.request, routing: &self.routing };
        let mut wants = gate.of_caller();
        wants.without_requests();
        if !wants.is_empty() {
            return true;
        }
        let Ok(aim) = target::resolve(leaf, self.routing.inline, self.request) else { return true };
        let mut wants = gate.of_target(&aim, &Hold::default());
        wants.without_requests();
        !wants.is_empty()
    }
}
