//! Why a part does less than it should. Who shows it asks; nobody is told.

use parking_lot::Mutex;
use std::sync::Arc;

/// Why a part does less than it should, as that part says; nothing while it does well.
#[derive(Clone, Debug, Default)]
pub struct Degraded(Arc<Mutex<Option<String>>>);

impl Degraded {
    pub fn set(&self, why: Option<String>) {
        *self.0.lock() = why;
    }

    pub fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }
}
