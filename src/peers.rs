//! How many nodes serve requests: read where a limit that is not shared has to be divided among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug)]
pub(crate) struct Peers(Arc<AtomicUsize>);

impl Default for Peers {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(1)))
    }
}

impl Peers {
    /// This one included; never 0.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, serving: usize) {
        self.0.store(serving.max(1), Ordering::Relaxed);
    }
}
