//! Where answers come from: a provider's stream on its way through a translator, bytes that pass through untouched, and
//! the call of another client that asked the same. Each says for itself how it ends well and how it tells that it
//! broke.

use super::meter::Meter;
use super::outcome::{failure_of, fallen, in_dialect, timed_out, tokens_of};
use super::pump::{Break, Close, Piece, Source, SourceEvent};
use crate::cache::{Follower, FollowerEvent};
use crate::guardrails::StreamJudge;
use crate::proxy::body::BufferBudget;
use crate::upstream::http1::{Response, SendError};
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, FaultKind, Operation, Usage};
use gateway_providers::tap::TextPlace;
use gateway_providers::{Failure, Progress, StreamTranslator, in_band};
use std::sync::Arc;

/// A stream in the client's dialect.
pub(crate) struct TranslatedSource {
    pub(crate) response: Response,
    pub(crate) translator: Box<dyn StreamTranslator>,
    pub(crate) dialect: Dialect,
    /// It was closed with an error of the gateway's own.
    pub(crate) aborted: bool,
    /// What judges it as it flows; `None`: nothing does.
    pub(crate) judge: Option<Box<StreamJudge>>,
}

impl TranslatedSource {
    /// The last bytes; `Err`: its dialect never said that the answer is complete.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Bytes> {
        let tail = self.translator.finish();
        let ending = self.translator.ending();
        if ending.complete || ending.failed.is_some() { Ok(tail) } else { Err(tail) }
    }

    /// Tells the client that the stream was not complete, behind its last bytes.
    pub(crate) fn cut_short(&mut self, tail: Bytes) -> Bytes {
        let failure = in_dialect(self.dialect, "The provider's stream ended before it was complete");
        self.aborted = true;
        [tail, self.translator.abort(&failure)].concat().into()
    }

    /// What was read of it before it was to be judged, with what is known of texts in it; `ended`: that was all.
    pub(crate) fn judge_first(&mut self, held: &Bytes, texts: &[TextPlace], ended: bool) {
        if let Some(judge) = &mut self.judge {
            judge.push(held, texts);
            if ended {
                judge.end();
            }
        }
    }

    /// Reads on until some text may leave, or all was judged. Safe to drop and ask again.
    pub(crate) async fn begin(&mut self) -> Result<(), Break> {
        loop {
            let Some(judge) = &self.judge else { return Ok(()) };
            let (is_stopped, may_begin) = (judge.stopped().is_some(), judge.may_begin());
            match (is_stopped, may_begin) {
                (true, _) => return Err(Break::Denied),
                (false, true) => return Ok(()),
                (false, false) => self.advance().await?,
            }
            if self.aborted {
                return Err(Break::Short);
            }
        }
    }

    /// What may leave next of an answer that is judged.
    async fn judged(&mut self) -> SourceEvent {
        loop {
            let Some(judge) = &mut self.judge else { return SourceEvent::End };
            let bytes = judge.take_out();
            if !bytes.is_empty() {
                // What came is not kept for the record: part of it may never leave.
                return SourceEvent::Piece(Piece { received: Bytes::new(), bytes, last: false });
            }
            if judge.stopped().is_some() {
                return SourceEvent::Broke(Break::Denied);
            }
            if judge.is_over() {
                return if self.aborted { SourceEvent::Broke(Break::Short) } else { SourceEvent::End };
            }
            if let Err(why) = self.advance().await {
                return SourceEvent::Broke(why);
            }
        }
    }

    /// One thing more: what the provider says, or what a check that asks outside has heard.
    async fn advance(&mut self) -> Result<(), Break> {
        let Self { response, judge: Some(judge), .. } = self else { return Ok(()) };
        if judge.has_ended() || (judge.is_full() && judge.awaits()) {
            judge.wait().await;
            return Ok(());
        }
        if response.is_done() {
            let (tail, is_short) = match self.finish() {
                Ok(tail) => (tail, false),
                Err(tail) => (tail, true),
            };
            self.aborted |= is_short;
            self.judge_first(&tail, &[], true);
            return Ok(());
        }
        let received = if judge.awaits() {
            tokio::select! {
                received = response.read() => received,
                () = judge.wait() => return Ok(()),
            }
        } else {
            response.read().await
        };
        let Some(received) = received.map_err(Break::Upstream)? else { return Ok(()) };
        let bytes = self.translator.push(received).map_err(|failure| Break::Failed(Box::new(failure)))?;
        judge.push(&bytes, self.translator.texts());
        Ok(())
    }

    /// Ends an answer that a guardrail denied in its middle.
    fn deny(&mut self) -> Close {
        let Some(judge) = &mut self.judge else { return Close::InBand(Bytes::new()) };
        if judge.stopped().is_some_and(|stopped| stopped.softly) {
            return Close::InBand(judge.refuse());
        }
        let shown = judge.shown_results();
        let body = gateway_guardrails::denial(self.dialect, &shown);
        let failure =
            Failure { status: 446, body, message: "guardrails denied the rest of the answer".to_owned(), usage: None };
        Close::InBand(self.translator.abort(&failure))
    }

    /// Cuts the answer off: no error can be told in the middle of what is no text.
    fn cut(&mut self, why: &str) -> Close {
        self.aborted = true;
        Close::Cut(Fault::new(FaultKind::UpstreamBroken, why.to_owned()))
    }

    fn abort(&mut self, failure: &Failure) -> Close {
        if !self.translator.has_error_events() {
            return self.cut(&failure.message);
        }
        self.aborted = true;
        Close::InBand(self.translator.abort(failure))
    }
}

impl Source for TranslatedSource {
    async fn next(&mut self) -> SourceEvent {
        if self.judge.is_some() {
            // Boxed: answers that nothing judges do not carry the room for it.
            return Box::pin(self.judged()).await;
        }
        loop {
            if self.response.is_done() {
                return SourceEvent::End;
            }
            let received = match self.response.read().await {
                Ok(Some(received)) => received,
                Ok(None) => continue,
                Err(e) => return SourceEvent::Broke(Break::Upstream(e)),
            };
            return match self.translator.push(received.clone()) {
                Ok(bytes) => {
                    let last = self.response.is_done();
                    SourceEvent::Piece(Piece { received, bytes, last })
                }
                Err(failure) => SourceEvent::Broke(Break::Failed(Box::new(failure))),
            };
        }
    }

    /// Clean only when its dialect said that the answer is complete.
    fn end(&mut self) -> Close {
        if self.judge.is_some() {
            // Its end was judged with the rest.
            return Close::Clean(Bytes::new());
        }
        match self.finish() {
            Ok(tail) => Close::Clean(tail),
            Err(_) if !self.translator.has_error_events() => {
                self.cut("The provider's stream ended before it was complete")
            }
            Err(tail) => Close::InBand(self.cut_short(tail)),
        }
    }

    fn broke(&mut self, why: Break) -> Close {
        let told = match why {
            Break::Failed(failure) => return self.abort(&failure),
            Break::Denied => return self.deny(),
            Break::Short => return Close::InBand(self.cut_short(Bytes::new())),
            Break::Overdue(told) => return self.abort(&failure_of(&timed_out(told), self.dialect)),
            // It said that it was done: what is missing is only the end of its body.
            _ if self.translator.progress() == Progress::Complete => return Close::Clean(Bytes::new()),
            Break::Silent | Break::Upstream(SendError::Silent) => "The provider fell silent",
            Break::Upstream(_) | Break::Lost => "The provider's stream broke off",
        };
        self.abort(&in_dialect(self.dialect, told))
    }

    fn tokens(&self) -> u64 {
        tokens_of(&*self.translator)
    }
}

/// Bytes that pass through as they come.
pub(crate) struct Opaque {
    pub(crate) response: Response,
    pub(crate) meter: Meter,
    pub(crate) budget: Arc<BufferBudget>,
    /// The provider's slug, for errors.
    pub(crate) provider: &'static str,
}

impl Source for Opaque {
    async fn next(&mut self) -> SourceEvent {
        loop {
            let piece = match self.response.read().await {
                Ok(piece) => piece,
                Err(e) => return SourceEvent::Broke(Break::Upstream(e)),
            };
            let last = self.response.is_done();
            match piece {
                Some(bytes) => {
                    self.meter.see(&bytes, &self.budget);
                    return SourceEvent::Piece(Piece { received: bytes.clone(), bytes, last });
                }
                None if last => return SourceEvent::End,
                None => {}
            }
        }
    }

    fn end(&mut self) -> Close {
        Close::Clean(Bytes::new())
    }

    fn broke(&mut self, why: Break) -> Close {
        Close::Cut(match why {
            Break::Upstream(e) => fallen(e, self.provider),
            Break::Overdue(told) => timed_out(told),
            Break::Silent | Break::Failed(_) | Break::Lost | Break::Short | Break::Denied => {
                fallen(SendError::Silent, self.provider)
            }
        })
    }

    fn tokens(&self) -> u64 {
        self.meter.tokens()
    }
}

/// What another call brings just now.
pub(crate) struct Followed {
    pub(crate) follower: Follower,
    pub(crate) dialect: Dialect,
    pub(crate) operation: Operation,
    /// Events in the client's dialect, among which an error can be told.
    pub(crate) events: bool,
    /// Known at its end.
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
}

impl Source for Followed {
    async fn next(&mut self) -> SourceEvent {
        loop {
            match self.follower.next().await {
                FollowerEvent::Begun(_) => {}
                FollowerEvent::Piece(bytes) => {
                    return SourceEvent::Piece(Piece { received: Bytes::new(), bytes, last: false });
                }
                FollowerEvent::Ended { usage, model } => {
                    (self.usage, self.model) = (usage, model);
                    return SourceEvent::End;
                }
                FollowerEvent::Failed(_) | FollowerEvent::Lost => return SourceEvent::Broke(Break::Lost),
            }
        }
    }

    fn end(&mut self) -> Close {
        Close::Clean(Bytes::new())
    }

    /// Its leader is gone: what came so far must not be taken for the whole.
    fn broke(&mut self, _: Break) -> Close {
        const LOST: &str = "The call that this answer came from was lost";
        if self.events {
            return Close::InBand(in_band(self.operation, &in_dialect(self.dialect, LOST)));
        }
        Close::Cut(Fault::new(FaultKind::UpstreamBroken, LOST))
    }

    fn tokens(&self) -> u64 {
        0
    }
}
