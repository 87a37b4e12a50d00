//! How many requests are under way, so that a draining process can leave as soon as none is. Only those of somebody
//! who is known are counted here: nobody else may keep the process from leaving, or its room from being used.

use gateway_domain::{Fault, FaultKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

/// Counts as one request until dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard(Arc<AtomicUsize>);

impl InFlight {
    pub(crate) fn board(&self) -> InFlightGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(self.0.clone())
    }

    /// A place among the requests that are served at once (`--max-connections`; 0 is no bound).
    pub(crate) fn enter(&self, most: usize) -> Result<InFlightGuard, Fault> {
        let ticket = self.board();
        if most > 0 && self.count() > most {
            let fault = Fault::new(FaultKind::Busy, "The gateway serves as many requests as it may");
            return Err(fault.retry_after_ms(1000));
        }
        Ok(ticket)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
