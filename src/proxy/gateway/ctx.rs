//! What one request gathers on its way through the phases; filled by them, and the same for requests of every kind.

use crate::batches::LineGuest;
use crate::clock;
use crate::in_flight::InFlightGuard;
use crate::proxy::admission_guard::ConcurrencySlot;
use crate::proxy::body::{BufferBudget, Permit};
use crate::proxy::mcp::LegacyAsk;
use crate::proxy::record::PendingRecords;
use gateway_domain::Timestamp;
use std::sync::Arc;
use std::time::Instant;

/// One for each request.
pub(crate) struct Ctx {
    pub(crate) started: Instant,
    pub(crate) at: Timestamp,
    pub(crate) held: Permit,
    pub(crate) records: PendingRecords,
    /// The place among the key's parallel requests, where the key has a bound; held until the request is over.
    pub(crate) seat: Option<ConcurrencySlot>,
    /// Counts the request as under way; set once its key is known.
    pub(crate) flight: Option<InFlightGuard>,
    /// The line of a batch that the request is made for; it is told what it cost.
    pub(crate) line: Option<Arc<LineGuest>>,
    /// What the path asks, where the client of an MCP server speaks the version of 2024-11-05.
    pub(crate) legacy: Option<LegacyAsk>,
}

impl Ctx {
    pub(crate) fn new(budget: &Arc<BufferBudget>) -> Self {
        Self {
            started: Instant::now(),
            at: clock::now(),
            held: Permit::new(budget),
            records: PendingRecords::default(),
            seat: None,
            flight: None,
            line: None,
            legacy: None,
        }
    }
}
