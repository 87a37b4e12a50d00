//! Every call on a Pingora session that the exchange makes, in one file: pingora is pinned exactly, and what
//! its sessions promise about cancellation and framing is relied on here and nowhere else.

use super::body::{Budget, Permit};
use super::head::HeadPlan;
use super::herald::Herald;
use super::upload::Upload;
use crate::cache::Lead;
use crate::upstream::{DialError, Dialer, Gauge, Origin, check_in, check_out};
use bytes::Bytes;
use gateway_domain::Fault;
use gateway_providers::Pieces;
use http::{Method, header};
use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::proxy::Session;
use pingora::{Error, ErrorType};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A body larger than this is written in pieces, so that an early answer is noticed between them, and taken from the
/// budget where it is read whole.
const PIECE: usize = 64 * 1024;

/// Why an upstream gave no head, or broke off.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The client is gone: nobody is left to answer.
    ClientGone(Box<Error>),
    /// It sends no more of its body.
    ClientSlow,
    NoConnection(DialError),
    /// Reset, closed or not HTTP.
    Broken(String),
    /// No byte within the clock in force.
    Silent,
}

impl WireError {
    /// By a client whose body is read.
    fn left(e: Box<Error>) -> Self {
        if *e.etype() == ErrorType::ReadTimedout { Self::ClientSlow } else { Self::ClientGone(e) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

/// An upstream that has answered with a head.
pub(crate) struct Answering {
    session: Box<HttpSession>,
    key: u64,
    sent: Sent,
    clocks: Clocks,
}

/// What came of reading a whole body.
pub(crate) enum Whole {
    Read(Bytes),
    TooLarge,
    /// The process holds as many bytes as it may.
    Full(Fault),
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

/// The client for whom an upstream is asked, and those who wait for the same answer.
pub(crate) struct Client<'a> {
    pub(crate) session: &'a mut ServerSession,
    pub(crate) lead: Option<&'a Lead>,
    /// Speaks to a client that waits for its stream to begin.
    pub(crate) herald: Option<&'a mut Herald>,
    /// The body of its request, where that streams up.
    pub(crate) upload: Option<&'a mut Upload>,
}

impl<'a> Client<'a> {
    /// One for whom nobody speaks, and whose answer nobody else waits for.
    pub(crate) const fn alone(session: &'a mut ServerSession) -> Self {
        Self { session, lead: None, herald: None, upload: None }
    }

    /// What was asked can be sent once more.
    pub(crate) fn can_repeat(&self) -> bool {
        self.upload.as_deref().is_none_or(Upload::can_repeat)
    }

    /// Everybody waits for the client's body.
    pub(crate) fn is_awaited(&self) -> bool {
        self.upload.as_deref().is_some_and(Upload::is_awaited)
    }

    /// Resolves when nobody wants the answer any more: the client has left, and nobody follows.
    pub(crate) async fn gone(&mut self) -> Box<Error> {
        let error = match (&mut self.herald, &self.upload) {
            (_, Some(upload)) => upload.client_gone(self.session).await,
            (Some(herald), None) => herald.watch(self.session).await,
            (None, None) => client_gone(self.session).await,
        };
        if let Some(lead) = self.lead {
            lead.deserted().await;
        }
        error
    }
}

/// Sends one request and reads the head of the answer. A pooled connection that died before any byte came
/// back is replaced by a fresh one, once and silently (invariant 4).
pub(crate) async fn send(
    down: &mut Client<'_>,
    dialer: &Dialer,
    origin: &Origin,
    head: &HeadPlan,
    body: &Pieces,
    clocks: Clocks,
) -> Result<Answering, WireError> {
    let (address, key) = dialer.address(origin);
    if let Some(stream) = check_out(key) {
        match converse(down, stream, key, head, body, clocks).await {
            Err(Failed::Stale) => {}
            Err(Failed::Final(e)) => return Err(e),
            Ok(answering) => return Ok(answering),
        }
    }
    let dialled = {
        // Boxed, as dialling is rare and its future large: every request would carry the room for it.
        let dial = Box::pin(dialer.dial(origin, address, key));
        tokio::select! { biased;
            r = dial => r.map_err(WireError::NoConnection)?,
            gone = down.gone() => return Err(WireError::ClientGone(gone)),
        }
    };
    let (stream, key) = dialled;
    converse(down, stream, key, head, body, clocks).await.map_err(|f| match f {
        Failed::Stale => WireError::Broken("the upstream closed the connection without an answer".into()),
        Failed::Final(e) => e,
    })
}

/// Who ended a conversation.
enum Stop {
    Client(Box<Error>),
    Upstream(Box<Error>),
}

enum Failed {
    /// No byte of an answer came; on a pooled connection that is the race with the peer's keep-alive.
    Stale,
    Final(WireError),
}

async fn converse(
    down: &mut Client<'_>,
    stream: Stream,
    key: u64,
    head: &HeadPlan,
    body: &Pieces,
    clocks: Clocks,
) -> Result<Answering, Failed> {
    let gauge = down.upload.is_some().then(|| Gauge::of(&stream));
    let mut session = Box::new(HttpSession::new(stream));
    session.read_timeout = Some(clocks.first_byte);
    session.write_timeout = Some(clocks.idle);
    let mut sent = Sent::Whole;
    let outcome = if let (Some(upload), Some(gauge)) = (down.upload.as_deref_mut(), gauge) {
        sent = Sent::UnderWay(gauge);
        // Boxed, as most requests stream nothing up, and every one would carry the room for it.
        Box::pin(stream_up(&mut session, head, (down.session, upload), &mut sent, clocks)).await
    } else {
        let talk = async {
            session.write_request_header(head.make()?).await?;
            if write_body(&mut session, body).await.is_err() {
                sent = Sent::Short;
            }
            read_head(&mut session).await
        };
        tokio::select! { biased;
            r = talk => r.map_err(Stop::Upstream),
            gone = down.gone() => Err(Stop::Client(gone)),
        }
    };
    match outcome {
        Ok(()) => {
            session.read_timeout = Some(clocks.idle);
            Ok(Answering { session, key, sent, clocks })
        }
        Err(Stop::Client(gone)) => Err(Failed::Final(WireError::left(gone))),
        Err(Stop::Upstream(e)) => {
            let nothing_came = session.resp_header().is_none() && *e.etype() != ErrorType::InvalidHTTPHeader;
            session.shutdown().await;
            Err(match e.etype() {
                ErrorType::ReadTimedout | ErrorType::WriteTimedout => Failed::Final(WireError::Silent),
                _ if nothing_came && closed_before_any_byte(&e) && down.can_repeat() => Failed::Stale,
                _ => Failed::Final(WireError::Broken(e.etype().as_str().to_owned())),
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
    (client, upload): (&mut ServerSession, &mut Upload),
    sent: &mut Sent,
    clocks: Clocks,
) -> Result<(), Stop> {
    let head = head.make().map_err(Stop::Upstream)?;
    session.write_request_header(head).await.map_err(Stop::Upstream)?;
    upload.rewind();
    hear(session, (client, upload), sent, Hear::Head, clocks).await?;
    if session.was_upgraded() {
        session.maybe_upgrade_body_writer();
        sent.resume();
    } else if session.get_status().is_some_and(|status| status == 101) {
        let why = "a switch of protocols that nobody asked for";
        return Err(Stop::Upstream(Error::explain(ErrorType::InvalidHTTPHeader, why)));
    }
    Ok(())
}

/// What is waited for from an upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hear {
    Head,
    Piece,
}

/// Reads from the upstream while the request's body goes up, so that neither way makes the other wait.
async fn hear(
    session: &mut HttpSession,
    (client, upload): (&mut ServerSession, &mut Upload),
    sent: &mut Sent,
    what: Hear,
    clocks: Clocks,
) -> Result<Option<Bytes>, Stop> {
    loop {
        while let Sent::UnderWay(gauge) = &*sent
            && let Some(room) = gauge.room()
        {
            *sent = match upload.part(room) {
                Some(part) if session.write_body(&part).await.is_ok() => continue,
                None if !upload.has_ended() => break,
                // An open connection has no mark for its end, and giving one would end the other way too.
                None if upload.is_closing() || session.finish_body().await.is_ok() => Sent::Handed(gauge.clone()),
                Some(_) | None => Sent::Short,
            };
        }
        let closing = upload.is_closing();
        let pressed = |gauge: &Gauge| gauge.room().is_none() || (closing && !gauge.is_empty());
        let press = sent.gauge().filter(|gauge| pressed(gauge)).cloned();
        // A peer that takes nothing is silent. On an open connection both may be silent.
        session.read_timeout = match what {
            _ if press.is_some() => Some(clocks.idle),
            Hear::Head => Some(clocks.first_byte),
            Hear::Piece if session.was_upgraded() => None,
            Hear::Piece => Some(clocks.idle),
        };
        let mut reading = pin!(async {
            match what {
                Hear::Head => read_head(session).await.map(|()| None),
                Hear::Piece => session.read_body_bytes().await,
            }
        });
        let heard = poll_fn(|cx| match reading.as_mut().poll(cx) {
            Poll::Ready(heard) => Poll::Ready(Some(heard)),
            Poll::Pending if press.as_ref().is_some_and(|gauge| !pressed(gauge)) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let attends = if closing { press.is_none() } else { upload.has_ended() || sent.gauge().is_some() };
        tokio::select! { biased;
            came = upload.attend(client), if attends => came.map_err(Stop::Client)?,
            heard = heard => if let Some(heard) = heard {
                return heard.map_err(Stop::Upstream);
            },
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

/// Resolves when the client has closed. A half-close counts as leaving, as it does in Pingora's own proxy.
pub(crate) async fn client_gone(down: &mut ServerSession) -> Box<Error> {
    loop {
        match down.read_body_or_idle(true).await {
            Err(e) => return e,
            Ok(None) => return Error::explain(ErrorType::ConnectionClosed, "client closed"),
            Ok(Some(_)) => {}
        }
    }
}

impl Answering {
    pub(crate) fn status(&self) -> u16 {
        self.session.get_status().map_or(502, |s| s.as_u16())
    }

    pub(crate) fn head(&self) -> Option<&ResponseHeader> {
        self.session.resp_header()
    }

    pub(crate) fn done(&mut self) -> bool {
        self.session.is_body_done()
    }

    /// Who reads on watches the silence: a read that is given up and taken up again would start the clock anew.
    pub(crate) fn unclocked(&mut self) {
        self.session.read_timeout = None;
    }

    /// The next piece of the body; `None` at its end. Cancel-safe.
    pub(crate) async fn read(&mut self, down: &mut Client<'_>) -> Result<Option<Bytes>, WireError> {
        if let Some(upload) = down.upload.as_deref_mut() {
            let heard =
                Box::pin(hear(&mut self.session, (down.session, upload), &mut self.sent, Hear::Piece, self.clocks));
            return heard.await.map_err(|stop| match stop {
                Stop::Client(gone) => WireError::left(gone),
                Stop::Upstream(e) => broke_off(&e),
            });
        }
        tokio::select! { biased;
            r = self.session.read_body_bytes() => r.map_err(|e| broke_off(&e)),
            gone = down.gone() => Err(WireError::ClientGone(gone)),
        }
    }

    /// The whole body, up to `most` bytes. A large one is taken from the budget.
    pub(crate) async fn read_whole(
        &mut self,
        down: &mut Client<'_>,
        most: usize,
        (budget, held): (&Arc<Budget>, &mut Option<Permit>),
    ) -> Result<Whole, WireError> {
        let mut whole: Option<bytes::BytesMut> = None;
        let mut first = Bytes::new();
        while !self.done() {
            let Some(piece) = self.read(down).await? else { break };
            let have = whole.as_ref().map_or(first.len(), |w| w.len());
            if have + piece.len() > most {
                return Ok(Whole::TooLarge);
            }
            if have + piece.len() > PIECE
                && let Err(full) = held.get_or_insert_with(|| Permit::new(budget)).grow_to(have + piece.len())
            {
                return Ok(Whole::Full(full));
            }
            match &mut whole {
                Some(whole) => whole.extend_from_slice(&piece),
                None if first.is_empty() => first = piece,
                None => {
                    let mut joined = bytes::BytesMut::with_capacity((have + piece.len()) * 2);
                    joined.extend_from_slice(&first);
                    joined.extend_from_slice(&piece);
                    whole = Some(joined);
                }
            }
        }
        Ok(Whole::Read(whole.map_or(first, bytes::BytesMut::freeze)))
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
    pub(crate) async fn discard(mut self, down: &mut Client<'_>, pool_size: usize) {
        const WORTH_READING: usize = 64 * 1024;
        if !self.sent.is_whole() {
            return self.session.shutdown().await;
        }
        let rest = async {
            let mut read = 0;
            while !self.done() && read <= WORTH_READING {
                read += self.read(down).await.ok()?.map_or(0, |piece| piece.len());
            }
            self.done().then_some(())
        };
        if matches!(tokio::time::timeout(Duration::from_millis(500), rest).await, Ok(Some(()))) {
            self.release(pool_size).await;
        }
    }
}

fn broke_off(e: &Error) -> WireError {
    match e.etype() {
        ErrorType::ReadTimedout => WireError::Silent,
        _ => WireError::Broken(e.etype().as_str().to_owned()),
    }
}

/// Head and first bytes of an answer in one write.
pub(crate) async fn write_head(
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

pub(crate) async fn write_body_piece(session: &mut Session, body: Option<Bytes>, end: bool) -> pingora::Result<()> {
    let task = if session.was_upgraded() { HttpTask::UpgradedBody(body, end) } else { HttpTask::Body(body, end) };
    session.write_response_tasks(vec![task]).await.map(drop)
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
