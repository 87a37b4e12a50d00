//! The parts of the process as the status page tells of them. Each part says of itself how it does; nothing here
//! knows what they are, and telling asks nobody outside the process.

use gateway_admin::ComponentStatus;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

type Tell = Box<dyn Fn() -> ComponentStatus + Send + Sync>;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HealthComponents(Arc<Mutex<Vec<Tell>>>);

impl HealthComponents {
    /// `tell` is called each time somebody looks, and must not wait.
    pub(crate) fn add(&self, tell: impl Fn() -> ComponentStatus + Send + Sync + 'static) {
        self.0.lock().push(Box::new(tell));
    }

    /// Asks all parts, in the order in which they were added.
    pub(crate) fn report(&self) -> Vec<ComponentStatus> {
        self.0.lock().iter().map(|tell| tell()).collect()
    }
}

impl fmt::Debug for HealthComponents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HealthComponents({})", self.0.lock().len())
    }
}
