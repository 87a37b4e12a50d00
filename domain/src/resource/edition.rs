//! The numbered states of a prompt or a partial: one is in force under its bare name, the newest is `latest`, and
//! labels point at some. A document keeps those that requests may name; the history has all of them.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Editions that stay in the document beside the default, the newest and the labelled ones.
const RECENT: usize = 20;
/// Bytes of all that a document keeps: older ones without a label leave before.
pub const MOST_KEPT_BYTES: usize = 256 * 1024;

/// One state, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edition<T> {
    pub id: Uuid,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Uuid>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub content: T,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Editions<T> {
    pub default: u32,
    pub latest: u32,
    pub kept: BTreeMap<u32, Edition<T>>,
    /// Label to number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Uuid, u32>,
}

impl<T: Serialize> Editions<T> {
    pub fn first(edition: Edition<T>) -> Self {
        Self { default: 1, latest: 1, kept: BTreeMap::from([(1, edition)]), labels: BTreeMap::new() }
    }

    /// The newest from now on. Says whether there is room for it beside those that must stay.
    #[must_use]
    pub fn add(&mut self, edition: Edition<T>) -> bool {
        self.latest += 1;
        self.kept.insert(self.latest, edition);
        self.shed()
    }

    /// Puts `number` in force under the bare name; `edition` is that number's, from the history. Says whether there is
    /// room for it beside those that must stay.
    #[must_use]
    pub fn publish(&mut self, number: u32, edition: Edition<T>) -> bool {
        self.default = number;
        self.kept.insert(number, edition);
        self.shed()
    }

    /// Lets a label name `number` from now on. The rest is as in [`Self::publish`].
    #[must_use]
    pub fn label(&mut self, label: Uuid, number: u32, edition: Edition<T>) -> bool {
        self.labels.insert(label, number);
        self.kept.insert(number, edition);
        self.shed()
    }

    fn must_stay(&self, number: u32) -> bool {
        number == self.default || number == self.latest || self.labels.values().any(|n| *n == number)
    }

    fn shed(&mut self) -> bool {
        let size = |e: &Edition<T>| serde_json::to_vec(e).map_or(usize::MAX, |bytes| bytes.len());
        let mut sizes: BTreeMap<u32, usize> = self.kept.iter().map(|(n, e)| (*n, size(e))).collect();
        loop {
            let spare: Vec<u32> = sizes.keys().copied().filter(|n| !self.must_stay(*n)).collect();
            let bytes = sizes.values().fold(0_usize, |sum, size| sum.saturating_add(*size));
            let Some(oldest) = spare.first().filter(|_| spare.len() > RECENT || bytes > MOST_KEPT_BYTES) else {
                return bytes <= MOST_KEPT_BYTES;
            };
            sizes.remove(oldest);
            self.kept.remove(oldest);
        }
    }
}

impl<T> Editions<T> {
    /// The one in force under the bare name.
    pub fn current(&self) -> Option<&Edition<T>> {
        self.kept.get(&self.default)
    }

    pub fn newest(&self) -> Option<&Edition<T>> {
        self.kept.get(&self.latest)
    }

    /// The version that the text behind `@` in a name means; without one, the default. `label` finds a label by name.
    pub fn named(&self, name: Option<&str>, label: impl Fn(&str) -> Option<Uuid>) -> Option<(u32, &Edition<T>)> {
        let number = match name {
            None | Some("default") => self.default,
            Some("latest") => self.latest,
            Some(name) => match name.parse() {
                Ok(number) => number,
                Err(_) => *self.labels.get(&label(name)?)?,
            },
        };
        self.kept.get(&number).map(|edition| (number, edition))
    }

    pub fn label_of(&self, number: u32) -> Option<Uuid> {
        self.labels.iter().find(|(_, n)| **n == number).map(|(label, _)| *label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(text: &str) -> Edition<String> {
        Edition {
            id: Uuid::from_u128(1),
            created_at: Timestamp(0),
            author: None,
            description: String::new(),
            content: text.to_owned(),
        }
    }

    #[test]
    fn what_is_named_stays_and_the_oldest_of_the_rest_leave() {
        let mut all = Editions::first(edition("1"));
        let label = Uuid::from_u128(7);
        assert!(all.add(edition("2")));
        assert!(all.label(label, 2, edition("2")));
        for n in 3..=60 {
            assert!(all.add(edition(&n.to_string())));
        }
        let by = |name: &str| all.named(Some(name), |l| (l == "prod").then_some(label)).map(|(n, _)| n);
        assert_eq!((by("default"), by("latest"), by("prod"), by("2")), (Some(1), Some(60), Some(2), Some(2)));
        assert_eq!((by("3"), by("39"), by("40"), by("61"), by("other")), (None, None, Some(40), None, None));
        assert_eq!(all.named(None, |_| None).map(|(n, _)| n), Some(1));
        assert_eq!(all.label_of(2), Some(label));
    }

    #[test]
    fn large_ones_leave_sooner_and_what_must_stay_has_its_bound() {
        let mut all = Editions::first(edition("1"));
        let large = "x".repeat(MOST_KEPT_BYTES / 3);
        for _ in 0..5 {
            assert!(all.add(edition(&large)));
        }
        assert_eq!(all.kept.keys().copied().collect::<Vec<_>>(), [1, 5, 6]);
        assert!(all.publish(5, edition(&large)));
        assert!(all.label(Uuid::from_u128(1), 4, edition("small")));
        assert!(!all.label(Uuid::from_u128(2), 3, edition(&large)), "no room for what all must stay");
    }
}
