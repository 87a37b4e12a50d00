//! Event streams: bytes in pieces to whole events and back. Comments, events without data and fields that nobody knows
//! are skipped; one event is bounded.

use bytes::{Buf, BytesMut};

/// Bytes of one event.
pub const MOST_EVENT: usize = 4 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpEvent {
    /// `message` where none is named.
    pub event: String,
    pub id: Option<String>,
    pub retry: Option<String>,
    pub data: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MOST_EVENT} bytes")]
pub struct EventTooLong;

/// Reads whole events out of the pieces of a stream.
#[derive(Debug, Default)]
pub struct McpEvents {
    held: BytesMut,
    /// How many bytes of `held`, from its start, were already searched for the end of an event.
    looked: usize,
}

impl McpEvents {
    pub fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// Bytes that have come and were not read as events yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The next event that is whole and says something.
    pub fn next_event(&mut self) -> Result<Option<McpEvent>, EventTooLong> {
        while let Some(end) = self.end() {
            let event = read(&self.held[..end]);
            self.held.advance(end);
            self.looked = 0;
            if let Some(event) = event {
                return Ok(Some(event));
            }
        }
        if self.held.len() > MOST_EVENT { Err(EventTooLong) } else { Ok(None) }
    }

    /// Where the first event ends, with the empty line behind it. `None`: it is not whole yet.
    fn end(&mut self) -> Option<usize> {
        let bytes = &self.held[..];
        let mut at = self.looked;
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) {
            let start = at + found;
            let first = line_end(bytes, start)?;
            // Nothing may follow yet of a line end that could be half of one.
            match bytes.get(first) {
                Some(b'\n' | b'\r') => return line_end(bytes, first),
                Some(_) => at = first,
                None => {
                    self.looked = start;
                    return None;
                }
            }
        }
        self.looked = bytes.len();
        None
    }
}

/// Where the line end that begins at `at` is over. `None`: it may go on in the next piece.
fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Some(at + 2),
        (Some(b'\r'), None) => None,
        _ => Some(at + 1),
    }
}

fn read(bytes: &[u8]) -> Option<McpEvent> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut event = McpEvent { event: "message".into(), ..McpEvent::default() };
    let mut has_data = false;
    for line in text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if has_data {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                has_data = true;
            }
            "event" => event.event = value.to_owned(),
            "id" if !value.contains('\0') => event.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|b| b.is_ascii_digit()) => event.retry = Some(value.to_owned()),
            _ => {}
        }
    }
    (has_data || event.id.is_some() || event.retry.is_some()).then_some(event)
}

/// An event as it goes down: one line of data, whatever the data was written like.
pub fn write(event: &McpEvent) -> String {
    let mut out = String::with_capacity(event.data.len() + 64);
    let plain = |text: &str| text.replace(['\n', '\r'], " ");
    if !event.data.is_empty() {
        out.push_str("event: ");
        out.push_str(&plain(&event.event));
        out.push('\n');
    }
    if let Some(id) = &event.id {
        out.push_str("id: ");
        out.push_str(&plain(id));
        out.push('\n');
    }
    if let Some(retry) = &event.retry {
        out.push_str("retry: ");
        out.push_str(retry);
        out.push('\n');
    }
    out.push_str("data: ");
    out.push_str(&plain(&event.data));
    out.push_str("\n\n");
    out
}

/// One message as an event.
pub fn message(data: &str) -> String {
    write(&McpEvent { event: "message".into(), data: data.to_owned(), ..McpEvent::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> Vec<McpEvent> {
        let (mut events, mut out) = (McpEvents::default(), Vec::new());
        for piece in pieces {
            events.push(piece);
            while let Some(event) = events.next_event().expect("short") {
                out.push(event);
            }
        }
        out
    }

    const STREAM: &[u8] =
        b"\xef\xbb\xbf: hello\n\n\nevent: message\nid: 7\ndata: {\"a\":\ndata: 1}\n\n: ping\n\nevent: x\n\n\
        id: 8\nretry: 50\ndata:\n\nunknown: 1\ndata: last\r\n\r\ndata: cr\r\rdata: unfinished\n";

    #[test]
    fn events_are_read_and_noise_is_skipped() {
        let found = all(&[STREAM]);
        let data: Vec<&str> = found.iter().map(|e| e.data.as_str()).collect();
        assert_eq!(data, ["{\"a\":\n1}", "", "last", "cr"]);
        assert_eq!((found[0].id.as_deref(), found[1].id.as_deref()), (Some("7"), Some("8")));
        assert_eq!(found[1].retry.as_deref(), Some("50"));
        assert_eq!(write(&found[0]), "event: message\nid: 7\ndata: {\"a\": 1}\n\n");
        assert_eq!(write(&found[1]), "id: 8\nretry: 50\ndata: \n\n");
    }

    #[test]
    fn an_event_is_bounded() {
        let mut events = McpEvents::default();
        events.push(b"data: ");
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..4 {
            events.push(&piece);
        }
        assert_eq!(events.next_event(), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn nothing_depends_on_where_bytes_are_cut(cuts in proptest::collection::vec(0..STREAM.len(), 0..8)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (mut pieces, mut from) = (Vec::new(), 0);
            for cut in cuts {
                pieces.push(&STREAM[from..cut]);
                from = cut;
            }
            pieces.push(&STREAM[from..]);
            prop_assert_eq!(all(&pieces), all(&[STREAM]));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            all(&[&bytes]);
        }
    }
}
