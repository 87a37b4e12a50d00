//! Heads of requests as text. What never changes of a target's head is made once and copied whole; the rest is put
//! behind it. Knows neither connection nor body.

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, header};
use std::fmt;
use std::sync::Arc;

/// So many prepared lines can be hidden one by one, since a bit stands for each.
const MOST_PREPARED: usize = 64;

/// How the end of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    Length(usize),
    Chunked,
    /// No body, but what is said on the connection once it has become another, until it ends.
    WebSocket,
}

/// A path that no request line can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path cannot be sent upstream")]
pub struct BadPath;

/// Request line and headers. Cheap to clone as long as little was added since [`RequestHead::prepared`].
///
/// How the body is framed is the client's to say: names that would say it (`content-length`, `transfer-encoding`,
/// `connection` and the like) are dropped.
#[derive(Clone)]
pub struct RequestHead {
    base: Arc<PreparedHead>,
    /// A bit for each of the prepared lines: set where the line was replaced or taken away.
    hidden: u64,
    extra: Vec<HeaderField>,
    framing: Framing,
}

#[derive(Clone)]
struct HeaderField {
    name: HeaderName,
    value: HeaderValue,
}

struct PreparedHead {
    method: Method,
    path: PathAndQuery,
    lines: Vec<HeaderField>,
    /// The request line and then `lines`, each with its line break.
    text: Vec<u8>,
    /// Where each line of the text ends, the request line first.
    ends: Vec<usize>,
}

impl RequestHead {
    pub fn new(method: Method, path_and_query: &str) -> Result<Self, BadPath> {
        let path = PathAndQuery::try_from(path_and_query).map_err(|_| BadPath)?;
        if !path.as_str().starts_with('/') {
            return Err(BadPath);
        }
        let base = Arc::new(PreparedHead::new(method, path, Vec::new()));
        Ok(Self { base, hidden: 0, extra: Vec::new(), framing: Framing::None })
    }

    /// Puts `value` in the place of all that was there under this name, like [`RequestHead::set`].
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.set(name, value);
        self
    }

    #[must_use]
    pub const fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    pub const fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Puts `value` in the place of all that was there under this name.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.remove(&name);
        self.append(name, value);
    }

    /// Adds a line, whatever is there under this name.
    pub fn append(&mut self, name: HeaderName, value: HeaderValue) {
        if !frames(&name) {
            self.extra.push(HeaderField { name, value });
        }
    }

    pub fn remove(&mut self, name: &HeaderName) {
        self.extra.retain(|line| line.name != *name);
        for (at, line) in self.base.lines.iter().enumerate() {
            if line.name == *name {
                self.hidden |= 1 << at;
            }
        }
    }

    /// This head, with all that was added made text: for heads that are kept and cloned.
    #[must_use]
    pub fn prepared(self) -> Self {
        let lines: Vec<HeaderField> = self.lines().cloned().collect();
        if lines.len() > MOST_PREPARED {
            return self;
        }
        let base = PreparedHead::new(self.base.method.clone(), self.base.path.clone(), lines);
        Self { base: Arc::new(base), hidden: 0, extra: Vec::new(), framing: self.framing }
    }

    pub fn method(&self) -> &Method {
        &self.base.method
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.base.path.as_str()
    }

    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.lines().find(|line| line.name == *name).map(|line| &line.value)
    }

    /// All but the framing.
    pub fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.lines().map(|line| (&line.name, &line.value))
    }

    fn lines(&self) -> impl Iterator<Item = &HeaderField> {
        let kept = self.base.lines.iter().enumerate().filter(|(at, _)| self.hidden & (1 << at) == 0);
        kept.map(|(_, line)| line).chain(&self.extra)
    }

    pub(super) const fn opens_web_socket(&self) -> bool {
        matches!(self.framing, Framing::WebSocket)
    }

    /// The framing that goes out. A body that is held has the length that it has, whatever was said of it.
    pub(super) const fn framing_of(&self, held: Option<usize>) -> Framing {
        match (self.framing, held) {
            (framing @ (Framing::None | Framing::WebSocket), Some(0)) | (framing, None) => framing,
            (_, Some(length)) => Framing::Length(length),
        }
    }

    /// Writes the head with its empty line.
    pub(super) fn write(&self, framing: Framing, out: &mut Vec<u8>) {
        let base = &*self.base;
        if self.hidden == 0 {
            out.extend_from_slice(&base.text);
        } else {
            out.extend_from_slice(&base.text[..base.ends[0]]);
            let spans = base.ends.windows(2).enumerate().filter(|(at, _)| self.hidden & (1 << at) == 0);
            spans.for_each(|(_, span)| out.extend_from_slice(&base.text[span[0]..span[1]]));
        }
        self.extra.iter().for_each(|line| line.write(out));
        match framing {
            Framing::None => {}
            Framing::Length(length) => {
                out.extend_from_slice(b"content-length: ");
                out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Framing::WebSocket => out.extend_from_slice(b"upgrade: websocket\r\nconnection: Upgrade\r\n"),
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl PreparedHead {
    fn new(method: Method, path: PathAndQuery, lines: Vec<HeaderField>) -> Self {
        let mut text = Vec::with_capacity(256);
        text.extend_from_slice(method.as_str().as_bytes());
        text.push(b' ');
        text.extend_from_slice(path.as_str().as_bytes());
        text.extend_from_slice(b" HTTP/1.1\r\n");
        let mut ends = vec![text.len()];
        for line in &lines {
            line.write(&mut text);
            ends.push(text.len());
        }
        Self { method, path, lines, text, ends }
    }
}

impl HeaderField {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(self.value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Names whose values say where a message ends, or how the connection goes on.
fn frames(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE].contains(name)
}

impl fmt::Debug for RequestHead {
    /// Neither values nor the query: credentials may lie in both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.lines().map(|line| line.name.as_str()).collect();
        let mut shown = f.debug_struct("RequestHead");
        shown.field("method", &self.base.method).field("path", &self.base.path.path()).field("headers", &names);
        shown.field("framing", &self.framing).finish()
    }
}
