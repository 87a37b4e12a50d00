//! Heads and framing of HTTP/1.1 messages, for both ends. No sockets and no clock here.

use std::io::{Error, ErrorKind};

use memchr::memmem;

use crate::chunked::Decoder;

const MAX_HEADERS: usize = 64;

/// How the end of a body is known.
#[derive(Debug)]
pub(crate) enum Framing {
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) length: usize,
}

/// The head at the start of `buffer`, once it is there whole.
pub(crate) fn response_head(buffer: &[u8]) -> Result<Option<ResponseHead>, Error> {
    if memmem::find(buffer, b"\r\n\r\n").is_none() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(buffer).map_err(invalid)? else { return Ok(None) };
    let mut head = ResponseHead {
        status: response.code.unwrap_or_default(),
        framing: Framing::UntilClose,
        keep_alive: response.version == Some(1),
        length,
    };
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            head.framing = Framing::Length(number(header.value)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.framing = Framing::Chunked(Decoder::new());
        } else if header.name.eq_ignore_ascii_case("connection") && header.value.eq_ignore_ascii_case(b"close") {
            head.keep_alive = false;
        }
    }
    head.keep_alive &= !matches!(head.framing, Framing::UntilClose);
    Ok(Some(head))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// Is this `GET /count`?
    pub(crate) asks_count: bool,
    pub(crate) body: usize,
    pub(crate) length: usize,
}

/// The head at the start of `buffer`, once it is there whole. Bodies without a length are refused:
/// nothing that is benchmarked sends them.
pub(crate) fn request_head(buffer: &[u8]) -> Result<Option<RequestHead>, Error> {
    if memmem::find(buffer, b"\r\n\r\n").is_none() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(buffer).map_err(invalid)? else { return Ok(None) };
    let mut head = RequestHead { asks_count: request.path == Some("/count"), body: 0, length };
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            head.body = usize::try_from(number(header.value)?).map_err(invalid)?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Error::new(ErrorKind::Unsupported, "request body without content-length"));
        }
    }
    Ok(Some(head))
}

fn number(value: &[u8]) -> Result<u64, Error> {
    std::str::from_utf8(value).map_err(invalid)?.trim().parse().map_err(invalid)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_follows_the_head() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert!(response_head(&whole[..30]).unwrap().is_none());
        let head = response_head(whole).unwrap().unwrap();
        assert!(matches!(head.framing, Framing::Length(5)));
        assert_eq!((head.status, head.keep_alive, head.length), (200, true, 38));

        let chunked = response_head(b"HTTP/1.1 429 X\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
        let head = chunked.unwrap().unwrap();
        assert!(matches!(head.framing, Framing::Chunked(_)));
        assert_eq!((head.status, head.keep_alive), (429, false));

        let open = response_head(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap();
        assert!(matches!(open.framing, Framing::UntilClose));
        assert!(!open.keep_alive);
    }

    #[test]
    fn a_request_without_length_is_refused() {
        let head = request_head(b"POST /v1/x HTTP/1.1\r\ncontent-length: 7\r\n\r\n").unwrap().unwrap();
        assert_eq!(head, RequestHead { asks_count: false, body: 7, length: 42 });
        assert!(request_head(b"GET /count HTTP/1.1\r\n\r\n").unwrap().unwrap().asks_count);
        assert!(request_head(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(request_head(b"not http\r\n\r\n").is_err());
    }
}
