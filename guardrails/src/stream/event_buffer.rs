//! Holds every event of an answer until the whole was judged, so that a failure is a clean denial and nothing of it
//! was seen. The judgement itself is the engine's, on the whole answer.

use std::mem;

/// Bytes of events that are held for one answer.
pub const MOST_HOLD: usize = 4 << 20;

/// The answer is longer than what is held: every check of the guardrails that wanted it whole fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimit;

#[derive(Debug)]
pub struct EventBuffer<E> {
    events: Vec<E>,
    bytes: usize,
}

impl<E> Default for EventBuffer<E> {
    fn default() -> Self {
        Self { events: Vec::new(), bytes: 0 }
    }
}

impl<E> EventBuffer<E> {
    /// Takes an event of so many bytes. After an error nothing is held any more.
    pub fn push(&mut self, event: E, bytes: usize) -> Result<(), HoldLimit> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST_HOLD {
            self.events = Vec::new();
            return Err(HoldLimit);
        }
        self.events.push(event);
        Ok(())
    }

    /// What is held, for the budget of bodies.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The events as they came, since the answer passed.
    pub fn release(&mut self) -> Vec<E> {
        self.bytes = 0;
        mem::take(&mut self.events)
    }
}
