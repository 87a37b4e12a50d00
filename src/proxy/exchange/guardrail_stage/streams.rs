//! Answers that stream, judged: held whole, or until some of their text has passed, so that a denial before that is an
//! answer of its own and another target may have its turn.

use super::{Attempt, Outcome, ResolvedTarget, Turn, softened};
use crate::clock;
use crate::guardrails::{HeldEvents, OutputVerdict, StreamJudge, TargetGuards};
use crate::proxy::body::Permit;
use crate::proxy::client::ClientLeft;
use crate::proxy::deliver::{
    BegunStream, Break, Piece, Source, SourceEvent, TranslatedSource, WholeAnswer, fallen, timed_out, usage_of,
};
use crate::proxy::record::BodyCapture;
use crate::upstream::http1::SendError;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use gateway_guardrails::{Judged, Run, StreamMode, Timing, Verdict, stream_mode};
use std::sync::Arc;

/// A judged answer before any of it went down.
enum HeldAnswer {
    Whole(HeldEvents),
    /// Longer than what is held, or than there is room for: what is behind these events was not read.
    TooLong(HeldEvents),
    Broken(Outcome),
}

impl Turn<'_, '_> {
    pub(super) async fn judge_stream(
        &mut self,
        guarded: &Arc<TargetGuards>,
        resolved: &ResolvedTarget<'_>,
        stream: Box<BegunStream>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        // It broke before anything of it went down: nothing of it needs to.
        if stream.aborted {
            return Ok(broken("The provider's stream ended before it was complete"));
        }
        match stream_mode(guarded.output.iter().map(|g| &**g)) {
            Some(StreamMode::Hold) => self.hold_stream(guarded, resolved, stream, attempt).await,
            _ => self.watch_stream(guarded, resolved, stream, attempt).await,
        }
    }

    /// Lets text down as it passes; returns when the first has.
    async fn watch_stream(
        &mut self,
        guarded: &Arc<TargetGuards>,
        resolved: &ResolvedTarget<'_>,
        stream: Box<BegunStream>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let route = &self.gate.request.ask.route;
        let shows_results = !resolved.call(self.gate.request).strict;
        let outside = self.gate.parts.guardrails.outside();
        let Some(judge) = StreamJudge::new(route.operation, guarded, outside, shows_results) else {
            return Ok(broken("The provider's stream cannot be judged"));
        };
        let BegunStream { head, response, translator, held, texts, ended, .. } = *stream;
        let mut source = TranslatedSource {
            response,
            translator,
            dialect: route.dialect,
            aborted: false,
            judge: Some(Box::new(judge)),
        };
        source.judge_first(&held, &texts, ended);
        let leader = attempt.leader.take();
        let began = self.in_time(leader.as_ref(), source.begin()).await;
        attempt.leader = leader;
        match began?.unwrap_or_else(|told| Err(Break::Overdue(told))) {
            Ok(()) => {}
            Err(Break::Denied) => {
                let said = source.judge.take().and_then(|judge| judge.into_said());
                return Ok(self.deny_stream(guarded, (resolved, said), source, attempt).await);
            }
            Err(why) => return Ok(self.fell(why, resolved)),
        }
        let Some(mut judge) = source.judge.take() else { return Ok(broken("The answer was lost")) };
        let (held, is_over) = (judge.take_out(), judge.is_over());
        if let Some(notes) = &mut attempt.info.hooks {
            match judge.said() {
                Some(said) => notes.note_output(said),
                None if judge.has_failed() => notes.output = Some(OutputVerdict::Verdict(Verdict::Soft)),
                None => {}
            }
        }
        if let Some(notes) = attempt.info.hooks.as_mut().filter(|_| is_over) {
            judge.judge_beside(&self.gate.parts.guardrails, notes);
        }
        let judge = (!is_over).then_some(judge);
        let TranslatedSource { response, translator, .. } = source;
        let capture = self.capture(&held);
        let (texts, ended) = (Vec::new(), is_over);
        let begun = BegunStream { head, response, translator, held, texts, capture, ended, aborted: false, judge };
        Ok(softened(Outcome::Stream(Box::new(begun)), attempt))
    }

    /// Lets nothing down before all of it was judged.
    async fn hold_stream(
        &mut self,
        guarded: &Arc<TargetGuards>,
        resolved: &ResolvedTarget<'_>,
        stream: Box<BegunStream>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, ClientLeft> {
        let route = &self.gate.request.ask.route;
        let Some(events) = HeldEvents::new(route.operation) else {
            return Ok(broken("The provider's stream cannot be judged"));
        };
        let BegunStream { head, response, translator, held, ended, .. } = *stream;
        let mut source = TranslatedSource { response, translator, dialect: route.dialect, aborted: false, judge: None };
        let mut permit = Permit::new(&self.gate.parts.delivery.budget);
        permit.charge(self.gate.request.caller.tenant.key.id.0);
        let leader = attempt.leader.take();
        let collect = collect(&mut source, events, (held, ended), &mut permit);
        let collected = self.in_time(leader.as_ref(), collect).await;
        attempt.leader = leader;
        let late = |told| HeldAnswer::Broken(Outcome::Fault(timed_out(told)));
        let (events, is_whole) = match collected?.unwrap_or_else(late) {
            HeldAnswer::Whole(events) => (events, true),
            HeldAnswer::TooLong(events) => (events, false),
            HeldAnswer::Broken(outcome) => return Ok(outcome),
        };
        let subject = events.whole(guarded);
        self.judge_beside(guarded, subject.clone(), attempt);
        let said = if is_whole {
            let run = Run::begin(&guarded.output, subject, Timing::Sync, clock::now());
            let leader = attempt.leader.take();
            let said = self.await_verdict((run, guarded), leader.as_ref(), attempt).await;
            attempt.leader = leader;
            match said? {
                Ok(said) => said,
                Err(fault) => return Ok(Outcome::Fault(fault)),
            }
        } else {
            Run::hold_limit(&guarded.output, subject, Timing::Sync, clock::now())
        };
        if said.verdict == Verdict::Deny {
            return Ok(self.deny_stream(guarded, (resolved, Some(said)), source, attempt).await);
        }
        if let Some(notes) = &mut attempt.info.hooks {
            notes.note_output(&said);
        }
        let held = events.release(said.rewritten.as_ref());
        let TranslatedSource { response, translator, .. } = source;
        let capture = self.capture(&held);
        let (texts, ended) = (Vec::new(), is_whole);
        let begun =
            BegunStream { head, response, translator, held, texts, capture, ended, aborted: false, judge: None };
        Ok(softened(Outcome::Stream(Box::new(begun)), attempt))
    }

    /// What the record keeps begins with what leaves: what was read before may never do so.
    fn capture(&self, held: &Bytes) -> BodyCapture {
        let mut capture = BodyCapture::new(self.gate.request.caller.keep, &self.gate.parts.delivery.budget);
        capture.sent(held);
        capture
    }

    /// The answer in place of a stream of which nothing went down. What was received of it was paid for.
    async fn deny_stream(
        &mut self,
        guarded: &TargetGuards,
        (resolved, said): (&ResolvedTarget<'_>, Option<Judged>),
        source: TranslatedSource,
        attempt: &mut Attempt,
    ) -> Outcome {
        let soft = said.as_ref().is_some_and(|said| said.soft_deny_200);
        if let Some(notes) = &mut attempt.info.hooks {
            match &said {
                Some(said) => notes.note_output(said),
                None => notes.output = Some(OutputVerdict::Verdict(Verdict::Deny)),
            }
        }
        let ending = source.translator.ending();
        let model = ending.model.clone();
        // The upstream is let go before anything is counted.
        drop(source);
        let usage = usage_of(ending, self.gate.request.ask.content.bytes.clone()).await;
        let mut denied = self.denied(guarded, soft, resolved.content.stream);
        if let Outcome::Whole(answer) = &mut denied {
            (answer.usage, answer.model) = (usage, model);
        }
        denied
    }

    fn fell(&self, why: Break, resolved: &ResolvedTarget<'_>) -> Outcome {
        match why {
            Break::Overdue(told) => Outcome::Fault(timed_out(told)),
            Break::Upstream(e) => Outcome::Fault(fallen(e, resolved.provider())),
            Break::Failed(failure) => {
                let head = crate::proxy::deliver::bare_head(failure.status);
                Outcome::Whole(Box::new(WholeAnswer::failed(*failure, head, Bytes::new())))
            }
            Break::Short => broken("The provider's stream ended before it was complete"),
            Break::Silent | Break::Lost | Break::Denied => {
                Outcome::Fault(fallen(SendError::Silent, resolved.provider()))
            }
        }
    }
}

/// Reads a stream to its end, or to the bound on what is held.
async fn collect(
    source: &mut TranslatedSource,
    mut events: HeldEvents,
    (held, ended): (Bytes, bool),
    permit: &mut Permit,
) -> HeldAnswer {
    if !events.push(&held) {
        return HeldAnswer::TooLong(events);
    }
    let mut is_over = ended;
    while !is_over {
        let bytes = match source.next().await {
            SourceEvent::Piece(Piece { bytes, last, .. }) if !last => bytes,
            SourceEvent::Piece(Piece { bytes, .. }) => {
                is_over = true;
                match source.finish() {
                    Ok(tail) => [bytes, tail].concat().into(),
                    Err(_) => return HeldAnswer::Broken(broken("The provider's stream ended before it was complete")),
                }
            }
            SourceEvent::End => {
                is_over = true;
                match source.finish() {
                    Ok(tail) => tail,
                    Err(_) => return HeldAnswer::Broken(broken("The provider's stream ended before it was complete")),
                }
            }
            SourceEvent::Broke(Break::Failed(failure)) => {
                let head = crate::proxy::deliver::bare_head(failure.status);
                return HeldAnswer::Broken(Outcome::Whole(Box::new(WholeAnswer::failed(*failure, head, Bytes::new()))));
            }
            SourceEvent::Broke(Break::Upstream(SendError::Silent)) => {
                return HeldAnswer::Broken(Outcome::Fault(Fault::new(
                    FaultKind::UpstreamSilent,
                    "The provider fell silent",
                )));
            }
            SourceEvent::Broke(_) => return HeldAnswer::Broken(broken("The provider's stream broke off")),
        };
        if !events.push(&bytes) {
            return HeldAnswer::TooLong(events);
        }
        if permit.grow_to(events.bytes()).is_err() {
            return HeldAnswer::TooLong(events);
        }
    }
    HeldAnswer::Whole(events)
}

fn broken(why: &'static str) -> Outcome {
    Outcome::Fault(Fault::new(FaultKind::UpstreamBroken, why))
}
