//! Blocks that only their maker can read: signatures of reasoning, redacted reasoning, state of a tool call. A client
//! holds them with a stamp of the credential that made them, and they go back to no other.

use std::borrow::Cow;

/// Begins every stamped text, with a version so that the form may change.
const MARK: &str = "gw1.";

/// What an opaque text is, for dialects that have one place for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpaqueKind {
    /// The signature of reasoning that is told in clear beside it; empty when the provider signs nothing.
    Signature,
    /// Reasoning that is not told.
    Redacted,
    /// What a tool call must come back with.
    Call,
}

impl OpaqueKind {
    const ALL: [Self; 3] = [Self::Signature, Self::Redacted, Self::Call];

    const fn letter(self) -> char {
        match self {
            Self::Signature => 's',
            Self::Redacted => 'r',
            Self::Call => 't',
        }
    }
}

/// An opaque text as it came from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened<'a> {
    Own(OpaqueKind, Cow<'a, str>),
    /// Made by another credential: it must not be sent.
    Foreign,
    /// It has no stamp: the client has it from elsewhere, and answers for it.
    Bare(Cow<'a, str>),
}

/// `origin` is [`crate::Call::origin`].
pub(crate) fn stamp(origin: u64, kind: OpaqueKind, text: &str) -> String {
    format!("{MARK}{origin:016x}.{}.{text}", kind.letter())
}

pub(crate) fn open(origin: u64, text: Cow<'_, str>) -> Opened<'_> {
    let Some(rest) = text.strip_prefix(MARK) else { return Opened::Bare(text) };
    let mut parts = rest.splitn(3, '.');
    let (made_by, letter, payload) = (parts.next(), parts.next(), parts.next());
    let kind = OpaqueKind::ALL.into_iter().find(|kind| letter.is_some_and(|l| l.chars().eq([kind.letter()])));
    let (Some(made_by), Some(kind), Some(payload)) = (made_by, kind, payload) else { return Opened::Foreign };
    if u64::from_str_radix(made_by, 16) != Ok(origin) {
        return Opened::Foreign;
    }
    let start = text.len() - payload.len();
    Opened::Own(kind, cut(text, start))
}

fn cut(text: Cow<'_, str>, start: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[start..]),
        Cow::Owned(text) => Cow::Owned(text[start..].to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_maker_gets_it_back() {
        for kind in OpaqueKind::ALL {
            let stamped = stamp(0xab, kind, "a.b=");
            assert_eq!(open(0xab, stamped.as_str().into()), Opened::Own(kind, "a.b=".into()));
            assert_eq!(open(0xac, stamped.into()), Opened::Foreign);
        }
        assert_eq!(open(1, "EqoB".into()), Opened::Bare("EqoB".into()));
        assert_eq!(open(1, "gw1.nonsense".into()), Opened::Foreign);
        assert_eq!(open(1, stamp(1, OpaqueKind::Signature, "").into()), Opened::Own(OpaqueKind::Signature, "".into()));
    }
}
