//! The way of an answer to its client and, beside it, to the cache and those who follow the same call; and the
//! way back of what the cache holds. A leader goes on without its client for as long as somebody follows.

use super::Gateway;
use super::answer::broken;
use super::attempt::Facts;
use super::caching;
use super::capture::Tape;
use super::deliver::{frame, send_whole};
use super::pulse::{Beat, COMMENT, Pulse};
use super::reply;
use super::request::Request;
use super::upload::Upload;
use super::wire::{self, Client};
use crate::cache::{Entry, Event, Follow, Head, Lead};
use bytes::Bytes;
use gateway_domain::Usage;
use gateway_domain::record::LogRecord;
use gateway_providers::in_band;
use pingora::Error;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use std::time::Instant;

/// Where the pieces of one answer go.
pub(crate) struct Outlet<'a> {
    pub(crate) session: &'a mut Session,
    lead: Option<Lead>,
    /// The client left, but others wait.
    pub(crate) deaf: Option<Box<Error>>,
    /// The last piece was handed on.
    pub(crate) ended: bool,
    /// The client has a head already, and comments behind it.
    begun: bool,
    /// What the client still sends.
    pub(crate) upload: Option<&'a mut Upload>,
}

impl<'a> Outlet<'a> {
    pub(crate) fn new(session: &'a mut Session, lead: Option<Lead>, begun: bool) -> Self {
        Self { session, lead, deaf: None, ended: false, begun, upload: None }
    }

    pub(crate) fn client(&mut self) -> Client<'_> {
        Client {
            session: &mut self.session.downstream_session,
            lead: self.lead.as_ref(),
            herald: None,
            upload: self.upload.as_deref_mut(),
        }
    }

    /// Head and first bytes in one write.
    pub(crate) async fn begin(
        &mut self,
        head: Box<ResponseHeader>,
        stream: bool,
        first: Option<Bytes>,
        end: bool,
    ) -> Result<(), Box<Error>> {
        if let Some(lead) = &mut self.lead {
            lead.begin(caching::beginning(&head, stream));
        }
        self.tell(first.as_ref());
        let written = self.head(head, first, end).await;
        self.written(written, end)
    }

    async fn head(&mut self, mut head: Box<ResponseHeader>, first: Option<Bytes>, end: bool) -> pingora::Result<()> {
        if self.begun {
            return match (first, end) {
                (None, false) => Ok(()),
                (first, end) => wire::write_body_piece(self.session, first, end).await,
            };
        }
        frame(&self.session.downstream_session, &mut head);
        wire::write_head(self.session, head, first, end).await
    }

    pub(crate) async fn piece(&mut self, piece: Option<Bytes>, end: bool) -> Result<(), Box<Error>> {
        self.tell(piece.as_ref());
        if self.deaf.is_some() {
            self.ended = end;
            return Ok(());
        }
        let written = wire::write_body_piece(self.session, piece, end).await;
        self.written(written, end)
    }

    /// For this client alone: neither kept nor told to those who follow.
    pub(crate) async fn comment(&mut self, comment: Bytes) -> Result<(), Box<Error>> {
        if self.deaf.is_some() {
            return Ok(());
        }
        let written = wire::write_body_piece(self.session, Some(comment), false).await;
        self.written(written, false)
    }

    fn tell(&mut self, piece: Option<&Bytes>) {
        if let (Some(lead), Some(piece)) = (&mut self.lead, piece) {
            lead.push(piece);
        }
    }

    fn written(&mut self, outcome: pingora::Result<()>, end: bool) -> Result<(), Box<Error>> {
        match outcome {
            Ok(()) => {}
            Err(e) if self.lead.as_ref().is_some_and(Lead::followed) => self.deaf = Some(e.into_down()),
            Err(e) => return Err(e.into_down()),
        }
        self.ended = end;
        Ok(())
    }

    /// A client that left is told of at the end, though the call went on without it.
    pub(crate) fn heard(&mut self, outcome: Result<(), Box<Error>>) -> Result<(), Box<Error>> {
        match &self.deaf {
            Some(_) if outcome.is_ok() => {
                Err(Error::explain(pingora::ErrorType::ConnectionClosed, "client closed").into_down())
            }
            _ => outcome,
        }
    }

    /// `whole`: the answer came to its proper end and may be kept.
    pub(crate) fn close(
        self,
        gateway: &Gateway,
        request: &Request,
        whole: bool,
        usage: Option<Usage>,
        model: Option<String>,
    ) {
        if let Some(lead) = self.lead.filter(|_| self.ended) {
            caching::end(gateway, lead, whole, usage, model, request);
        }
    }
}

/// An answer that the cache kept.
pub(crate) async fn kept(
    gateway: &Gateway,
    outlet: &mut Outlet<'_>,
    request: &Request,
    entry: &Entry,
    facts: &Facts,
    (record, tape): (&mut LogRecord, &mut Tape),
) -> Result<(), Box<Error>> {
    tape.said(&entry.body);
    record.usage = entry.usage;
    record.response_model = entry.model.as_deref().map(Into::into);
    record.response_bytes += entry.body.len() as u64;
    let mut head = caching::head_of(entry.status, &entry.content_type);
    reply::decorate(gateway, &mut head, request, facts);
    reply::first_byte(record, request);
    if entry.stream {
        return outlet.head(head, Some(entry.body.clone()), true).await.map_err(Error::into_down);
    }
    send_whole(outlet.session, head, entry.body.clone()).await
}

/// An answer that another call brings, piece by piece.
pub(crate) async fn followed(
    gateway: &Gateway,
    outlet: &mut Outlet<'_>,
    request: &Request,
    (begun, mut follow): (Head, Follow),
    facts: &Facts,
    (record, tape): (&mut LogRecord, &mut Tape),
) -> Result<(), Box<Error>> {
    let mut head = caching::head_of(begun.status, &begun.content_type);
    reply::decorate(gateway, &mut head, request, facts);
    reply::first_byte(record, request);
    outlet.head(head, None, false).await.map_err(Error::into_down)?;
    let session = &mut *outlet.session;
    // What passes through is answered as the provider answers, and nothing is said beside it.
    let events = begun.stream && !request.route.raw && begun.content_type.starts_with("text/event-stream");
    let mut pulse = Pulse::new(gateway, request);
    loop {
        let (left, beat) = pulse.next(Instant::now());
        let event = tokio::select! { biased;
            event = follow.next() => event,
            () = tokio::time::sleep(left) => match beat {
                Beat::Comment if events => {
                    wire::write_body_piece(session, Some(COMMENT), false).await.map_err(Error::into_down)?;
                    pulse.spoke(&COMMENT);
                    continue;
                }
                Beat::Comment => {
                    pulse.spoke(&COMMENT);
                    continue;
                }
                Beat::Silent | Beat::Overdue => Event::Lost,
            },
            gone = wire::client_gone(&mut session.downstream_session) => {
                record.fault = Some("client_gone");
                return Err(gone.into_down());
            }
        };
        pulse.heard();
        match event {
            Event::Piece(piece) => {
                record.response_bytes += piece.len() as u64;
                tape.said(&piece);
                pulse.spoke(&piece);
                wire::write_body_piece(session, Some(piece), false).await.map_err(Error::into_down)?;
            }
            Event::Ended { usage, model } => {
                record.usage = usage;
                record.response_model = model.map(Into::into);
                return wire::write_body_piece(session, None, true).await.map_err(Error::into_down);
            }
            Event::Begun(_) => {}
            // Its leader is gone: what came so far must not be taken for the whole.
            Event::Failed(_) | Event::Lost if events => {
                record.fault = Some("stream_broken");
                let failure = broken(request.route.dialect, "The call that this answer came from was lost");
                let said = in_band(request.route.operation, &failure);
                tape.said(&said);
                return wire::write_body_piece(session, Some(said), true).await.map_err(Error::into_down);
            }
            Event::Failed(_) | Event::Lost => {
                record.fault = Some("upstream_broken");
                session.downstream_session.shutdown().await;
                return Err(Error::explain(pingora::ErrorType::ConnectionClosed, "the shared call was lost").into_up());
            }
        }
    }
}
