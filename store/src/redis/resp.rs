//! Commands as they go to Redis, and the answers of scripts that say numbers (RESP 2). Knows no command.

use ::redis::Cmd;
use std::str::from_utf8;

/// Where a command is written, word by word.
pub(crate) trait Words {
    /// So many words come.
    fn begin(&mut self, words: usize);
    fn word(&mut self, word: &[u8]);
    fn number(&mut self, number: i64) {
        self.word(itoa::Buffer::new().format(number).as_bytes());
    }
}

impl Words for Cmd {
    fn begin(&mut self, _: usize) {}

    fn word(&mut self, word: &[u8]) {
        self.arg(word);
    }
}

/// The bytes of a command on the wire.
impl Words for Vec<u8> {
    fn begin(&mut self, words: usize) {
        head(self, b'*', words);
    }

    fn word(&mut self, word: &[u8]) {
        head(self, b'$', word.len());
        self.extend_from_slice(word);
        self.extend_from_slice(b"\r\n");
    }
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// What Redis said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RedisReply {
    /// One, several, or none where it only said that all is well.
    Numbers(Vec<i64>),
    /// The code of an error; the rest may repeat what was asked.
    Refused(String),
}

/// Nothing that a script of ours says: whoever speaks is not understood from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strange;

/// The first answer and its length; `None` while it is not there whole.
pub(super) fn read(seen: &[u8]) -> Result<Option<(RedisReply, usize)>, Strange> {
    let Some((kind, text, mut at)) = line(seen)? else { return Ok(None) };
    let answer = match kind {
        b'+' => RedisReply::Numbers(Vec::new()),
        b':' => RedisReply::Numbers(vec![number(text)?]),
        b'-' => {
            let code = text.split(|b| *b == b' ').next().unwrap_or_default();
            RedisReply::Refused(String::from_utf8_lossy(code).into_owned())
        }
        b'*' => {
            let count = usize::try_from(number(text)?).map_err(|_| Strange)?;
            // Each takes four bytes at least: what is announced makes no room beyond what came.
            let mut numbers = Vec::with_capacity(count.min(seen.len() / 4));
            for _ in 0..count {
                let Some((b':', text, length)) = line(&seen[at..])? else { return incomplete(&seen[at..]) };
                numbers.push(number(text)?);
                at += length;
            }
            RedisReply::Numbers(numbers)
        }
        _ => return Err(Strange),
    };
    Ok(Some((answer, at)))
}

fn incomplete<T>(rest: &[u8]) -> Result<Option<T>, Strange> {
    if rest.first().is_none_or(|b| *b == b':') && !rest.contains(&b'\n') { Ok(None) } else { Err(Strange) }
}

/// Kind, text and length.
type ReplyLine<'a> = (u8, &'a [u8], usize);

fn line(seen: &[u8]) -> Result<Option<ReplyLine<'_>>, Strange> {
    let Some(end) = seen.iter().position(|b| *b == b'\n') else { return Ok(None) };
    match &seen[..end] {
        [kind, text @ .., b'\r'] => Ok(Some((*kind, text, end + 1))),
        _ => Err(Strange),
    }
}

fn number(text: &[u8]) -> Result<i64, Strange> {
    from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_the_protocol_says() {
        let mut out = Vec::new();
        out.begin(3);
        out.word(b"SET");
        out.word(b"a\r\nb");
        out.number(-12);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$3\r\n-12\r\n");
    }

    #[test]
    fn answers_are_read_whole_or_not_yet_at_every_split() {
        let cases: [(&[u8], RedisReply); 6] = [
            (b"*3\r\n:1\r\n:-20\r\n:9007199254740992\r\n", RedisReply::Numbers(vec![1, -20, 1 << 53])),
            (b"*0\r\n", RedisReply::Numbers(Vec::new())),
            (b":7\r\n", RedisReply::Numbers(vec![7])),
            (b"+PONG\r\n", RedisReply::Numbers(Vec::new())),
            (b"-NOSCRIPT No matching script.\r\n", RedisReply::Refused("NOSCRIPT".into())),
            (b"-ERR\r\n", RedisReply::Refused("ERR".into())),
        ];
        for (text, answer) in cases {
            for cut in 0..text.len() {
                assert_eq!(read(&text[..cut]), Ok(None), "{cut} bytes of {text:?}");
            }
            let more = [text, b":1\r\n"].concat();
            assert_eq!(read(&more), Ok(Some((answer, text.len()))), "{text:?}");
        }
    }

    #[test]
    fn what_no_script_of_ours_says_is_strange() {
        let cases: [&[u8]; 7] =
            [b"$1\r\na\r\n", b"*1\r\n$1\r\na\r\n", b"*-1\r\n", b":x\r\n", b"\n", b"HTTP/1.1 400\r\n", b"*1\r\n:1\n"];
        for text in cases {
            assert_eq!(read(text), Err(Strange), "{text:?}");
        }
    }
}
