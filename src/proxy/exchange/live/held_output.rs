//! Events of a provider's that wait for a verdict, in their order, with what is known of each without reading it again.

use bytes::Bytes;
use std::collections::VecDeque;

/// The most bytes of all events that wait in a session.
pub(super) const MOST_HELD: usize = 16 << 20;

/// What an event takes beside its bytes, roughly.
pub(super) const BESIDE: usize = 192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldPlace {
    /// It begins a response.
    Beginning,
    Between,
    /// It ends one.
    End,
}

#[derive(Debug)]
pub(super) struct WaitingEvent {
    /// The event as it came, with the bytes of its frames.
    pub(super) raw: Bytes,
    /// The response that it is about.
    pub(super) response: Option<String>,
    pub(super) item: Option<String>,
    place: HeldPlace,
}

impl WaitingEvent {
    /// `about`: a response and an item.
    pub(super) fn new(raw: Bytes, about: (Option<String>, Option<String>), kind: &str) -> Self {
        let place = match kind {
            "response.created" => HeldPlace::Beginning,
            "response.done" | "response.completed" | "response.incomplete" | "response.failed" => HeldPlace::End,
            _ => HeldPlace::Between,
        };
        Self { raw, response: about.0, item: about.1, place }
    }

    pub(super) fn is_between(&self) -> bool {
        self.place == HeldPlace::Between
    }

    pub(super) fn is_end(&self) -> bool {
        self.place == HeldPlace::End
    }
}

#[derive(Debug, Default)]
pub(super) struct HeldOutput {
    events: VecDeque<WaitingEvent>,
    bytes: usize,
}

impl HeldOutput {
    /// `false`: more waits than may.
    pub(super) fn push(&mut self, event: WaitingEvent) -> bool {
        self.bytes += event.raw.len() + BESIDE;
        self.events.push_back(event);
        self.bytes <= MOST_HELD
    }

    pub(super) fn first(&self) -> Option<&WaitingEvent> {
        self.events.front()
    }

    pub(super) fn pop(&mut self) -> Option<WaitingEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.raw.len() + BESIDE;
        Some(event)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
