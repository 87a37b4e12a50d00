//! One target: found, looked up in the cache, admitted, called, and called again as the retry rules say. Gives an
//! answer that is not yet delivered, so that the plan may still move on.

use super::CallParts;
use super::admission::{Admission, AdmissionGate, Reservation};
use super::cache_lookup::{Lookup, key};
use super::guardrail_stage::{self, JudgedRequest, Verdicts};
use super::response_reader;
use super::retries::{self, Tries};
use crate::cache::Leader;
use crate::guardrails::NotedRecord;
use crate::price_list;
use crate::proxy::call::{Prepared, ResolvedTarget};
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::client::{Client, ClientLeft};
use crate::proxy::deliver::{Deadline, Outcome, WholeAnswer, fallen, overlong, timed_out};
use crate::proxy::head::{ClientHeaders, HeadPlan};
use crate::proxy::objects::Binder;
use crate::proxy::record::{AttemptInfo, SentRequest};
use crate::proxy::request::Request;
use crate::proxy::responses::{KeptFrom, ResponseKeeper};
use crate::proxy::target::Aim;
use crate::proxy::{body, hooks, param_overrides, target};
use crate::upstream::Pass;
use crate::upstream::http1::{self, PeerTimeouts, RequestBody, SendError};
use bytes::Bytes;
use gateway_domain::cloud::{Grant, S3};
use gateway_domain::record::Steps;
use gateway_domain::{Fault, FaultKind, Operation};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One target that was tried, and what is left of it when the try is over. It outlives a call that is given up in the
/// middle, so that a client that leaves still has its record.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// 1 for the first target tried.
    pub(crate) number: u32,
    pub(crate) info: AttemptInfo,
    pub(crate) reservation: Reservation,
    /// Others wait for the same answer, or it is to be kept.
    pub(crate) leader: Option<Leader>,
    /// Keeps the response that is made of the answer.
    pub(crate) keeper: Option<Box<ResponseKeeper>>,
    /// `None` when nothing went out, or nothing of it may be kept.
    pub(crate) sent: Option<Box<SentRequest>>,
    /// Microseconds that were spent in the cache.
    pub(crate) cache_us: u64,
    /// Records of earlier tries of the target whose answers guardrails kept from the client.
    pub(crate) tried: Vec<NotedRecord>,
}

impl Attempt {
    pub(crate) fn new(number: u32, earlier: Duration) -> Self {
        let info = AttemptInfo { earlier, ..AttemptInfo::default() };
        let (reservation, tried) = (Reservation::default(), Vec::new());
        Self { number, info, reservation, leader: None, keeper: None, sent: None, cache_us: 0, tried }
    }
}

/// Why a target gave nothing, not even a fault.
#[derive(Debug)]
pub(crate) enum AttemptStop {
    /// The limits of the caller refuse the whole request.
    Denied(Fault),
    ClientLeft(ClientLeft),
}

impl From<ClientLeft> for AttemptStop {
    fn from(left: ClientLeft) -> Self {
        Self::ClientLeft(left)
    }
}

/// One target's turn.
pub(crate) struct Turn<'a, 'c> {
    pub(crate) gate: AdmissionGate<'a>,
    pub(crate) client: &'a mut Client<'c>,
    pub(crate) admission: &'a mut Admission,
    pub(crate) steps: &'a mut Steps,
    pub(crate) judged: &'a mut Option<Box<Verdicts>>,
}

impl<'a> Turn<'a, '_> {
    /// There is nothing to ask the target for.
    pub(crate) fn refused(self, fault: Fault, attempt: &mut Attempt) -> Outcome {
        attempt.info.option_index = self.gate.routing.plan.leaf().path.clone();
        attempt.info.limits = self.admission.standings();
        Outcome::Fault(fault)
    }

    /// Runs one try, in the order of the contract: what the target is; what guardrails say of the request; whether its
    /// answer is known; whether the caller, and then the target, may be called; the call, and what guardrails say of
    /// the answer.
    pub(crate) async fn run(mut self, attempt: &mut Attempt) -> Result<Outcome, AttemptStop> {
        let AdmissionGate { request, routing, .. } = self.gate;
        let leaf = &**routing.plan.leaf();
        attempt.info.option_index = leaf.path.clone();
        attempt.info.limits = self.admission.standings();
        let aim = match target::resolve(leaf, routing.inline, request) {
            Ok(aim) => aim,
            Err(fault) => return Ok(Outcome::Fault(fault)),
        };
        let info = &mut attempt.info;
        info.is_clients_host =
            request.ask.headers.custom_host.is_some() || (routing.inline && leaf.custom_host.is_some());
        info.provider = aim.adapter.info().slug;
        info.virtual_key = aim.virtual_key.clone();
        info.model = aim.model.clone();
        info.ended = aim.ended();
        let prices = aim.prices(request);
        // Runs of threads go by the model of their assistant, which only the answer names.
        let is_told_late = request.is_untouched() || aim.model.is_none();
        price_list::opened_for(|| prices.own_are_listed() || is_told_late).await;
        info.card = prices.own(aim.model.as_deref());
        info.shutdown = prices.shutdown(aim.model.as_deref());
        if is_told_late && prices.of(aim.model.as_deref()).is_none() {
            info.late_prices = Some(Box::new(prices));
        }
        let guarded = match hooks::is_unguarded(request, leaf) {
            true => param_overrides::content(request, leaf).map(JudgedRequest::unguarded).map_err(Outcome::Fault),
            // Boxed, as most requests have none.
            false => Box::pin(self.judge_request(leaf, &aim, attempt)).await?,
        };
        let JudgedRequest { content, guarded } = match guarded {
            Ok(judged) => judged,
            Err(outcome) => return Ok(outcome),
        };
        let binder =
            routing.binds.then(|| Binder::new((&self.gate.parts.ids, &self.gate.parts.kept_objects), &aim, request));
        let keeps = self.keeps(&aim);
        if keeps {
            let AdmissionGate { parts: CallParts { kept, ids, .. }, .. } = self.gate;
            attempt.keeper = Some(ResponseKeeper::new(&KeptFrom { kept, ids, asked: &content.bytes }, request));
        }
        let resolved = ResolvedTarget { leaf, aim, content, guarded, binder, keeps };
        attempt.info.stream = resolved.content.stream;
        let mut prepared = None;
        if Lookup::is_wanted(request, leaf) {
            // What cannot even be prepared is told below, to a caller that was admitted.
            prepared = self.prepare(&resolved).ok();
            if let Some(prepared) = &prepared
                && let Some(answered) = Box::pin(self.look(&resolved, prepared, attempt)).await?
            {
                return Ok(guardrail_stage::softened(answered, attempt));
            }
        }
        let begun = request.look();
        let admitted = self.admit(&resolved, attempt).await;
        if attempt.number == 1 {
            self.steps.before_us = request.look();
            self.steps.limits_us = self.steps.before_us.saturating_sub(begun);
        }
        if let Err(refusal) = admitted {
            return refusal;
        }
        if counts_here(request, &resolved) {
            return Ok(counted(resolved.content.bytes.clone()).await);
        }
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => match self.prepare(&resolved) {
                Ok(prepared) => prepared,
                Err(fault) => return Ok(Outcome::Fault(fault)),
            },
        };
        Ok(self.call(&resolved, prepared, attempt).await?)
    }

    /// A response that is made of another dialect's answer is kept here, since its provider keeps none.
    fn keeps(&self, aim: &Aim) -> bool {
        let route = &self.gate.request.ask.route;
        route.asked() == Operation::Responses
            && self.gate.parts.kept.is_on()
            && aim.adapter.translates(route.operation, route.dialect)
    }

    fn prepare(&self, resolved: &ResolvedTarget<'_>) -> Result<Prepared, Fault> {
        let client = &self.client.view().req_header().headers;
        let aliases = &self.gate.parts.delivery.settings.header_alias;
        Prepared::new(self.gate.request, resolved, ClientHeaders { headers: client, aliases })
    }

    /// An answer that is known, or that another call brings just now.
    async fn look(
        &mut self,
        resolved: &ResolvedTarget<'_>,
        prepared: &Prepared,
        attempt: &mut Attempt,
    ) -> Result<Option<Outcome>, ClientLeft> {
        let AdmissionGate { parts, request, .. } = self.gate;
        let begun = request.look();
        let key = key(request, resolved, prepared);
        let lookup = Lookup { cache: &parts.cache, request, leaf: resolved.leaf, limit: self.limit(resolved) };
        let found = self.client.during(None, lookup.run(key)).await;
        attempt.cache_us = request.look() - begun;
        if attempt.number == 1 {
            self.steps.cache_us = attempt.cache_us;
        }
        let found = found?;
        attempt.info.cache = found.status;
        attempt.leader = found.leader;
        if found.outcome.is_some() {
            attempt.info.adjusted.clone_from(&prepared.out.adjusted);
            self.steps.before_us = request.elapsed_us();
        }
        Ok(found.outcome)
    }

    /// `Err` holds what came of a refusal.
    async fn admit(
        &mut self,
        resolved: &ResolvedTarget<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), Result<Outcome, AttemptStop>> {
        let gate = self.gate;
        // A prompt may have a limit of its own, which the next target's does not share.
        let denied = |fault| {
            if resolved.leaf.prompt.is_some() { Ok(Outcome::Fault(fault)) } else { Err(AttemptStop::Denied(fault)) }
        };
        let caller = self.admission.ensure(gate).await.map_err(denied)?;
        attempt.info.limits = caller.standings();
        // Pinned here, and not moved into what awaits it: each move copies it.
        let target = pin!(gate.target(resolved, caller)).await.map_err(|fault| Ok(Outcome::Fault(fault)))?;
        attempt.info.limits = attempt.info.limits.tighter(target.standings());
        attempt.reservation = target;
        Ok(())
    }

    async fn call(
        &mut self,
        resolved: &ResolvedTarget<'_>,
        mut prepared: Prepared,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let request = self.gate.request;
        // What passes through untouched keeps what the client says of its trace.
        if let Some(trace) =
            request.caller.span.as_deref().filter(|_| !request.ask.route.raw && request.ask.upload.is_none())
        {
            prepared.head.trace(trace, attempt.number);
        }
        attempt.info.adjusted.clone_from(&prepared.out.adjusted);
        attempt.info.request_bytes = prepared.out.body.len() as u64;
        let mut retries = 0;
        let mut tries = TargetTries { turn: self, resolved, prepared: &prepared, attempt };
        let called = retries::run(&mut tries, &resolved.leaf.retry, &mut retries).await;
        attempt.info.retries = retries;
        if request.caller.keep != CapturePolicy::Nothing && request.ask.upload.is_none() {
            let scheme = if resolved.aim.base.tls { "https" } else { "http" };
            attempt.sent = Some(Box::new(SentRequest { scheme, head: prepared.head, body: prepared.out.body }));
        }
        called
    }

    /// One try, under the clocks of the attempt.
    async fn once(
        &mut self,
        resolved: &ResolvedTarget<'_>,
        prepared: &Prepared,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let limit = self.limit(resolved);
        let upload = self.client.upload().cloned();
        let mut whole_at = None;
        let call = TargetCall { gate: self.gate, resolved, prepared, whole_at: &mut whole_at };
        let body = match upload {
            Some(upload) => RequestBody::Streaming(Box::new(upload)),
            None => RequestBody::Held(&prepared.out.body),
        };
        let begun = self.gate.request.look();
        let done = {
            let (leader, answer) = (attempt.leader.as_ref(), pin!(call.run(body)));
            match limit {
                None => self.client.during(leader, answer).await.map(Some),
                Some(limit) => {
                    let limited = pingora_timeout::timeout(limit.left(), answer);
                    self.client.during(leader, limited).await.map(Result::ok)
                }
            }
        };
        let over = self.gate.request.look();
        let waited_until = whole_at.map_or(over, |at| self.gate.request.elapsed_us_at(at));
        attempt.info.upstream += Duration::from_micros(waited_until.saturating_sub(begun));
        Ok(match (done, limit) {
            (Ok(Some(Outcome::Passthrough(mut passing))), limit) => {
                passing.until = limit.filter(|_| passing.is_json());
                Outcome::Passthrough(passing)
            }
            (Ok(Some(outcome)), _) => outcome,
            (Ok(None), limit) => {
                let told = limit.map(|limit| limit.told).unwrap_or_default();
                // The target waited as well: this says nothing of its health.
                Outcome::Fault(match self.client.is_awaited() {
                    true => Fault::new(FaultKind::SlowClient, overlong(told)),
                    false => timed_out(told),
                })
            }
            (Err(ClientLeft::Silent), _) => Outcome::Fault(body::slow_client()),
            (Err(left), _) => return Err(left),
        })
    }

    /// When one try has to be over; `None`: it may take as long as it likes.
    fn limit(&self, resolved: &ResolvedTarget<'_>) -> Option<Deadline> {
        let request = self.gate.request;
        let (own, set) = (request.ask.headers.request_timeout_ms, resolved.leaf.timeout_ms);
        let shorter = own.zip(set).filter(|_| request.is_held_to_config()).map(|(own, set)| own.min(set));
        let timeout = shorter.or(own).or(set).map(Duration::from_millis);
        let own = timeout.and_then(|told| Some(Deadline { at: Instant::now().checked_add(told)?, told }));
        match (own, self.gate.parts.delivery.deadline(request)) {
            (Some(own), whole) if whole.is_none_or(|whole| own.at <= whole.at) => Some(own),
            (_, whole) => whole,
        }
    }
}

/// The tries of one target.
struct TargetTries<'t, 'a, 'c> {
    turn: &'t mut Turn<'a, 'c>,
    resolved: &'t ResolvedTarget<'t>,
    prepared: &'t Prepared,
    attempt: &'t mut Attempt,
}

impl Tries for TargetTries<'_, '_, '_> {
    async fn once(&mut self) -> Result<Outcome, ClientLeft> {
        let outcome = self.turn.once(self.resolved, self.prepared, self.attempt).await?;
        if self.attempt.info.hooks.is_none() {
            return Ok(outcome);
        }
        let judged = match &self.resolved.guarded {
            None => guardrail_stage::softened(outcome, self.attempt),
            Some(guarded) => Box::pin(self.turn.judge_answer(guarded, self.resolved, outcome, self.attempt)).await?,
        };
        Ok(guardrail_stage::prepend_hook_results(judged, self.resolved, self.turn.gate.request, self.attempt))
    }

    async fn pause(&mut self, unwanted: Outcome, wait: Duration) -> Result<(), ClientLeft> {
        let pool_size = self.turn.gate.parts.delivery.settings.upstream_pool_size;
        if self.attempt.info.hooks.is_some() {
            self.turn.note_try(&unwanted, self.attempt);
        }
        let begun = Instant::now();
        let pause = async {
            unwanted.discard(pool_size).await;
            tokio::time::sleep(wait).await;
        };
        let paused = self.turn.client.during(self.attempt.leader.as_ref(), pause).await;
        self.attempt.info.paused += begun.elapsed();
        paused
    }

    fn can_repeat(&self) -> bool {
        self.turn.client.can_repeat() && self.turn.gate.request.begins_batch() != Some(true)
    }

    fn left(&self) -> Option<Duration> {
        let AdmissionGate { parts, request, .. } = self.turn.gate;
        parts.delivery.deadline(request).map(Deadline::left)
    }
}

/// The head of a call whose credential is a token or a signature, and what that was made with.
struct SignedHead<'a> {
    head: HeadPlan,
    grant: &'a Arc<Grant>,
    pass: Pass,
}

/// One call of a target, which knows no client: whoever wants its answer polls it, and whoever does not drops it.
pub(super) struct TargetCall<'a> {
    pub(super) gate: AdmissionGate<'a>,
    pub(super) resolved: &'a ResolvedTarget<'a>,
    pub(super) prepared: &'a Prepared,
    /// When all of the answer was there: what comes behind is the gateway's own work. Unset where it is passed on as it
    /// comes.
    pub(super) whole_at: &'a mut Option<Instant>,
}

impl TargetCall<'_> {
    pub(super) async fn run(self, body: RequestBody<'_>) -> Outcome {
        let Self { gate: AdmissionGate { parts, request, .. }, resolved, prepared, whole_at } = self;
        let settings = &parts.delivery.settings;
        let clocks = PeerTimeouts { first_byte: settings.first_byte_timeout, idle: settings.idle_timeout };
        let origin = match parts.dialer.origin(&resolved.aim.base).await {
            Ok(origin) => origin,
            Err(e) => return Outcome::Fault(fallen(SendError::NoConnection(e), resolved.provider())),
        };
        let signed = match &resolved.aim.grant {
            None => None,
            // Boxed, as a token is fetched once for many calls.
            Some(grant) => match Box::pin(parts.credentials.token(grant)).await {
                Ok(Pass::Keys(..) | Pass::Oci(_)) if request.ask.upload.is_some() && !signs_unread(grant) => {
                    let why = "What streams up cannot be signed: use an API key, or send JSON";
                    return Outcome::Fault(Fault::new(FaultKind::Unsupported, why));
                }
                Ok(pass) => match prepared.head.admitted(&pass, grant.signing.as_ref(), &prepared.out.body) {
                    Ok(head) => Some(Box::new(SignedHead { head, grant, pass })),
                    Err(fault) => return Outcome::Fault(fault),
                },
                Err(fault) => return Outcome::Fault(sign_in_failed(&fault, resolved.provider())),
            },
        };
        let head = signed.as_ref().map_or(&prepared.head, |signed| &signed.head);
        let sent = match request.begins_batch() {
            // Made twice it would be paid for twice. Boxed, as it is rare.
            Some(true) => Box::pin(http1::send_afresh(&parts.dialer, &origin, head.request(), body, clocks)).await,
            _ => http1::send(&parts.dialer, &origin, head.request(), body, clocks).await,
        };
        let response = match sent {
            Ok(response) => response,
            Err(e) => return Outcome::Fault(fallen(e, resolved.provider())),
        };
        // AWS says 403 of keys that have ended, and of a clock that is off.
        let refused = |pass: &Pass| response.status() == if matches!(pass, Pass::Keys(..)) { 403 } else { 401 };
        if let Some(signed) = signed.as_ref().filter(|signed| refused(&signed.pass)) {
            parts.credentials.refused(signed.grant, &signed.pass, Some(response.head().headers()));
        }
        let reader = response_reader::ResponseReader { delivery: &parts.delivery, request, resolved, head, whole_at };
        reader.read(response).await
    }
}

/// A signature for files need not cover what streams up.
fn signs_unread(grant: &Grant) -> bool {
    grant.signing.as_ref().is_some_and(|signing| signing.service == S3)
}

/// Tokens are counted here for a provider that answers prompts and has no way to count them.
fn counts_here(request: &Request, resolved: &ResolvedTarget<'_>) -> bool {
    let has = |operation| resolved.aim.adapter.endpoint(operation, request.ask.route.dialect).is_some();
    request.ask.route.asked() == Operation::CountTokens && !has(Operation::CountTokens) && has(Operation::Messages)
}

/// An estimate, and called so: the provider's own tokenizer is not at hand.
async fn counted(body: Bytes) -> Outcome {
    let Ok(tokens) = tokio::task::spawn_blocking(move || gateway_providers::tokens::prompt(&body)).await else {
        return Outcome::Fault(Fault::new(FaultKind::Internal, "The tokens could not be counted"));
    };
    let json = serde_json::json!({ "input_tokens": tokens, "estimated": true }).to_string();
    Outcome::Whole(Box::new(WholeAnswer::made(json)))
}

/// Says whose credential it was.
fn sign_in_failed(fault: &Fault, provider: &str) -> Fault {
    Fault::new(fault.kind(), format!("No token for {provider}: {}", fault.message()))
}
