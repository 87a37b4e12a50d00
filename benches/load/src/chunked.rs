//! Decoder of the chunked transfer coding: bytes in, pieces of the body out, however the reads
//! were cut. It keeps no body bytes and knows nothing of sockets.

use std::io::{Error, ErrorKind};

#[derive(Debug, Clone, Copy)]
enum State {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    Data { left: u64 },
    DataEnd,
    Trailer { line: u32 },
    Done,
}

#[derive(Debug)]
pub(crate) struct Decoder(State);

impl Decoder {
    pub(crate) fn new() -> Self {
        Self(State::Size { value: 0, digits: 0 })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// Feeds `input` and hands each piece of the body to `piece`. Returns how many bytes belonged
    /// to this body, which is less than all only once it is done.
    pub(crate) fn feed(&mut self, input: &[u8], mut piece: impl FnMut(&[u8])) -> Result<usize, Error> {
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            if let State::Data { left } = self.0 {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                piece(&input[at..at + take]);
                at += take;
                let left = left - take as u64;
                self.0 = if left == 0 { State::DataEnd } else { State::Data { left } };
            } else {
                self.0 = step(self.0, input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }
}

fn step(state: State, byte: u8) -> Result<State, Error> {
    Ok(match (state, byte) {
        (State::Size { digits: 0, .. }, b';' | b'\n' | b'\r') => return Err(malformed()),
        (State::Size { value, .. } | State::Extension { value }, b'\n') => match value {
            0 => State::Trailer { line: 0 },
            left => State::Data { left },
        },
        (State::Size { value, .. }, b';' | b'\r') => State::Extension { value },
        (State::Size { value, digits }, _) => {
            let digit = char::from(byte).to_digit(16).filter(|_| digits < 15).ok_or_else(malformed)?;
            State::Size { value: value * 16 + u64::from(digit), digits: digits + 1 }
        }
        (State::DataEnd, b'\r') => State::DataEnd,
        (State::DataEnd, b'\n') => State::Size { value: 0, digits: 0 },
        (State::DataEnd, _) => return Err(malformed()),
        (State::Trailer { line: 0 }, b'\n') => State::Done,
        (State::Trailer { .. }, b'\n') => State::Trailer { line: 0 },
        (State::Trailer { line }, b'\r') => State::Trailer { line },
        (State::Trailer { line }, _) => State::Trailer { line: line.saturating_add(1) },
        (other, _) => other,
    })
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "malformed chunked body")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(parts: &[&[u8]]) -> (Vec<u8>, bool, usize) {
        let (mut decoder, mut body, mut used) = (Decoder::new(), Vec::new(), 0);
        for part in parts {
            used += decoder.feed(part, |piece| body.extend_from_slice(piece)).unwrap();
        }
        (body, decoder.is_done(), used)
    }

    #[test]
    fn any_cut_gives_the_same_body() {
        let wire = b"5;x=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nx-trailer: 1\r\n\r\n";
        for cut in 0..wire.len() {
            let (body, done, used) = decode(&[&wire[..cut], &wire[cut..]]);
            assert_eq!((body.as_slice(), done, used), (&b"hello world"[..], true, wire.len()), "cut at {cut}");
        }
    }

    #[test]
    fn what_follows_the_body_is_left_alone() {
        let (body, done, used) = decode(&[b"2\r\nab\r\n0\r\n\r\nHTTP/1.1"]);
        assert_eq!((body.as_slice(), done, used), (&b"ab"[..], true, 12));
    }

    #[test]
    fn an_unfinished_body_is_not_done() {
        assert!(!decode(&[b"2\r\nab\r\n0\r\n"]).1);
    }

    #[test]
    fn malformed_bodies_are_refused() {
        for bad in [&b"\r\nab"[..], b"zz\r\n", b"2\r\nabc", b"ffffffffffffffff\r\n"] {
            assert!(Decoder::new().feed(bad, |_| {}).is_err(), "{bad:?}");
        }
    }
}
