//! Runs the guardrails of one direction as a state machine: it says what to ask outside and takes the answers, in any
//! order. Checks run side by side; what rewrites runs in declared order, each on the text that the former left, so
//! that no rewrite is lost. Knows no runtime: whoever drives it makes the calls, and brings the time.

use crate::check::{Case, CheckError, CheckOutcome, Facts, JudgeStep};
use crate::content::{Content, Direction, Rewrite};
use crate::external_call::{AT_ONCE, CheckQuery, CheckReply};
use crate::guardrail::{Check, Guardrail, HookType};
use crate::results::{CheckResult, ErrorResult, HookResult, feedback};
use gateway_domain::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds of asking that one check may take: a key set, and a newer one.
const MOST_ROUNDS: usize = 3;

/// What is judged.
#[derive(Clone, Debug)]
pub struct GuardrailSubject {
    pub content: Content,
    /// The request that is answered, where an answer is judged; `status` is the answer's.
    pub request: Option<Content>,
    pub request_is_transformed: bool,
    pub status: Option<u16>,
    pub facts: Arc<Facts>,
}

/// Which of the guardrails run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Those that decide.
    Sync,
    /// Those that run beside the request: they change nothing, and their results are for the record.
    Async,
}

/// Names one ask of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AskId {
    unit: usize,
    index: usize,
}

/// Something that the run waits for.
#[derive(Clone, Debug)]
pub struct Pending {
    pub id: AskId,
    /// The check that asks.
    pub check: Arc<Check>,
    pub ask: CheckQuery,
}

/// What a direction's guardrails say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// One failed that does not deny.
    Soft,
    Deny,
}

impl Verdict {
    /// The word by which the header on answers tells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Soft => "soft",
            Self::Deny => "deny",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Judged {
    pub verdict: Verdict,
    /// Results of the guardrails, in declared order.
    pub results: Vec<HookResult>,
    /// Where a check rewrote: what goes on.
    pub rewritten: Option<Content>,
    /// A denial is to read as an answer of the model: every guardrail that denies wants it so.
    pub soft_deny_200: bool,
}

/// One check of one hook.
#[derive(Clone, Copy, Debug)]
struct CheckPosition {
    hook: usize,
    check: usize,
}

#[derive(Debug)]
enum SequenceState {
    Waiting,
    Asking(AskQueue),
    Done,
}

#[derive(Debug, Default)]
struct AskQueue {
    /// Asks that were not handed out yet.
    queue: VecDeque<(usize, CheckQuery)>,
    under_way: usize,
    /// The answers to the asks of all rounds; `None` until one is there.
    answers: Vec<Option<CheckReply>>,
    rounds: usize,
}

/// Checks that run one after another: one by itself, or all of a hook that is sequential.
#[derive(Debug)]
struct CheckSequence {
    members: Vec<CheckPosition>,
    at: usize,
    content: Content,
    is_transformed: bool,
    /// It may rewrite, and so takes its place in the chain.
    is_chained: bool,
    state: SequenceState,
    began: Timestamp,
}

#[derive(Debug)]
struct HookRun {
    guardrail: Arc<Guardrail>,
    results: Vec<Option<CheckResult>>,
    ended: Timestamp,
    is_skipped: bool,
}

impl HookRun {
    fn new(guardrail: Arc<Guardrail>, now: Timestamp) -> Self {
        let results = guardrail.checks.iter().map(|_| None).collect();
        Self { guardrail, results, ended: now, is_skipped: false }
    }
}

#[derive(Debug)]
pub struct Run {
    subject: GuardrailSubject,
    timing: Timing,
    hooks: Vec<HookRun>,
    units: Vec<CheckSequence>,
    /// What the chain made so far, and whether it differs from the subject.
    chain: Content,
    is_transformed: bool,
    began: Timestamp,
}

impl Run {
    /// Judges what can be judged at once.
    pub fn begin(guardrails: &[Arc<Guardrail>], subject: GuardrailSubject, timing: Timing, now: Timestamp) -> Self {
        let chosen = guardrails.iter().filter(|g| g.actions.is_async == (timing == Timing::Async));
        let hooks: Vec<HookRun> = chosen
            .map(|guardrail| {
                let is_skipped = timing == Timing::Async && guardrail.hook_type == HookType::Mutator;
                HookRun { is_skipped, ..HookRun::new(Arc::clone(guardrail), now) }
            })
            .collect();
        let units = units_of(&hooks, &subject, now);
        let chain = subject.content.clone();
        let mut run = Self { subject, timing, hooks, units, chain, is_transformed: false, began: now };
        run.advance(now);
        run
    }

    /// The verdict on an answer that is longer than what is held: each check that wanted it whole fails.
    pub fn hold_limit(
        guardrails: &[Arc<Guardrail>],
        subject: GuardrailSubject,
        timing: Timing,
        now: Timestamp,
    ) -> Judged {
        let hooks = guardrails.iter().filter(|g| g.actions.is_async == (timing == Timing::Async)).cloned();
        let mut run = Self {
            timing,
            hooks: hooks.map(|g| HookRun::new(g, now)).collect(),
            units: Vec::new(),
            chain: subject.content.clone(),
            subject,
            is_transformed: false,
            began: now,
        };
        for hook in &mut run.hooks {
            for (check, result) in hook.guardrail.checks.iter().zip(&mut hook.results) {
                let error = CheckError::closed("HoldLimit", "The answer is longer than what can be held to be judged");
                *result = Some(check_result(check, error.into(), RunSpan { began: now, ended: now }, false));
            }
        }
        run.finish(now)
    }

    pub fn is_done(&self) -> bool {
        self.units.iter().all(|u| matches!(u.state, SequenceState::Done))
    }

    /// What is to be asked now. Each is given once, and at most [`AT_ONCE`] of one check are out at a time.
    pub fn take_asks(&mut self) -> Vec<Pending> {
        let mut out = Vec::new();
        for (number, unit) in self.units.iter_mut().enumerate() {
            let SequenceState::Asking(asking) = &mut unit.state else { continue };
            let member = unit.members[unit.at];
            while asking.under_way < AT_ONCE
                && let Some((index, ask)) = asking.queue.pop_front()
            {
                asking.under_way += 1;
                let check = Arc::clone(&self.hooks[member.hook].guardrail.checks[member.check]);
                out.push(Pending { id: AskId { unit: number, index }, check, ask });
            }
        }
        out
    }

    /// Takes an answer; one that nothing waits for is dropped.
    pub fn answer(&mut self, id: AskId, answer: CheckReply, now: Timestamp) {
        let Some(unit) = self.units.get_mut(id.unit) else { return };
        let SequenceState::Asking(asking) = &mut unit.state else { return };
        match asking.answers.get_mut(id.index) {
            Some(place) if place.is_none() => *place = Some(answer),
            _ => return,
        }
        asking.under_way = asking.under_way.saturating_sub(1);
        if asking.answers.iter().all(Option::is_some) {
            self.read(id.unit, now);
            self.advance(now);
        }
    }

    /// What came of it. What still waits counts as an error of the outside world.
    pub fn finish(mut self, now: Timestamp) -> Judged {
        for number in 0..self.units.len() {
            while !matches!(self.units[number].state, SequenceState::Done) {
                let error = CheckError::open("Timeout", "The check was not finished in time");
                self.settle(number, error.into(), now);
            }
        }
        let mut verdict = Verdict::Pass;
        let mut soft_deny_200 = true;
        let mut results = Vec::new();
        for hook in self.hooks {
            let result = hook_result(hook, self.began);
            if let HookResult::Run(run) = &result.result
                && !run.verdict
            {
                verdict = if run.deny || verdict == Verdict::Deny { Verdict::Deny } else { Verdict::Soft };
                soft_deny_200 &= !run.deny || result.soft_deny_200;
            }
            results.push(result.result);
        }
        let rewritten = (self.is_transformed && self.timing == Timing::Sync).then_some(self.chain);
        Judged { verdict, results, rewritten, soft_deny_200: soft_deny_200 && verdict == Verdict::Deny }
    }

    /// Starts every unit whose turn it is: all that change nothing, and of the chain the first that is not done.
    fn advance(&mut self, now: Timestamp) {
        let mut chain_is_free = true;
        for number in 0..self.units.len() {
            let unit = &mut self.units[number];
            let is_waiting = matches!(unit.state, SequenceState::Waiting);
            if is_waiting && (!unit.is_chained || chain_is_free) {
                if unit.is_chained {
                    (unit.content, unit.is_transformed) = (self.chain.clone(), self.is_transformed);
                }
                self.judge(number, now);
            }
            let unit = &self.units[number];
            chain_is_free &= !unit.is_chained || matches!(unit.state, SequenceState::Done);
        }
    }

    fn check(&self, number: usize) -> &Arc<Check> {
        let unit = &self.units[number];
        let member = unit.members[unit.at];
        &self.hooks[member.hook].guardrail.checks[member.check]
    }

    fn case(&self, number: usize, now: Timestamp) -> Case<'_> {
        let unit = &self.units[number];
        Case {
            content: &unit.content,
            request: self.subject.request.as_ref(),
            status: self.subject.status,
            facts: &self.subject.facts,
            is_transformed: unit.is_transformed,
            request_is_transformed: self.subject.request_is_transformed,
            now,
        }
    }

    /// Runs the unit's checks as far as they go without asking.
    fn judge(&mut self, number: usize, now: Timestamp) {
        self.units[number].began = now;
        loop {
            let direction = self.units[number].content.direction();
            let step = match self.check(number).runs_on(direction) {
                true => self.check(number).judge.judge(&self.case(number, now)),
                false => CheckError::open("NotApplicable", not_applicable(direction)).into(),
            };
            if !self.take_step(number, step, 0, now) {
                return;
            }
        }
    }

    /// Reads the answers of the unit's check, and goes on with its next checks.
    fn read(&mut self, number: usize, now: Timestamp) {
        let SequenceState::Asking(asking) = &mut self.units[number].state else { return };
        let (rounds, answers) = (asking.rounds, std::mem::take(&mut asking.answers));
        let answers: Vec<CheckReply> = answers.into_iter().flatten().collect();
        let step = self.check(number).judge.read(&self.case(number, now), &answers);
        if let JudgeStep::Ask(_) = &step
            && let SequenceState::Asking(asking) = &mut self.units[number].state
        {
            asking.answers = answers.into_iter().map(Some).collect();
        }
        if self.take_step(number, step, rounds, now) {
            self.judge(number, now);
        }
    }

    /// True: the unit goes on with its next check.
    fn take_step(&mut self, number: usize, step: JudgeStep, rounds: usize, now: Timestamp) -> bool {
        match step {
            JudgeStep::Done(outcome) => self.settle(number, outcome, now),
            JudgeStep::Ask(asks) if asks.is_empty() || rounds >= MOST_ROUNDS => {
                let error = CheckError::open("Error", "The check found nothing more to ask");
                self.settle(number, error.into(), now)
            }
            JudgeStep::Ask(asks) => {
                let mut asking = AskQueue { rounds: rounds + 1, ..AskQueue::default() };
                if let SequenceState::Asking(former) = &mut self.units[number].state {
                    asking.answers = std::mem::take(&mut former.answers);
                }
                let first = asking.answers.len();
                asking.queue = asks.into_iter().enumerate().map(|(i, ask)| (first + i, ask)).collect();
                asking.answers.resize_with(first + asking.queue.len(), || None);
                self.units[number].state = SequenceState::Asking(asking);
                false
            }
        }
    }

    /// Notes the outcome of the unit's check. True: another one follows.
    fn settle(&mut self, number: usize, outcome: CheckOutcome, now: Timestamp) -> bool {
        let mut outcome = outcome;
        let transformed = self.apply(number, &mut outcome);
        let check = Arc::clone(self.check(number));
        let unit = &mut self.units[number];
        let member = unit.members[unit.at];
        let hook = &mut self.hooks[member.hook];
        hook.ended = hook.ended.max(now);
        hook.results[member.check] =
            Some(check_result(&check, outcome, RunSpan { began: unit.began, ended: now }, transformed));
        unit.at += 1;
        unit.began = now;
        let goes_on = unit.at < unit.members.len();
        unit.state = if goes_on { SequenceState::Waiting } else { SequenceState::Done };
        if !goes_on {
            unit.at = unit.members.len() - 1;
            if unit.is_chained {
                self.chain = unit.content.clone();
                self.is_transformed = unit.is_transformed;
            }
        }
        goes_on
    }

    /// Makes the rewrite that the outcome wants, unless the body is never changed: then the check fails.
    fn apply(&mut self, number: usize, outcome: &mut CheckOutcome) -> bool {
        let Some(rewrite) = outcome.rewrite.take() else { return false };
        let unit = &mut self.units[number];
        if self.timing == Timing::Async {
            return false;
        }
        if !unit.content.is_rewritable() {
            let error = CheckError::closed("UnchangeableBody", "The body of this route is never changed");
            *outcome = CheckOutcome::failed(error).with_data(std::mem::take(&mut outcome.data));
            return false;
        }
        let content = match rewrite {
            Rewrite::Texts(texts) => unit.content.with_texts(texts),
            Rewrite::Body(body) => unit.content.with_body(body),
        };
        if content.body() == unit.content.body() {
            return false;
        }
        (unit.content, unit.is_transformed) = (content, true);
        true
    }
}

fn not_applicable(direction: Direction) -> &'static str {
    match direction {
        Direction::Input => "The check judges answers only",
        Direction::Output => "The check judges requests only",
    }
}

fn units_of(hooks: &[HookRun], subject: &GuardrailSubject, now: Timestamp) -> Vec<CheckSequence> {
    let unit = |members: Vec<CheckPosition>, is_chained| CheckSequence {
        members,
        at: 0,
        content: subject.content.clone(),
        is_transformed: false,
        is_chained,
        state: SequenceState::Waiting,
        began: now,
    };
    let mut units = Vec::new();
    for (number, hook) in hooks.iter().enumerate().filter(|(_, h)| !h.is_skipped) {
        let checks = &hook.guardrail.checks;
        let members = (0..checks.len()).map(|check| CheckPosition { hook: number, check });
        if hook.guardrail.actions.sequential {
            let members: Vec<CheckPosition> = members.collect();
            let is_chained = checks.iter().any(|c| c.judge.rewrites());
            if !members.is_empty() {
                units.push(unit(members, is_chained));
            }
        } else {
            units.extend(members.map(|m| unit(vec![m], checks[m.check].judge.rewrites())));
        }
    }
    units
}

#[derive(Clone, Copy)]
struct RunSpan {
    began: Timestamp,
    ended: Timestamp,
}

impl RunSpan {
    fn millis(self) -> i64 {
        (self.ended.micros() - self.began.micros()).max(0) / 1_000
    }
}

fn check_result(check: &Check, outcome: CheckOutcome, span: RunSpan, transformed: bool) -> CheckResult {
    let (verdict, error) = match outcome.error {
        None => (outcome.verdict, None),
        Some(error) => {
            let passes = !error.closes && !check.fail_on_error;
            (passes, Some(ErrorResult { name: error.name, message: error.message }))
        }
    };
    CheckResult {
        data: outcome.data,
        verdict,
        id: check.id.clone(),
        error,
        execution_time: span.millis(),
        transformed,
        created_at: span.began.to_string(),
        log: (),
        fail_on_error: check.fail_on_error,
    }
}

struct HookReport {
    result: HookResult,
    soft_deny_200: bool,
}

fn hook_result(hook: HookRun, began: Timestamp) -> HookReport {
    let guardrail = &hook.guardrail;
    let actions = &guardrail.actions;
    let soft_deny_200 = actions.soft_deny_200;
    if hook.is_skipped {
        return HookReport { result: HookResult::skipped(guardrail.id(), guardrail.hook_type), soft_deny_200 };
    }
    let checks: Vec<CheckResult> = hook.results.into_iter().flatten().collect();
    let verdict = checks.iter().all(|c| c.verdict);
    let rule = if verdict { &actions.on_success } else { &actions.on_fail };
    let run = crate::results::HookRunResult {
        verdict,
        id: guardrail.id.clone(),
        transformed: checks.iter().any(|c| c.transformed),
        feedback: rule.as_ref().map(|r| feedback(r, &checks)),
        checks,
        execution_time: RunSpan { began, ended: hook.ended }.millis(),
        is_async: actions.is_async,
        hook_type: guardrail.hook_type.name(),
        created_at: began.to_string(),
        deny: !verdict && actions.deny,
    };
    HookReport { result: HookResult::Run(Box::new(run)), soft_deny_200 }
}

#[cfg(test)]
mod tests;
