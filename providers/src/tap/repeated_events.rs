//! Events that differ in their text only: most of a stream. Such an event is compared with the last ones that were
//! read, and not read again; what is not alike to the last byte is. Knows no dialect.

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

/// Shapes of events that come again and again: one for each choice and kind of text.
const MOST_ALIKE: usize = 4;
/// Events that may be read for their shape alone, ahead of those that a shape has saved the reading of.
const AHEAD: u32 = 4;
/// How many events that a shape saves from being read pay for one that is read for its shape.
const WORTH: u32 = 8;

/// The shapes that the events of one stream have had.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// The last that fitted comes first.
    alike: Vec<Alike>,
    /// What of events may be spent on learning shapes, by whoever would not read them otherwise.
    credit: u32,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { alike: Vec::new(), credit: AHEAD * WORTH }
    }
}

impl Shapes {
    /// The event at the beginning of `bytes`, where it is like one that was read.
    pub(crate) fn fit<'e>(&mut self, bytes: &'e [u8]) -> Option<Fit<'e>> {
        for place in 0..self.alike.len() {
            if let Some(fit) = self.alike[place].fit(bytes) {
                if place > 0 {
                    self.alike[..=place].rotate_right(1);
                }
                self.credit = (self.credit + 1).min(AHEAD * WORTH);
                return Some(fit);
            }
        }
        None
    }

    /// Whether an event may be read for its shape alone; each time counts.
    pub(crate) fn may_learn(&mut self) -> bool {
        let left = self.credit.checked_sub(WORTH);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }

    pub(crate) fn learn(&mut self, event: &TappedEvent) {
        if let Some(alike) = Alike::of(event) {
            self.alike.truncate(MOST_ALIKE - 1);
            self.alike.insert(0, alike);
        }
    }
}

/// An event that was read, and the places in which others like it differ.
#[derive(Debug)]
struct Alike {
    bytes: Vec<u8>,
    /// The places that differ, in their order; values with their quotes.
    gaps: Vec<(Range<usize>, Gap)>,
    lane: TextLane,
}

/// An event that is like one that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fit<'e> {
    pub(crate) length: usize,
    pub(crate) lane: TextLane,
    pub(crate) text: Cow<'e, str>,
    /// The text as it stands in the event, without its quotes.
    pub(crate) inside: Range<usize>,
    pub(crate) number: Option<u64>,
}

impl TappedEvent {
    /// It carries one piece of one text, and ends nothing.
    pub(crate) fn is_piece_of_text(&self) -> bool {
        let [text] = self.texts.as_slice() else { return false };
        !text.is_echo
            && text.lane.kind != TextKind::Tool
            && self.closed.is_empty()
            && !(self.is_aside || self.is_last || self.is_call)
    }
}

impl Alike {
    /// `None`: it says more than a piece of one text.
    fn of(event: &TappedEvent) -> Option<Self> {
        let text = event.texts.first().filter(|_| event.is_piece_of_text())?;
        let mut gaps = vec![(text.span.clone(), Gap::Text)];
        gaps.extend(event.varies.iter().map(|(span, vary)| (span.clone(), Gap::Vary(*vary))));
        gaps.sort_by_key(|(span, _)| span.start);
        let is_apart = gaps.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start);
        let is_inside = gaps.last().is_some_and(|(span, _)| span.end <= event.bytes.len());
        (is_apart && is_inside).then(|| Self { bytes: event.bytes.to_vec(), gaps, lane: text.lane })
    }

    /// The event at the beginning of `bytes`, where it is like this one.
    fn fit<'e>(&self, bytes: &'e [u8]) -> Option<Fit<'e>> {
        let (mut at, mut from) = (0, 0);
        let (mut text, mut inside, mut number) = (None, 0..0, None);
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
                    inside = at + 1..at + length - 1;
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
        Some(Fit { length: at + fixed.len(), lane: self.lane, text: text?, inside, number })
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
pub(super) fn read(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inside = &quoted[1..quoted.len() - 1];
    if inside.iter().any(|b| *b < 0x20 || *b == b'\\') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}
