//! Answers that are judged while they stream: events go in as they came, and come out when what they carry was judged,
//! in their order and with what was taken out of them gone. Knows neither provider nor client; whoever feeds it does.

mod buffered_answer;
mod flowing_events;
mod output_buffer;
mod release;
mod transcript;

pub(crate) use buffered_answer::{HeldEvents, transcribed};
pub(crate) use transcript::Transcript;

use self::flowing_events::FlowingEvents;
use self::output_buffer::PassedEvents;
use super::buffer_budget::GrowingRoom;
use super::{Guardrails, HookNotes, OutsideAnswers, TargetGuards, drive};
use crate::clock;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gateway_domain::{Operation, Timestamp};
use gateway_guardrails::external_call::CheckReply;
use gateway_guardrails::stream::{Guard, LaneId, LaneKind, LaneText, MOST_HOLD};
use gateway_guardrails::{
    Direction, Guardrail, GuardrailSubject, HookResults, Judged, Run, StreamMode, Timing, Verdict,
};
use gateway_providers::tap::{HeardText, Tap, TappedEvent, TappedItem, TextKind, TextLane, TextPlace};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// An event that waits for its text to be judged.
#[derive(Debug)]
enum QueuedEvent {
    /// An event with a piece of one text, like many others: it is read only where something else is to stand in its
    /// place.
    Text(QueuedText),
    Event(Box<HeldEvent>),
}

#[derive(Debug)]
struct QueuedText {
    /// The bytes around the event, with other events; `event` says where in them it stands.
    events: Bytes,
    event: Range<usize>,
    lane: TextLane,
    says: bool,
    /// The event's text, kept only where it is told once more; empty otherwise.
    text: String,
}

/// An event on its way, with what becomes of the arguments of calls in it.
#[derive(Debug)]
struct HeldEvent {
    event: TappedEvent,
    /// New arguments of calls, one place for each of the event's texts; `None`: that text stays as it is.
    arguments: Vec<Option<String>>,
    /// Which of its texts the guard was told of.
    judged: Vec<bool>,
}

/// The answers to the asks of one window.
type AskedWindow = BoxFuture<'static, (usize, Vec<CheckReply>)>;

pub(crate) struct StreamJudge {
    tap: Tap,
    guarded: Arc<TargetGuards>,
    outside: Arc<OutsideAnswers>,
    /// Holds back text for the guardrails that judge while it flows; `None`: none of them does.
    guard: Option<Box<Guard<QueuedEvent>>>,
    /// Events of one text that wait for its next pieces only; they leave behind all that the guard holds.
    flowing: FlowingEvents,
    asked: FuturesUnordered<AskedWindow>,
    /// Events since a call was opened, and the calls that are open.
    calls: Vec<HeldEvent>,
    open_calls: Vec<TextLane>,
    call_bytes: usize,
    /// Texts of which pieces came, and what of them has left where it is told once more, whole.
    told: Vec<(TextLane, String)>,
    told_bytes: usize,
    tells_twice: bool,
    /// There was no room for it: what is told once more goes down as it came.
    is_told_lost: bool,
    /// Kept only where something is judged as a whole.
    transcript: Option<Transcript>,
    /// Memory for what is kept of the answer, and for calls that are not whole.
    room: GrowingRoom,
    out: PassedEvents,
    /// Bytes of events that wait in the guard's queue.
    queued_bytes: usize,
    /// What ends the answer; it leaves when all was judged.
    last: BytesMut,
    /// The client reads results inside its stream.
    shows_results: bool,
    has_text_left: bool,
    has_ended: bool,
    /// What is judged when the answer is whole.
    late: Option<BoxFuture<'static, Judged>>,
    stop: Option<CutOff>,
    said: Option<Judged>,
    is_over: bool,
}

/// How an answer is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// The client sees an answer that a filter has stopped, not one that broke.
    pub(crate) softly: bool,
}

impl std::fmt::Debug for StreamJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamJudge").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl StreamJudge {
    /// `None`: nobody knows how the clients of this operation read streams.
    pub(crate) fn new(
        operation: Operation,
        guarded: &Arc<TargetGuards>,
        outside: &Arc<OutsideAnswers>,
        shows_results: bool,
    ) -> Option<Self> {
        let guard =
            Guard::new(&guarded.output, guarded.facts.clone(), guarded.request.clone(), clock::now()).map(Box::new);
        let wants_whole = guarded.output.iter().any(|g| g.actions().is_async || is_after(g));
        Some(Self {
            tap: Tap::new(operation)?,
            guarded: guarded.clone(),
            outside: outside.clone(),
            guard,
            flowing: FlowingEvents::default(),
            asked: FuturesUnordered::new(),
            calls: Vec::new(),
            open_calls: Vec::new(),
            call_bytes: 0,
            told: Vec::new(),
            told_bytes: 0,
            tells_twice: operation == Operation::Responses,
            is_told_lost: false,
            transcript: wants_whole.then(Transcript::default),
            room: GrowingRoom::new(&guarded.room),
            out: PassedEvents::default(),
            queued_bytes: 0,
            last: BytesMut::new(),
            shows_results,
            has_text_left: false,
            has_ended: false,
            late: None,
            stop: None,
            said: None,
            is_over: false,
        })
    }

    /// Takes whole events, as a translator gives them, with what it tells of the texts in them.
    pub(crate) fn push(&mut self, events: &Bytes, texts: &[TextPlace]) {
        if self.stop.is_some() || events.is_empty() {
            return;
        }
        let (mut at, mut texts, now) = (0, texts, clock::now());
        while at < events.len() {
            let (here, later) = texts.split_at(texts.iter().take_while(|place| place.event.start <= at).count());
            texts = later;
            let told = here.first().filter(|place| place.event.start == at).map(|place| place.event.end);
            let heard = match told.and_then(|end| Some((self.tap.read_places(events, here)?, end))) {
                Some(heard) => Ok(heard),
                None => self.tap.next(events, at),
            };
            match heard {
                Ok((TappedItem::Text(heard), end)) => {
                    self.hear(&heard, events, now);
                    at = end;
                }
                Ok((TappedItem::Event(event), end)) => {
                    self.take(event);
                    at = end;
                }
                Err(_) => {
                    self.fail_all("UnreadableEvent", "An event of the answer cannot be read");
                    break;
                }
            }
        }
        self.flow();
    }

    /// A piece of one text, in an event like others: it leaves as it is, or waits unread.
    fn hear(&mut self, heard: &HeardText<'_>, events: &Bytes, now: Timestamp) {
        if !self.calls.is_empty() {
            if let Ok(event) = self.tap.read_again(events.slice(heard.event.clone())) {
                self.take(event);
            }
            return;
        }
        self.keep(heard.lane, &heard.text);
        if self.flow_past(heard, events, now) {
            return;
        }
        let waits = self.guard.as_mut().and_then(|guard| guard.hear(lane(heard.lane), &heard.text, now));
        match (waits, &mut self.guard) {
            (Some(text), Some(guard)) => {
                let (says, kept) = (!heard.text.is_empty(), if self.tells_twice { &*heard.text } else { "" });
                let (events, event) = (events.clone(), heard.event.clone());
                self.queued_bytes += event.len();
                let queued = QueuedText { events, event, lane: heard.lane, says, text: kept.to_owned() };
                guard.queue(QueuedEvent::Text(queued), text);
                // What waited for this text leaves at once, so that little waits at any time.
                self.release_ready();
            }
            _ => {
                self.has_text_left |= self.guard.is_none() || !heard.text.is_empty();
                self.out.pass(events, heard.event.clone());
                self.note_released(heard.lane, &heard.text);
            }
        }
    }

    /// Notes a piece of text that came.
    fn keep(&mut self, lane: TextLane, text: &str) {
        if !text.is_empty() && !self.has_heard(lane) {
            self.told.push((lane, String::new()));
        }
        let Some(transcript) = &mut self.transcript else { return };
        transcript.add(lane, text);
        if !transcript.is_too_long() && !self.room.holds(transcript.bytes() + self.call_bytes + self.told_bytes) {
            transcript.give_up();
        }
    }

    /// Notes a piece of text that leaves.
    fn note_released(&mut self, lane: TextLane, text: &str) {
        let Some((_, told)) = self.told.iter_mut().find(|(known, _)| *known == lane && self.tells_twice) else {
            return;
        };
        told.push_str(text);
        self.told_bytes += text.len();
    }

    /// Nothing comes any more.
    pub(crate) fn end(&mut self) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        self.settle_calls();
        if let Some(guard) = &mut self.guard {
            guard.end(clock::now());
        }
        self.flow();
        self.conclude();
    }

    /// What may leave now.
    pub(crate) fn take_out(&mut self) -> Bytes {
        self.out.take()
    }

    pub(crate) const fn stopped(&self) -> Option<CutOff> {
        self.stop
    }

    /// All was judged, and has left or is about to.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Some text has left: whoever waits for the answer may have its head.
    pub(crate) const fn may_begin(&self) -> bool {
        self.has_text_left || self.is_over
    }

    /// A guardrail that does not deny has failed already.
    pub(crate) fn has_failed(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.verdict != Verdict::Pass)
            || self.guard.as_ref().is_some_and(|guard| guard.has_failed())
    }

    /// Nothing more is to be read before something was judged.
    pub(crate) fn is_full(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_full())
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Something outside is asked, or will be by time alone.
    pub(crate) fn awaits(&self) -> bool {
        !self.asked.is_empty() || self.late.is_some() || self.due().is_some()
    }

    /// The next thing that comes from outside. Safe to drop and ask again.
    pub(crate) async fn wait(&mut self) {
        if let Some(late) = &mut self.late {
            let said = late.await;
            self.late = None;
            return self.close(Some(said));
        }
        let due = self.due();
        let pause = async {
            match due {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        if self.asked.is_empty() && due.is_none() {
            // Nothing is left to come: what cannot be judged any more does not leave.
            self.fail_all("Error", "A check gave no verdict");
            self.conclude();
            if !self.is_over && self.late.is_none() {
                self.stop.get_or_insert(CutOff { softly: false });
            }
            return;
        }
        let answered = tokio::select! {
            Some(answered) = self.asked.next() => Some(answered),
            () = pause => None,
        };
        if let (Some((id, answers)), Some(guard)) = (answered, &mut self.guard) {
            guard.answer(id, &answers, clock::now());
        }
        self.flow();
        self.conclude();
    }

    /// What guardrails said, once that is known.
    pub(crate) fn into_said(self) -> Option<Judged> {
        self.said
    }

    /// What a client that reads results inside its stream is told of a denial.
    pub(crate) fn shown_results(&self) -> HookResults {
        let results = self.said.as_ref().filter(|_| self.shows_results).map(|said| said.results.clone());
        HookResults { before_request_hooks: Vec::new(), after_request_hooks: results.unwrap_or_default() }
    }

    pub(crate) const fn said(&self) -> Option<&Judged> {
        self.said.as_ref()
    }

    /// Has the answer judged beside its request, for its record, where a guardrail is to.
    pub(crate) fn judge_beside(&self, guardrails: &Guardrails, notes: &mut HookNotes) {
        let output = &self.guarded.output;
        let Some(whole) = self.whole().filter(|_| output.iter().any(|g| g.actions().is_async)) else { return };
        if self.transcript.as_ref().is_some_and(Transcript::is_too_long) {
            let said = Run::hold_limit(output, whole, Timing::Async, clock::now());
            return notes.add(Direction::Output, said.results);
        }
        notes.beside.extend(guardrails.judge_beside(&self.guarded, Direction::Output, whole));
    }

    /// What of the answer can be judged as a whole, where something is.
    fn whole(&self) -> Option<GuardrailSubject> {
        let body = self.transcript.as_ref()?.body(self.guarded.shape);
        Some(self.guarded.answering(body, self.guarded.shape))
    }

    /// Ends the answer behind what has left, as one that a filter has stopped.
    pub(crate) fn refuse(&mut self) -> Bytes {
        self.tap.refuse()
    }

    fn due(&self) -> Option<Duration> {
        let due = self.guard.as_ref()?.due()?;
        Some(Duration::from_micros((due.micros() - clock::now().micros()).max(0).unsigned_abs()))
    }

    fn take(&mut self, event: TappedEvent) {
        let heard: Vec<bool> = event.texts.iter().map(|text| !text.is_echo || !self.has_heard(text.lane)).collect();
        for (text, _) in event.texts.iter().zip(&heard).filter(|(text, heard)| **heard && !text.text.is_empty()) {
            self.keep(text.lane, &text.text);
        }
        let arguments = vec![None; event.texts.len()];
        let waiting = HeldEvent { event, arguments, judged: heard };
        if self.guard.is_none() {
            let HeldEvent { event, .. } = waiting;
            self.has_text_left |= !event.texts.is_empty() || event.is_last;
            return self.leave(event.bytes, event.is_last);
        }
        if waiting.event.is_aside {
            return self.out.add(waiting.event.bytes);
        }
        self.queue_flowing();
        if self.calls.is_empty() && !waiting.event.is_call {
            return self.judge(waiting);
        }
        self.hold_call(waiting);
    }

    fn has_heard(&self, lane: TextLane) -> bool {
        self.told.iter().any(|(known, _)| *known == lane)
    }

    /// Half a call says nothing that can be relied on: it waits, and all behind it, until it is whole.
    fn hold_call(&mut self, waiting: HeldEvent) {
        for (text, heard) in waiting.event.texts.iter().zip(&waiting.judged) {
            if text.lane.kind == TextKind::Tool && *heard && !self.open_calls.contains(&text.lane) {
                self.open_calls.push(text.lane);
            }
        }
        for closed in &waiting.event.closed {
            self.open_calls.retain(|lane| {
                let other_choice = closed.choice.is_some_and(|choice| choice != lane.choice);
                other_choice || closed.part.is_some_and(|part| part != lane.part)
            });
        }
        self.call_bytes += waiting.event.bytes.len();
        self.calls.push(waiting);
        if self.open_calls.is_empty() {
            self.settle_calls();
        } else if self.call_bytes > MOST_HOLD || !self.room.holds(self.kept_bytes() + self.call_bytes) {
            self.fail_all("HoldLimit", "A call of a tool is longer than what can be held to be judged");
        }
    }

    fn kept_bytes(&self) -> usize {
        self.told_bytes + self.transcript.as_ref().filter(|t| !t.is_too_long()).map_or(0, Transcript::bytes)
    }

    /// Judges the calls that are held, and lets them on: one that is changed in one piece.
    fn settle_calls(&mut self) {
        self.call_bytes = 0;
        self.open_calls.clear();
        let mut calls = std::mem::take(&mut self.calls);
        let mut lanes: Vec<(TextLane, String)> = Vec::new();
        for waiting in &calls {
            for (text, heard) in waiting.event.texts.iter().zip(&waiting.judged) {
                if text.lane.kind != TextKind::Tool || !heard {
                    continue;
                }
                match lanes.iter_mut().find(|(lane, _)| *lane == text.lane) {
                    Some((_, whole)) => whole.push_str(&text.text),
                    None => lanes.push((text.lane, text.text.clone())),
                }
            }
        }
        for (lane, whole) in lanes.into_iter().filter(|(_, whole)| !whole.is_empty()) {
            let Some(guard) = &mut self.guard else { continue };
            let judged = guard.judge_call(&whole, clock::now());
            let mut first = (judged != whole).then_some(judged.clone());
            let is_changed = first.is_some();
            for waiting in &mut calls {
                for (at, text) in waiting.event.texts.iter().enumerate() {
                    if text.lane == lane && waiting.judged[at] && is_changed {
                        waiting.arguments[at] = Some(first.take().unwrap_or_default());
                    }
                }
            }
            match self.told.iter_mut().find(|(known, _)| *known == lane) {
                Some((_, told)) => *told = judged,
                None => self.told.push((lane, judged)),
            }
        }
        for waiting in calls {
            self.judge(waiting);
        }
    }

    fn judge(&mut self, waiting: HeldEvent) {
        let Some(guard) = &mut self.guard else { return };
        let now = clock::now();
        let texts = waiting.event.texts.iter().zip(&waiting.judged);
        let pieces = texts.filter(|(text, heard)| **heard && text.lane.kind != TextKind::Tool);
        let pieces: Vec<LaneText> =
            pieces.map(|(text, _)| LaneText { lane: lane(text.lane), text: text.text.clone() }).collect();
        let closed = waiting.event.closed.clone();
        self.queued_bytes += waiting.event.bytes.len();
        guard.push(QueuedEvent::Event(Box::new(waiting)), pieces, now);
        for closed in closed {
            for (known, _) in &self.told {
                let same_choice = closed.choice.is_none_or(|choice| choice == known.choice);
                if same_choice && closed.part.is_none_or(|part| part == known.part) && known.kind != TextKind::Tool {
                    guard.end_lane(lane(*known), now);
                }
            }
        }
    }

    /// Asks what is to be asked, and lets go what was judged.
    fn flow(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        for window in guard.take_asks(clock::now()) {
            let (id, outside, asks) = (window.id, self.outside.clone(), window.asks);
            self.asked.push(Box::pin(async move {
                let answers = asks.into_iter().map(|ask| outside.answer(ask, None));
                (id, futures_util::future::join_all(answers).await)
            }));
        }
        if let Some(stop) = guard.stop() {
            self.stop.get_or_insert(CutOff { softly: stop.soft_deny_200 });
            self.flowing.forget();
        }
        self.pass_flowing();
        if self.queued_bytes > MOST_HOLD && self.stop.is_none() {
            return self.fail_all("HoldLimit", "More events wait to be judged than can be held");
        }
        // What is told once more has to be there then.
        if self.told_bytes > 0 && self.stop.is_none() && !self.room.holds(self.kept_bytes() + self.call_bytes) {
            (self.told_bytes, self.tells_twice, self.is_told_lost) = (0, false, true);
            self.told.iter_mut().for_each(|(_, told)| *told = String::new());
            if let Some(guard) = &mut self.guard {
                guard.fail("HoldLimit", "The answer is longer than what can be held to be judged", clock::now());
            }
            return self.flow();
        }
        if self.stop.is_some() && self.said.is_none() {
            // What has not left does not leave.
            self.asked = FuturesUnordered::new();
            self.said = self.guard.take().map(|guard| guard.finish(clock::now()));
        }
    }

    /// Judges what is judged as a whole, once the rest was.
    fn conclude(&mut self) {
        let waits = !self.asked.is_empty() || self.guard.as_ref().is_some_and(|guard| !guard.is_empty());
        let waits = waits || !self.flowing.is_empty();
        if !self.has_ended || waits || self.stop.is_some() || self.late.is_some() || self.is_over {
            return;
        }
        let after: Vec<Arc<Guardrail>> = self.guarded.output.iter().filter(|g| is_after(g)).cloned().collect();
        let Some(whole) = self.whole().filter(|_| !after.is_empty()) else { return self.close(None) };
        let now = clock::now();
        if self.transcript.as_ref().is_some_and(Transcript::is_too_long) {
            let said = Run::hold_limit(&after, whole, Timing::Sync, now);
            return self.close(Some(said));
        }
        let run = Run::begin(&after, whole, Timing::Sync, now);
        if run.is_done() {
            return self.close(Some(run.finish(clock::now())));
        }
        let outside = self.outside.clone();
        self.late = Some(Box::pin(async move { drive(&outside, run, None).await }));
    }

    fn close(&mut self, late: Option<Judged>) {
        let mut said = self.guard.take().map(|guard| guard.finish(clock::now()));
        if let Some(late) = late {
            said = Some(match said {
                None => late,
                Some(mut said) => {
                    said.results.extend(late.results);
                    said.verdict = if late.verdict == Verdict::Pass { said.verdict } else { Verdict::Soft };
                    said
                }
            });
        }
        // What has gone down cannot be denied any more.
        if let Some(said) = said.as_mut().filter(|said| said.verdict == Verdict::Deny) {
            said.verdict = Verdict::Soft;
        }
        if let Some(said) = said.as_ref().filter(|_| self.shows_results)
            && let Ok(results) = serde_json::to_string(&said.results)
        {
            let told = format!("{{\"hook_results\":{{\"after_request_hooks\":{results}}}}}");
            self.out.add(self.tap.aside(&told));
        }
        self.out.add(self.last.split().freeze());
        self.said = said;
        self.is_over = true;
    }

    fn fail_all(&mut self, name: &str, message: &str) {
        if let Some(guard) = &mut self.guard {
            guard.fail(name, message, clock::now());
        }
        self.flow();
    }
}

fn is_after(guardrail: &Guardrail) -> bool {
    !guardrail.actions().is_async && guardrail.stream_mode() == StreamMode::After
}

fn lane(lane: TextLane) -> LaneId {
    let kind = if lane.kind == TextKind::Reasoning { LaneKind::Reasoning } else { LaneKind::Text };
    LaneId { choice: lane.choice, kind, part: lane.part }
}

#[cfg(test)]
mod tests;
