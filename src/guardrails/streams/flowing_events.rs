//! Events of one text that wait for nothing but its next pieces: most of a judged stream. Of each only its place is
//! kept, and how far the text has to be judged for it to leave. Knows no rule.

use super::{PassedEvents, QueuedEvent, QueuedText, StreamJudge, lane};
use bytes::Bytes;
use gateway_domain::Timestamp;
use gateway_guardrails::stream::FlowingText;
use gateway_providers::tap::{HeardText, TextLane};
use std::ops::Range;

/// Those that wait lie in the same bytes, in their order.
#[derive(Debug, Default)]
pub(super) struct FlowingEvents {
    events: Bytes,
    lane: Option<TextLane>,
    waiting: Vec<FlowingEvent>,
}

#[derive(Debug)]
struct FlowingEvent {
    text: FlowingText,
    event: Range<usize>,
}

impl FlowingEvents {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Which text those are of that wait; `None`: none do.
    fn lane(&self) -> Option<TextLane> {
        self.lane.filter(|_| !self.waiting.is_empty())
    }

    fn first(&self) -> Option<&FlowingText> {
        self.waiting.first().map(|waiting| &waiting.text)
    }

    /// Whether some wait that are of another text.
    fn are_apart_from(&self, lane: TextLane) -> bool {
        !self.waiting.is_empty() && self.lane != Some(lane)
    }

    /// Whether what lies in these bytes can wait behind those that do.
    fn takes(&self, events: &Bytes) -> bool {
        self.waiting.is_empty() || (self.events.as_ptr(), self.events.len()) == (events.as_ptr(), events.len())
    }

    fn add(&mut self, lane: TextLane, events: &Bytes, waiting: FlowingEvent) {
        if self.waiting.is_empty() {
            (self.events, self.lane) = (events.clone(), Some(lane));
        }
        self.waiting.push(waiting);
    }

    /// Lets those go whose texts end at `passed` or before it. True: they said something.
    fn pass(&mut self, passed: usize, out: &mut PassedEvents) -> bool {
        let ready = self.waiting.partition_point(|waiting| waiting.text.range.end <= passed);
        let Some((first, rest)) = self.waiting[..ready].split_first() else { return false };
        let (mut range, mut says) = (first.event.clone(), !first.text.range.is_empty());
        for waiting in rest {
            says |= !waiting.text.range.is_empty();
            if waiting.event.start == range.end {
                range.end = waiting.event.end;
            } else {
                out.pass(&self.events, std::mem::replace(&mut range, waiting.event.clone()));
            }
        }
        out.pass(&self.events, range);
        self.waiting.drain(..ready);
        if self.waiting.is_empty() {
            self.events = Bytes::new();
        }
        says
    }

    /// All of them, to wait elsewhere, and the bytes that they lie in.
    fn take(&mut self) -> (Bytes, Vec<FlowingEvent>) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.waiting))
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl StreamJudge {
    /// Takes a text that waits for nothing but its own next pieces. False: it is to be queued.
    pub(super) fn flow_past(&mut self, heard: &HeardText<'_>, events: &Bytes, now: Timestamp) -> bool {
        if self.tells_twice {
            return false;
        }
        if self.flowing.are_apart_from(heard.lane) {
            self.queue_flowing();
        }
        let Some(text) = self.guard.as_mut().and_then(|guard| guard.flow(lane(heard.lane), &heard.text, now)) else {
            return false;
        };
        if !self.flowing.takes(events) {
            self.pass_flowing();
        }
        if !self.flowing.takes(events) {
            self.queue_flowing();
        }
        self.flowing.add(heard.lane, events, FlowingEvent { text, event: heard.event.clone() });
        true
    }

    /// Lets go what flows and was judged.
    pub(super) fn pass_flowing(&mut self) {
        self.release_ready();
        let guard = self.guard.as_ref().filter(|guard| guard.is_empty() && guard.stop().is_none());
        if let (Some(guard), Some(first)) = (guard, self.flowing.first()) {
            let passed = guard.passed(first);
            self.has_text_left |= self.flowing.pass(passed, &mut self.out);
        }
    }

    /// Something else is to stand behind what flows: it waits in the same queue.
    pub(super) fn queue_flowing(&mut self) {
        let Some(lane) = self.flowing.lane() else { return };
        self.pass_flowing();
        let (events, waiting) = self.flowing.take();
        let Some(guard) = &mut self.guard else { return };
        for FlowingEvent { text, event } in waiting {
            self.queued_bytes += event.len();
            let (says, text) = (!text.range.is_empty(), guard.hold(text));
            let queued = QueuedText { events: events.clone(), event, lane, says, text: String::new() };
            guard.queue(QueuedEvent::Text(queued), text);
        }
    }
}
