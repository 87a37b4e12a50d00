//! JSON as a flat list of values, each with its span, so that a body is read once and walked without a tree. Keys that
//! stand twice are both there: readers differ on which one counts, so each must be looked at.

use std::borrow::Cow;
use std::ops::Range;

/// Values that a body may have before it is refused; each takes 16 bytes here.
const MOST_VALUES: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Object,
    Array,
    Text,
    /// Numbers, true, false and null.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct TapeToken {
    kind: JsonKind,
    start: u32,
    end: u32,
    /// Index of the value behind this one and all within it.
    after: u32,
}

#[derive(Debug)]
pub(crate) struct Tape<'t> {
    text: &'t str,
    tokens: Vec<TapeToken>,
}

/// A value on the tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapeNode<'a> {
    tape: &'a Tape<'a>,
    at: usize,
}

impl<'t> Tape<'t> {
    /// `Err` says why the text cannot be looked through.
    pub(crate) fn parse(text: &'t str) -> Result<Self, &'static str> {
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return Err("is no JSON");
        }
        if u32::try_from(text.len()).is_err() {
            return Err("is too large to be looked through");
        }
        let mut tape = Self { text, tokens: Vec::with_capacity(text.len() / 24 + 8) };
        tape.scan()?;
        Ok(tape)
    }

    /// The text is known to be JSON, so it is enough to find where values begin and end.
    fn scan(&mut self) -> Result<(), &'static str> {
        let bytes = self.text.as_bytes();
        let (mut at, mut open) = (0, Vec::<usize>::new());
        while at < bytes.len() {
            let (kind, end) = match bytes[at] {
                b'{' => (JsonKind::Object, at),
                b'[' => (JsonKind::Array, at),
                b'"' => (JsonKind::Text, text_end(bytes, at + 1)),
                b'}' | b']' => {
                    let count = self.tokens.len() as u32;
                    if let Some(token) = open.pop().and_then(|o| self.tokens.get_mut(o)) {
                        (token.end, token.after) = (at as u32 + 1, count);
                    }
                    at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => {
                    at += 1;
                    continue;
                }
                _ => {
                    let rest = &bytes[at..];
                    let length = rest.iter().position(|b| b" \t\n\r,]}".contains(b)).unwrap_or(rest.len());
                    (JsonKind::Other, at + length)
                }
            };
            if self.tokens.len() >= MOST_VALUES {
                return Err("has too many values to be looked through");
            }
            let index = self.tokens.len();
            self.tokens.push(TapeToken { kind, start: at as u32, end: end as u32, after: index as u32 + 1 });
            if end == at {
                open.push(index);
                at += 1;
            } else {
                at = end;
            }
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> Option<TapeNode<'_>> {
        (!self.tokens.is_empty()).then_some(TapeNode { tape: self, at: 0 })
    }
}

/// The position behind the closing quote of the text whose first character is at `at`.
fn text_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at = (at + found + 2).min(bytes.len());
    }
    bytes.len()
}

impl<'a> TapeNode<'a> {
    fn token(&self) -> TapeToken {
        self.tape.tokens[self.at]
    }

    pub(crate) fn kind(&self) -> JsonKind {
        self.token().kind
    }

    pub(crate) fn span(&self) -> Range<usize> {
        let token = self.token();
        token.start as usize..token.end as usize
    }

    /// The value's JSON as it is written.
    pub(crate) fn raw(&self) -> &'a str {
        &self.tape.text[self.span()]
    }

    pub(crate) fn is_null(&self) -> bool {
        self.kind() == JsonKind::Other && self.raw() == "null"
    }

    /// The values of an array; of an object its keys and values in turn.
    fn children(self) -> impl Iterator<Item = TapeNode<'a>> {
        let token = self.token();
        let (mut at, end) = (self.at + 1, token.after as usize);
        let is_container = matches!(token.kind, JsonKind::Object | JsonKind::Array);
        std::iter::from_fn(move || {
            if !is_container || at >= end {
                return None;
            }
            let child = TapeNode { tape: self.tape, at };
            at = child.token().after as usize;
            Some(child)
        })
    }

    /// The values of an array; anything else has none.
    pub(crate) fn elements(self) -> impl Iterator<Item = TapeNode<'a>> {
        let is_array = self.kind() == JsonKind::Array;
        self.children().take_while(move |_| is_array)
    }

    /// All members of an object, the same key perhaps twice.
    pub(crate) fn members(self) -> impl Iterator<Item = (Cow<'a, str>, TapeNode<'a>)> {
        let is_object = self.kind() == JsonKind::Object;
        let mut children = self.children().take_while(move |_| is_object);
        std::iter::from_fn(move || {
            let (key, value) = (children.next()?, children.next()?);
            Some((key.decoded(), value))
        })
    }

    /// Each value that stands under a key.
    pub(crate) fn all<'k>(self, key: &'k str) -> impl Iterator<Item = TapeNode<'a>> + use<'a, 'k> {
        self.members().filter(move |(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The last value under a key, which most readers take.
    pub(crate) fn get(self, key: &str) -> Option<TapeNode<'a>> {
        self.all(key).last()
    }

    /// The text of a string.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        (self.kind() == JsonKind::Text).then(|| self.decoded())
    }

    fn decoded(self) -> Cow<'a, str> {
        let raw = self.raw();
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if !inner.contains('\\') {
            return Cow::Borrowed(inner);
        }
        Cow::Owned(serde_json::from_str::<String>(raw).unwrap_or_else(|_| decode_lossily(inner)))
    }
}

/// A string with half of a surrogate pair in it: that half becomes the replacement character, and the rest is read.
fn decode_lossily(inner: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut buffer));
            continue;
        }
        let unit = match chars.next() {
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                u16::from_str_radix(&digits, 16).unwrap_or(0xfffd)
            }
            Some('n') => 10,
            Some('t') => 9,
            Some('r') => 13,
            Some('b') => 8,
            Some('f') => 12,
            Some(other) => other as u16,
            None => break,
        };
        units.push(unit);
    }
    String::from_utf16_lossy(&units)
}
