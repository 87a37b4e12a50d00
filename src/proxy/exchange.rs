//! Walks the targets of a plan until one of them answers, and delivers that answer. The whole upstream call runs here,
//! on Pingora's client session; nothing goes downstream before the chosen upstream gave a valid head.

mod admission;
mod attempt;
mod backoff;
mod batch_line_usage;
mod batch_passthrough;
mod cache_lookup;
mod composite_call;
mod fine_tuning_usage;
mod guardrail_stage;
mod limit_status;
mod line_judge;
mod line_target;
mod live;
mod response_reader;
mod retries;
mod runs;
mod speech;
mod unpriced;

use super::admission_guard::AdmissionGuard;
use super::client::{Client, ClientLeft, EarlyKeepalive, linger};
use super::deliver::{self, Delivery, DeliveryParts, Outcome};
use super::prompt_target::{self, OwnAsk};
use super::record::{self, BodyCapture, PendingRecords, Received, RecordBodies, Tried};
use super::request::Request;
use super::routing::Routing;
use crate::bookings::{BatchWatches, BookedRecords, Bookings};
use crate::cache::AnswerCache;
use crate::downloads::Downloads;
use crate::guardrails::{Guardrails, HookNotes, StreamJudge};
use crate::kept_objects::KeptObjectNotes;
use crate::kept_responses::KeptResponses;
use crate::price_list;
use crate::upstream::{Credentials, Dialer};
use admission::{Admission, AdmissionGate, Holds, plus};
use attempt::{Attempt, AttemptStop, Turn};
pub(crate) use batch_line_usage::{book, denied};
pub(crate) use batch_passthrough::LookedAt;
pub(crate) use composite_call::ApartCall;
use gateway_domain::counters::{Charge, Counters};
use gateway_domain::ports::IdSeal;
use gateway_domain::record::{CacheStatus, LogRecord, Steps};
use gateway_domain::{AnswerForm, Fault, Operation, Usage};
use gateway_policies::Used;
use guardrail_stage::Verdicts;
use http::{HeaderValue, header};
pub(crate) use limit_status::limits;
pub(crate) use line_judge::{JudgedLine, LedLine, LineJudge};
pub(crate) use line_target::{LineRead, LineTarget};
pub(crate) use live::{
    CallRows, CallTakeover, CallWatch, LiveCounts, LiveParts, NotedCalls, PartClaims, WatchSeat, WatchSeats,
    standing_now,
};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use unpriced::UnpricedCalls;

/// What of the gateway a call needs.
pub(crate) struct CallParts {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) guardrails: Arc<Guardrails>,
    pub(crate) counters: Arc<dyn Counters>,
    pub(crate) shield: Arc<AdmissionGuard>,
    pub(crate) cache: Arc<AnswerCache>,
    pub(crate) unpriced: UnpricedCalls,
    pub(crate) bookings: Bookings,
    pub(crate) booked_records: BookedRecords,
    pub(crate) watches: Arc<BatchWatches>,
    pub(crate) ids: Arc<dyn IdSeal>,
    pub(crate) kept_objects: Arc<KeptObjectNotes>,
    pub(crate) kept: Arc<KeptResponses>,
    pub(crate) live: LiveParts,
    pub(crate) delivery: DeliveryParts,
}

/// How an exchange ended where nothing of it was delivered.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The limits of the caller refuse the request: no target had its turn.
    Denied(Fault),
    /// Nobody is left to answer.
    ClientLeft(ClientLeft),
}

/// One request, from its plan to its answer.
pub(crate) struct Exchange<'a> {
    pub(crate) parts: &'a CallParts,
    pub(crate) client: Client<'a>,
    /// Changed by the turn of a target alone that names a prompt.
    pub(crate) request: &'a mut Request,
    /// What it was before such a turn.
    own: Option<Box<OwnAsk>>,
    pub(crate) routing: Routing,
    pub(crate) records: &'a mut PendingRecords,
    pub(crate) steps: Steps,
    admission: Admission,
    /// What guardrails said of the request to a target before.
    judged: Option<Box<Verdicts>>,
    /// What targets tried before took.
    earlier: Duration,
    /// What those used whose answers were none after all: the caller pays for it with the one that does.
    lost: Used,
    /// A place among the calls that are watched, for the call that begins.
    pub(crate) seat: Option<WatchSeat>,
    /// A call that began, to be watched from now on.
    pub(crate) watch: Option<Box<CallWatch>>,
    /// Batches of the provider's own that the answer told of.
    pub(crate) looked_at: Option<Box<LookedAt>>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        parts: &'a CallParts,
        client: Client<'a>,
        request: &'a mut Request,
        routing: Routing,
        records: &'a mut PendingRecords,
    ) -> Self {
        let steps = request.steps();
        let mut client = client;
        client.set_early_keepalive(early_keepalive(&parts.delivery, request));
        let (admission, earlier, lost) = (Admission::default(), Duration::ZERO, Used::default());
        let (judged, own, seat, watch, looked_at) = (None, None, None, None, None);
        Self {
            parts,
            client,
            request,
            own,
            routing,
            records,
            steps,
            admission,
            judged,
            earlier,
            lost,
            seat,
            watch,
            looked_at,
        }
    }

    /// `Err`: nothing was delivered, or the client left in the middle.
    pub(crate) async fn run(&mut self) -> Result<(), Unanswered> {
        loop {
            self.routing.agree(self.request).await;
            let number = u32::try_from(self.records.len() + 1).unwrap_or(u32::MAX);
            let mut attempt = Attempt::new(number, self.earlier);
            let mut refused = None;
            if prompt_target::changes(self.own.as_deref(), self.routing.plan.leaf()) {
                refused = Box::pin(self.become_asked()).await.err();
            }
            let turn = Turn {
                gate: AdmissionGate { parts: self.parts, request: self.request, routing: &self.routing },
                client: &mut self.client,
                admission: &mut self.admission,
                steps: &mut self.steps,
                judged: &mut self.judged,
            };
            let outcome = match refused {
                None => turn.run(&mut attempt).await,
                Some(fault) => Ok(turn.refused(fault, &mut attempt)),
            };
            self.records.extend(attempt.tried.drain(..));
            let mut outcome = match outcome {
                Ok(outcome) => outcome,
                Err(AttemptStop::Denied(fault)) => return Err(Unanswered::Denied(fault)),
                Err(AttemptStop::ClientLeft(left)) => {
                    self.abandon(attempt);
                    return Err(Unanswered::ClientLeft(left));
                }
            };
            if let Some(job) = fine_tuning_usage::seen(self.request, &outcome) {
                // Boxed, as few calls have it.
                Box::pin(self.count_trained(job)).await;
            }
            if let Some(answer) = batch_passthrough::seen(self.request, attempt.info.provider, &outcome) {
                Box::pin(self.note_passed(answer)).await;
                batch_passthrough::lead_to_results(self.request, &mut outcome);
            }
            let record = self.record(&attempt, &outcome);
            if !self.moves_on(&outcome, attempt.info.hooks.as_deref()) {
                if self.opens_session(&outcome) {
                    // Boxed, as it is large: every other call would carry the room for it.
                    return Box::pin(self.converse(attempt, outcome, record)).await.map_err(Unanswered::ClientLeft);
                }
                if self.begins_call(&outcome) {
                    return Box::pin(self.take_call(attempt, outcome, record)).await.map_err(Unanswered::ClientLeft);
                }
                return self.deliver(&mut attempt, outcome, record).await.map_err(Unanswered::ClientLeft);
            }
            // Boxed as well: few calls have a second target.
            Box::pin(self.leave(attempt, outcome, record)).await;
        }
    }

    /// The next target has another request than the one before, or had.
    async fn become_asked(&mut self) -> Result<(), Fault> {
        // What conditions read is what the client sent, whatever targets are asked.
        self.routing.read_params(self.request);
        let leaf = self.routing.plan.leaf().clone();
        let asked = prompt_target::ask(&mut self.own, self.request, &leaf, &self.parts.delivery.budget).await;
        self.client.set_early_keepalive(early_keepalive(&self.parts.delivery, self.request));
        asked
    }

    /// What is held for the caller was asked for one prompt: where the next target has another, it is asked anew. What
    /// was used until now stays with the prompt that used it.
    fn leave_prompt(&mut self, status: u16) -> Vec<Charge> {
        if !prompt_target::changes(self.own.as_deref(), self.routing.plan.leaf()) {
            return Vec::new();
        }
        let (hold, lost) = (self.admission.take(), std::mem::take(&mut self.lost));
        if lost != Used::default() {
            return hold.settle(lost);
        }
        if (200..300).contains(&status) {
            return hold.count();
        }
        hold.release();
        Vec::new()
    }

    fn record(&self, attempt: &Attempt, outcome: &Outcome) -> Box<LogRecord> {
        let denied = attempt.info.hooks.as_ref().is_some_and(|hooks| hooks.is_denied()).then_some("hooks_failed");
        let fault = outcome.fault_label().or(denied);
        let tried = Tried { info: &attempt.info, status: outcome.status(), fault };
        let mut record = record::of(self.request, &self.steps, Some(&self.routing), Some(tried), attempt.number);
        record.steps.cache_us = attempt.cache_us;
        if self.client.upload().is_some() {
            record.request_bytes = self.client.view().body_bytes_read() as u64;
        }
        record
    }

    fn bodies<'b>(&'b self, attempt: &'b Attempt) -> RecordBodies<'b> {
        RecordBodies {
            settings: &self.parts.delivery.settings,
            budget: &self.parts.delivery.budget,
            session: self.client.view(),
            request: self.request,
            sent: attempt.sent.as_deref(),
            rewritten: attempt.info.hooks.as_ref().and_then(|hooks| hooks.rewritten.as_ref()),
        }
    }

    /// Books the answer with the target's circuit breaker, and says whether another target has its turn.
    fn moves_on(&mut self, outcome: &Outcome, hooks: Option<&HookNotes>) -> bool {
        // How a stream went is known at its end alone.
        if outcome.is_health_signal() && !matches!(outcome, Outcome::Stream(_)) {
            match hooks {
                // What guardrails make of an answer says nothing of who gave it, nor does a request that never went up.
                Some(hooks) if hooks.is_input_denied() => {}
                Some(hooks) if hooks.output.is_some() => self.routing.record(self.request, 200),
                _ => self.routing.record(self.request, outcome.status()),
            }
        }
        if outcome.status() == 101 {
            return false;
        }
        let over = self.parts.delivery.is_over(self.request);
        let again = self.client.can_repeat();
        !over && again && self.routing.next(self.request, outcome.status(), outcome.is_exception())
    }

    /// The client left: what was held is settled, and the record says so.
    fn abandon(&mut self, mut attempt: Attempt) {
        let tried = Tried { info: &attempt.info, status: 499, fault: Some("client_gone") };
        let mut record = record::of(self.request, &self.steps, Some(&self.routing), Some(tried), attempt.number);
        record.steps.cache_us = attempt.cache_us;
        if self.client.upload().is_some() {
            record.request_bytes = self.client.view().body_bytes_read() as u64;
        }
        let target = std::mem::take(&mut attempt.reservation);
        record.charges = Holds { caller: self.admission.take(), target, lost: self.lost }.settle(499, None);
        record::abandoned(&mut record, self.request);
        let capture = BodyCapture::new(self.request.caller.keep, &self.parts.delivery.budget);
        self.bodies(&attempt).answered(&mut record, capture);
        self.records.push_noted(record, attempt.info.hooks.take());
    }

    /// Another target has its turn.
    async fn leave(&mut self, mut attempt: Attempt, outcome: Outcome, mut record: Box<LogRecord>) {
        if let (Some(llm), Outcome::Whole(answer)) = (record.llm_mut(), &outcome) {
            (llm.usage, llm.response_model) = (answer.usage, answer.model.as_deref().map(Into::into));
        }
        let reservation = std::mem::take(&mut attempt.reservation);
        if let Some(usage) = record.usage() {
            self.lost = plus(self.lost, reservation.used(usage));
        }
        record.charges = reservation.leave(outcome.status(), record.usage());
        record.charges.extend(self.leave_prompt(outcome.status()));
        let received = match &outcome {
            Outcome::Whole(answer) => Some(Received { headers: &answer.head.headers, body: &answer.original }),
            _ => None,
        };
        self.bodies(&attempt).left(&mut record, received);
        // A failure is everybody's who waited; a refusal of the gateway's own concerns this caller alone.
        let leader = attempt.leader.take().filter(|_| attempt.info.is_clean());
        if let (Some(leader), Outcome::Whole(answer)) = (leader, &outcome) {
            leader.fail(answer.shared_failure());
        }
        // A client that leaves meanwhile is noticed by the next target's call.
        let pool_size = self.parts.delivery.settings.upstream_pool_size;
        let _ = self.client.during(None, outcome.discard(pool_size)).await;
        self.earlier += attempt.info.upstream + attempt.info.paused;
        self.records.push_noted(record, attempt.info.hooks.take());
    }

    /// What was said of a stream on its way down.
    fn note_stream(&self, judge: StreamJudge, attempt: &mut Attempt) {
        let Some(notes) = &mut attempt.info.hooks else { return };
        judge.judge_beside(&self.parts.guardrails, notes);
        let is_cut = judge.stopped().is_some();
        if let Some(said) = judge.into_said() {
            notes.note_stream(said, is_cut);
        }
    }

    async fn deliver(
        &mut self,
        attempt: &mut Attempt,
        outcome: Outcome,
        mut record: Box<LogRecord>,
    ) -> Result<(), ClientLeft> {
        let streamed = matches!(outcome, Outcome::Stream(_));
        let mut capture = BodyCapture::new(self.request.caller.keep, &self.parts.delivery.budget);
        let target = std::mem::take(&mut attempt.reservation);
        let mut holds = Holds { caller: self.admission.take(), target, lost: self.lost };
        let (mut judge, mut run) = (None, runs::seen(self.request, &outcome));
        let delivery = Delivery {
            parts: &self.parts.delivery,
            client: &mut self.client,
            request: self.request,
            info: &attempt.info,
            record: &mut record,
            capture: &mut capture,
            growth: holds.growth(),
            leader: attempt.leader.take().filter(|_| attempt.info.is_clean()),
            keeper: attempt.keeper.take(),
            judge: &mut judge,
            run: &mut run,
        };
        let delivered = delivery.run(outcome).await;
        if let Some(judge) = judge {
            self.note_stream(*judge, attempt);
        }
        let (sent, received) = (self.client.view().body_bytes_read() as u64, record.response_bytes);
        let is_clients_host = attempt.info.is_clients_host;
        let believed = |usage: Usage| if is_clients_host { usage.believable(sent, received) } else { usage.bounded() };
        // What a batch used is counted line by line, and no look at it counts that again.
        let is_look = matches!(self.request.ask.route.operation, Operation::RetrieveBatch | Operation::CancelBatch);
        let is_apart = is_look || self.request.begins_batch().is_some();
        let is_apart = is_apart || (record.usage().is_some() && self.was_counted(run, record.id).await);
        if let Some(llm) = record.llm_mut() {
            llm.usage = llm.usage.filter(|_| !is_apart).map(believed);
        }
        let succeeded = (200..300).contains(&record.status) && attempt.info.cache != CacheStatus::Hit;
        let late = attempt.info.late_prices.as_ref();
        if let (Some(prices), Some(llm)) = (late, record.llm_mut())
            && let Some(card) = prices.of(llm.response_model.as_deref())
        {
            holds.price_at(card.clone(), self.request.caller.at);
            llm.card = Some(card);
        }
        if succeeded && self.request.ask.route.asked() == Operation::Speech {
            // What its model is billed by stands in the list of prices.
            price_list::opened().await;
            speech::count(&mut record, self.request);
        }
        // What the cache answers was paid for by another.
        let free = (attempt.info.cache == CacheStatus::Hit).then(Usage::default);
        let denied = attempt.info.hooks.as_ref().is_some_and(|hooks| hooks.is_output_denied());
        // What a guardrail kept from the client was paid for all the same.
        let settled = if record.status == 101 || denied { 200 } else { record.status };
        record.charges = holds.settle(settled, free.as_ref().or(record.usage()));
        if streamed {
            let told = match record.fault {
                Some("stream_broken") => 502,
                _ if denied => 200,
                _ => record.status,
            };
            self.routing.record(self.request, told);
        }
        let uploaded = self.client.upload().is_some();
        if uploaded {
            record.request_bytes = self.client.view().body_bytes_read() as u64;
            capture = BodyCapture::unseen(record.response_bytes);
        }
        record::finish(&mut record, self.request);
        self.bodies(attempt).answered(&mut record, capture);
        self.records.push_noted(record, attempt.info.hooks.take());
        if uploaded && delivered.is_ok() {
            linger(self.client.session()).await;
        }
        delivered
    }
}

/// Comments before a stream's first content, for a client that asks for them.
fn early_keepalive(parts: &DeliveryParts, request: &Request) -> Option<EarlyKeepalive> {
    let route = &request.ask.route;
    let streams = route.operation.facts().answer == AnswerForm::JsonOrEvents;
    let wanted = request.ask.headers.early_keepalive && request.ask.content.stream && streams && !route.raw;
    let every = parts.settings.stream_keepalive.filter(|_| wanted)?;
    let mut head = deliver::bare_head(200);
    let told = head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    debug_assert!(told.is_ok(), "a constant header");
    deliver::announce(&parts.names, &mut head, request);
    Some(EarlyKeepalive::new(every, head))
}
