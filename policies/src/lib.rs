//! Rate-limit policies in force: which of them match a call, and whether their windows still have room.
//! Floor 1: bytes and numbers in, a verdict out. Knows no network, no clock, no store and no HTTP; time is an
//! argument, and where the counters are kept is the engine's own business.
//!
//! An [`Index`] is made with each snapshot and never changes; the [`Engine`] outlives snapshots and holds
//! nothing but numbers. A call is admitted in two [`Stage`]s, since some policies ask about the target and the
//! target is chosen late.

mod condition;
mod engine;
mod hold;
mod index;
mod rule;
mod subject;
mod window;

pub use engine::Engine;
pub use hold::{Cause, Denied, Hold, Standing};
pub use index::Index;
pub use rule::{Stage, supported, supported_limits, supported_usage};
pub use subject::Subject;

#[cfg(test)]
mod tests;
