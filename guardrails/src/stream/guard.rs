//! Holds the events of one stream until what they carry was judged, and lets them go in the order in which they came.
//! Events are opaque; the caller says which texts they carry, and puts other texts in their places.

use super::lane::{FlowingPiece, LaneFailure, PushedPiece, StreamLane};
use super::plan::{CheckAt, LanePlan, plan_of};
use super::{content_of_call, judge_tool_call};
use crate::Direction;
use crate::check::{Case, CheckError, CheckOutcome, Facts, JudgeStep};
use crate::content::{BodyShape, Content, Scan, quoted};
use crate::engine::{Judged, Verdict};
use crate::external_call::{CheckQuery, CheckReply};
use crate::guardrail::{Check, Guardrail, StreamMode};
use crate::results::{CheckResult, ErrorResult, HookResult, HookRunResult, feedback};
use gateway_domain::Timestamp;
use serde_json::json;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Choices and kinds of text of one stream.
const MOST_LANES: usize = 1_024;

/// Which text a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId {
    pub choice: u32,
    pub kind: LaneKind,
    /// Tells apart texts of the same choice and kind that are apart (content blocks).
    pub part: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    Text,
    Reasoning,
    /// Arguments of one call, whole: of these only what asks outside is told here.
    Call,
}

/// Text that an event carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneText {
    pub lane: LaneId,
    pub text: String,
}

/// An event that may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released<E> {
    pub event: E,
    /// What each piece of the event's text says now, in their order. Empty where it passed as it came.
    pub texts: Vec<String>,
    /// Some text differs from what came.
    pub is_touched: bool,
    /// It carried text and carries none any more; it may be dropped if it says nothing else.
    pub is_emptied: bool,
}

/// A text that waits, whose event is to be queued.
#[derive(Debug)]
pub struct WaitingText(HeldPiece);

/// A text of which the guard keeps nothing but how far it was judged.
#[derive(Debug)]
pub struct FlowingText {
    /// Position among the lanes.
    lane: usize,
    /// The bytes of its lane that it takes up.
    pub range: Range<usize>,
}

/// Why nothing more leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardStop {
    pub guardrail: String,
    pub check: String,
    /// Every guardrail that denied wants its denial to read as an answer.
    pub soft_deny_200: bool,
}

/// A window that an outside check wants to be judged.
#[derive(Clone, Debug)]
pub struct WindowAsk {
    /// Names the window in [`Guard::answer`].
    pub id: usize,
    pub check: Arc<Check>,
    /// Positions count within [`Guard::answer`]'s answers.
    pub asks: Vec<CheckQuery>,
}

#[derive(Debug)]
struct BufferedEvent<E> {
    event: E,
    pieces: HeldPieces,
    /// Calls that are asked about before it may leave, by their lanes.
    calls: Vec<usize>,
}

#[derive(Debug)]
struct HeldPiece {
    /// Position among the lanes.
    lane: usize,
    number: usize,
    had_text: bool,
}

/// Most events have one.
#[derive(Debug)]
enum HeldPieces {
    One(HeldPiece),
    Many(Vec<HeldPiece>),
}

impl HeldPieces {
    fn as_slice(&self) -> &[HeldPiece] {
        match self {
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(pieces) => pieces,
        }
    }
}

/// A window that was asked about.
#[derive(Debug)]
struct PendingWindow {
    id: usize,
    lane: usize,
    at: CheckAt,
    content: Content,
    check: Arc<Check>,
    began: Timestamp,
}

/// How a check stands.
#[derive(Clone, Debug, Default)]
struct CheckStanding {
    failed: bool,
    error: Option<CheckError>,
    took_ms: i64,
    redacted: bool,
}

#[derive(Debug)]
pub struct Guard<E> {
    guardrails: Vec<Arc<Guardrail>>,
    facts: Arc<Facts>,
    request: Option<Content>,
    text: LanePlan,
    reasoning: LanePlan,
    call: LanePlan,
    /// Some check asks outside.
    asks_outside: bool,
    lanes: Vec<StreamLane>,
    ids: Vec<LaneId>,
    queue: VecDeque<BufferedEvent<E>>,
    /// Lanes of calls that the next event waits for.
    calls: Vec<usize>,
    asked: Vec<PendingWindow>,
    next_id: usize,
    standings: Vec<Vec<CheckStanding>>,
    stop: Option<GuardStop>,
    began: Timestamp,
}

impl<E> Guard<E> {
    /// A guard for those of the guardrails that judge as the text flows; `None` where none does.
    pub fn new(
        guardrails: &[Arc<Guardrail>],
        facts: Arc<Facts>,
        request: Option<Content>,
        now: Timestamp,
    ) -> Option<Self> {
        let flows = |g: &&Arc<Guardrail>| !g.actions().is_async && g.stream_mode() == StreamMode::Window;
        let guardrails: Vec<Arc<Guardrail>> = guardrails.iter().filter(flows).cloned().collect();
        if guardrails.is_empty() {
            return None;
        }
        let standings = guardrails.iter().map(|g| vec![CheckStanding::default(); g.checks().len()]).collect();
        let plan = |scan| plan_of(&guardrails, scan);
        let (text, reasoning, call) = (plan(Scan::Text), plan(Scan::Reasoning), plan(Scan::Tool).asking());
        let asks_outside = [&text, &reasoning, &call].into_iter().any(LanePlan::asks_outside);
        Some(Self {
            guardrails,
            facts,
            request,
            text,
            reasoning,
            call,
            asks_outside,
            lanes: Vec::new(),
            ids: Vec::new(),
            queue: VecDeque::new(),
            calls: Vec::new(),
            asked: Vec::new(),
            next_id: 0,
            standings,
            stop: None,
            began: now,
        })
    }

    /// Takes an event and the texts that it carries. One without text waits for those before it.
    pub fn push(&mut self, event: E, pieces: Vec<LaneText>, now: Timestamp) {
        if self.stop.is_some() {
            return;
        }
        let mut held = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Some(lane) = self.lane(piece.lane) else {
                self.fail_all(&CheckError::closed("LaneLimit", "The answer has too many texts"), now);
                return;
            };
            let (number, failed) = self.lanes[lane].push(&piece.text, millis(now));
            held.push(HeldPiece { lane, number, had_text: !piece.text.is_empty() });
            self.note(failed, now);
        }
        let calls = std::mem::take(&mut self.calls);
        self.queue.push_back(BufferedEvent { event, pieces: HeldPieces::Many(held), calls });
    }

    /// Judges the only text of an event. `None`: nothing waits, and it may leave at once as it is. Else it is to be
    /// queued.
    pub fn hear(&mut self, lane: LaneId, text: &str, now: Timestamp) -> Option<WaitingText> {
        let had_text = !text.is_empty();
        // Nothing leaves any more.
        let never = || Some(WaitingText(HeldPiece { lane: 0, number: usize::MAX, had_text }));
        if self.stop.is_some() {
            return never();
        }
        let Some(at) = self.lane(lane) else {
            self.fail_all(&CheckError::closed("LaneLimit", "The answer has too many texts"), now);
            return never();
        };
        let is_first = self.queue.is_empty() && self.calls.is_empty();
        let PushedPiece { number, failed } = self.lanes[at].pass(text, is_first, millis(now))?;
        if !failed.is_empty() {
            self.note(failed, now);
        }
        Some(WaitingText(HeldPiece { lane: at, number, had_text }))
    }

    /// Judges a text that waits for nothing but its own next pieces, in an event that the caller keeps: it may leave as
    /// it is once [`Self::passed`] reaches its end and no event is queued. `None`: it has to be told by [`Self::hear`].
    pub fn flow(&mut self, lane: LaneId, text: &str, now: Timestamp) -> Option<FlowingText> {
        if self.stop.is_some() || self.asks_outside || !self.calls.is_empty() {
            return None;
        }
        let at = self.lane(lane)?;
        let FlowingPiece { range, failed } = self.lanes[at].flow_past(text, millis(now))?;
        if !failed.is_empty() {
            self.note(failed, now);
        }
        Some(FlowingText { lane: at, range })
    }

    /// The position up to which the text has passed that this one is a piece of.
    pub fn passed(&self, text: &FlowingText) -> usize {
        self.lanes[text.lane].progress()
    }

    /// What flowed is to be queued after all, with others behind it.
    pub fn hold(&mut self, text: FlowingText) -> WaitingText {
        let had_text = !text.range.is_empty();
        let number = self.lanes[text.lane].hold(text.range);
        WaitingText(HeldPiece { lane: text.lane, number, had_text })
    }

    /// Holds an event for a text that waits.
    pub fn queue(&mut self, event: E, text: WaitingText) {
        if self.stop.is_none() {
            let calls = std::mem::take(&mut self.calls);
            self.queue.push_back(BufferedEvent { event, pieces: HeldPieces::One(text.0), calls });
        }
    }

    /// A text is whole: finish reason, end of its block.
    pub fn end_lane(&mut self, lane: LaneId, now: Timestamp) {
        if let Some(lane) = self.ids.iter().rposition(|id| *id == lane) {
            let failed = self.lanes[lane].end(millis(now));
            self.note(failed, now);
        }
    }

    /// All texts are whole.
    pub fn end(&mut self, now: Timestamp) {
        for lane in 0..self.lanes.len() {
            let failed = self.lanes[lane].end(millis(now));
            self.note(failed, now);
        }
    }

    /// The events that may leave now. After a denial there are none.
    pub fn take(&mut self) -> Vec<Released<E>> {
        std::iter::from_fn(|| self.take_next()).collect()
    }

    /// The next of them.
    pub fn take_next(&mut self) -> Option<Released<E>> {
        if self.stop.is_some() {
            self.queue.clear();
            return None;
        }
        let first = self.queue.front()?;
        let is_asked = first.calls.iter().all(|lane| self.lanes[*lane].is_ready(0));
        if !is_asked || !first.pieces.as_slice().iter().all(|p| self.lanes[p.lane].is_ready(p.number)) {
            return None;
        }
        let held = self.queue.pop_front()?;
        for lane in held.calls {
            self.lanes[lane].take();
        }
        let had_text = held.pieces.as_slice().iter().any(|p| p.had_text);
        let (mut texts, mut is_touched) = (Vec::new(), false);
        for piece in held.pieces.as_slice() {
            let taken = self.lanes[piece.lane].take();
            is_touched |= taken.is_touched;
            texts.extend(taken.text);
        }
        let is_emptied = had_text && !texts.is_empty() && texts.iter().all(String::is_empty);
        Some(Released { event: held.event, texts, is_touched, is_emptied })
    }

    /// No event waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What comes cannot be judged: every check fails.
    pub fn fail(&mut self, name: &str, message: &str, now: Timestamp) {
        self.fail_all(&CheckError::closed(name, message), now);
    }

    /// Judges the arguments of a call that is whole; gives them as they may go on. Checks that ask outside are told of
    /// them whole, and the event that is pushed next waits for their answers.
    pub fn judge_call(&mut self, arguments: &str, now: Timestamp) -> String {
        let judged = judge_tool_call(&self.guardrails, arguments);
        for guardrail in judged.failed {
            let checks = self.guardrails[guardrail].checks();
            let check = checks.iter().position(|check| check.takes(Scan::Tool)).unwrap_or(0);
            self.note(vec![LaneFailure { at: CheckAt { guardrail, check }, error: None }], now);
        }
        self.ask_of_call(arguments, now);
        judged.arguments
    }

    fn ask_of_call(&mut self, arguments: &str, now: Timestamp) {
        let says = |content: &Content| content.parts().iter().any(|part| !part.text.trim().is_empty());
        if self.call.beside.is_empty() || self.stop.is_some() || !says(&content_of_call(arguments)) {
            return;
        }
        let part = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        let Some(lane) = self.lane(LaneId { choice: 0, kind: LaneKind::Call, part }) else {
            return self.fail_all(&CheckError::closed("LaneLimit", "The answer has too many texts"), now);
        };
        let (_, mut failed) = self.lanes[lane].push(arguments, millis(now));
        failed.extend(self.lanes[lane].end(millis(now)));
        self.note(failed, now);
        self.calls.push(lane);
    }

    /// A guardrail that denies has failed: what waits is dropped.
    pub fn stop(&self) -> Option<&GuardStop> {
        self.stop.as_ref()
    }

    /// Some guardrail failed that does not deny.
    pub fn has_failed(&self) -> bool {
        self.standings.iter().flatten().any(|s| s.failed)
    }

    /// So much waits that nothing more should be read before something leaves.
    pub fn is_full(&self) -> bool {
        self.lanes.iter().any(StreamLane::is_full)
    }

    /// The windows that outside checks want judged now, one at a time for each text.
    pub fn take_asks(&mut self, now: Timestamp) -> Vec<WindowAsk> {
        let mut out = Vec::new();
        if self.stop.is_some() || !self.asks_outside {
            return out;
        }
        for lane in 0..self.lanes.len() {
            for window in self.lanes[lane].windows(millis(now)) {
                let content = match self.ids[lane].kind {
                    LaneKind::Call => content_of_call(&window.text),
                    LaneKind::Text | LaneKind::Reasoning => content_of_text(&window.text),
                };
                let check = Arc::clone(&self.guardrails[window.at.guardrail].checks()[window.at.check]);
                let asked = PendingWindow { id: self.next_id, lane, at: window.at, content, check, began: now };
                self.next_id += 1;
                match asked.check.judge.judge(&case(&asked, self.request.as_ref(), &self.facts, now)) {
                    JudgeStep::Done(outcome) => self.settle(&asked, outcome, now),
                    JudgeStep::Ask(asks) => {
                        out.push(WindowAsk { id: asked.id, check: Arc::clone(&asked.check), asks });
                        self.asked.push(asked);
                    }
                }
            }
        }
        out
    }

    /// When [`Guard::take_asks`] gives something by time alone, if nothing else comes.
    pub fn due(&self) -> Option<Timestamp> {
        if !self.asks_outside {
            return None;
        }
        let due = self.lanes.iter().filter_map(StreamLane::due_ms).min();
        due.map(|ms| Timestamp(ms.saturating_mul(1_000)))
    }

    /// The answers to the asks of a window, in their order.
    pub fn answer(&mut self, id: usize, answers: &[CheckReply], now: Timestamp) {
        let Some(position) = self.asked.iter().position(|a| a.id == id) else { return };
        let asked = self.asked.swap_remove(position);
        let outcome = match asked.check.judge.read(&case(&asked, self.request.as_ref(), &self.facts, now), answers) {
            JudgeStep::Done(outcome) => outcome,
            JudgeStep::Ask(_) => CheckError::open("Error", "A window is asked about once").into(),
        };
        self.settle(&asked, outcome, now);
    }

    /// What the guardrails say together; the results tell what is known without the text.
    pub fn finish(mut self, now: Timestamp) -> Judged {
        for (guardrail, standings) in self.standings.iter_mut().enumerate() {
            for (check, standing) in standings.iter_mut().enumerate() {
                let at = CheckAt { guardrail, check };
                standing.redacted = self.lanes.iter().any(|l| l.has_redacted(at));
            }
        }
        let mut verdict = Verdict::Pass;
        let mut results = Vec::new();
        for (guardrail, standings) in self.guardrails.iter().zip(self.standings) {
            let result = hook_result(guardrail, standings, self.began, now);
            if !result.verdict {
                verdict = if result.deny || verdict == Verdict::Deny { Verdict::Deny } else { Verdict::Soft };
            }
            results.push(HookResult::Run(Box::new(result)));
        }
        let soft_deny_200 = self.stop.is_some_and(|s| s.soft_deny_200);
        Judged { verdict, results, rewritten: None, soft_deny_200 }
    }

    fn lane(&mut self, id: LaneId) -> Option<usize> {
        let known = match self.ids.last() {
            Some(last) if *last == id => Some(self.ids.len() - 1),
            _ => self.ids.iter().rposition(|i| *i == id),
        };
        let known = known.filter(|at| !self.lanes[*at].is_ended);
        if known.is_none() && self.lanes.len() < MOST_LANES {
            self.ids.push(id);
            let plan = match id.kind {
                LaneKind::Text => &self.text,
                LaneKind::Reasoning => &self.reasoning,
                LaneKind::Call => &self.call,
            };
            self.lanes.push(StreamLane::new(plan));
            return Some(self.lanes.len() - 1);
        }
        known
    }

    fn settle(&mut self, asked: &PendingWindow, outcome: CheckOutcome, now: Timestamp) {
        let standing = &mut self.standings[asked.at.guardrail][asked.at.check];
        standing.took_ms += (now.micros() - asked.began.micros()).max(0) / 1_000;
        let is_open = outcome.error.as_ref().is_some_and(|e| !e.closes && !asked.check.fail_on_error);
        if outcome.error.is_some() {
            standing.error.clone_from(&outcome.error);
        }
        if outcome.verdict && outcome.rewrite.is_some() {
            // Windows overlap, and what came before has left.
            let error = CheckError::closed("UnchangeableBody", "A part of an answer that streams is not changed");
            return self.note(vec![LaneFailure { at: asked.at, error: Some(error) }], now);
        }
        if outcome.verdict || is_open {
            let failed = self.lanes[asked.lane].passed(asked.at, millis(now));
            self.note(failed, now);
        } else {
            self.note(vec![LaneFailure { at: asked.at, error: outcome.error }], now);
        }
    }

    fn fail_all(&mut self, error: &CheckError, now: Timestamp) {
        for guardrail in 0..self.guardrails.len() {
            for check in 0..self.guardrails[guardrail].checks().len() {
                let at = CheckAt { guardrail, check };
                self.note(vec![LaneFailure { at, error: Some(error.clone()) }], now);
            }
        }
    }

    /// Notes failures: of a guardrail that denies nothing leaves any more, else the check looks no further.
    fn note(&mut self, mut failed: Vec<LaneFailure>, now: Timestamp) {
        while let Some(failure) = failed.pop() {
            let at = failure.at;
            let guardrail = &self.guardrails[at.guardrail];
            let standing = &mut self.standings[at.guardrail][at.check];
            standing.failed = true;
            standing.error = failure.error;
            if guardrail.actions().deny {
                let soft = self.stop.as_ref().is_none_or(|s| s.soft_deny_200) && guardrail.actions().soft_deny_200;
                self.stop = Some(GuardStop {
                    guardrail: guardrail.id().to_owned(),
                    check: guardrail.checks()[at.check].id().to_owned(),
                    soft_deny_200: soft,
                });
                continue;
            }
            for lane in &mut self.lanes {
                failed.extend(lane.switch_off(at, millis(now)));
            }
        }
    }
}

/// An answer that says nothing but this.
fn content_of_text(text: &str) -> Content {
    let body = format!(
        "{{\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{}}}}}]}}",
        quoted(text)
    );
    Content::new(body.into(), BodyShape::Chat, Direction::Output)
}

fn millis(now: Timestamp) -> i64 {
    now.micros() / 1_000
}

fn case<'a>(asked: &'a PendingWindow, request: Option<&'a Content>, facts: &'a Facts, now: Timestamp) -> Case<'a> {
    Case {
        content: &asked.content,
        request,
        status: Some(200),
        facts,
        is_transformed: false,
        request_is_transformed: false,
        now,
    }
}

fn hook_result(
    guardrail: &Guardrail,
    standings: Vec<CheckStanding>,
    began: Timestamp,
    now: Timestamp,
) -> HookRunResult {
    let checks: Vec<CheckResult> = guardrail
        .checks()
        .iter()
        .zip(standings)
        .map(|(check, standing)| {
            let explanation = match (standing.failed, standing.redacted) {
                (true, _) => "The check failed while the answer streamed",
                (false, true) => "The answer was changed while it streamed",
                (false, false) => "The check passed while the answer streamed",
            };
            CheckResult {
                data: json!({"explanation": explanation}),
                verdict: !standing.failed,
                id: check.id().to_owned(),
                error: standing.error.map(|e| ErrorResult { name: e.name, message: e.message }),
                execution_time: standing.took_ms,
                transformed: standing.redacted,
                created_at: began.to_string(),
                log: (),
                fail_on_error: check.fail_on_error,
            }
        })
        .collect();
    let verdict = checks.iter().all(|c| c.verdict);
    let actions = guardrail.actions();
    let rule = if verdict { &actions.on_success } else { &actions.on_fail };
    HookRunResult {
        verdict,
        id: guardrail.id().to_owned(),
        transformed: checks.iter().any(|c| c.transformed),
        feedback: rule.as_ref().map(|r| feedback(r, &checks)),
        checks,
        execution_time: (now.micros() - began.micros()).max(0) / 1_000,
        is_async: false,
        hook_type: guardrail.hook_type().name(),
        created_at: began.to_string(),
        deny: !verdict && actions.deny,
    }
}
