//! What serves a request whose caller is known, by what it asks for. Each file here is one way to an answer, over the
//! gateway and what the request has gathered so far; the ways of nearly all are in `calls.rs`.

mod batch_lines;
mod browser_keys;
mod calls;
mod explanation;
mod kept_objects;
mod realtime_calls;
mod tools;

use super::body_mode::{self, BodyMode};
use super::own_objects::{self, KeptCall};
use super::request::Request;
use crate::batches::LineTask;
use gateway_domain::{Fault, Operation};
use pingora::proxy::Session;

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    BookedLine,
    WrittenLine,
    Explained,
    Mcp,
    Agent,
    RealtimeCall,
    KeptObject(KeptCall),
    Buffered,
    Streaming,
}

impl Handler {
    pub(crate) fn of(session: &mut Session, request: &Request) -> Result<Self, Fault> {
        let task = request.caller.tenant.line.as_ref().map(|line| &line.task);
        match task {
            Some(LineTask::Booked(_)) => return Ok(Self::BookedLine),
            Some(task) if task.is_written() => return Ok(Self::WrittenLine),
            _ if request.caller.tenant.supposed => return Ok(Self::Explained),
            _ => {}
        }
        match request.ask.route.operation {
            Operation::McpSession => return Ok(Self::Mcp),
            Operation::A2aCard => return Ok(Self::Agent),
            Operation::RealtimeCall | Operation::RealtimeCallControl => return Ok(Self::RealtimeCall),
            _ => {}
        }
        if let Some(call) = own_objects::asked(request) {
            return Ok(Self::KeptObject(call));
        }
        let mode = match task {
            Some(LineTask::Native { streams: true, .. }) => BodyMode::Streaming,
            _ => body_mode::of(session, &request.ask.route)?,
        };
        Ok(match mode {
            BodyMode::Buffered => Self::Buffered,
            BodyMode::Streaming => Self::Streaming,
        })
    }

    /// Nothing is called for lines that are only written or counted: they take none of the places of their key.
    pub(crate) const fn calls_nobody(&self) -> bool {
        matches!(self, Self::BookedLine | Self::WrittenLine)
    }
}
