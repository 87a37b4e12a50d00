//! Guardrails over a line of a batch that a provider runs: over what is to go up, and later over what was answered.
//! They are the ones of a request that is made, and say the same of it; what they deny is told in the place of the
//! answer. Sends nothing to the provider.

use super::CallParts;
use super::guardrail_stage::{DENIED, SOFT, answers_are_judged};
use crate::clock;
use crate::guardrails::{HookNotes, TargetGuards};
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::{hooks, target};
use bytes::Bytes;
use gateway_domain::Fault;
use gateway_guardrails::{
    Content as Texts, Direction, GuardrailSubject, HookResult, Judged as Said, Run, SoftDenial, Timing, Verdict,
    denial, soft_denial, with_results,
};
use http::HeaderMap;

/// A line as it came by the door, and where it is led.
#[derive(Clone, Copy)]
pub(crate) struct LedLine<'a> {
    pub(crate) request: &'a Request,
    pub(crate) routing: &'a Routing,
    /// What the client said with the batch.
    pub(crate) client: &'a HeaderMap,
}

/// What judges one line, and what it has said so far.
pub(crate) struct LineJudge<'a> {
    parts: &'a CallParts,
    request: &'a Request,
    guarded: Box<TargetGuards>,
    pub(crate) notes: Box<HookNotes>,
}

/// What guardrails made of a line.
pub(crate) struct JudgedLine {
    /// The status of the answer that the client is told.
    pub(crate) status: u16,
    /// What goes on, or what is told in its place.
    pub(crate) body: Bytes,
    pub(crate) is_denied: bool,
}

impl<'a> LineJudge<'a> {
    /// `None`: nothing judges it.
    pub(crate) async fn of(parts: &'a CallParts, line: LedLine<'a>) -> Result<Option<Self>, Fault> {
        let LedLine { request, routing, client } = line;
        let leaf = routing.plan.leaf().clone();
        if hooks::is_unguarded(request, &leaf) {
            return Ok(None);
        }
        let aim = target::resolve(&leaf, routing.inline, request)?;
        let search = hooks::GuardSearch {
            guardrails: &parts.guardrails,
            request,
            routing,
            leaf: &leaf,
            aim: &aim,
            client,
            aliases: &parts.delivery.settings.header_alias,
            budget: &parts.delivery.budget,
        };
        let with_data = request.caller.keep != CapturePolicy::Nothing;
        let notes = Box::new(HookNotes { with_data, ..HookNotes::default() });
        Ok(hooks::guarded(search).await?.map(|guarded| Self { parts, request, guarded, notes }))
    }

    /// What was said of the line before it went up; guardrails that decide nothing look at it now, as its record is
    /// near.
    pub(crate) fn remember(&mut self, results: Vec<HookResult>, is_soft: bool) {
        if !results.is_empty() {
            self.notes.input = Some(if is_soft { Verdict::Soft } else { Verdict::Pass });
            self.notes.add(Direction::Input, results);
        }
        let content = Texts::new(self.request.ask.content.bytes.clone(), self.guarded.shape, Direction::Input);
        self.guarded.request = Some(content.clone());
        self.look_beside(Direction::Input, self.guarded.asking(content));
    }

    /// Over what is to go up.
    pub(crate) async fn judge_asked(&mut self, body: Bytes) -> JudgedLine {
        let content = Texts::new(body.clone(), self.guarded.shape, Direction::Input);
        let subject = self.guarded.asking(content);
        let said = self.said(subject.clone(), Direction::Input).await;
        if self.guarded.input.iter().any(|guardrail| !guardrail.actions().is_async) {
            self.notes.note_input(&said);
        }
        if said.verdict == Verdict::Deny {
            self.look_beside(Direction::Input, subject);
            return self.denied(said.soft_deny_200);
        }
        let body = said.rewritten.map_or(body, |rewritten| rewritten.body().clone());
        JudgedLine { status: 200, body, is_denied: false }
    }

    /// Over a good answer, as the client reads it.
    pub(crate) async fn judge_answered(&mut self, answer: Bytes) -> JudgedLine {
        let mut body = answer;
        if !answers_are_judged(self.guarded.shape) {
            self.notes.skip(Direction::Output, &self.guarded.output);
        } else if !self.guarded.output.is_empty() {
            let subject = self.guarded.answering(body.clone(), self.guarded.shape);
            self.look_beside(Direction::Output, subject.clone());
            let said = self.said(subject, Direction::Output).await;
            if self.guarded.decides_on_answers() {
                self.notes.note_output(&said);
            }
            if said.verdict == Verdict::Deny {
                return self.denied(said.soft_deny_200);
            }
            body = said.rewritten.map_or(body, |rewritten| rewritten.body().clone());
        }
        let status = if self.notes.is_soft() { SOFT } else { 200 };
        JudgedLine { status, body: with_results(&body, &self.notes.results), is_denied: false }
    }

    async fn said(&self, subject: GuardrailSubject, side: Direction) -> Said {
        let list = if side == Direction::Input { &self.guarded.input } else { &self.guarded.output };
        let run = Run::begin(list, subject, Timing::Sync, clock::now());
        self.parts.guardrails.drive(run, self.guarded.moderator.as_deref()).await
    }

    fn look_beside(&mut self, side: Direction, subject: GuardrailSubject) {
        self.notes.beside.extend(self.parts.guardrails.judge_beside(&self.guarded, side, subject));
    }

    /// Told in the place of the answer, as whoever asks for one line is told.
    fn denied(&self, is_soft: bool) -> JudgedLine {
        let mine = SoftDenial {
            shape: self.guarded.shape,
            model: &self.guarded.facts.model,
            id: &self.guarded.facts.trace_id,
            created_secs: self.request.caller.at.micros().div_euclid(1_000_000),
        };
        let results = &self.notes.results;
        let soft = if is_soft { soft_denial(mine, results) } else { None };
        let status = if soft.is_some() { 200 } else { DENIED };
        let body = soft.unwrap_or_else(|| denial(self.request.ask.route.dialect, results));
        JudgedLine { status, body, is_denied: true }
    }
}
