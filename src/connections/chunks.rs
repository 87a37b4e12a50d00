//! The sizes of chunks as a body passes by. Pingora's parser takes a line without a digit for the last chunk, so that
//! what follows would be read as the next request; RFC 9112, 7.1 wants one digit at least. Such a line is spoiled here,
//! so that the parser refuses it as it refuses any other that is none. Everything else is the parser's to judge.

/// A byte that no chunk's size begins with.
const SPOILED: u8 = b'!';

/// Where the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPlace {
    /// The first digit of a chunk's size comes next.
    #[default]
    Start,
    Digits(u64),
    /// The rest of the size's line comes next; holds the size.
    Rest(u64),
    /// Data of the chunk comes next; holds how much is left of it and of the two bytes of its line end.
    Data(u64),
    /// The last chunk is over, or no size stood where one had to: the rest is not looked at.
    End,
}

/// Follows the chunks of a body as its bytes pass by; it begins before the first chunk.
#[derive(Debug, Default)]
pub(super) struct Chunks(ChunkPlace);

impl Chunks {
    pub(super) fn pass(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            self.0 = match self.0 {
                ChunkPlace::End => return,
                ChunkPlace::Data(left) => {
                    let taken = left.min((bytes.len() - at) as u64);
                    at += usize::try_from(taken).unwrap_or(usize::MAX);
                    if taken == left { ChunkPlace::Start } else { ChunkPlace::Data(left - taken) }
                }
                ChunkPlace::Start => match digit(bytes[at]) {
                    Some(size) => {
                        at += 1;
                        ChunkPlace::Digits(size)
                    }
                    None => {
                        bytes[at] = SPOILED;
                        ChunkPlace::End
                    }
                },
                ChunkPlace::Digits(size) => match digit(bytes[at]) {
                    Some(more) => {
                        at += 1;
                        ChunkPlace::Digits(size.saturating_mul(16).saturating_add(more))
                    }
                    None => ChunkPlace::Rest(size),
                },
                ChunkPlace::Rest(size) => {
                    at += 1;
                    match (bytes[at - 1], size) {
                        (b'\n', 0) => ChunkPlace::End,
                        (b'\n', size) => ChunkPlace::Data(size.saturating_add(2)),
                        _ => ChunkPlace::Rest(size),
                    }
                }
            };
        }
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a body, however it is cut.
    fn passed(body: &[u8]) -> Vec<u8> {
        let mut whole = body.to_vec();
        Chunks::default().pass(&mut whole);
        let (mut chunks, mut single) = (Chunks::default(), body.to_vec());
        single.iter_mut().for_each(|byte| chunks.pass(std::slice::from_mut(byte)));
        assert_eq!(whole, single, "{}", body.escape_ascii());
        whole
    }

    #[test]
    fn sound_bodies_pass_untouched_and_lines_without_a_digit_are_spoiled() {
        for sound in [
            &b"5\r\nhello\r\n0\r\n\r\n"[..],
            b"A;x=\"y\"\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
            b"000\r\ntrailer: a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"1 \r\nx\r\n2\r\nxy\r\n00;e\r\n\r\n",
        ] {
            assert_eq!(passed(sound), sound);
        }
        for (body, spoiled) in [
            (&b"\r\n\r\n"[..], &b"!\n\r\n"[..]),
            (b"5\r\nhello\r\n\r\n\r\n", b"5\r\nhello\r\n!\n\r\n"),
            (b"5\r\nhello\r\n;x\r\n\r\n", b"5\r\nhello\r\n!x\r\n\r\n"),
            (b" \r\n\r\n", b"!\r\n\r\n"),
            (b"\n", b"!"),
        ] {
            assert_eq!(passed(body), spoiled, "{}", body.escape_ascii());
        }
    }
}
