//! Seals ids that clients carry: equal ones seal to equal texts, on every node, and nobody can make or change one.

pub trait IdSeal: Send + Sync {
    /// Letters, digits, `-` and `_` only.
    fn seal(&self, plain: &[u8]) -> String;
    /// `None` for what was never sealed here, or was changed.
    fn open(&self, sealed: &str) -> Option<Vec<u8>>;
}
