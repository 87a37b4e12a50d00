//! Takes an answer to the client: in one piece, or as a stream that ends well or says that it broke.

use super::Gateway;
use super::admit::Holds;
use super::answer::{Answer, Begun, Passing, Told, broken, failure_of, fallen, tokens_of, usage_of};
use super::attempt::{Facts, timed_out};
use super::caching;
use super::capture::Tape;
use super::herald::Herald;
use super::meter::Meter;
use super::outlet::{Outlet, followed, kept};
use super::pulse::{Beat, COMMENT, Pulse};
use super::reply;
use super::request::Request;
use super::upload::Upload;
use super::wire::{self, Answering, WireError};
use crate::cache::Lead;
use bytes::Bytes;
use gateway_domain::Fault;
use gateway_domain::record::LogRecord;
use gateway_providers::{Failure, Progress, StreamTranslator, in_band};
use http::{StatusCode, header};
use pingora::Error;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use std::time::{Duration, Instant};

/// The way down to the client.
pub(crate) struct Way<'a> {
    session: &'a mut Session,
    /// Its 200 went down already, and so many bytes of comments.
    begun: Option<u64>,
    /// The body of its request, which may still be on its way up.
    upload: Option<&'a mut Upload>,
}

impl<'a> Way<'a> {
    pub(crate) fn new(session: &'a mut Session, herald: Option<&Herald>, upload: Option<&'a mut Upload>) -> Self {
        if upload.as_deref().is_some_and(|upload| !upload.has_ended()) {
            session.downstream_session.set_keepalive(None);
        }
        let begun = herald.filter(|herald| herald.has_begun()).map(|herald| herald.said);
        Self { session, begun, upload }
    }
}

/// An `Err` means that the client left before the end.
pub(crate) async fn answer(
    gateway: &Gateway,
    Way { session, begun, upload }: Way<'_>,
    request: &Request,
    (answer, lead): (Answer, Option<Lead>),
    (facts, record, tape): (&Facts, &mut LogRecord, &mut Tape),
    holds: &mut Holds,
) -> Result<(), Box<Error>> {
    record.status = answer.status();
    record.response_bytes = begun.unwrap_or(0);
    session.downstream_session.set_write_timeout(Some(gateway.settings.idle_timeout));
    if begun.is_some() && !answer.is_stream() {
        return late(session, request, (answer, lead), record, tape).await;
    }
    match answer {
        Answer::Fault(fault) => {
            record.fault = Some(fault.kind().row().label);
            let head = reply::fault_head(gateway, request, &fault, facts);
            let body = Bytes::from(fault.body(request.route.dialect));
            tape.said(&body);
            record.response_bytes = body.len() as u64;
            send_whole(session, head, body).await
        }
        Answer::Whole { status, head, body, reply } => {
            whole(gateway, session, request, (status, head, body, reply), lead, (facts, record, tape)).await
        }
        Answer::Stream(stream) => {
            let Begun { mut head, up, translator, held, tape: read, ended } = *stream;
            *tape = read;
            reply::decorate(gateway, &mut head, request, facts);
            reply::first_byte(record, request);
            let mut outlet = Outlet::new(session, lead, begun.is_some());
            let pulse = Pulse::new(gateway, request);
            let sent = begun.unwrap_or(0);
            let mut stream = Streaming { up, translator, record, tape, sent, watch: Watch::new(holds), pulse };
            let outcome = stream.run(gateway, &mut outlet, (head, held, ended), request).await;
            let outcome = outlet.heard(outcome);
            stream.close(gateway, outlet, request, outcome.is_ok()).await;
            outcome
        }
        Answer::Raw(passing) => {
            let Passing { up, mut meter, until } = *passing;
            // Of the head only the kind of content is shared.
            let encoded = up.head().is_some_and(|h| h.headers.contains_key(header::CONTENT_ENCODING));
            let shared = lead.filter(|_| (200..300).contains(&record.status) && !encoded);
            let mut outlet = Outlet::new(session, shared, false);
            outlet.upload = upload;
            let passage = Passage { up, meter: &mut meter, tape, watch: Watch::new(holds), unsent: None, record };
            let outcome = raw(gateway, &mut outlet, request, passage, until, facts).await;
            let outcome = outlet.heard(outcome);
            let whole = outlet.ended && record.fault.is_none() && meter.is_whole();
            let (usage, model) = meter.read(request);
            outlet.close(gateway, request, whole, usage, model.clone());
            record.usage = usage;
            record.response_model = model.map(Into::into);
            if outcome.is_err() && record.fault.is_none() {
                record.fault = Some("client_gone");
            }
            outcome
        }
        Answer::Kept(entry) => {
            let mut outlet = Outlet::new(session, None, begun.is_some());
            kept(gateway, &mut outlet, request, &entry, facts, (record, tape)).await
        }
        Answer::Followed(head, follow) => {
            let mut outlet = Outlet::new(session, None, begun.is_some());
            followed(gateway, &mut outlet, request, (head, *follow), facts, (record, tape)).await
        }
    }
}

/// Read to its end before anything of it goes down.
async fn whole(
    gateway: &Gateway,
    session: &mut Session,
    request: &Request,
    (status, mut head, body, told): (u16, Box<ResponseHeader>, Bytes, Told),
    lead: Option<Lead>,
    (facts, record, tape): (&Facts, &mut LogRecord, &mut Tape),
) -> Result<(), Box<Error>> {
    match lead {
        Some(lead) if told.failure.is_none() && (200..300).contains(&status) => {
            caching::keep_whole(gateway, lead, (&head, &body), &told, request);
        }
        Some(lead) => lead.fail(caching::failed(status, &head, &body, &told)),
        None => {}
    }
    record.usage = told.usage;
    record.response_model = told.model.map(Into::into);
    tape.received(&told.original);
    tape.said(&body);
    if told.failure.is_some() {
        record.fault = Some("upstream_error");
    }
    reply::decorate(gateway, &mut head, request, facts);
    reply::first_byte(record, request);
    record.response_bytes = body.len() as u64;
    // What it takes of the budget is given back when all of it was written.
    let held = told.held;
    let sent = send_whole(session, head, body).await;
    drop(held);
    sent
}

/// What is no stream, for a client that has its 200 and comments: an error in-band.
async fn late(
    session: &mut Session,
    request: &Request,
    (answer, lead): (Answer, Option<Lead>),
    record: &mut LogRecord,
    tape: &mut Tape,
) -> Result<(), Box<Error>> {
    let dialect = request.route.dialect;
    let failure = match answer {
        Answer::Fault(fault) => {
            record.fault = Some(fault.kind().row().label);
            failure_of(&fault, dialect)
        }
        Answer::Whole { status, head, body, reply } if reply.failure.is_some() => {
            record.fault = Some("upstream_error");
            tape.received(&reply.original);
            if let Some(lead) = lead {
                lead.fail(caching::failed(status, &head, &body, &reply));
            }
            Failure { status, body, message: reply.failure.unwrap_or_default() }
        }
        _ => {
            record.status = 502;
            record.fault = Some("upstream_broken");
            broken(dialect, "The provider answered a call for a stream with something else")
        }
    };
    let said = in_band(request.route.operation, &failure);
    tape.said(&said);
    record.response_bytes += said.len() as u64;
    wire::write_body_piece(session, Some(said), true).await.map_err(Error::into_down)
}

/// Clients of HTTP/1.0 know no chunks: their answer ends with the connection.
pub(super) fn frame(session: &ServerSession, head: &mut ResponseHeader) {
    let old = session.req_header().version < http::Version::HTTP_11;
    if !old && !head.headers.contains_key(header::CONTENT_LENGTH) {
        let chunked = head.insert_header(header::TRANSFER_ENCODING, "chunked");
        debug_assert!(chunked.is_ok(), "a constant header");
    }
}

pub(super) async fn send_whole(
    session: &mut Session,
    mut head: Box<ResponseHeader>,
    body: Bytes,
) -> Result<(), Box<Error>> {
    head.set_content_length(body.len())?;
    let head_only = session.req_header().method == http::Method::HEAD || body.is_empty();
    let body = (!head_only).then_some(body);
    wire::write_head(session, head, body, true).await.map_err(Error::into_down)
}

/// A stream's answer may be of any length: holds grow with it, looked at every few kilobytes.
struct Watch<'a> {
    holds: Option<&'a mut Holds>,
    since: usize,
}

impl<'a> Watch<'a> {
    const EVERY: usize = 4 * 1024;

    fn new(holds: &'a mut Holds) -> Self {
        Self { holds: holds.may_grow().then_some(holds), since: 0 }
    }

    /// `tokens` of the answer so far, asked only when it is time to.
    fn see(&mut self, bytes: usize, tokens: impl FnOnce() -> u64) {
        self.since += bytes;
        if self.since >= Self::EVERY
            && let Some(holds) = &mut self.holds
        {
            self.since = 0;
            holds.grow(tokens());
        }
    }
}

struct Streaming<'a> {
    up: Answering,
    translator: Box<dyn StreamTranslator>,
    record: &'a mut LogRecord,
    tape: &'a mut Tape,
    sent: u64,
    watch: Watch<'a>,
    pulse: Pulse,
}

impl Streaming<'_> {
    async fn run(
        &mut self,
        gateway: &Gateway,
        outlet: &mut Outlet<'_>,
        (head, held, ended): (Box<ResponseHeader>, Bytes, bool),
        request: &Request,
    ) -> Result<(), Box<Error>> {
        self.sent += held.len() as u64;
        self.watch.see(held.len(), || tokens_of(&self.translator.ending()));
        self.pulse.spoke(&held);
        self.up.unclocked();
        let first = (!held.is_empty()).then_some(held);
        outlet.begin(head, true, first, ended).await?;
        while !outlet.ended {
            let Some((out, end)) = self.step(gateway, outlet, request).await? else { continue };
            self.sent += out.len() as u64;
            self.tape.said(&out);
            self.watch.see(out.len(), || tokens_of(&self.translator.ending()));
            self.pulse.spoke(&out);
            if !out.is_empty() || end {
                outlet.piece((!out.is_empty()).then_some(out), end).await?;
            }
        }
        Ok(())
    }

    /// What goes down next, and whether that is the end; `None`: nothing yet.
    async fn step(
        &mut self,
        gateway: &Gateway,
        outlet: &mut Outlet<'_>,
        request: &Request,
    ) -> Result<Option<(Bytes, bool)>, Box<Error>> {
        if self.up.done() {
            return Ok(Some((self.last(request), true)));
        }
        let dialect = request.route.dialect;
        let (left, beat) = self.pulse.next(Instant::now());
        let read = match pingora_timeout::timeout(left, self.up.read(&mut outlet.client())).await {
            Ok(read) => read,
            Err(_) if beat == Beat::Comment => {
                self.sent += COMMENT.len() as u64;
                self.pulse.spoke(&COMMENT);
                outlet.comment(COMMENT).await?;
                return Ok(None);
            }
            Err(_) if beat == Beat::Overdue => {
                return Ok(Some((self.abort(&failure_of(&gateway.overdue(), dialect)), true)));
            }
            Err(_) => Err(WireError::Silent),
        };
        self.pulse.heard();
        Ok(Some(match read {
            Ok(Some(piece)) => {
                self.tape.received(&piece);
                match self.translator.push(piece) {
                    Ok(out) => (out, false),
                    Err(failure) => (self.abort(&failure), true),
                }
            }
            Ok(None) => return Ok(None),
            Err(WireError::ClientGone(e)) => return Err(e.into_down()),
            // It said that it was done: what is missing is only the end of its body.
            Err(_) if self.translator.progress() == Progress::Complete => (Bytes::new(), true),
            Err(WireError::Silent) => (self.abort(&broken(dialect, "The provider fell silent")), true),
            Err(_) => (self.abort(&broken(dialect, "The provider's stream broke off")), true),
        }))
    }

    /// The upstream's body is over: a clean end only when its dialect said so.
    fn last(&mut self, request: &Request) -> Bytes {
        let tail = self.translator.finish();
        let ending = self.translator.ending();
        if ending.complete || ending.failed.is_some() {
            return tail;
        }
        let failure = broken(request.route.dialect, "The provider's stream ended before it was complete");
        [tail, self.abort(&failure)].concat().into()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        self.record.fault = Some("stream_broken");
        self.translator.abort(failure)
    }

    /// Books what the stream used, also when the client left in the middle.
    async fn close(mut self, gateway: &Gateway, outlet: Outlet<'_>, request: &Request, delivered: bool) {
        let mut ending = self.translator.ending();
        self.record.response_bytes = self.sent;
        if ending.failed.is_some() {
            self.record.fault = Some("upstream_error");
        }
        let whole = ending.complete && outlet.ended && self.record.fault.is_none();
        let delivered = delivered && outlet.deaf.is_none();
        outlet.close(gateway, request, whole, ending.usage, ending.model.clone());
        self.record.response_model = ending.model.take().map(Into::into);
        if !delivered {
            self.record.fault = Some("client_gone");
        }
        // The upstream is let go before anything is counted.
        if delivered && self.up.done() {
            self.up.release(gateway.settings.upstream_pool_size).await;
        } else {
            drop(self.up);
        }
        self.record.usage = usage_of(ending, request.content.bytes.clone()).await;
    }
}

/// Passed on as it comes, until the time of the try or of the whole request is over.
async fn raw(
    gateway: &Gateway,
    outlet: &mut Outlet<'_>,
    request: &Request,
    mut passage: Passage<'_>,
    until: Option<(Instant, Duration)>,
    facts: &Facts,
) -> Result<(), Box<Error>> {
    let mut head = passage.up.head().map_or_else(|| reply::bare_head(502), |h| reply::copy_head(h, false));
    reply::first_byte(passage.record, request);
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return passage.tunnel(gateway, outlet, head).await;
    }
    reply::decorate(gateway, &mut head, request, facts);
    if passage.up.done() {
        return finish_bodyless(gateway, outlet.session, head, passage.up).await;
    }
    passage.unsent = Some(head);
    let left = match until {
        Some((at, told)) => Some((at.saturating_duration_since(Instant::now()), timed_out(told))),
        None => gateway.left(request).map(|left| (left, gateway.overdue())),
    };
    let ended = match left {
        None => passage.run(gateway, outlet).await,
        Some((left, late)) => match pingora_timeout::timeout(left, passage.run(gateway, outlet)).await {
            Ok(ended) => ended,
            Err(_) => Err(Broken::Off(late)),
        },
    };
    let provider = facts.provider;
    let fault = match ended {
        Ok(()) => {
            passage.up.release(gateway.settings.upstream_pool_size).await;
            return Ok(());
        }
        Err(Broken::Away(e)) => return Err(e),
        Err(Broken::Off(fault)) => fault,
        Err(Broken::Upstream(e)) => fallen(e, provider),
    };
    passage.record.fault = Some(fault.kind().row().label);
    if passage.unsent.is_none() {
        return cut(outlet.session).await;
    }
    passage.record.status = fault.status();
    let head = reply::fault_head(gateway, request, &fault, facts);
    send_whole(outlet.session, head, fault.body(request.route.dialect).into()).await
}

/// What passes through on its way: head as received, body piece by piece.
struct Passage<'a> {
    up: Answering,
    meter: &'a mut Meter,
    tape: &'a mut Tape,
    watch: Watch<'a>,
    /// Goes down with the first piece of the body.
    unsent: Option<Box<ResponseHeader>>,
    record: &'a mut LogRecord,
}

/// Why what passed through did not come to its end.
enum Broken {
    /// The client left.
    Away(Box<Error>),
    Upstream(WireError),
    Off(Fault),
}

impl Passage<'_> {
    /// The connection has become another: both sides say what they like until one of them ends it.
    async fn tunnel(
        &mut self,
        gateway: &Gateway,
        outlet: &mut Outlet<'_>,
        mut head: Box<ResponseHeader>,
    ) -> Result<(), Box<Error>> {
        head.insert_header(header::UPGRADE, "websocket")?;
        head.insert_header(header::CONNECTION, "Upgrade")?;
        wire::write_head(outlet.session, head, None, false).await.map_err(Error::into_down)?;
        if let Some(upload) = outlet.upload.as_deref_mut() {
            upload.open(&mut outlet.session.downstream_session);
        }
        // However it ends: what was said was relayed.
        let _ = self.run(gateway, outlet).await;
        Ok(())
    }

    async fn run(&mut self, gateway: &Gateway, outlet: &mut Outlet<'_>) -> Result<(), Broken> {
        let stream = self.unsent.as_ref().is_some_and(|head| !head.headers.contains_key(header::CONTENT_LENGTH));
        loop {
            let piece = match self.up.read(&mut outlet.client()).await {
                Ok(piece) => piece,
                Err(WireError::ClientGone(e)) => return Err(Broken::Away(e.into_down())),
                Err(e) => return Err(Broken::Upstream(e)),
            };
            let end = self.up.done();
            if let Some(piece) = &piece {
                self.record.response_bytes += piece.len() as u64;
                self.meter.see(piece, &gateway.budget);
                self.tape.passed(piece);
                self.watch.see(piece.len(), || self.meter.tokens());
            }
            if piece.is_none() && !end {
                continue;
            }
            let sent = match self.unsent.take() {
                Some(head) => outlet.begin(head, stream, piece, end).await,
                None => outlet.piece(piece, end).await,
            };
            sent.map_err(Broken::Away)?;
            if end {
                return Ok(());
            }
        }
    }
}

async fn finish_bodyless(
    gateway: &Gateway,
    session: &mut Session,
    mut head: Box<ResponseHeader>,
    up: Answering,
) -> Result<(), Box<Error>> {
    let bodyless = head.status == 204 || head.status == 304;
    if !bodyless && !head.headers.contains_key(header::CONTENT_LENGTH) {
        head.set_content_length(0)?;
    }
    wire::write_head(session, head, None, true).await.map_err(Error::into_down)?;
    up.release(gateway.settings.upstream_pool_size).await;
    Ok(())
}

/// What passed through broke off: the client must not take what it has for the whole, so the connection is cut
/// without an end.
async fn cut(session: &mut Session) -> Result<(), Box<Error>> {
    // What was written still goes out; a client that takes nothing has all of it dropped with the connection.
    const LONGEST: Duration = Duration::from_millis(500);
    let _ = pingora_timeout::timeout(LONGEST, session.downstream_session.shutdown()).await;
    Err(Error::explain(pingora::ErrorType::ConnectionClosed, "upstream broke off").into_up())
}
