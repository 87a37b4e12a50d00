//! Watches one stream of server-sent events as it arrives: what it held, when the first content
//! came and how long the pauses were. Times are arguments.

use std::time::{Duration, Instant};

use memchr::{memchr, memmem};

#[derive(Debug, Default)]
pub(crate) struct Watch {
    line: Vec<u8>,
    last: Option<Instant>,
    pub(crate) events: u64,
    pub(crate) done: bool,
    pub(crate) first_content: Option<Instant>,
    pub(crate) gaps: Vec<Duration>,
}

impl Watch {
    /// Takes a piece of the body, read at `now`.
    pub(crate) fn push(&mut self, mut piece: &[u8], now: Instant) {
        let before = self.events;
        while let Some(end) = memchr(b'\n', piece) {
            self.line.extend_from_slice(&piece[..end]);
            piece = &piece[end + 1..];
            self.take_line(now);
            self.line.clear();
        }
        self.line.extend_from_slice(piece);
        // Pieces of one read arrive at the same instant and are no gap.
        if self.events > before
            && let Some(last) = self.last.replace(now)
            && now > last
        {
            self.gaps.push(now - last);
        }
    }

    fn take_line(&mut self, now: Instant) {
        let Some(data) = self.line.strip_prefix(b"data:") else { return };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        self.events += 1;
        if self.first_content.is_none() && has_content(data) {
            self.first_content = Some(now);
        }
    }
}

/// Does this chat chunk carry text?
fn has_content(data: &[u8]) -> bool {
    const KEY: &[u8] = b"\"content\":";
    memmem::find(data, KEY).is_some_and(|at| {
        let value = data[at + KEY.len()..].trim_ascii_start();
        value.first() == Some(&b'"') && value.get(1).is_some_and(|next| *next != b'"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"data: {\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}\n\n\
        : comment\n\ndata: {\"delta\":{\"content\": \"Hi\"}}\r\n\r\ndata: {\"delta\":{}}\n\ndata: [DONE]\n\n";

    #[test]
    fn content_and_end_are_seen_at_any_cut() {
        for cut in 0..STREAM.len() {
            let (mut watch, start) = (Watch::default(), Instant::now());
            watch.push(&STREAM[..cut], start);
            watch.push(&STREAM[cut..], start + Duration::from_millis(3));
            assert_eq!((watch.events, watch.done), (3, true), "cut at {cut}");
            assert!(watch.first_content.is_some());
        }
    }

    #[test]
    fn an_empty_delta_is_no_content() {
        let mut watch = Watch::default();
        watch.push(&STREAM[..70], Instant::now());
        assert_eq!((watch.events, watch.first_content), (1, None));
    }

    #[test]
    fn gaps_lie_between_reads_that_brought_events() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        for at in [0, 4, 4, 10] {
            watch.push(b"data: {}\n\n", start + Duration::from_millis(at));
        }
        watch.push(b"data: {", start + Duration::from_millis(15));
        assert_eq!(watch.gaps, [Duration::from_millis(4), Duration::from_millis(6)]);
    }
}
