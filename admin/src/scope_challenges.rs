//! Scopes that a person is sent to a sign-in for, and how often that was for nothing: a server that goes on refusing
//! what it asked for is not followed for ever. Knows no token and no server.

use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What somebody was asked to allow, and how often in a row for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedScope {
    pub(crate) scope: Option<String>,
    /// Sign-ins after which the server refused what it had asked for.
    pub(crate) in_vain: u8,
    pub(crate) at: Timestamp,
}

impl AskedScope {
    /// So many in this time, and nobody is sent there again before it is over.
    const MOST_IN_VAIN: u8 = 2;
    const WITHIN_MICROS: i64 = 3_600 * 1_000_000;

    /// The next sign-in, which asks for `scope` since a call lacked `lacked`; `None`: since there was no account.
    pub(crate) fn next(before: Option<&Self>, scope: Option<&str>, lacked: Option<&str>, now: Timestamp) -> Self {
        let before = before.filter(|before| now < before.over());
        let again = before.zip(lacked).filter(|(before, lacked)| before.covers(lacked));
        let in_vain = again.map_or(0, |(before, _)| before.in_vain.saturating_add(1));
        Self { scope: scope.map(str::to_owned), in_vain, at: now }
    }

    pub(crate) fn covers(&self, lacked: &str) -> bool {
        let asked = self.scope.as_deref().unwrap_or_default().split_ascii_whitespace();
        lacked.split_ascii_whitespace().all(|word| asked.clone().any(|known| known == word))
    }

    fn over(&self) -> Timestamp {
        self.at.plus_micros(Self::WITHIN_MICROS)
    }

    /// The time until which nobody is sent to sign in for these scopes again; `None`: somebody may be sent.
    pub(crate) fn shut(&self) -> Option<Timestamp> {
        (self.in_vain >= Self::MOST_IN_VAIN).then(|| self.over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_for_one_scope_again_and_again() {
        let (hour, t) = (AskedScope::WITHIN_MICROS, Timestamp);
        let first = AskedScope::next(None, Some("a"), None, t(0));
        assert_eq!((first.in_vain, first.shut()), (0, None));
        let more = AskedScope::next(Some(&first), Some("a b"), Some("b"), t(1));
        assert_eq!(more.in_vain, 0, "that had not been asked for");
        let again = AskedScope::next(Some(&more), Some("a b"), Some("b"), t(2));
        let third = AskedScope::next(Some(&again), Some("a b"), Some(""), t(3));
        assert_eq!((again.in_vain, again.shut(), third.in_vain), (1, None, 2));
        assert_eq!(third.shut(), Some(t(3 + hour)));
        assert!(third.covers("b a") && third.covers("") && !third.covers("c"));
        assert_eq!(AskedScope::next(Some(&third), Some("a"), Some("a"), t(3 + hour)).in_vain, 0, "an hour later");
        assert_eq!(AskedScope::next(Some(&third), Some("a"), None, t(4)).in_vain, 0, "there was no account");
    }
}
