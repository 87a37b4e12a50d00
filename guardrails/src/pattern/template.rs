//! The text that takes the place of a match: `$1`, `$<name>`, `$&` and `$$` stand for what ECMAScript says; a `$`
//! before anything else is a dollar sign.

use super::{Groups, Pattern};

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Text(Box<str>),
    /// 0 is the whole match.
    Group(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplacementTemplate(Vec<TemplatePiece>);

impl ReplacementTemplate {
    pub(crate) fn parse(text: &str, pattern: &Pattern) -> Self {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('$') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (group, taken) = reference(rest, pattern);
            match group {
                Some(group) => {
                    if !plain.is_empty() {
                        pieces.push(TemplatePiece::Text(std::mem::take(&mut plain).into()));
                    }
                    pieces.push(TemplatePiece::Group(group));
                }
                None => plain.push('$'),
            }
            rest = &rest[taken..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(TemplatePiece::Text(plain.into()));
        }
        Self(pieces)
    }

    /// Whether the groups of a match are needed, which cost more than its ends.
    pub(crate) fn has_groups(&self) -> bool {
        self.0.iter().any(|p| matches!(p, TemplatePiece::Group(n) if *n > 0))
    }

    pub(crate) fn expand(&self, text: &str, groups: &Groups) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(plain) => out.push_str(plain),
                TemplatePiece::Group(n) => {
                    let range = groups.0.get(*n).cloned().flatten();
                    out.push_str(range.and_then(|r| text.get(r)).unwrap_or_default());
                }
            }
        }
        out
    }
}

/// What the text behind a `$` refers to, and how much of it belongs to the reference. Of `$$` the second is taken and
/// the first stays.
fn reference(rest: &str, pattern: &Pattern) -> (Option<usize>, usize) {
    let names = pattern.names();
    let digit = |at: usize| rest.as_bytes().get(at).filter(|b| b.is_ascii_digit()).map(|b| usize::from(b - b'0'));
    match rest.as_bytes().first() {
        Some(b'$') => (None, 1),
        Some(b'&') => (Some(0), 1),
        Some(b'<') if names.iter().any(Option::is_some) => {
            let Some(end) = rest.find('>') else { return (None, 0) };
            let found = names.iter().position(|n| n.as_deref() == Some(&rest[1..end]));
            // A name that no group has stands for nothing: for a group that never takes part.
            (Some(found.map_or(usize::MAX, |i| i + 1)), end + 1)
        }
        Some(b'0'..=b'9') => {
            let one = digit(0).unwrap_or(0);
            let two = digit(1).map(|d| one * 10 + d);
            match two {
                Some(two) if (1..=names.len()).contains(&two) => (Some(two), 2),
                _ if (1..=names.len()).contains(&one) => (Some(one), 1),
                _ => (None, 0),
            }
        }
        _ => (None, 0),
    }
}
