//! Heads of HTTP/1 requests, waited for until they are whole: each silence has its clock, the head as a whole has one
//! from its first byte, and its bytes are bounded. What is in a head Pingora's parser says; here is only looked where
//! it ends.

use super::client_stream::Link;
use super::connection_limits::Desk;
use bytes::BytesMut;
use memchr::memmem::Finder;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// More is no head. An inline config of the longest kind fits in.
pub(super) const MOST: usize = 64 << 10;
/// Whoever sends nothing but line ends asks for nothing.
const MOST_BLANK: usize = 8;
/// Longer names of methods do not exist.
const LONGEST_METHOD: usize = 32;
/// What a client that has a preface to say says first (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The time limits of a connection; each clock begins with the last byte before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// A head, from its first byte to its last; a TLS or HTTP/2 handshake.
    pub(crate) head: Duration,
    /// Silence before the first byte.
    pub(crate) first: Duration,
    /// Silence between requests.
    pub(crate) between: Duration,
}

/// What came of waiting for a request.
pub(super) enum Came {
    /// A whole head, and as much of the body as came with it; or what never will be a head, for Pingora to refuse.
    Head(BytesMut),
    /// HTTP/2 is spoken here. Nothing was taken.
    Preface,
    /// Nobody is there, or nobody asks anything.
    Nothing,
    /// The beginning of a head, and no end in time.
    Late,
    TooLarge,
}

impl Link {
    /// Waits for the next request. `silence`: until its first byte.
    pub(super) async fn request(&mut self, desk: &Desk, silence: Duration, clocks: &Clocks) -> Came {
        for _ in 0..MOST_BLANK {
            self.skip_blank_lines();
            if !self.ahead.is_empty() {
                break;
            }
            if !self.arrives(desk, silence).await {
                return Came::Nothing;
            }
        }
        if self.ahead.is_empty() {
            return Came::Nothing;
        }
        match end(&self.ahead, 0) {
            Some(end) => self.cut(end),
            // Boxed, as most heads come in one piece.
            None => Box::pin(self.rest(clocks.head)).await,
        }
    }

    /// False for a connection that ended, was silent for too long, or has to make room.
    async fn arrives(&mut self, desk: &Desk, silence: Duration) -> bool {
        let leave = pin!(desk.leave.notified());
        if desk.is_closing() {
            return false;
        }
        let (_idle, mut since) = (desk.idle(), None);
        let arrival = poll_fn(|cx| {
            let arrival = self.poll_ahead(cx).map(|read| matches!(read, Ok(count) if count > 0));
            if arrival.is_ready() {
                return arrival;
            }
            self.silence.poll(cx, *since.get_or_insert_with(Instant::now), silence).map(|()| false)
        });
        tokio::select! { biased;
            arrived = arrival => arrived,
            () = leave => false,
        }
    }

    /// The line ends before a request that some clients send (RFC 9112, 2.2).
    fn skip_blank_lines(&mut self) {
        let blank = self.ahead.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        if blank > 0 {
            let rest = self.ahead.split_off(blank);
            self.ahead = rest;
        }
    }

    async fn rest(&mut self, longest: Duration) -> Came {
        let mut late = pin!(pingora_timeout::sleep(longest));
        let mut looked = 0;
        loop {
            if let Some(end) = end(&self.ahead, looked) {
                return self.cut(end);
            }
            if !is_method(&self.ahead) {
                return Came::Head(std::mem::take(&mut self.ahead));
            }
            if self.ahead.len() > MOST {
                return Came::TooLarge;
            }
            looked = self.ahead.len().saturating_sub(2);
            tokio::select! { biased;
                read = poll_fn(|cx| self.poll_ahead(cx)) => match read {
                    Ok(count) if count > 0 => {}
                    _ => return Came::Nothing,
                },
                () = &mut late => return Came::Late,
            }
        }
    }

    /// A head that ends there. What is beyond its body stays behind: where that ends Pingora says, by the same head,
    /// and reads what it lacks from this connection, so a wrong guess here costs a copy or a pipelined request, not
    /// more.
    fn cut(&mut self, end: usize) -> Came {
        if end > MOST {
            return Came::TooLarge;
        }
        if self.is_plain() && self.ahead.starts_with(PREFACE) {
            return Came::Preface;
        }
        let body = if self.ahead.len() == end { 0 } else { announced(&self.ahead[..end]) };
        let taken = end.saturating_add(body);
        Came::Head(match taken < self.ahead.len() {
            true => self.ahead.split_to(taken),
            false => std::mem::take(&mut self.ahead),
        })
    }
}

static BLANK_LINE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));
static LENGTH: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"ength:"));

/// The place behind the blank line that ends a head, where `bytes` hold one. Nothing before `from` is looked at again.
/// Pingora's parser takes a bare line feed for a line's end, and so does this.
fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(2);
    if let Some(at) = BLANK_LINE.find(&bytes[from..]) {
        return Some(from + at + 4);
    }
    memchr::memchr_iter(b'\n', &bytes[from..]).find_map(|at| match &bytes[from + at + 1..] {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
    })
}

/// Whether a method may begin these bytes.
fn is_method(bytes: &[u8]) -> bool {
    let name = bytes.iter().take(LONGEST_METHOD).take_while(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_'));
    let length = name.count();
    match bytes.get(length) {
        Some(b' ') => length > 0,
        Some(_) => false,
        None => true,
    }
}

/// How many bytes of body a head seems to announce. Of a body without a length nothing goes with its head: its chunks
/// are looked at as they are read.
fn announced(head: &[u8]) -> usize {
    let Some(at) = LENGTH.find(head) else { return 0 };
    let line = head[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if !head[line..at].eq_ignore_ascii_case(b"content-l") {
        return 0;
    }
    let digits = head[at + 6..].iter().skip_while(|b| **b == b' ').take_while(|b| b.is_ascii_digit());
    digits.fold(0usize, |sum, b| sum.saturating_mul(10).saturating_add(usize::from(b - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_blank_line_however_its_lines_end() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.0\r\n\r\n"[..], Some(18)),
            (b"GET / HTTP/1.0\r\n\r\nbody\r\n\r\n", Some(18)),
            (b"GET / HTTP/1.0\n\n", Some(16)),
            (b"GET / HTTP/1.0\nhost: a\n\r\nx", Some(25)),
            (b"GET / HTTP/1.0\r\nhost: a\r\n", None),
            (b"GET / HTTP/1.0\r\nhost: a\r\n\r", None),
            (b"", None),
        ] {
            assert_eq!(end(bytes, 0), expected, "{}", bytes.escape_ascii());
            // Byte by byte it is found at the same place.
            let grown = (1..=bytes.len()).find_map(|length| end(&bytes[..length], (length - 1).saturating_sub(2)));
            assert_eq!(grown, expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn what_cannot_be_a_method_is_not_waited_for() {
        for bytes in [&b"G"[..], b"GET ", b"get /x", b"M-SEARCH * ", b"PRI"] {
            assert!(is_method(bytes), "{}", bytes.escape_ascii());
        }
        for bytes in [&b"\x16\x03\x01"[..], b" GET", b"GET\t/", b"{\"a\"", b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHI"] {
            assert!(!is_method(bytes), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn the_announced_length_is_read_or_nothing() {
        for (head, expected) in [
            ("content-length: 12\r\n", 12),
            ("Content-Length:7\r\n", 7),
            ("x: 1\r\n", 0),
            ("x-length: 9\r\n", 0),
            ("a: b\r\ncontent-length: 9\r\n", 9),
            ("content-length: x\r\n", 0),
            ("content-length: 99999999999999999999999\r\n", usize::MAX),
        ] {
            assert_eq!(announced(head.as_bytes()), expected, "{head}");
        }
    }
}
