//! A value that must not be shown: `Debug` prints a mask and there is no `Display` or `Serialize`,
//! so a credential cannot reach a log, an error or a response by accident.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The only way to the value; grep for `expose` to audit every use.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What no real credential starts with.
pub const MASK: &str = "****";

/// How a secret is shown to an admin: enough to recognise it, never enough to use it.
pub fn mask(secret: &str) -> String {
    let tail: String = secret.chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
    if secret.chars().count() >= 16 { format!("{MASK}{tail}") } else { MASK.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_printed() {
        assert_eq!(format!("{:?}", Secret::new("sk-1")), "***");
    }

    #[test]
    fn mask_shows_the_tail_of_long_secrets_only() {
        assert_eq!(mask("short"), "****");
        assert_eq!(mask("sk-0123456789abcdef"), "****cdef");
    }
}
