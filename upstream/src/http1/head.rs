//! Heads of answers: from bytes to status and headers, and what they say of the body behind them (RFC 9112, 6.3).
//! Refuses whatever two readers could understand in two ways. Knows no connection.

use super::BrokenWhy;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::mem::MaybeUninit;

pub(super) const MOST_HEADERS: usize = 100;
/// Spare room for headers that whoever passes the head on adds to it.
const ROOM: usize = 4;

/// Status and headers of an answer.
#[derive(Debug, Default)]
pub struct ResponseHead {
    status: u16,
    headers: HeaderMap,
    hop_by_hop: Vec<(HeaderName, HeaderValue)>,
}

impl ResponseHead {
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// What is for whoever asked, in the end.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// What is for this connection only: the names that say so by themselves, and those that `Connection` lists.
    pub fn hop_by_hop(&self) -> &[(HeaderName, HeaderValue)] {
        &self.hop_by_hop
    }

    /// What [`Self::headers`] shows.
    pub fn into_headers(self) -> HeaderMap {
        self.headers
    }

    /// All but the status, which stays here as well.
    pub(super) fn take(&mut self) -> Self {
        let status = self.status;
        std::mem::replace(self, Self { status, ..Self::default() })
    }

    pub(super) fn clear(&mut self) {
        self.status = 0;
        self.headers.clear();
        self.hop_by_hop.clear();
    }
}

/// How the end of an answer's body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Length(u64),
    Chunked,
    UntilClose,
    /// No body: the connection has become another.
    Upgraded,
    /// The answer itself is still to come.
    Interim,
}

/// What a head says beside what is passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) extent: Extent,
    pub(super) keeps_alive: bool,
}

/// What was asked for, as far as answers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Content,
    /// The answer to `HEAD`: it has no body, whatever its head says of the length.
    HeadOnly,
    WebSocket,
}

/// What the headers of the hop say.
#[derive(Default)]
struct Hop {
    closes: bool,
    keeps: bool,
    upgrades: bool,
    to_web_socket: bool,
    /// `Connection` names headers.
    lists: bool,
    length: Option<u64>,
    /// Lines of `Transfer-Encoding`.
    encodings: usize,
}

/// Reads `text`, which ends with its empty line, into `head`.
pub(super) fn parse(text: &[u8], asked: RequestKind, head: &mut ResponseHead) -> Result<Terms, BrokenWhy> {
    head.clear();
    // One copy, of which each value is a window.
    let text = Bytes::copy_from_slice(text);
    let mut space = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut parsed, &text, &mut space) {
        Ok(httparse::Status::Complete(length)) if length == text.len() => {}
        Ok(_) => return Err(BrokenWhy::NotHttp),
        Err(e) => return Err(refusal(e)),
    }
    head.status = parsed.code.filter(|code| (100..600).contains(code)).ok_or(BrokenWhy::BadStatus)?;
    let mut hop = Hop::default();
    head.headers.reserve(parsed.headers.len() + ROOM);
    for line in parsed.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BrokenWhy::BadHeader)?;
        let value = HeaderValue::from_maybe_shared(text.slice_ref(line.value)).map_err(|_| BrokenWhy::BadHeader)?;
        if name == header::CONTENT_LENGTH {
            hop.read_length(&value)?;
        }
        if is_hop_by_hop(&name) {
            hop.read(&name, &value)?;
            head.hop_by_hop.push((name, value));
        } else {
            head.headers.append(name, value);
        }
    }
    if hop.lists {
        set_apart(head);
    }
    let is_new = parsed.version == Some(1);
    let extent = hop.extent(head.status, asked, is_new)?;
    Ok(Terms { extent, keeps_alive: !hop.closes && (is_new || hop.keeps) })
}

const fn refusal(e: httparse::Error) -> BrokenWhy {
    match e {
        httparse::Error::TooManyHeaders => BrokenWhy::TooManyHeaders,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => BrokenWhy::BadHeader,
        httparse::Error::Status => BrokenWhy::BadStatus,
        _ => BrokenWhy::NotHttp,
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    let known = [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TRAILER, header::TE];
    known.contains(name)
        || *name == header::PROXY_AUTHENTICATE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

impl Hop {
    fn read(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), BrokenWhy> {
        if *name == header::CONNECTION {
            for token in tokens(value) {
                match () {
                    () if token.eq_ignore_ascii_case(b"close") => self.closes = true,
                    () if token.eq_ignore_ascii_case(b"keep-alive") => self.keeps = true,
                    () if token.eq_ignore_ascii_case(b"upgrade") => self.upgrades = true,
                    () => self.lists = true,
                }
            }
        } else if *name == header::UPGRADE {
            self.to_web_socket |= tokens(value).any(|token| token.eq_ignore_ascii_case(b"websocket"));
        } else if *name == header::TRANSFER_ENCODING {
            self.encodings += 1;
            if self.encodings > 1 || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                return Err(BrokenWhy::BadEncoding);
            }
        }
        Ok(())
    }

    /// A length may be told twice, on two lines or one, if it is the same.
    fn read_length(&mut self, value: &HeaderValue) -> Result<(), BrokenWhy> {
        for token in value.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            if token.is_empty() || !token.iter().all(u8::is_ascii_digit) {
                return Err(BrokenWhy::BadLength);
            }
            let text = std::str::from_utf8(token).map_err(|_| BrokenWhy::BadLength)?;
            let length = text.parse().map_err(|_| BrokenWhy::BadLength)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(BrokenWhy::BadLength);
            }
        }
        Ok(())
    }

    fn extent(&self, status: u16, asked: RequestKind, is_new: bool) -> Result<Extent, BrokenWhy> {
        let is_chunked = self.encodings > 0;
        if is_chunked && self.length.is_some() {
            return Err(BrokenWhy::LengthAndEncoding);
        }
        // HTTP/1.0 knows no encodings: who sends one speaks for somebody else.
        if is_chunked && !is_new {
            return Err(BrokenWhy::BadEncoding);
        }
        match status {
            101 if asked == RequestKind::WebSocket && self.upgrades && self.to_web_socket => Ok(Extent::Upgraded),
            101 => Err(BrokenWhy::UnaskedSwitch),
            100..200 => Ok(Extent::Interim),
            204 | 304 => Ok(Extent::Length(0)),
            _ if asked == RequestKind::HeadOnly => Ok(Extent::Length(0)),
            _ if is_chunked => Ok(Extent::Chunked),
            _ => Ok(self.length.map_or(Extent::UntilClose, Extent::Length)),
        }
    }
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// Takes what `Connection` names out of what is passed on.
fn set_apart(head: &mut ResponseHead) {
    let ResponseHead { headers, hop_by_hop, .. } = head;
    let listed = hop_by_hop.iter().filter(|(name, _)| *name == header::CONNECTION).flat_map(|(_, value)| tokens(value));
    let names: Vec<HeaderName> = listed.filter_map(|token| HeaderName::from_bytes(token).ok()).collect();
    for name in names {
        if let header::Entry::Occupied(entry) = headers.entry(&name) {
            let (name, values) = entry.remove_entry_mult();
            hop_by_hop.extend(values.map(|value| (name.clone(), value)));
        }
    }
}
