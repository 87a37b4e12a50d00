//! One call to one upstream over HTTP/1.1, on Pingora's client session: pingora is pinned exactly, and what that session
//! promises about cancellation and framing is relied on here and nowhere else. Knows no client.

use super::client::Upload;
use super::head::HeadPlan;
use crate::upstream::{DialError, Dialer, Gauge, Origin, check_in, check_out};
use bytes::Bytes;
use gateway_providers::Pieces;
use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::{Error, ErrorType};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// A body larger than this is written in pieces, so that an early answer is noticed between them.
const PIECE: usize = 64 * 1024;

/// Why an upstream gave no head, or broke off.
#[derive(Debug)]
pub(crate) enum SendError {
    NoConnection(DialError),
    /// Reset, closed or not HTTP.
    Broken(String),
    /// No byte within the clock in force.
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

/// What goes up behind the head.
pub(crate) enum RequestBody<'a> {
    Held(&'a Pieces),
    Streaming(Upload),
}

impl RequestBody<'_> {
    fn can_repeat(&self) -> bool {
        match self {
            Self::Held(_) => true,
            Self::Streaming(upload) => upload.can_repeat(),
        }
    }
}

/// An upstream that has answered with a head.
pub(crate) struct Response {
    session: Box<HttpSession>,
    key: u64,
    sent: Sent,
    upload: Option<Upload>,
    clocks: Clocks,
}

/// How far the request's body got.
enum Sent {
    Whole,
    /// The rest goes up as it comes, also beside the answer.
    UnderWay(Gauge),
    /// All of it was written, and is on its way.
    Handed(Gauge),
    /// It never will: the connection cannot be used again.
    Short,
}

impl Sent {
    const fn gauge(&self) -> Option<&Gauge> {
        match self {
            Self::UnderWay(gauge) | Self::Handed(gauge) => Some(gauge),
            Self::Whole | Self::Short => None,
        }
    }

    /// There is more after all.
    fn resume(&mut self) {
        if let Some(gauge) = self.gauge() {
            *self = Self::UnderWay(gauge.clone());
        }
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Whole => true,
            Self::Handed(gauge) => gauge.is_empty(),
            Self::UnderWay(_) | Self::Short => false,
        }
    }
}

/// Sends one request and reads the head of the answer. A pooled connection that died before any byte came
/// back is replaced by a fresh one, once and silently.
pub(crate) async fn send(
    dialer: &Dialer,
    origin: &Origin,
    head: &HeadPlan,
    body: RequestBody<'_>,
    clocks: Clocks,
) -> Result<Response, SendError> {
    let (address, key) = dialer.address(origin);
    if let Some(stream) = check_out(key) {
        match converse(stream, key, head, &body, clocks).await {
            Err(Failed::Stale) => {}
            Err(Failed::Final(e)) => return Err(e),
            Ok(response) => return Ok(response),
        }
    }
    // Boxed, as dialling is rare and its future large: every request would carry the room for it.
    let (stream, key) = Box::pin(dialer.dial(origin, address, key)).await.map_err(SendError::NoConnection)?;
    converse(stream, key, head, &body, clocks).await.map_err(|failed| match failed {
        Failed::Stale => SendError::Broken("the upstream closed the connection without an answer".into()),
        Failed::Final(e) => e,
    })
}

enum Failed {
    /// No byte of an answer came; on a pooled connection that is the race with the peer's keep-alive.
    Stale,
    Final(SendError),
}

async fn converse(
    stream: Stream,
    key: u64,
    head: &HeadPlan,
    body: &RequestBody<'_>,
    clocks: Clocks,
) -> Result<Response, Failed> {
    let gauge = matches!(body, RequestBody::Streaming(_)).then(|| Gauge::of(&stream));
    let mut session = Box::new(HttpSession::new(stream));
    session.read_timeout = Some(clocks.first_byte);
    session.write_timeout = Some(clocks.idle);
    let mut sent = Sent::Whole;
    let outcome = match (body, gauge) {
        (RequestBody::Streaming(upload), Some(gauge)) => {
            sent = Sent::UnderWay(gauge);
            // Boxed, as most requests stream nothing up, and every one would carry the room for it.
            Box::pin(stream_up(&mut session, head, upload, &mut sent, clocks)).await
        }
        (RequestBody::Held(pieces), _) => {
            async {
                session.write_request_header(head.make()?).await?;
                if write_body(&mut session, pieces).await.is_err() {
                    sent = Sent::Short;
                }
                read_head(&mut session).await
            }
            .await
        }
        (RequestBody::Streaming(_), None) => Ok(()),
    };
    match outcome {
        Ok(()) => {
            session.read_timeout = Some(clocks.idle);
            let upload = match body {
                RequestBody::Held(_) => None,
                RequestBody::Streaming(upload) => Some(upload.clone()),
            };
            Ok(Response { session, key, sent, upload, clocks })
        }
        Err(e) => {
            let nothing_came = session.resp_header().is_none() && *e.etype() != ErrorType::InvalidHTTPHeader;
            session.shutdown().await;
            Err(match e.etype() {
                ErrorType::ReadTimedout | ErrorType::WriteTimedout => Failed::Final(SendError::Silent),
                _ if nothing_came && closed_before_any_byte(&e) && body.can_repeat() => Failed::Stale,
                _ => Failed::Final(SendError::Broken(e.etype().as_str().to_owned())),
            })
        }
    }
}

/// The head of the answer, past all that only inform.
async fn read_head(session: &mut HttpSession) -> pingora::Result<()> {
    loop {
        session.read_response().await?;
        match session.resp_header() {
            Some(h) if h.status.is_informational() && h.status != 101 => {}
            _ => return Ok(()),
        }
    }
}

/// Sends a body as it comes, until the head of the answer is there, which may be before all of it was sent.
async fn stream_up(
    session: &mut HttpSession,
    head: &HeadPlan,
    upload: &Upload,
    sent: &mut Sent,
    clocks: Clocks,
) -> pingora::Result<()> {
    session.write_request_header(head.make()?).await?;
    upload.rewind();
    read_beside(session, upload, sent, ReadGoal::Head, clocks).await?;
    if session.was_upgraded() {
        session.maybe_upgrade_body_writer();
        sent.resume();
    } else if session.get_status().is_some_and(|status| status == 101) {
        return Err(Error::explain(ErrorType::InvalidHTTPHeader, "a switch of protocols that nobody asked for"));
    }
    Ok(())
}

/// What is waited for from an upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadGoal {
    Head,
    Piece,
}

/// Reads from the upstream while the request's body goes up, so that neither way makes the other wait.
async fn read_beside(
    session: &mut HttpSession,
    upload: &Upload,
    sent: &mut Sent,
    goal: ReadGoal,
    clocks: Clocks,
) -> pingora::Result<Option<Bytes>> {
    // A part that came while something was read: it goes up before anything else.
    let mut part: Option<Option<Bytes>> = None;
    loop {
        while let Sent::UnderWay(gauge) = &*sent {
            let next = match part.take() {
                Some(next) => next,
                None => {
                    let Some(room) = gauge.room() else { break };
                    match poll_fn(|cx| Poll::Ready(upload.poll_part(cx, room))).await {
                        Poll::Ready(next) => next,
                        Poll::Pending => break,
                    }
                }
            };
            *sent = match next {
                Some(bytes) if session.write_body(&bytes).await.is_ok() => continue,
                // An open connection has no mark for its end, and giving one would end the other way too.
                None if upload.is_closing() || session.finish_body().await.is_ok() => Sent::Handed(gauge.clone()),
                Some(_) | None => Sent::Short,
            };
        }
        let closing = upload.is_closing();
        let pressed = |gauge: &Gauge| gauge.room().is_none() || (closing && !gauge.is_empty());
        let press = sent.gauge().filter(|gauge| pressed(gauge)).cloned();
        if closing && press.is_none() {
            upload.set_drained();
        }
        // A peer that takes nothing is silent. On an open connection both may be silent.
        session.read_timeout = match goal {
            _ if press.is_some() => Some(clocks.idle),
            ReadGoal::Head => Some(clocks.first_byte),
            ReadGoal::Piece if session.was_upgraded() => None,
            ReadGoal::Piece => Some(clocks.idle),
        };
        let room = match &*sent {
            Sent::UnderWay(gauge) => gauge.room(),
            _ => None,
        };
        let mut reading = pin!(async {
            match goal {
                ReadGoal::Head => read_head(session).await.map(|()| None),
                ReadGoal::Piece => session.read_body_bytes().await,
            }
        });
        let read = poll_fn(|cx| {
            if let Poll::Ready(read) = reading.as_mut().poll(cx) {
                return Poll::Ready(Some(read));
            }
            if let Some(room) = room
                && let Poll::Ready(next) = upload.poll_part(cx, room)
            {
                part = Some(next);
                return Poll::Ready(None);
            }
            if press.as_ref().is_some_and(|gauge| !pressed(gauge)) { Poll::Ready(None) } else { Poll::Pending }
        });
        if let Some(read) = read.await {
            return read;
        }
    }
}

/// Pingora marks the errors of a read that found the peer gone; a partial head is not among them here.
fn closed_before_any_byte(e: &Error) -> bool {
    let text = e.context.as_ref().map(|c| c.as_str()).unwrap_or_default();
    matches!(e.etype(), ErrorType::ConnectionClosed | ErrorType::ReadError) && text.ends_with("bytes already read: 0")
        || matches!(e.etype(), ErrorType::WriteError)
}

/// A failed write is not the end: the upstream may have answered early (413, 401) and closed.
async fn write_body(session: &mut HttpSession, body: &Pieces) -> pingora::Result<()> {
    for piece in body.iter() {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE));
            session.write_body(now).await?;
            rest = later;
        }
    }
    session.finish_body().await?;
    Ok(())
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.session.get_status().map_or(502, |s| s.as_u16())
    }

    pub(crate) fn head(&self) -> Option<&ResponseHeader> {
        self.session.resp_header()
    }

    pub(crate) fn is_done(&mut self) -> bool {
        self.session.is_body_done()
    }

    /// Who reads on watches the silence: a read that is given up and taken up again would start the clock anew.
    pub(crate) fn without_idle_clock(&mut self) {
        self.session.read_timeout = None;
    }

    /// The next piece of the body; `None` at its end. Cancel-safe.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, SendError> {
        let read = match &self.upload {
            Some(upload) => {
                let goal = ReadGoal::Piece;
                Box::pin(read_beside(&mut self.session, upload, &mut self.sent, goal, self.clocks)).await
            }
            None => self.session.read_body_bytes().await,
        };
        read.map_err(|e| match e.etype() {
            ErrorType::ReadTimedout => SendError::Silent,
            _ => SendError::Broken(e.etype().as_str().to_owned()),
        })
    }

    /// Keeps the connection when the answer was read to its end, closes it otherwise.
    pub(crate) async fn release(mut self, pool_size: usize) {
        if !self.sent.is_whole() {
            self.session.shutdown().await;
            return;
        }
        self.session.respect_keepalive();
        if let Some(stream) = (*self.session).reuse().await {
            check_in(self.key, stream, pool_size);
        }
    }

    /// Reads what is left of an answer nobody wants, within reason, so that its connection can be kept.
    pub(crate) async fn discard(mut self, pool_size: usize) {
        const WORTH_READING: usize = 64 * 1024;
        if !self.sent.is_whole() {
            return self.session.shutdown().await;
        }
        let rest = async {
            let mut read = 0;
            while !self.is_done() && read <= WORTH_READING {
                read += self.read().await.ok()?.map_or(0, |piece| piece.len());
            }
            self.is_done().then_some(())
        };
        if matches!(tokio::time::timeout(Duration::from_millis(500), rest).await, Ok(Some(()))) {
            self.release(pool_size).await;
        }
    }
}
