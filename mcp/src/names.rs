//! Names of what several servers offer as one: each behind the prefix of its server, so that none takes another's
//! place.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;

/// What stands between prefix and name.
const JOIN: &str = "__";
/// Characters of a name that clients take.
const LONGEST: usize = 128;

/// Whether a member may be told by this prefix: it must end where [`JOIN`] begins, and nowhere earlier.
pub fn check_prefix(prefix: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(plain) {
        return Err("must be 1 to 64 letters, digits, '-', '_' and '.'");
    }
    if prefix.contains(JOIN) || prefix.ends_with('_') {
        return Err("must not hold \"__\" nor end in '_'");
    }
    Ok(())
}

/// The name that a member's tool or prompt goes by. One that would be too long is cut, and told apart by a digest.
pub fn merged(prefix: &str, name: &str) -> String {
    let whole = format!("{prefix}{JOIN}{name}");
    if whole.chars().count() <= LONGEST {
        return whole;
    }
    let mut digest = String::new();
    for byte in &Sha256::digest(whole.as_bytes())[..4] {
        // Writing to a text does not fail.
        let _ = write!(digest, "{byte:02x}");
    }
    let kept: String = whole.chars().take(LONGEST - 9).collect();
    format!("{kept}_{digest}")
}

/// A resource's URI as its member's.
pub fn merged_uri(prefix: &str, uri: &str) -> String {
    match uri.strip_prefix("ui://") {
        Some(rest) => format!("ui://{prefix}+{rest}"),
        None => format!("{prefix}+{uri}"),
    }
}

/// The member of a merged URI, and what it calls it.
pub fn split_uri(uri: &str) -> Option<(&str, String)> {
    if let Some(rest) = uri.strip_prefix("ui://") {
        let (prefix, rest) = rest.split_once('+')?;
        return Some((prefix, format!("ui://{rest}")));
    }
    let (prefix, rest) = uri.split_once('+')?;
    (!prefix.contains("://")).then(|| (prefix, rest.to_owned()))
}

/// Whether a name is so long that it may have been cut.
pub fn may_be_cut(name: &str) -> bool {
    name.chars().count() >= LONGEST
}

/// The member of a merged name, and what it calls it, where the name was not cut.
pub fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once(JOIN)
}

/// One name of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberName<'a> {
    pub prefix: &'a str,
    pub name: &'a str,
}

/// Merged names and whose they are. Names that came out equal are nobody's: either could be meant.
#[derive(Clone, Debug, Default)]
pub struct MergedNames<'a> {
    found: HashMap<String, Option<MemberName<'a>>>,
}

impl<'a> MergedNames<'a> {
    pub fn of(names: impl IntoIterator<Item = MemberName<'a>>) -> Self {
        let mut found: HashMap<String, Option<MemberName<'a>>> = HashMap::new();
        for name in names {
            let merged = merged(name.prefix, name.name);
            found.entry(merged).and_modify(|whose| *whose = None).or_insert(Some(name));
        }
        Self { found }
    }

    pub fn whose(&self, merged: &str) -> Option<MemberName<'a>> {
        self.found.get(merged).copied().flatten()
    }

    /// Names that several members came out with.
    pub fn clashes(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter(|(_, whose)| whose.is_none()).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tools_of_two_members_are_two_names() {
        let a = MemberName { prefix: "files", name: "read" };
        let b = MemberName { prefix: "mail", name: "read" };
        let table = MergedNames::of([a, b]);
        assert_eq!((table.whose("files__read"), table.whose("mail__read")), (Some(a), Some(b)));
        assert_eq!(table.clashes().count(), 0);
        assert_eq!(split("files__read__all"), Some(("files", "read__all")));
    }

    #[test]
    fn names_that_come_out_equal_hide_each_other() {
        let table = MergedNames::of([
            MemberName { prefix: "a", name: "x" },
            MemberName { prefix: "a", name: "x" },
            MemberName { prefix: "b", name: "y" },
        ]);
        assert_eq!(table.whose("a__x"), None);
        assert_eq!(table.clashes().collect::<Vec<_>>(), ["a__x"]);
        assert!(table.whose("b__y").is_some());
    }

    #[test]
    fn prefixes_end_where_they_seem_to() {
        for bad in ["", "a_", "a__b", "__", "ä", "a b", &"x".repeat(65)] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
        for good in ["a", "a_b", "a-b.c"] {
            assert!(check_prefix(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn long_names_stay_apart() {
        let (one, two) = (merged("p", &format!("{}1", "x".repeat(200))), merged("p", &format!("{}2", "x".repeat(200))));
        assert_ne!(one, two);
        assert_eq!((one.chars().count(), two.chars().count()), (128, 128));
        assert_eq!(merged("p", "short"), "p__short");
    }

    #[test]
    fn uris_go_there_and_back() {
        for uri in ["file:///a+b", "ui://app/x", "db://{table}/rows", "plain"] {
            let merged = merged_uri("files", uri);
            assert_eq!(split_uri(&merged), Some(("files", uri.to_owned())), "{uri}");
        }
        assert_eq!(split_uri("https://host/a+b"), None, "not a merged one");
    }
}
