//! Answers onto the wire: framing, delays, and every fault that the mock can be asked for.
//! Knows no routes; an answer's body is bytes or events here.

use super::answer::{MockBody, MockEvents, MockResponse, error_event};
use super::behaviour::{BadHeader, Behaviour, MockFault, MockSettings};
use super::routes;
use super::wire::{Head, MockConnection, MockConnectionEnd, MockResult};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// What was sent before a fault reaches the peer first when it has this long.
const BEFORE_FAULT: Duration = Duration::from_millis(20);

/// One request and its answer; `Ok` when the connection can take another.
pub(super) async fn exchange<S>(link: &mut MockConnection<'_, S>, settings: &MockSettings) -> MockResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let Some(head) = link.read_head().await? else {
        link.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
        return Err(link.close().await);
    };
    let dialect = routes::dialect(&head);
    let behaviour = Behaviour::of(&head, settings);
    let fault = behaviour.as_ref().ok().and_then(|b| b.fault);
    if fault == Some(MockFault::Early413) {
        settings.stats.requested();
        let answer = MockResponse::error(dialect, 413, "the mock takes no such body");
        send(link, &head, answer, &Behaviour::plain(), true).await?;
        return Err(link.close_unread().await);
    }
    let content = link.read_content(&head).await?;
    let (answer, behaviour) = match behaviour {
        Ok(behaviour) => (routes::answer(&head, &content, &behaviour, settings), behaviour),
        Err(BadHeader(name)) => {
            (MockResponse::error(dialect, 400, &format!("the mock cannot read header {name}")), Behaviour::plain())
        }
    };
    // Looking at the counters must not change them.
    let counted = !head.path.ends_with("/__mock/stats");
    if counted {
        settings.stats.requested();
    }
    link.pause(behaviour.delay).await?;
    let closes = head.closes();
    send(link, &head, answer, &behaviour, closes).await?;
    if counted {
        settings.stats.completed();
    }
    if closes { Err(link.close().await) } else { Ok(()) }
}

async fn send<S>(
    link: &mut MockConnection<'_, S>,
    head: &Head,
    answer: MockResponse,
    behaviour: &Behaviour,
    closes: bool,
) -> MockResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    match behaviour.fault {
        Some(MockFault::Silent) => return Err(link.wait().await),
        Some(MockFault::ResetHead) => {
            link.write(b"HTTP/1.1 200 OK\r\ncontent-ty").await?;
            link.pause(BEFORE_FAULT).await?;
            return Err(MockConnectionEnd::Reset);
        }
        Some(MockFault::GarbageHead) => {
            link.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await?;
            return Err(link.close().await);
        }
        Some(MockFault::NoContent) => {
            return link.write(b"HTTP/1.1 204 No Content\r\nx-request-id: req_mock\r\n\r\n").await;
        }
        Some(MockFault::NotModified) => {
            return link.write(b"HTTP/1.1 304 Not Modified\r\netag: \"mock\"\r\nx-request-id: req_mock\r\n\r\n").await;
        }
        _ => {}
    }
    let framing = framing(head, &answer, behaviour.fault);
    let mut bytes = head_bytes(&answer, framing, behaviour.fault, closes);
    let pieces = pieces(answer, behaviour.fault);
    if head.method == "HEAD" {
        return link.write(&bytes).await;
    }
    if framing == BodyFraming::Length {
        bytes.extend(pieces.concat());
        return write_whole(link, &bytes, behaviour).await;
    }
    write_stream(link, bytes, pieces, framing, behaviour).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFraming {
    Length,
    Chunked,
    /// The end of the connection ends the body (HTTP/1.0).
    UntilClose,
}

fn framing(head: &Head, answer: &MockResponse, fault: Option<MockFault>) -> BodyFraming {
    let whole = matches!(answer.body, MockBody::Whole(_)) && fault != Some(MockFault::Trailers);
    match (whole, head.old) {
        (true, _) => BodyFraming::Length,
        (false, false) => BodyFraming::Chunked,
        (false, true) => BodyFraming::UntilClose,
    }
}

fn head_bytes(answer: &MockResponse, framing: BodyFraming, fault: Option<MockFault>, closes: bool) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(answer.status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Mock");
    let mut text = format!("HTTP/1.1 {} {reason}\r\nserver: mock\r\nx-request-id: req_mock\r\n", answer.status);
    let mut add = |name: &str, value: &str| {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    };
    match &answer.body {
        MockBody::Whole(bytes) => {
            add("content-type", "application/json");
            if framing == BodyFraming::Length {
                add("content-length", &whole(bytes, fault).len().to_string());
            }
        }
        MockBody::Stream(_) => {
            add("content-type", "text/event-stream; charset=utf-8");
            add("cache-control", "no-cache");
        }
    }
    if framing == BodyFraming::Chunked {
        add("transfer-encoding", "chunked");
    }
    if fault == Some(MockFault::Trailers) {
        add("trailer", "x-mock-trailer");
    }
    if fault == Some(MockFault::Gzip) {
        add("content-encoding", "gzip");
    }
    for (name, value) in &answer.headers {
        add(name, value);
    }
    if closes {
        add("connection", "close");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// A whole body as the fault leaves it.
fn whole(bytes: &[u8], fault: Option<MockFault>) -> Vec<u8> {
    match fault {
        Some(MockFault::Gzip) => gzip(&[bytes.to_vec()]).concat(),
        Some(MockFault::BadJson) => bytes[..bytes.len() / 2].to_vec(),
        _ => bytes.to_vec(),
    }
}

/// The body in the pieces in which it leaves.
fn pieces(answer: MockResponse, fault: Option<MockFault>) -> Vec<Vec<u8>> {
    let dialect = answer.dialect;
    let events = match answer.body {
        MockBody::Whole(bytes) => return vec![whole(&bytes, fault)],
        MockBody::Stream(events) => events,
    };
    let MockEvents { opening, mut content, closing, end } = events;
    let events: Vec<String> = match fault {
        Some(MockFault::ErrorEvent) => vec![error_event(dialect, 0)],
        Some(MockFault::ErrorMid) => {
            content.truncate(content.len().div_ceil(2));
            content.push(error_event(dialect, opening.len() + content.len()));
            [opening, content].concat()
        }
        Some(MockFault::BadJson) => {
            let broken = "data: {\"choices\":[{\n\n".to_owned();
            [opening, vec![broken], closing, vec![end]].concat()
        }
        Some(MockFault::NoDone) => [opening, content, closing].concat(),
        Some(MockFault::ResetBody | MockFault::CloseBody) => {
            content.truncate(content.len().div_ceil(2));
            [opening, content].concat()
        }
        _ => [opening, content, closing, vec![end]].concat(),
    };
    let pieces: Vec<Vec<u8>> = events.into_iter().map(String::into_bytes).collect();
    if fault == Some(MockFault::Gzip) { gzip(&pieces) } else { pieces }
}

async fn write_whole<S>(link: &mut MockConnection<'_, S>, bytes: &[u8], behaviour: &Behaviour) -> MockResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let head = memchr::memmem::find(bytes, b"\r\n\r\n").map_or(0, |at| at + 4);
    let half = head + (bytes.len() - head) / 2;
    match behaviour.fault {
        Some(MockFault::Drip) => drip(link, bytes, behaviour).await,
        Some(MockFault::ResetBody) => {
            link.write(&bytes[..half]).await?;
            link.pause(BEFORE_FAULT).await?;
            Err(MockConnectionEnd::Reset)
        }
        Some(MockFault::CloseBody) => {
            link.write(&bytes[..half]).await?;
            Err(link.close().await)
        }
        _ => link.write(bytes).await,
    }
}

/// The head leaves with the first piece; each further piece in a write of its own, as providers send them.
async fn write_stream<S>(
    link: &mut MockConnection<'_, S>,
    head: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    framing: BodyFraming,
    behaviour: &Behaviour,
) -> MockResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut out = head;
    for (i, piece) in pieces.iter().enumerate() {
        if i > 0 {
            link.pause(behaviour.gap).await?;
        }
        if behaviour.fault == Some(MockFault::ErrorMid) && i + 1 == pieces.len() {
            // What came before the error has gone down by then: it can only be told in-band.
            link.pause(BEFORE_FAULT).await?;
        }
        frame(&mut out, piece, framing);
        if behaviour.fault == Some(MockFault::Drip) {
            drip(link, &out, behaviour).await?;
        } else {
            link.write(&out).await?;
        }
        out.clear();
    }
    match behaviour.fault {
        Some(MockFault::ResetBody) => {
            link.pause(BEFORE_FAULT).await?;
            return Err(MockConnectionEnd::Reset);
        }
        Some(MockFault::CloseBody) => return Err(link.close().await),
        _ => {}
    }
    match (framing, behaviour.fault) {
        (BodyFraming::Chunked, Some(MockFault::Trailers)) => link.write(b"0\r\nx-mock-trailer: done\r\n\r\n").await,
        (BodyFraming::Chunked, _) => link.write(b"0\r\n\r\n").await,
        _ => Ok(()),
    }
}

fn frame(out: &mut Vec<u8>, piece: &[u8], framing: BodyFraming) {
    if piece.is_empty() {
        return;
    }
    if framing == BodyFraming::Chunked {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(piece);
    }
}

async fn drip<S>(link: &mut MockConnection<'_, S>, bytes: &[u8], behaviour: &Behaviour) -> MockResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let gap = behaviour.gap.max(Duration::from_millis(1));
    for byte in bytes {
        link.write(std::slice::from_ref(byte)).await?;
        link.pause(gap).await?;
    }
    Ok(())
}

/// RFC 1952 with stored blocks: valid for every reader, and no compressor is needed.
fn gzip(pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out = vec![vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]];
    let (mut crc, mut length) = (u32::MAX, 0u32);
    for piece in pieces {
        let mut blocks = Vec::with_capacity(piece.len() + 16);
        for block in piece.chunks(usize::from(u16::MAX)) {
            let size = u16::try_from(block.len()).unwrap_or(u16::MAX);
            blocks.push(0);
            blocks.extend(size.to_le_bytes());
            blocks.extend((!size).to_le_bytes());
            blocks.extend_from_slice(block);
        }
        crc = piece.iter().fold(crc, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg()))
        });
        length = length.wrapping_add(u32::try_from(piece.len()).unwrap_or_default());
        out.push(blocks);
    }
    let mut tail = vec![1, 0, 0, 0xff, 0xff];
    tail.extend((!crc).to_le_bytes());
    tail.extend(length.to_le_bytes());
    out.push(tail);
    out
}
