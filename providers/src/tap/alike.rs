//! Events that differ in their text only: most of a stream. Such an event is compared with the last one that was read, and
//! not read again; what is not alike to the last byte is. Knows no dialect.

use super::{TappedEvent, TextKind, TextLane};
use memchr::memchr2;
use std::borrow::Cow;
use std::ops::Range;

/// A value that differs from event to event and says nothing of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vary {
    /// A text of ASCII without escapes, of any length: padding.
    Padding,
    /// Counts the events.
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Text,
    Vary(Vary),
}

/// An event that was read, and the places in which others like it differ.
#[derive(Debug)]
pub(super) struct Alike {
    bytes: Vec<u8>,
    /// In their order; values with their quotes.
    gaps: Vec<(Range<usize>, Gap)>,
    lane: TextLane,
}

/// An event that is like one that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fit<'e> {
    pub(super) length: usize,
    pub(super) lane: TextLane,
    pub(super) text: Cow<'e, str>,
    pub(super) number: Option<u64>,
}

impl Alike {
    /// `None`: it says more than a piece of one text.
    pub(super) fn of(event: &TappedEvent) -> Option<Self> {
        let [text] = event.texts.as_slice() else { return None };
        let is_plain = !text.is_echo
            && text.lane.kind != TextKind::Tool
            && event.closed.is_empty()
            && !(event.is_aside || event.is_last || event.is_call);
        if !is_plain {
            return None;
        }
        let mut gaps = vec![(text.span.clone(), Gap::Text)];
        gaps.extend(event.varies.iter().map(|(span, vary)| (span.clone(), Gap::Vary(*vary))));
        gaps.sort_by_key(|(span, _)| span.start);
        let is_apart = gaps.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start);
        let is_inside = gaps.last().is_some_and(|(span, _)| span.end <= event.bytes.len());
        (is_apart && is_inside).then(|| Self { bytes: event.bytes.to_vec(), gaps, lane: text.lane })
    }

    /// The event at the beginning of `bytes`, where it is like this one.
    pub(super) fn fit<'e>(&self, bytes: &'e [u8]) -> Option<Fit<'e>> {
        let (mut at, mut from) = (0, 0);
        let (mut text, mut number) = (None, None);
        for (span, gap) in &self.gaps {
            let fixed = &self.bytes[from..span.start];
            if !bytes.get(at..)?.starts_with(fixed) {
                return None;
            }
            at += fixed.len();
            let value = &bytes[at..];
            let length = match gap {
                Gap::Text => {
                    let length = string(value)?;
                    text = Some(read(&value[..length])?);
                    length
                }
                Gap::Vary(Vary::Padding) => {
                    let length = string(value)?;
                    let is_plain = value[..length].iter().all(|b| b.is_ascii() && *b != b'\\');
                    is_plain.then_some(length)?
                }
                Gap::Vary(Vary::Number) => {
                    let length = value.iter().take(20).position(|b| !b.is_ascii_digit())?;
                    let digits = std::str::from_utf8(&value[..length]).ok()?;
                    // A number that begins with 0 is none in JSON, but for 0 itself.
                    number = digits.parse().ok().filter(|_| length == 1 || !digits.starts_with('0'));
                    number?;
                    length
                }
            };
            (at, from) = (at + length, span.end);
        }
        let fixed = &self.bytes[from..];
        bytes.get(at..)?.starts_with(fixed).then_some(())?;
        Some(Fit { length: at + fixed.len(), lane: self.lane, text: text?, number })
    }
}

/// Length of the JSON string that `bytes` begin with, quotes included.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    if *bytes.first()? != b'"' {
        return None;
    }
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// What a JSON string says; `None` where it is none.
fn read(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inside = &quoted[1..quoted.len() - 1];
    if inside.iter().any(|b| *b < 0x20 || *b == b'\\') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}
