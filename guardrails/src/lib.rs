//! Guardrails: what may be asked of a model, and what of its answers may reach whoever asked. Floor 1: bytes in,
//! verdicts and rewritten bytes out. Knows no network, no clock, no runtime; a check that asks somebody else gives its
//! request as data and reads the answer as data.
//!
//! A guardrail is read and compiled once (`definition`), with every bound that configs have. A request or an answer is
//! [`Content`]: its texts with the places where they stand. The engine ([`Run`]) judges it as a state machine. Answers
//! that stream are judged by the machines of [`stream`].

mod check;
mod checks;
mod content;
pub mod definition;
mod engine;
pub mod external_call;
#[cfg(test)]
mod fixture;
mod guardrail;
mod parameters;
pub mod partners;
mod pattern;
mod problem;
mod results;
pub mod stream;

pub use check::Facts;
pub use content::{BodyShape, Content, Direction};
pub use engine::{AskId, GuardrailSubject, Judged, Pending, Run, Timing, Verdict};
pub use guardrail::{
    Actions, Check, FeedbackRule, Guardrail, HookType, MOST_CHECKS, MOST_GUARDRAILS, StreamMode, StreamPolicy,
    stream_mode,
};
pub use parameters::checked_address;
pub use problem::GuardrailProblem;
pub use results::{
    CheckResult, DENIED_TYPE, ErrorResult, HookResult, HookResults, HookRunResult, SoftDenial, denial, header_value,
    soft_denial, with_results,
};
