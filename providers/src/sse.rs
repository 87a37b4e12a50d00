//! Server-sent events as bytes: finds where events end and what their lines say. Lines may end in `\n` or `\r\n`.
//! Knows nothing of JSON or of any provider.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memrchr};
use std::borrow::Cow;

/// An event that is not complete yet may be held up to this size.
pub(crate) const MAX_EVENT: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Cuts chunks of any size at event boundaries: what is whole goes on, the rest is held for the next chunk.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// Starts at an event and holds no boundary.
    held: BytesMut,
}

impl Framer {
    /// The bytes up to the last boundary seen; nothing is copied while chunks end where events end.
    pub(crate) fn push(&mut self, mut chunk: Bytes) -> Result<Bytes, TooLarge> {
        if self.held.is_empty() {
            let whole = chunk.split_to(last_boundary(&chunk, 0));
            self.held.extend_from_slice(&chunk);
            return self.capped(whole);
        }
        let known = self.held.len();
        self.held.extend_from_slice(&chunk);
        let end = last_boundary(&self.held, known.saturating_sub(2));
        let whole = self.held.split_to(end).freeze();
        self.capped(whole)
    }

    /// Whether an event has begun that has not ended.
    pub(crate) fn is_inside(&self) -> bool {
        !self.held.trim_ascii().is_empty()
    }

    /// The body is over: an event without its blank line, which some servers leave out, unless it was cut short.
    pub(crate) fn last(&mut self, whole: impl Fn(&[u8]) -> bool) -> Option<Bytes> {
        let rest = self.held.split().freeze();
        let last = rest.strip_suffix(b"\n").map_or(&rest[..], |r| r.strip_suffix(b"\r").unwrap_or(r));
        data(last).filter(|data| whole(data))?;
        Some([last, b"\n\n"].concat().into())
    }

    /// Bytes of the event that is not complete yet.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    fn capped(&self, whole: Bytes) -> Result<Bytes, TooLarge> {
        if self.held.len() > MAX_EVENT { Err(TooLarge) } else { Ok(whole) }
    }
}

/// Whether the newline at `at` ends an event, where `bytes` starts at an event.
fn ends_event(bytes: &[u8], at: usize) -> bool {
    let before = if at > 0 && bytes[at - 1] == b'\r' { at - 1 } else { at };
    before == 0 || bytes[before - 1] == b'\n'
}

/// End of the last event in `bytes`, given that none ends before `from`.
fn last_boundary(bytes: &[u8], from: usize) -> usize {
    let mut end = bytes.len();
    while let Some(at) = memrchr(b'\n', &bytes[from..end]) {
        if ends_event(bytes, from + at) {
            return from + at + 1;
        }
        end = from + at;
    }
    0
}

/// Length of the first event in `bytes`, its blank line included.
pub(crate) fn event_len(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = memchr(b'\n', &bytes[from..]) {
        if ends_event(bytes, from + at) {
            return Some(from + at + 1);
        }
        from += at + 1;
    }
    None
}

/// The events of bytes that [`Framer`] let through.
pub(crate) fn events(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let (event, rest) = bytes.split_at(event_len(bytes).unwrap_or(bytes.len()));
        bytes = rest;
        Some(event)
    })
}

/// The `data` of one event: all its data lines, joined; `None` for comments and blank lines.
pub(crate) fn data(event: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut found: Option<Cow<'_, [u8]>> = None;
    for line in lines(event) {
        let Some(value) = field(line, b"data") else { continue };
        match &mut found {
            None => found = Some(Cow::Borrowed(value)),
            Some(all) => {
                let all = all.to_mut();
                all.push(b'\n');
                all.extend_from_slice(value);
            }
        }
    }
    found
}

fn lines(event: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(event);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let line = match memchr(b'\n', bytes) {
            Some(at) => {
                rest = Some(&bytes[at + 1..]);
                &bytes[..at]
            }
            None => {
                rest = None;
                bytes
            }
        };
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

fn field<'e>(line: &'e [u8], name: &[u8]) -> Option<&'e [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// One event that says `json` under `name`, or without a name.
pub(crate) fn event(name: Option<&str>, json: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() + 32);
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"data: ");
    // A line break in JSON can only be space between tokens; in an event it would end the line.
    out.extend(json.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }));
    out.extend_from_slice(b"\n\n");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_its_end_is_told() {
        let mut framer = Framer::default();
        for (chunk, held) in [("data: 1\n", 8), ("data", 12), (": 2\n\nd", 1), ("\n\n", 0)] {
            framer.push(Bytes::from_static(chunk.as_bytes())).expect("small");
            assert_eq!(framer.held(), held, "after {chunk:?}");
        }
    }

    fn cut(text: &str, size: usize) -> Vec<String> {
        let mut framer = Framer::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            let whole = framer.push(Bytes::copy_from_slice(chunk)).expect("small");
            out.extend(events(&whole).map(|e| String::from_utf8_lossy(e).into_owned()));
        }
        out.extend(framer.last(|_| true).map(|last| String::from_utf8_lossy(&last).into_owned()));
        out
    }

    #[test]
    fn the_cut_does_not_depend_on_the_chunks() {
        let text = "data: a\n\n\n: c\r\n\r\n\r\ndata: \u{e9}1\ndata: 2\r\n\ndata: b\n\r\n\n\ndata: open\n";
        let expected = [
            "data: a\n\n",
            "\n",
            ": c\r\n\r\n",
            "\r\n",
            "data: \u{e9}1\ndata: 2\r\n\n",
            "data: b\n\r\n",
            "\n",
            "\n",
            "data: open\n\n",
        ];
        for size in 1..=text.len() {
            assert_eq!(cut(text, size), expected, "chunks of {size}");
        }
    }

    #[test]
    fn whole_chunks_are_not_copied() {
        let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\n");
        let whole = Framer::default().push(chunk.clone()).expect("small");
        assert_eq!((whole.as_ptr(), whole.len()), (chunk.as_ptr(), chunk.len()));
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut framer = Framer::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        assert_eq!((0..8).map(|_| framer.push(piece.clone())).find(Result::is_err), None, "8 MiB may be held");
        assert_eq!(framer.push(Bytes::from_static(b"x")), Err(TooLarge));
    }

    #[test]
    fn data_lines_join() {
        assert_eq!(data(b"data: 1\n\n").as_deref(), Some(&b"1"[..]));
        assert_eq!(data(b"event: x\r\ndata:1\r\ndata:  2\r\n\r\n").as_deref(), Some(&b"1\n 2"[..]));
        assert_eq!(data(b"data\n\n").as_deref(), Some(&b""[..]));
        assert_eq!(data(b": data: 1\n\n"), None);
        assert_eq!(data(b"database: 1\n\n"), None);
        assert_eq!(event(Some("error"), b"{\n\"a\":1}"), &b"event: error\ndata: { \"a\":1}\n\n"[..]);
    }
}
