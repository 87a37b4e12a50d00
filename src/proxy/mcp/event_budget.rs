//! Events of a server that is heard, taken from the byte budget while they wait: an event may be megabytes long before
//! its end comes, and as many of them may be open as there are streams. Knows no protocol beyond events; what is small
//! is not counted.

use crate::proxy::body::{BufferBudget, Permit};
use gateway_mcp::RpcError;
use gateway_mcp::sse::{EventTooLong, McpEvent, McpEvents};
use std::sync::Arc;

/// Most events are far below.
const MOST_FREE: usize = 64 * 1024;

pub(in crate::proxy) struct HeardEvents {
    events: McpEvents,
    budget: Arc<BufferBudget>,
    held: Option<Permit>,
}

impl HeardEvents {
    pub(in crate::proxy) fn new(budget: &Arc<BufferBudget>) -> Self {
        Self { events: McpEvents::default(), budget: budget.clone(), held: None }
    }

    /// The next piece; refused where the gateway holds as many bytes as it may.
    pub(in crate::proxy) fn push(&mut self, piece: &[u8]) -> Result<(), RpcError> {
        self.events.push(piece);
        let held = self.events.held();
        if held <= MOST_FREE {
            self.held = None;
            return Ok(());
        }
        let permit = self.held.get_or_insert_with(|| Permit::new(&self.budget));
        permit.grow_to(held).map_err(|fault| {
            let why = "The gateway holds as many bytes as it may, and an event of the stream has not come to its end";
            RpcError::own(fault.status(), why)
        })
    }

    /// What the event that comes out was counted with stays counted until the next piece comes.
    pub(in crate::proxy) fn next_event(&mut self) -> Result<Option<McpEvent>, EventTooLong> {
        self.events.next_event()
    }

    /// What the last event was counted with, for as long as somebody holds on to it.
    pub(in crate::proxy) fn into_permit(self) -> Option<Permit> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_an_end_counts_and_is_given_back() {
        let budget = BufferBudget::new(1 << 20, 1 << 20);
        let mut events = HeardEvents::new(&budget);
        events.push(&[b"data: ".as_slice(), &vec![b'x'; MOST_FREE]].concat()).expect("room");
        assert_eq!(budget.held(), MOST_FREE + 6);
        events.push(b"\n\n").expect("room");
        assert!(events.next_event().expect("short").is_some_and(|event| event.data.len() == MOST_FREE));
        assert_eq!(budget.held(), MOST_FREE + 8, "somebody still looks at it");
        events.push(b"data: y").expect("room");
        assert_eq!(budget.held(), 0);
        let refused = events.push(&vec![b'y'; 1 << 20]).expect_err("no room");
        assert_eq!(refused.status, 503);
        drop(events);
        assert_eq!(budget.held(), 0);
    }
}
