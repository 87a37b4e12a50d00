//! How many lines a file of a provider's has, read once as it comes and never held.

use crate::upstream::http1::Response;
use std::time::{Duration, Instant};

/// The most bytes of a file that are read: more than any provider takes.
const MOST_BYTES: u64 = 1 << 30;
/// Whoever makes a batch of it waits so long at most.
const WITHIN: Duration = Duration::from_secs(60);

/// Lines with something on them.
#[derive(Debug, Default)]
struct LineCount {
    lines: u64,
    bytes: u64,
    /// The last one has something on it, and has not ended.
    is_begun: bool,
}

impl LineCount {
    fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let mut parts = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.is_begun |= !part.trim_ascii().is_empty();
            if parts.peek().is_some() {
                self.lines += u64::from(std::mem::take(&mut self.is_begun));
            }
        }
    }

    fn end(self) -> u64 {
        self.lines + u64::from(self.is_begun)
    }
}

/// `Err`: why they are not known.
pub(super) async fn counted(mut response: Response) -> Result<u64, String> {
    let (mut count, began) = (LineCount::default(), Instant::now());
    while let Some(piece) = response.read().await.map_err(|e| e.to_string())? {
        count.take(&piece);
        if count.bytes > MOST_BYTES || began.elapsed() > WITHIN {
            return Err(format!("it takes too long: {} bytes were read", count.bytes));
        }
    }
    Ok(count.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_with_something_on_them_however_they_are_cut() {
        for (text, lines) in [("", 0), ("\n \r\n", 0), ("{}", 1), ("{}\n", 1), ("{}\r\n\r\n{}\n\n{\"a\":1}", 3)] {
            for size in 1..=text.len().max(1) {
                let mut count = LineCount::default();
                text.as_bytes().chunks(size).for_each(|piece| count.take(piece));
                assert_eq!(count.end(), lines, "{text:?} in pieces of {size}");
            }
        }
    }
}
