//! Where limits are counted at the moment, told by whoever counts them and read by health: an operator who sees
//! `limits: approximate` knows that a limit may be missed by a little, and why.

use std::fmt;
use std::sync::Arc;

/// A way of counting, and whether limits hold to the last request when so many nodes serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// One word: `process`, `redis`, `redis-away`.
    pub(crate) name: &'static str,
    /// Given the nodes that serve requests, this one included.
    pub(crate) is_exact: fn(usize) -> bool,
}

impl Mode {
    /// Each node counts by itself.
    pub(crate) const PROCESS: Self = Self { name: "process", is_exact: |nodes| nodes <= 1 };
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Counting(Arc<dyn Fn() -> Mode + Send + Sync>);

impl Counting {
    /// The one seam for whoever stands behind the port `Counters`: `mode` is asked each time somebody looks at the
    /// status page, must not wait, and is all that `limits` and `components.counters` need. Where Redis counts it
    /// is a look at the connection's state.
    pub(crate) fn told_by(mode: impl Fn() -> Mode + Send + Sync + 'static) -> Self {
        Self(Arc::new(mode))
    }

    pub(crate) fn mode(&self) -> Mode {
        (self.0)()
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counting({})", self.mode().name)
    }
}
