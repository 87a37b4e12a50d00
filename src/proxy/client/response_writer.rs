//! Writes on a client's connection, and what becomes of a request body that nobody reads. Knows no answer's meaning.

use bytes::Bytes;
use http::{Method, header};
use pingora::http::ResponseHeader;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::proxy::Session;
use std::time::Duration;

/// Clients of HTTP/1.0 know no chunks: their answer ends with the connection.
pub(crate) fn frame(session: &ServerSession, head: &mut ResponseHeader) {
    let old = session.req_header().version < http::Version::HTTP_11;
    if !old && !head.headers.contains_key(header::CONTENT_LENGTH) {
        let chunked = head.insert_header(header::TRANSFER_ENCODING, "chunked");
        debug_assert!(chunked.is_ok(), "a constant header");
    }
}

/// Head and first bytes of an answer in one write.
pub(crate) async fn send_head(
    session: &mut Session,
    head: Box<ResponseHeader>,
    body: Option<Bytes>,
    end: bool,
) -> pingora::Result<()> {
    let mut tasks = Vec::with_capacity(2);
    let bare = body.is_none() && end;
    tasks.push(HttpTask::Header(head, bare));
    if body.is_some() {
        tasks.push(HttpTask::Body(body, end));
    } else if bare {
        tasks.push(HttpTask::Done);
    }
    session.write_response_tasks(tasks).await.map(drop)
}

pub(crate) async fn send_piece(session: &mut Session, body: Option<Bytes>, end: bool) -> pingora::Result<()> {
    let task = if session.was_upgraded() { HttpTask::UpgradedBody(body, end) } else { HttpTask::Body(body, end) };
    session.write_response_tasks(vec![task]).await.map(drop)
}

/// A small answer of the gateway's own.
#[derive(Debug)]
pub(crate) struct SmallAnswer {
    pub(crate) head: Box<ResponseHeader>,
    pub(crate) body: Bytes,
}

/// Sends any small local answer, with the rest of the request's body out of the way first.
pub(crate) async fn answer_early(session: &mut Session, answer: SmallAnswer) -> pingora::Result<()> {
    let SmallAnswer { mut head, body } = answer;
    // A client that was too slow with its body gets no more time.
    let slow = head.status == 408;
    if !slow {
        settle_unread_body(session).await;
    }
    head.set_content_length(body.len())?;
    let shed = head.status == 429;
    send_head(session, head, Some(body), true).await?;
    if !shed && !slow {
        linger(session).await;
    }
    Ok(())
}

/// After an early answer: reads and drops what the client still sends, within bounds. Closing on unread bytes
/// would reset the connection, and a client that sends its whole body first would never see the answer.
pub(crate) async fn linger(session: &mut Session) {
    const MOST: usize = 64 << 20;
    const LONGEST: Duration = Duration::from_secs(2);
    let down = &mut session.downstream_session;
    if down.as_http1().is_none() || down.was_upgraded() || down.is_body_done() {
        return;
    }
    down.set_read_timeout(Some(LONGEST));
    let drop_all = async {
        let mut read = 0;
        while let Ok(Some(piece)) = down.read_request_body().await {
            read += piece.len();
            if read > MOST {
                return;
            }
        }
    };
    // Whoever is not done by then is cut off.
    let _ = pingora_timeout::timeout(LONGEST, drop_all).await;
}

/// Small unread bodies are read and dropped before an early answer, so that the connection survives it.
pub(crate) async fn settle_unread_body(session: &mut Session) {
    const SMALL: usize = 64 * 1024;
    let down = &mut session.downstream_session;
    if down.is_body_done() || down.is_body_empty() {
        return;
    }
    let length = down.get_header(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    let expects = down.get_header(header::EXPECT).is_some();
    if !expects && length.is_some_and(|n| n <= SMALL) && down.req_header().method != Method::GET {
        down.set_total_drain_timeout(Some(Duration::from_secs(1)));
        if down.drain_request_body().await.is_ok() {
            return;
        }
    }
    down.set_keepalive(None);
}
