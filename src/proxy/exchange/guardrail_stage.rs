//! Guardrails on the way of one target: what they say of the request before anything else is asked, and of the answer
//! before it is delivered. What they rewrite goes on; what they deny becomes the answer. Knows no check.

mod streams;

use super::attempt::{Attempt, AttemptStop, Turn};
use crate::cache::Leader;
use crate::clock;
use crate::guardrails::{HookNotes, NotedRecord, TargetGuards, transcribed};
use crate::proxy::call::ResolvedTarget;
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::client::ClientLeft;
use crate::proxy::deliver::{Outcome, WholeAnswer, bare_head, media_of, timed_out};
use crate::proxy::record::{self, Tried};
use crate::proxy::request::{Request, RequestContent};
use crate::proxy::target::Aim;
use crate::proxy::{hooks, param_overrides};
use bytes::Bytes;
use gateway_domain::config::Leaf;
use gateway_domain::{Fault, FaultKind};
use gateway_guardrails::{
    BodyShape, Content as Texts, Direction, Guardrail, GuardrailSubject, HookResults, Judged as Said, Run, SoftDenial,
    Timing, Verdict, denial, soft_denial,
};
use gateway_providers::tap::Tap;
use http::{HeaderValue, header};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Guardrails failed, and nothing was denied.
pub(super) const SOFT: u16 = 246;
/// Guardrails denied.
pub(super) const DENIED: u16 = 446;

/// What is left of a request when guardrails have spoken: its body, and what is to judge the answer.
pub(super) struct JudgedRequest<'a> {
    pub(super) content: Cow<'a, RequestContent>,
    pub(super) guarded: Option<Arc<TargetGuards>>,
}

impl<'a> JudgedRequest<'a> {
    pub(super) const fn unguarded(content: Cow<'a, RequestContent>) -> Self {
        Self { content, guarded: None }
    }
}

/// What guardrails said of a request to one target: another target with the same ones, that asks the same of the same
/// model, need not ask again.
pub(crate) struct Verdicts {
    guardrails: Vec<Arc<Guardrail>>,
    body: Bytes,
    provider: String,
    model: String,
    said: Said,
}

impl Verdicts {
    fn are_about(&self, guarded: &TargetGuards, body: &Bytes) -> bool {
        let same = |(a, b): (&Arc<Guardrail>, &Arc<Guardrail>)| Arc::ptr_eq(a, b);
        self.guardrails.len() == guarded.input.len()
            && self.guardrails.iter().zip(&guarded.input).all(same)
            && self.body == body
            && self.provider == guarded.facts.provider
            && self.model == guarded.facts.model
    }
}

impl<'a> Turn<'a, '_> {
    /// `Ok(Err(…))`: the request goes no further.
    pub(super) async fn judge_request(
        &mut self,
        leaf: &Leaf,
        aim: &Aim,
        attempt: &mut Attempt,
    ) -> Result<Result<JudgedRequest<'a>, Outcome>, AttemptStop> {
        let (gate, request) = (self.gate, self.gate.request);
        let search = hooks::GuardSearch {
            guardrails: &gate.parts.guardrails,
            request,
            routing: gate.routing,
            leaf,
            aim,
            client: &self.client.view().req_header().headers,
            aliases: &gate.parts.delivery.settings.header_alias,
            budget: &gate.parts.delivery.budget,
        };
        let found = hooks::guarded(search).await;
        let mut guarded = match found {
            Ok(Some(guarded)) => guarded,
            Ok(None) => {
                return Ok(param_overrides::content(request, leaf)
                    .map(JudgedRequest::unguarded)
                    .map_err(Outcome::Fault));
            }
            Err(fault) => return Ok(Err(Outcome::Fault(fault))),
        };
        let filled = match param_overrides::filled(request, leaf) {
            Ok(filled) => filled,
            Err(fault) => return Ok(Err(Outcome::Fault(fault))),
        };
        let with_data = request.caller.keep != CapturePolicy::Nothing;
        attempt.info.hooks = Some(Box::new(HookNotes { with_data, ..HookNotes::default() }));
        let texts = Texts::new(filled.clone(), guarded.shape, Direction::Input);
        let said = match self.ask_of_request(&guarded, &texts, attempt).await? {
            Ok(said) => said,
            Err(fault) => return Ok(Err(Outcome::Fault(fault))),
        };
        let Some(notes) = &mut attempt.info.hooks else { return Ok(Err(Outcome::Fault(lost()))) };
        if guarded.input.iter().any(|g| !g.actions().is_async) {
            notes.note_input(&said);
        }
        if said.verdict == Verdict::Deny {
            return Ok(Err(self.denied(&guarded, said.soft_deny_200, request.ask.content.stream)));
        }
        let texts = said.rewritten.clone().unwrap_or(texts);
        if said.rewritten.is_some() {
            notes.rewritten = Some(texts.body().clone());
            guarded.request_is_transformed = true;
        }
        let content = match param_overrides::finished(request, leaf, texts.body().clone()) {
            Ok(content) => content,
            Err(fault) => return Ok(Err(Outcome::Fault(fault))),
        };
        if guarded.output.is_empty() {
            return Ok(Ok(JudgedRequest { content, guarded: None }));
        }
        guarded.request = Some(texts);
        Ok(Ok(JudgedRequest { content, guarded: Some(Arc::new(*guarded)) }))
    }

    /// Asks the caller's limits before anybody outside is asked: else requests that are denied would cost without
    /// bound.
    async fn ask_of_request(
        &mut self,
        guarded: &TargetGuards,
        texts: &Texts,
        attempt: &mut Attempt,
    ) -> Result<Result<Said, Fault>, AttemptStop> {
        if let Some(known) = self.judged.as_ref().filter(|known| known.are_about(guarded, texts.body())) {
            return Ok(Ok(known.said.clone()));
        }
        let guardrails = &self.gate.parts.guardrails;
        let subject = guarded.asking(texts.clone());
        let run = Run::begin(&guarded.input, subject.clone(), Timing::Sync, clock::now());
        let asks_outside = !run.is_done() || guarded.input.iter().any(|g| g.actions().is_async);
        if asks_outside {
            let caller = self.admission.ensure(self.gate).await.map_err(AttemptStop::Denied)?;
            attempt.info.limits = caller.standings();
        }
        if let (Some(notes), Some(beside)) =
            (&mut attempt.info.hooks, guardrails.judge_beside(guarded, Direction::Input, subject))
        {
            notes.beside.push(beside);
        }
        let said = match self.await_verdict((run, guarded), None, attempt).await? {
            Ok(said) => said,
            Err(fault) => return Ok(Err(fault)),
        };
        *self.judged = Some(Box::new(Verdicts {
            guardrails: guarded.input.clone(),
            body: texts.body().clone(),
            provider: guarded.facts.provider.clone(),
            model: guarded.facts.model.clone(),
            said: said.clone(),
        }));
        Ok(Ok(said))
    }

    /// Waits for the verdict as long as somebody waits for the answer and the time for the whole request is not over.
    async fn await_verdict(
        &mut self,
        (run, guarded): (Run, &TargetGuards),
        leader: Option<&Leader>,
        attempt: &mut Attempt,
    ) -> Result<Result<Said, Fault>, ClientLeft> {
        if run.is_done() {
            return Ok(Ok(run.finish(clock::now())));
        }
        let began = Instant::now();
        let driven = self.gate.parts.guardrails.drive(run, guarded.moderator.as_deref());
        let said = self.in_time(leader, driven).await.map(|said| said.map_err(timed_out));
        // Waiting for others is no work of the gateway's own.
        attempt.info.paused += began.elapsed();
        said
    }

    /// What comes of `work` while somebody waits for the answer. `Ok(Err)`: the time for the whole request was over
    /// first.
    async fn in_time<T>(
        &mut self,
        leader: Option<&Leader>,
        work: impl Future<Output = T>,
    ) -> Result<Result<T, Duration>, ClientLeft> {
        match self.gate.parts.delivery.deadline(self.gate.request) {
            None => self.client.during(leader, work).await.map(Ok),
            Some(limit) => {
                let done = self.client.during(leader, pingora_timeout::timeout(limit.left(), work)).await;
                done.map(|done| done.map_err(|_| limit.told))
            }
        }
    }

    /// What guardrails make of an answer that came.
    pub(super) async fn judge_answer(
        &mut self,
        guarded: &Arc<TargetGuards>,
        resolved: &ResolvedTarget<'_>,
        outcome: Outcome,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let Some(notes) = &mut attempt.info.hooks else { return Ok(Outcome::Fault(lost())) };
        notes.forget_output();
        match outcome {
            Outcome::Whole(answer) if answer.status() == 200 && answer.failure.is_none() => {
                if !answers_are_judged(guarded.shape) {
                    notes.skip(Direction::Output, &guarded.output);
                    return Ok(softened(Outcome::Whole(answer), attempt));
                }
                self.judge_whole(guarded, resolved, answer, attempt).await
            }
            Outcome::Stream(stream) if stream.head.status == 200 && !answers_are_judged(guarded.shape) => {
                notes.skip(Direction::Output, &guarded.output);
                Ok(softened(Outcome::Stream(stream), attempt))
            }
            Outcome::Stream(stream) if stream.head.status == 200 => {
                self.judge_stream(guarded, resolved, stream, attempt).await
            }
            Outcome::Passthrough(passing) if passing.response.status() == 200 => {
                notes.skip(Direction::Output, &guarded.output);
                Ok(softened(Outcome::Passthrough(passing), attempt))
            }
            other => Ok(softened(other, attempt)),
        }
    }

    async fn judge_whole(
        &mut self,
        guarded: &TargetGuards,
        resolved: &ResolvedTarget<'_>,
        mut answer: Box<WholeAnswer>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let operation = self.gate.request.ask.route.operation;
        // Events that pass through are judged by the texts in them; where nobody can read them they are judged as they
        // are.
        let events = is_events(&answer).then(|| transcribed(operation, &answer.body, guarded)).flatten();
        let bare = bare_transcript(guarded.shape, &answer.body);
        let seen = events.or_else(|| bare.clone()).unwrap_or_else(|| answer.body.clone());
        let subject = guarded.answering(seen, guarded.shape);
        self.judge_beside(guarded, subject.clone(), attempt);
        if !guarded.decides_on_answers() {
            return Ok(softened(self.as_asked(resolved, answer), attempt));
        }
        let run = Run::begin(&guarded.output, subject, Timing::Sync, clock::now());
        let leader = attempt.leader.take();
        let said = self.await_verdict((run, guarded), leader.as_ref(), attempt).await;
        attempt.leader = leader;
        let said = match said? {
            Ok(said) => said,
            Err(fault) => return Ok(Outcome::Fault(fault)),
        };
        if let Some(notes) = &mut attempt.info.hooks {
            notes.note_output(&said);
        }
        if said.verdict == Verdict::Deny {
            let mut denied = self.denied(guarded, said.soft_deny_200, resolved.content.stream);
            if let Outcome::Whole(told) = &mut denied {
                (told.usage, told.model) = (answer.usage, answer.model);
            }
            return Ok(denied);
        }
        if let Some(rewritten) = said.rewritten {
            // What was taken out of it is not kept for the record either.
            let body = if bare.is_some() { bared(rewritten.body()) } else { rewritten.body().clone() };
            (answer.body, answer.original) = (body, Bytes::new());
        }
        Ok(softened(self.as_asked(resolved, answer), attempt))
    }

    fn judge_beside(&self, guarded: &TargetGuards, subject: GuardrailSubject, attempt: &mut Attempt) {
        let beside = self.gate.parts.guardrails.judge_beside(guarded, Direction::Output, subject);
        if let (Some(notes), Some(beside)) = (&mut attempt.info.hooks, beside) {
            notes.beside.push(beside);
        }
    }

    /// A whole answer to a client that asked for a stream.
    fn as_asked(&self, resolved: &ResolvedTarget<'_>, mut answer: Box<WholeAnswer>) -> Outcome {
        let request = self.gate.request;
        if !resolved.content.stream || !hooks::answers_in_events(request.ask.route.operation) || request.ask.route.raw {
            return Outcome::Whole(answer);
        }
        let call = resolved.call(request);
        let Some(events) = gateway_providers::streamed(&call, resolved.provider(), &answer.body) else {
            let why = "The provider answered a call for a stream with something else";
            return Outcome::Fault(Fault::new(FaultKind::UpstreamBroken, why));
        };
        answer.body = events;
        set_type(&mut answer, "text/event-stream");
        Outcome::Whole(answer)
    }

    /// The answer in place of the one that was denied: 446, or one that reads as the model's where all that denied want
    /// it so and the route has such an answer.
    fn denied(&self, guarded: &TargetGuards, soft: bool, stream: bool) -> Outcome {
        let request = self.gate.request;
        let mine = SoftDenial {
            shape: guarded.shape,
            model: &guarded.facts.model,
            id: &guarded.facts.trace_id,
            created_secs: request.caller.at.micros().div_euclid(1_000_000),
        };
        let none = HookResults::default();
        let body = if soft { soft_denial(mine, &none) } else { None };
        let mut answer = match body {
            None => Box::new(WholeAnswer::new(bare_head(DENIED), denial(request.ask.route.dialect, &none))),
            Some(body) => Box::new(WholeAnswer::new(bare_head(200), body)),
        };
        set_type(&mut answer, "application/json");
        if answer.status() == 200 && stream {
            answer.body = gateway_providers::made_events(request.ask.route.operation, &answer.body);
            set_type(&mut answer, "text/event-stream");
        }
        Outcome::Whole(answer)
    }

    /// The record of a try whose answer was judged, and that is made again.
    pub(super) fn note_try(&self, unwanted: &Outcome, attempt: &mut Attempt) {
        let Outcome::Whole(answer) = unwanted else { return };
        let Some(hooks) = attempt.info.hooks.as_ref().filter(|hooks| hooks.output.is_some()) else { return };
        let fault = hooks.is_denied().then_some("hooks_failed");
        let notes = Some(Box::new(hooks.so_far()));
        let tried = Tried { info: &attempt.info, status: unwanted.status(), fault };
        let (request, routing) = (self.gate.request, self.gate.routing);
        let mut record = record::of(request, self.steps, Some(routing), Some(tried), attempt.number);
        if let Some(llm) = record.llm_mut() {
            (llm.usage, llm.response_model) = (answer.usage, answer.model.as_deref().map(Into::into));
        }
        if let Some(usage) = &answer.usage {
            attempt.reservation.spend(usage);
        }
        attempt.tried.push(NotedRecord { record, notes });
        attempt.number += 1;
    }
}

/// An answer that goes down although guardrails failed says so by its status.
pub(super) fn softened(outcome: Outcome, attempt: &Attempt) -> Outcome {
    let soft = attempt.info.hooks.as_ref().is_some_and(|hooks| hooks.is_soft());
    if !soft || outcome.status() != 200 {
        return outcome;
    }
    match outcome {
        Outcome::Whole(mut answer) => {
            let set = answer.head.set_status(SOFT);
            debug_assert!(set.is_ok(), "a valid status");
            Outcome::Whole(answer)
        }
        Outcome::Stream(mut stream) => {
            let set = stream.head.set_status(SOFT);
            debug_assert!(set.is_ok(), "a valid status");
            Outcome::Stream(stream)
        }
        Outcome::Cached(entry) => {
            let mut entry = (*entry).clone();
            entry.status = SOFT;
            Outcome::Cached(Arc::new(entry))
        }
        Outcome::Followed(mut head, follower) => {
            head.status = SOFT;
            Outcome::Followed(head, follower)
        }
        Outcome::Passthrough(mut passing) => {
            passing.status = Some(SOFT);
            Outcome::Passthrough(passing)
        }
        other => other,
    }
}

fn is_events(answer: &WholeAnswer) -> bool {
    media_of(&answer.head.headers).starts_with(b"text/event-stream")
}

/// What the client of a stream that asks for extras is told of its request before anything else.
pub(super) fn prepend_hook_results(
    outcome: Outcome,
    resolved: &ResolvedTarget<'_>,
    request: &Request,
    attempt: &Attempt,
) -> Outcome {
    let Outcome::Stream(mut stream) = outcome else { return outcome };
    let results = attempt.info.hooks.as_ref().and_then(|hooks| hooks.results_ahead());
    let (Some(results), false) = (results, resolved.call(request).strict) else { return Outcome::Stream(stream) };
    let event = Tap::new(request.ask.route.operation).map(|tap| tap.aside(&results)).unwrap_or_default();
    stream.held = [event, stream.held].concat().into();
    Outcome::Stream(stream)
}

/// A transcript that is text alone (plain, or subtitles), as the JSON that it would be otherwise.
fn bare_transcript(shape: BodyShape, body: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok().filter(|_| shape == BodyShape::Transcript)?;
    (!text.trim_start().starts_with('{')).then(|| serde_json::json!({ "text": text }).to_string().into())
}

/// The text alone again.
fn bared(body: &[u8]) -> Bytes {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    json["text"].as_str().unwrap_or_default().to_owned().into()
}

pub(super) const fn answers_are_judged(shape: BodyShape) -> bool {
    !matches!(shape, BodyShape::Embeddings | BodyShape::Area | BodyShape::Opaque)
}

fn set_type(answer: &mut WholeAnswer, media: &'static str) {
    let set = answer.head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static(media));
    debug_assert!(set.is_ok(), "a constant header");
}

fn lost() -> Fault {
    Fault::new(FaultKind::Internal, "What guardrails said was lost")
}
