//! Ids of what the gateway makes where a dialect wants them and the provider gives none. All ids of one answer have the
//! same stem, so that an item tells which response it is of.

use std::fmt;

/// Hexadecimal digits: twelve of the call's milliseconds since 1970, and sixteen that tell calls of the same one apart.
const STEM: usize = 28;
/// Digits of a number, at least.
const NUMBER: usize = 4;
/// What the ids of a response and of its items begin with.
const PREFIXES: [&str; 4] = ["resp", "msg", "rs", "fc"];

pub(super) fn write(prefix: &str, (now_ms, dice): (i64, u64), number: u64) -> String {
    format!("{prefix}_{now_ms:012x}{dice:016x}{number:04x}")
}

/// An id that has the form of those made here; providers may make such too, so only who finds it kept knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MadeId<'a> {
    pub prefix: &'static str,
    /// The digits that a response's id shares with those of its items.
    pub stem: &'a str,
    /// The place in the output of the item that has this id.
    pub number: u64,
}

impl<'a> MadeId<'a> {
    pub fn read(id: &'a str) -> Option<Self> {
        let (prefix, digits) = id.split_once('_')?;
        let prefix = PREFIXES.into_iter().find(|known| *known == prefix)?;
        let is_hex = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !is_hex || !(STEM + NUMBER..=STEM + 2 * NUMBER).contains(&digits.len()) {
            return None;
        }
        let (stem, number) = digits.split_at(STEM);
        Some(Self { prefix, stem, number: u64::from_str_radix(number, 16).ok()? })
    }
}

impl fmt::Debug for MadeId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}{:04x}", self.prefix, self.stem, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_reads_back() {
        for (prefix, number) in [("resp", 0), ("msg", 1), ("rs", 0xffff), ("fc", 0x1_0000)] {
            let id = write(prefix, (1_763_886_000_000, u64::MAX - 6), number);
            let read = MadeId::read(&id).unwrap();
            assert_eq!((read.prefix, read.stem, read.number), (prefix, "019aafcc6780fffffffffffffff9", number), "{id}");
        }
    }

    #[test]
    fn other_ids_are_not_taken_for_made_ones() {
        let openai = "resp_68b0c5e2a1c48190a5a0d4f0b2e7a6c90f3c1f0a2b4d5e6f";
        let upper = "resp_019AAFF8A180FFFFFFFFFFFFFFF90000";
        for id in ["", "resp_", "resp_gw1_abc", "call_019aafcc6780fffffffffffffff90000", openai, upper, "resp_\u{e4}"] {
            assert_eq!(MadeId::read(id), None, "{id}");
        }
    }
}
