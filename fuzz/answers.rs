//! What must hold for any bytes that a provider may answer with. The fuzz target looks for bytes that break it; the
//! tests of `upstream` run it over `corpus/` and over the answers that they know by name.

use super::http1::{BrokenWhy, Parser, RequestKind, ResponseHead};
use bytes::BytesMut;
use http::header;

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection may carry the next request.
    Kept,
    /// Whole, and the connection is not to be used again.
    Whole,
    /// Whole, and more lay behind it.
    MoreBehind,
    Broken(BrokenWhy),
}

/// What was read of an answer and of the close behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// 0: no head came.
    pub(crate) status: u16,
    pub(crate) headers: Vec<String>,
    pub(crate) hop_by_hop: Vec<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

/// Reads `bytes` in pieces, whose lengths `cut` gives, and then the end of the connection.
pub(crate) fn read(asked: RequestKind, bytes: &[u8], mut cut: impl FnMut() -> usize) -> Outcome {
    let (mut parser, mut head, mut buffer) = (Parser::new(asked), ResponseHead::default(), BytesMut::new());
    let (mut has_head, mut body, mut rest) = (false, Vec::new(), bytes);
    let end = loop {
        if rest.is_empty() {
            break match parser.close(&buffer) {
                Err(why) => End::Broken(why),
                Ok(()) if !buffer.is_empty() => End::MoreBehind,
                Ok(()) if parser.keeps_alive() => End::Kept,
                Ok(()) => End::Whole,
            };
        }
        let (now, later) = rest.split_at(cut().clamp(1, rest.len()));
        buffer.extend_from_slice(now);
        rest = later;
        if let Err(why) = feed(&mut parser, &mut buffer, &mut head, &mut has_head, &mut body) {
            break End::Broken(why);
        }
    };
    let shown =
        |(name, value): (&http::HeaderName, &http::HeaderValue)| format!("{name}: {}", value.as_bytes().escape_ascii());
    let (headers, hop) = (head.headers().iter().map(shown), head.hop_by_hop().iter().map(|(n, v)| shown((n, v))));
    let status = if has_head { head.status() } else { 0 };
    let (headers, hop_by_hop) = if has_head { (headers.collect(), hop.collect()) } else { Default::default() };
    Outcome { status, headers, hop_by_hop, body, end }
}

fn feed(
    parser: &mut Parser,
    buffer: &mut BytesMut,
    head: &mut ResponseHead,
    has_head: &mut bool,
    body: &mut Vec<u8>,
) -> Result<(), BrokenWhy> {
    if !*has_head {
        *has_head = parser.head(buffer, head)?;
    }
    while *has_head && !parser.is_done() {
        // Every second piece takes the way without a copy.
        let copied_below = if body.len().is_multiple_of(2) { 0 } else { usize::MAX };
        match parser.piece(buffer, copied_below)? {
            Some(piece) => body.extend_from_slice(&piece),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The outcome, which is the same however the bytes are cut.
pub(crate) fn outcome(asked: RequestKind, bytes: &[u8], seed: u8) -> Outcome {
    let whole = read(asked, bytes, || usize::MAX);
    let single = read(asked, bytes, || 1);
    assert_eq!(whole, single, "byte by byte");
    let mut dice = u32::from(seed) | 1;
    let split = read(asked, bytes, || {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 24) as usize % 23 + 1
    });
    assert_eq!(whole, split, "seed {seed}");
    whole
}

/// The first byte chooses what was asked, the second how the rest is cut.
pub(crate) fn answers(data: &[u8]) {
    let [asked, seed, rest @ ..] = data else { return };
    let asked = [RequestKind::Content, RequestKind::HeadOnly, RequestKind::WebSocket][usize::from(*asked) % 3];
    let outcome = outcome(asked, rest, *seed);
    assert!(outcome.body.len() <= rest.len(), "no byte is made up");
    assert!(outcome.headers.len() + outcome.hop_by_hop.len() <= 100);
    assert!(outcome.status == 0 || outcome.status == 101 || (200..600).contains(&outcome.status));
    let names = |name: &http::HeaderName| outcome.headers.iter().any(|line| line.starts_with(&format!("{name}:")));
    assert!(!names(&header::CONNECTION) && !names(&header::TRANSFER_ENCODING) && !names(&header::UPGRADE));
    if outcome.end == End::Kept {
        assert!(outcome.status >= 200, "another protocol has no next request");
        assert!(asked != RequestKind::HeadOnly || outcome.body.is_empty());
        assert!(!matches!(outcome.status, 204 | 304) || outcome.body.is_empty());
    }
}
