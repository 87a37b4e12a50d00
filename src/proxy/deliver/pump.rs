//! Takes an answer down, piece by piece: from a source, under the clocks of a stream, to a sink. There is one such loop
//! for streams, for what passes through, and for what another call brings; what differs between them is the source.
//! Knows neither providers nor connections, so that every rule of it is tested with scripted pieces.

use super::outcome::timed_out;
use super::timers::{Due, StreamTimers};
use crate::proxy::client::{COMMENT, ClientLeft};
use crate::proxy::record::BodyCapture;
use crate::upstream::http1::SendError;
use bytes::Bytes;
use gateway_domain::Fault;
use gateway_providers::Failure;
use std::time::{Duration, Instant};

/// What comes next from a source.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    Piece(Piece),
    /// Nothing comes any more, and nothing is missing.
    End,
    Broke(Break),
}

#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// The bytes as the provider sent them; empty where no provider was asked.
    pub(crate) received: Bytes,
    /// The bytes for the client.
    pub(crate) bytes: Bytes,
    /// Nothing comes behind it.
    pub(crate) last: bool,
}

/// Why a source ended before its end.
#[derive(Debug)]
pub(crate) enum Break {
    /// The provider told of an error inside its answer, or what it said makes no sense.
    Failed(Box<Failure>),
    /// The connection broke.
    Upstream(SendError),
    Silent,
    /// Longer than this is not allowed.
    Overdue(Duration),
    /// The call of another, that was followed, came to nothing.
    Lost,
    /// It ended before it was complete, and nothing of it went down.
    Short,
    /// A guardrail keeps the rest of it back.
    Denied,
}

/// How an answer is closed.
#[derive(Debug)]
pub(crate) enum Close {
    /// The answer ends as it should, with these last bytes.
    Clean(Bytes),
    /// An error in the client's dialect ends the answer, which is not complete then.
    InBand(Bytes),
    /// Nothing that the client would understand can be said behind what it has: the connection is cut off. Where
    /// nothing went down yet, the fault is the answer.
    Cut(Fault),
}

/// Where an answer comes from.
pub(crate) trait Source: Send {
    /// Must be safe to drop and ask again.
    fn next(&mut self) -> impl Future<Output = SourceEvent> + Send;
    /// All pieces were taken.
    fn end(&mut self) -> Close;
    fn broke(&mut self, why: Break) -> Close;
    /// Tokens of the answer so far, as far as anybody knows.
    fn tokens(&self) -> u64;
}

/// Where an answer goes.
pub(crate) trait Sink: Send {
    /// Does `work` for as long as somebody waits for the answer.
    fn during<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T, ClientLeft>> + Send;
    /// The first bytes take the head with them, also when there are none.
    fn write(&mut self, bytes: Bytes, end: bool) -> impl Future<Output = Result<(), ClientLeft>> + Send;
    /// Writes a comment to this client alone: it belongs to no answer.
    fn comment(&mut self) -> impl Future<Output = Result<(), ClientLeft>> + Send;
    /// A head went down.
    fn has_begun(&self) -> bool;
}

/// Asked every few kilobytes how many tokens an answer has, since what is held of limits grows with it.
pub(crate) trait Growth: Send {
    fn saw(&mut self, bytes: usize, tokens: impl FnOnce() -> u64);
}

/// Why nothing more can be written.
#[derive(Debug)]
enum WriteStop {
    ClientLeft(ClientLeft),
    /// The client took so long to read that the time for the whole is over.
    Overdue(Duration),
}

impl From<ClientLeft> for WriteStop {
    fn from(left: ClientLeft) -> Self {
        Self::ClientLeft(left)
    }
}

impl From<WriteStop> for Ended {
    fn from(stopped: WriteStop) -> Self {
        match stopped {
            WriteStop::ClientLeft(left) => Self::ClientLeft(left),
            WriteStop::Overdue(told) => Self::Cut(timed_out(told)),
        }
    }
}

/// How it went.
#[derive(Debug)]
pub(crate) enum Ended {
    Clean,
    /// The client was told of an error in-band.
    InBand,
    /// Nothing went down: this is the answer.
    Unsent(Fault),
    /// The client has a part, and its connection has to be cut off.
    Cut(Fault),
    ClientLeft(ClientLeft),
}

pub(crate) struct Pump<'a, S, K, G> {
    pub(crate) source: S,
    pub(crate) sink: K,
    pub(crate) growth: G,
    pub(crate) timers: StreamTimers,
    pub(crate) capture: &'a mut BodyCapture,
    /// Bytes that went down, of the answer and of comments.
    pub(crate) written: u64,
}

impl<S: Source, K: Sink, G: Growth> Pump<'_, S, K, G> {
    /// `first`: what was read of the answer before it was chosen; `None` sends no head before there is something to
    /// send.
    pub(crate) async fn run(&mut self, first: Option<Piece>) -> Ended {
        if let Some(Piece { bytes, last, .. }) = first {
            let (source, growth) = (&self.source, &mut self.growth);
            growth.saw(bytes.len(), || source.tokens());
            if let Err(stopped) = self.write(bytes, last).await {
                return stopped.into();
            }
            if last {
                return Ended::Clean;
            }
        }
        loop {
            match self.step().await {
                Ok(None) => {}
                Ok(Some(ended)) => return ended,
                Err(stopped) => return stopped.into(),
            }
        }
    }

    /// The next thing that happens; `None`: there is more.
    async fn step(&mut self) -> Result<Option<Ended>, WriteStop> {
        let due = self.timers.next(Instant::now());
        let event = match due {
            None => Some(self.sink.during(self.source.next()).await?),
            Some((left, _)) => {
                let limited = pingora_timeout::timeout(left, self.source.next());
                self.sink.during(limited).await?.ok()
            }
        };
        let event = match (event, due) {
            (Some(event), _) => {
                self.timers.read(Instant::now());
                event
            }
            (None, Some((_, Due::Comment))) => return self.comment().await.map(|()| None),
            (None, Some((_, Due::Overdue(told)))) => SourceEvent::Broke(Break::Overdue(told)),
            (None, _) => SourceEvent::Broke(Break::Silent),
        };
        match event {
            SourceEvent::Piece(piece) => self.pass(piece).await,
            SourceEvent::End => {
                let close = self.source.end();
                self.close(Bytes::new(), close).await.map(Some)
            }
            SourceEvent::Broke(why) => {
                let close = self.source.broke(why);
                self.close(Bytes::new(), close).await.map(Some)
            }
        }
    }

    async fn pass(&mut self, piece: Piece) -> Result<Option<Ended>, WriteStop> {
        let Piece { received, bytes, last } = piece;
        self.capture.received(&received);
        self.capture.sent(&bytes);
        let (source, growth) = (&self.source, &mut self.growth);
        growth.saw(bytes.len(), || source.tokens());
        if last {
            let close = self.source.end();
            return self.close(bytes, close).await.map(Some);
        }
        if !bytes.is_empty() {
            self.write(bytes, false).await?;
        }
        Ok(None)
    }

    async fn close(&mut self, before: Bytes, close: Close) -> Result<Ended, WriteStop> {
        let (tail, ended) = match close {
            Close::Clean(tail) => (tail, Ended::Clean),
            Close::InBand(tail) => (tail, Ended::InBand),
            Close::Cut(fault) => {
                if !before.is_empty() {
                    self.write(before, false).await?;
                }
                return Ok(if self.sink.has_begun() { Ended::Cut(fault) } else { Ended::Unsent(fault) });
            }
        };
        self.capture.sent(&tail);
        let last = match (before.is_empty(), tail.is_empty()) {
            (_, true) => before,
            (true, false) => tail,
            (false, false) => [before, tail].concat().into(),
        };
        self.write(last, true).await.map(|()| ended)
    }

    async fn comment(&mut self) -> Result<(), WriteStop> {
        self.written += COMMENT.len() as u64;
        self.timers.wrote(Instant::now(), &COMMENT);
        in_time(self.timers.left(), self.sink.comment()).await
    }

    async fn write(&mut self, bytes: Bytes, end: bool) -> Result<(), WriteStop> {
        self.written += bytes.len() as u64;
        self.timers.wrote(Instant::now(), &bytes);
        in_time(self.timers.left(), self.sink.write(bytes, end)).await
    }
}

/// A client that does not read does not outlast the time for the whole either.
async fn in_time(
    left: Option<(Duration, Duration)>,
    write: impl Future<Output = Result<(), ClientLeft>>,
) -> Result<(), WriteStop> {
    let Some((left, told)) = left else { return Ok(write.await?) };
    match pingora_timeout::timeout(left, write).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(WriteStop::Overdue(told)),
    }
}

#[cfg(test)]
mod tests;
