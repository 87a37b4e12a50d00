//! Looks for calls whose node fell silent or left, and goes on with them: the request is made anew by what stands in
//! the row of the call, the socket beside it is opened once more, and all else is as it was. A call that is over by
//! then, or has to be, gets the record of its session here.

use super::call_leases::{CallEnd, CallProgress, NotedCall, TakenFor};
use super::call_row::CallRow;
use super::close_state::Why;
use super::session_validity::standing_now;
use super::watch::{CallWatch, GoesOn, SessionEnd, WatchSeat, WatchedCall, hang_up, note_session, resolved};
use crate::batches::SharedBatches;
use crate::clock;
use crate::in_flight::{InFlight, InFlightGuard};
use crate::issuers::Issuers;
use crate::price_list;
use crate::proxy::exchange::{AdmissionGate, CallParts};
use crate::proxy::record::AttemptInfo;
use crate::proxy::request::Request;
use crate::proxy::routing::{InlineConfigs, Routing};
use crate::proxy::sticky_assignments::Assignments;
use crate::proxy::stored_request::{AskConfigs, Unmade};
use crate::proxy::target::Aim;
use gateway_domain::ports::{Job, LeasedJob};
use gateway_domain::record::{RealtimeNote, RealtimeTotals};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two looks for calls that other nodes left.
const LOOK: Duration = Duration::from_secs(2);
/// The pause before a call that could not be watched is tried again.
const AFTER: Duration = Duration::from_secs(3);
/// Tries of one call: whoever has this one gives up, and hangs up.
const LAST_TRY: u32 = 6;

/// What goes on with calls of others.
pub(crate) struct CallTakeover {
    pub(crate) parts: Arc<CallParts>,
    pub(crate) inline: Arc<InlineConfigs>,
    pub(crate) sticks: Arc<Assignments>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) batches: SharedBatches,
    pub(crate) flight: InFlight,
}

impl CallTakeover {
    /// Takes over calls until the process takes leave.
    pub(crate) fn start(self, is_leaving: Box<dyn Fn() -> bool + Send + Sync>) {
        let all = Arc::new(self);
        all.parts.live.noted.start_beating();
        let runtime = all.parts.delivery.background.clone();
        runtime.spawn(async move {
            while !is_leaving() {
                all.look().await;
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    /// Takes as many as there are and this node may watch.
    async fn look(self: &Arc<Self>) {
        let live = &self.parts.live;
        while live.seats.are_free() {
            let LeasedJob { lease, job } = match live.noted.take().await {
                Ok(Some(leased)) => leased,
                Ok(None) => return,
                // The watcher tells of a database that is away.
                Err(error) => return tracing::debug!(%error, "calls cannot be looked for"),
            };
            let progress: CallProgress = serde_json::from_str(&job.progress).unwrap_or_default();
            let noted = Arc::new(live.noted.hold(lease, progress.runs.saturating_add(1)));
            let Some(seat) = live.seats.take() else {
                return noted.end(CallEnd::HandedOver).await;
            };
            let (all, ticket) = (self.clone(), self.flight.board());
            self.parts.delivery.background.spawn(async move {
                let taken = TakenCall { job, noted: noted.clone(), progress };
                if let Some(end) = Box::pin(all.go_on(taken, seat, ticket)).await {
                    let is_over = end == CallEnd::Over;
                    all.parts.live.noted.count(if is_over { TakenFor::Ended } else { TakenFor::Later });
                    noted.end(end).await;
                }
            });
        }
    }

    /// `None`: it was watched, and its end is noted.
    async fn go_on(&self, taken: TakenCall, seat: WatchSeat, ticket: InFlightGuard) -> Option<CallEnd> {
        let TakenCall { job, noted, progress } = taken;
        let live = &self.parts.live;
        let row = match live.noted.open(&job.payload).and_then(|text| CallRow::read(&text)) {
            Ok(row) => row,
            Err(why) => return Some(later(&job, why)),
        };
        let mut request = match row.request(&self.parts, &*self.issuers, job.org) {
            Ok(request) => request,
            Err(Unmade::Later(why)) => return Some(later(&job, why.to_owned())),
            Err(Unmade::Never(why)) => {
                tracing::warn!(call = row.call, why, "nobody can watch a call any more");
                return Some(CallEnd::Over);
            }
        };
        let (inline, pinned, sticks) = (&*self.inline, &self.batches.configs, &self.sticks);
        let routing = match row
            .ask
            .routing(&self.parts.guardrails, AskConfigs { inline, pinned, sticks }, &mut request)
            .await
        {
            Ok(routing) => routing,
            Err(fault) => {
                tracing::warn!(call = row.call, why = fault.message(), "a call goes on that nobody can watch or end");
                self.note_end((&request, None), &row.call, (Why::Revoked, fault.message()));
                return Some(CallEnd::Over);
            }
        };
        let gate = AdmissionGate { parts: &self.parts, request: &request, routing: &routing };
        let told = (&*request, Some(&routing));
        let found = standing_now(live, &request.caller.tenant, clock::now()).and_then(|_| resolved(gate));
        let (info, slot) = match found {
            Ok(found) => (begun(gate, &found.aim).await, gate.slot(&found.aim).ok().flatten()),
            Err(fault) => {
                hang_up(gate, &row.call).await;
                self.note_end(told, &row.call, (Why::Revoked, fault.message()));
                return Some(CallEnd::Over);
            }
        };
        let (headers, call, known) = (row.ask.headers(), row.call.as_str(), progress.known);
        let goes_on = Some(GoesOn { age: row.age(clock::now()), known: known.clone() });
        let watched = WatchedCall { call, seat, slot, info: &info, headers: &headers, noted: noted.clone(), goes_on };
        let side = match CallWatch::open(gate, watched).await {
            Ok(watch) => {
                live.noted.count(TakenFor::Watched);
                noted.learn(known).await;
                watch.run(self.parts.clone(), ticket).await;
                return None;
            }
            Err(side) => side,
        };
        if side.is_over {
            self.note_end(told, call, (Why::Provider, "the call was over before another node could watch it"));
            return Some(CallEnd::Over);
        }
        if job.tries < LAST_TRY {
            return Some(later(&job, side.fault.message().to_owned()));
        }
        hang_up(gate, call).await;
        self.note_end(told, call, (Why::ProviderGone, side.fault.message()));
        Some(CallEnd::Over)
    }

    /// Writes the record of a session that was never opened again.
    fn note_end(&self, (request, routing): (&Request, Option<&Routing>), call: &str, (why, reason): (Why, &str)) {
        let note = RealtimeNote {
            call_id: call.into(),
            ended: why.label().into(),
            closed_by: why.by().into(),
            close_reason: reason.into(),
            totals: Some(RealtimeTotals::default()),
            ..RealtimeNote::default()
        };
        note_session(&self.parts, (request, routing), &AttemptInfo::default(), SessionEnd { note, fault: why.fault() });
    }
}

/// A call, as it was taken over.
struct TakenCall {
    job: Job,
    noted: Arc<NotedCall>,
    progress: CallProgress,
}

fn later(job: &Job, why: String) -> CallEnd {
    tracing::warn!(call = %job.id, why, "a call cannot be taken over now");
    CallEnd::Later { after: AFTER, why }
}

/// What is known of a target before it is asked.
async fn begun(AdmissionGate { request, routing, .. }: AdmissionGate<'_>, aim: &Aim) -> AttemptInfo {
    let leaf = routing.plan.leaf();
    price_list::opened().await;
    AttemptInfo {
        option_index: leaf.path.clone(),
        provider: aim.adapter.info().slug,
        is_clients_host: request.ask.headers.custom_host.is_some() || (routing.inline && leaf.custom_host.is_some()),
        virtual_key: aim.virtual_key.clone(),
        model: aim.model.clone(),
        card: aim.prices(request).own(aim.model.as_deref()),
        stream: true,
        ..AttemptInfo::default()
    }
}
