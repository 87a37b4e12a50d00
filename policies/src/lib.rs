//! Policies in force: which of them match a call, what they hold of it, and whether their windows have room.
//! Floor 1: bytes and numbers in, a verdict out. Knows no network, no clock, no store and no HTTP; time is an
//! argument, and counters stand behind the port `gateway_domain::counters::Counters`.
//!
//! An [`Index`] is made with each snapshot and never changes; the [`Ledger`] outlives snapshots and holds nothing but
//! numbers. A call gathers its [`ReservationRequest`] in two [`Stage`]s, since some policies ask about the target and
//! the target is chosen late; what it is granted is a [`Hold`], settled when the call is over.

mod applicable_limits;
mod condition;
mod counters;
mod entity_limits;
mod hold;
mod index;
mod ledger;
mod meter;
mod reservation_request;
mod rule;
mod subject;
mod verdict;
mod window;

pub use applicable_limits::{BoundHolder, KnownCaller, Outlook, outlook_of};
pub use entity_limits::slot_of;
pub use hold::{Hold, Used};
pub use index::Index;
pub use ledger::{Delta, Ledger, Total};
pub use reservation_request::{Estimate, LimitHolder, ReservationRequest, TokenPrice};
pub use rule::Stage;
pub use subject::Subject;
pub use verdict::{Denied, Name};

#[cfg(test)]
mod tests;
