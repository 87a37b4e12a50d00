//! What the head of an HTTP/1.1 request has to say of itself that Pingora's parser does not ask for. Two readers of one
//! connection must never differ on where a request ends, nor on whom it is for. Knows no route and no key.

use gateway_domain::{Fault, FaultKind};
use http::{Version, header};
use pingora::proxy::Session;

/// The one coding of a body, in the ways that it is written: what else one reader takes for it, another may not.
const CODINGS: [&[u8]; 3] = [b"chunked", b"Chunked", b"CHUNKED"];

fn bad(field: &'static str, message: &'static str) -> Option<Fault> {
    Some(Fault::new(FaultKind::BadHeader, message).on(field))
}

/// `is_encoded`: it has `transfer-encoding`.
pub(super) fn check(session: &Session, is_encoded: bool) -> Option<Fault> {
    let head = session.req_header();
    if head.version != Version::HTTP_11 {
        return None;
    }
    if !head.headers.contains_key(header::HOST) {
        return bad("host", "A request of HTTP/1.1 needs the header host (RFC 9112, 3.2)");
    }
    if !is_encoded {
        return None;
    }
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let coding = codings.next()?;
    if codings.next().is_some() || !CODINGS.contains(&coding.as_bytes().trim_ascii()) {
        return bad("transfer-encoding", "transfer-encoding must be chunked, once and by itself (RFC 9112, 6.1)");
    }
    // The parser has taken the length away.
    let raw = session.downstream_session.as_http1().map(|http1| http1.get_headers_raw_bytes());
    if raw.is_some_and(|raw| names_length(&raw)) {
        return bad(
            "content-length",
            "A request must not have both content-length and transfer-encoding (RFC 9112, 6.3)",
        );
    }
    None
}

fn names_length(head: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length";
    head.split(|byte| *byte == b'\n')
        .any(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_found_however_it_is_written() {
        assert!(names_length(b"POST / HTTP/1.1\r\nContent-Length : 5\r\n\r\n"));
        assert!(names_length(b"POST / HTTP/1.1\ncontent-length:5\n\n"));
        assert!(!names_length(b"POST /content-length HTTP/1.1\r\nx-content-length: 5\r\n\r\n"));
    }
}
