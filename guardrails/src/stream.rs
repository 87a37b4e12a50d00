//! Answers that are judged while they stream. A [`Guard`] holds events in one queue until what they carry was judged;
//! a lane per choice and kind of text decides how far that is. Pure: text pieces in, released pieces out; the caller
//! knows events, dialects and time.

mod event_buffer;
mod guard;
mod lane;
mod plan;
mod redactor;
mod tool_call;

pub use event_buffer::{EventBuffer, HoldLimit, MOST_HOLD};
pub use guard::{FlowingText, Guard, GuardStop, LaneId, LaneKind, LaneText, Released, WaitingText, WindowAsk};
use tool_call::content_of_call;
pub use tool_call::{ToolCallJudged, judge_tool_call};

#[cfg(test)]
mod tests;
