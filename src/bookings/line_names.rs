//! What the lines of a batch's results are called, whatever their place: a provider may tell them in another order each
//! time.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Lines whose names are known again. Those behind them are told by their place.
const MOST_NAMED: usize = 1 << 20;

/// One line of one batch: what stands for its name, or its place where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LineKey(pub(super) u64);

impl LineKey {
    /// The key of a line that no name tells from others: its place among the lines, counted from 1.
    pub(crate) const fn of_place(number: u64) -> Self {
        Self(number)
    }

    /// The so-manieth of this name, from 0.
    fn of_name(name: &str, before: u32) -> Self {
        let digest = Sha256::new().chain_update(name).chain_update([0]).chain_update(before.to_le_bytes()).finalize();
        Self(u64::from_le_bytes(std::array::from_fn(|place| digest[place])))
    }
}

/// The names of one reading, from its first line on.
#[derive(Debug, Default)]
pub(crate) struct LineNames(HashMap<LineKey, u32, ahash::RandomState>);

impl LineNames {
    /// That of the next line. Lines of one name are told apart by which of them comes first.
    pub(crate) fn key(&mut self, name: &str, number: u64) -> LineKey {
        let first = LineKey::of_name(name, 0);
        if name.is_empty() || (self.0.len() >= MOST_NAMED && !self.0.contains_key(&first)) {
            return LineKey::of_place(number);
        }
        let seen = self.0.entry(first).or_default();
        let before = *seen;
        *seen = before.saturating_add(1);
        if before == 0 { first } else { LineKey::of_name(name, before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn keys(names: &[&str]) -> Vec<LineKey> {
        let mut known = LineNames::default();
        names.iter().zip(1..).map(|(name, number)| known.key(name, number)).collect()
    }

    #[test]
    fn a_line_has_its_key_wherever_it_stands() {
        let [one, other] = [keys(&["a", "b", "a", "", "c"]), keys(&["c", "a", "b", "", "a"])];
        let sorted = |keys: &[LineKey]| keys.iter().map(|key| key.0).collect::<BTreeSet<_>>();
        assert_eq!((sorted(&one), sorted(&one).len()), (sorted(&other), 5));
        assert_eq!([one[0], one[1], one[4]], [other[1], other[2], other[0]]);
        assert_eq!(one[3], LineKey::of_place(4), "one without a name is told by its place");
        assert_ne!(one[0], one[2], "of two with one name each is one");
    }
}
