//! Takes an answer to the client: in one piece, or as a stream that ends well or says that it broke. Knows nothing of
//! how the answer was come by, and decides nothing about retries or targets.

mod downstream;
mod event_budget;
mod head;
mod meter;
mod outcome;
mod pump;
mod source;
mod timers;

pub(crate) use event_budget::Accounted;
pub(crate) use head::{
    ReplyNames, announce, bare_head, decorate, fault_head, json_answer, own_head, passed_head, refusal,
};
pub(crate) use meter::Meter;
use meter::MeterReading;
pub(crate) use outcome::{
    BegunStream, Outcome, PassthroughResponse, WholeAnswer, failure_of, fallen, in_dialect, is_json, media_of,
    overlong, timed_out, usage_of,
};
pub(crate) use pump::{Break, Growth, Piece, Source, SourceEvent};
pub(crate) use source::TranslatedSource;
pub(crate) use timers::Deadline;

use super::body::BufferBudget;
use super::client::{Client, ClientLeft};
use super::record::{AttemptInfo, BodyCapture};
use super::request::Request;
use super::responses::ResponseKeeper;
use super::settings::ProxySettings;
use crate::cache::{AnswerHead, CacheEntry, Follower, Leader};
use crate::guardrails::StreamJudge;
use crate::upstream::http1::Response;
use bytes::Bytes;
use downstream::{Downstream, beginning};
use gateway_domain::record::LogRecord;
use gateway_domain::{Fault, Usage};
use gateway_providers::{EndedRun, Failure, in_band};
use head::{decorate_beside, head_of};
use http::{StatusCode, header};
use pingora::http::ResponseHeader;
use pump::{Ended, Pump};
use smol_str::SmolStr;
use source::{Followed, Opaque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use timers::StreamTimers;

/// What of the gateway a delivery needs.
#[derive(Clone)]
pub(crate) struct DeliveryParts {
    pub(crate) settings: Arc<ProxySettings>,
    pub(crate) names: Arc<ReplyNames>,
    pub(crate) budget: Arc<BufferBudget>,
    /// Where work runs that no client waits for.
    pub(crate) background: tokio::runtime::Handle,
}

impl DeliveryParts {
    /// The time of the whole request was over when its clock was last looked at.
    pub(crate) fn is_over(&self, request: &Request) -> bool {
        let most = self.settings.total_timeout.map(|most| most.as_micros());
        most.is_some_and(|most| u128::from(request.elapsed_us()) > most)
    }

    /// When the time of a whole request is over.
    pub(crate) fn deadline(&self, request: &Request) -> Option<Deadline> {
        let told = self.settings.total_timeout?;
        Some(Deadline { at: request.caller.started.checked_add(told)?, told })
    }
}

/// One answer on its way down, and what is noted of it.
pub(crate) struct Delivery<'a, 's, G> {
    pub(crate) parts: &'a DeliveryParts,
    pub(crate) client: &'a mut Client<'s>,
    pub(crate) request: &'a Request,
    pub(crate) info: &'a AttemptInfo,
    pub(crate) record: &'a mut LogRecord,
    pub(crate) capture: &'a mut BodyCapture,
    pub(crate) growth: G,
    /// Others wait for the same answer, or it is to be kept.
    pub(crate) leader: Option<Leader>,
    /// Keeps a response for a client that goes on from it.
    pub(crate) keeper: Option<Box<ResponseKeeper>>,
    /// What judged a stream on its way down, when that is over.
    pub(crate) judge: &'a mut Option<Box<StreamJudge>>,
    /// Set to the assistant's run that has ended, where the answer told what it used.
    pub(crate) run: &'a mut Option<Box<EndedRun>>,
}

/// An `Err` means that the client left before the end, or was cut off from an answer that broke.
type Delivered = Result<(), ClientLeft>;

impl<G: Growth> Delivery<'_, '_, G> {
    pub(crate) async fn run(mut self, outcome: Outcome) -> Delivered {
        self.record.status = outcome.status();
        self.record.response_bytes = self.client.bytes_before();
        self.client.begin_answer(self.parts.settings.idle_timeout);
        if self.client.has_begun() && !outcome.is_stream() {
            return Box::pin(self.late(outcome)).await;
        }
        match outcome {
            Outcome::Fault(fault) => self.fault(&fault).await,
            Outcome::Whole(answer) => self.whole(answer).await,
            // Boxed, as they are large: every other answer would carry the room for them.
            Outcome::Stream(stream) => Box::pin(self.stream(*stream)).await,
            Outcome::Passthrough(passing) => Box::pin(self.passthrough(*passing)).await,
            Outcome::Cached(entry) => self.cached(&entry).await,
            Outcome::Followed(head, follower) => Box::pin(self.followed(&head, *follower)).await,
        }
    }

    /// What the answer says of itself, on the record.
    fn record_usage(&mut self, usage: Option<Usage>, model: Option<SmolStr>) {
        if let Some(llm) = self.record.llm_mut() {
            (llm.usage, llm.response_model) = (usage, model);
        }
    }

    async fn fault(&mut self, fault: &Fault) -> Delivered {
        self.record.fault = Some(fault.kind().row().label);
        let head = fault_head(&self.parts.names, self.request, fault, self.info);
        let body = Bytes::from(fault.body(self.request.ask.route.dialect));
        self.capture.sent(&body);
        self.record.response_bytes = body.len() as u64;
        self.client.whole(head, body).await
    }

    /// Read to its end before anything of it goes down.
    async fn whole(&mut self, answer: Box<WholeAnswer>) -> Delivered {
        if let Some(leader) = self.leader.take() {
            self.share(leader, &answer);
        }
        let WholeAnswer { mut head, body, usage, model, failure, original, held } = *answer;
        self.record_usage(usage, model.map(Into::into));
        self.capture.received(&original);
        if failure.is_some() {
            self.record.fault = Some("upstream_error");
        }
        let body = self.with_results(&head, body);
        self.capture.sent(&body);
        self.decorate(&mut head);
        self.record.response_bytes = body.len() as u64;
        self.keep(&body).await;
        // Pinned here, and not moved into what awaits it: each move copies it.
        let sent = pin!(self.client.whole(head, body)).await;
        // What it takes of the budget is given back when all of it was written.
        drop(held);
        sent
    }

    /// Before it goes down: its client may go on from it at once.
    async fn keep(&mut self, body: &Bytes) {
        if let Some(keeper) = self.keeper.as_mut().filter(|_| matches!(self.record.status, 200 | 246)) {
            Box::pin(keeper.whole(body)).await;
        }
    }

    /// The cache and those who follow have it before its client does, so that nobody waits for a slow client.
    fn share(&self, mut leader: Leader, answer: &WholeAnswer) {
        if answer.failure.is_some() || !(200..300).contains(&answer.status()) {
            return leader.fail(answer.shared_failure());
        }
        leader.begin(beginning(&answer.head, false));
        leader.push(&answer.body);
        self.end(leader, true, answer.usage, answer.model.clone());
    }

    /// The shared shelf is told in the background: the next request on this connection does not wait for it.
    fn end(&self, leader: Leader, good: bool, usage: Option<Usage>, model: Option<String>) {
        // It may have taken long to come down.
        self.request.look();
        if let Some(publication) = leader.end(good, usage, model, self.request.now()) {
            self.parts.background.spawn(publication.send());
        }
    }

    /// What guardrails said, as the last key of an answer in JSON. What passes through is not touched.
    fn with_results(&self, head: &ResponseHeader, body: Bytes) -> Bytes {
        let Some(hooks) = self.info.hooks.as_ref().filter(|_| !self.request.ask.route.raw) else { return body };
        let told = matches!(head.status.as_u16(), 200 | 246 | 446) && is_json(&media_of(&head.headers));
        if told { gateway_guardrails::with_results(&body, &hooks.results) } else { body }
    }

    /// The gateway's own headers; from here on the answer is on its way.
    fn decorate(&mut self, head: &mut ResponseHeader) {
        self.record.timings.first_byte_us = self.request.look();
        match self.client.lines() {
            Some(lines) => decorate_beside(&self.parts.names, (head, lines), self.request, self.info),
            None => decorate(&self.parts.names, head, self.request, self.info),
        }
    }

    async fn stream(mut self, stream: BegunStream) -> Delivered {
        let BegunStream { mut head, mut response, translator, held, capture, ended, aborted, judge, .. } = stream;
        *self.capture = capture;
        self.decorate(&mut head);
        response.without_idle_clock();
        let (settings, dialect) = (&self.parts.settings, self.request.ask.route.dialect);
        let deadline = self.parts.deadline(self.request);
        let leader = self.leader.take();
        // Between the bytes of a sound there is no room for comments.
        let keepalive = settings.stream_keepalive.filter(|_| translator.has_error_events());
        let mut pump = Pump {
            source: TranslatedSource { response, translator, dialect, aborted, judge },
            sink: Downstream::new(self.client, head).led_by(leader, true).kept_by(self.keeper.take()),
            timers: StreamTimers::new(Instant::now(), settings.idle_timeout, keepalive, deadline),
            growth: &mut self.growth,
            capture: &mut *self.capture,
            written: self.record.response_bytes,
        };
        let went = pump.run(Some(Piece { bytes: held, last: ended, ..Piece::default() })).await;
        let Pump { source, sink, written, .. } = pump;
        let (leader, unheard) = sink.close();
        self.record.response_bytes = written;
        let TranslatedSource { response, translator, aborted, judge, .. } = source;
        let mut ending = translator.ending();
        let denied = judge.as_ref().is_some_and(|judge| judge.stopped().is_some());
        let is_clean = judge.as_ref().is_none_or(|judge| !judge.has_failed() && !denied);
        *self.judge = judge;
        self.record.fault = match () {
            () if denied => Some("hooks_failed"),
            () if ending.failed.is_some() => Some("upstream_error"),
            () if aborted => Some("stream_broken"),
            () => None,
        };
        if let Some(leader) = leader {
            let whole = ending.complete && self.record.fault.is_none() && is_clean;
            self.end(leader, whole, ending.usage, ending.model.clone());
        }
        let model = ending.model.take();
        *self.run = ending.run.take();
        if denied {
            self.record.status = 446;
        }
        let left = match went {
            Ended::ClientLeft(left) => Some(self.gone(left)),
            Ended::Cut(fault) | Ended::Unsent(fault) => {
                self.record.fault = Some(fault.kind().row().label);
                self.client.cut().await;
                Some(ClientLeft::CutOff("the client took too long to read"))
            }
            Ended::Clean | Ended::InBand => unheard.map(|left| self.gone(left)),
        };
        // The upstream is let go before anything is counted.
        if left.is_none() && response.is_done() {
            response.release(self.parts.settings.upstream_pool_size);
        } else {
            drop(response);
        }
        let usage = usage_of(ending, self.request.ask.content.bytes.clone()).await;
        self.record_usage(usage, model.map(Into::into));
        left.map_or(Ok(()), Err)
    }

    /// Passed on as it comes, until the time of the try or of the whole request is over.
    async fn passthrough(mut self, passing: PassthroughResponse) -> Delivered {
        let PassthroughResponse { mut response, meter, until, status, location } = passing;
        let mut head = passed_head(response.take_head(), false);
        if let Some(status) = status {
            head.set_status(status).map_err(ClientLeft::Gone)?;
        }
        if let Some(location) = location {
            head.insert_header(header::LOCATION, location).map_err(ClientLeft::Gone)?;
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            self.record.timings.first_byte_us = self.request.look();
            return Box::pin(self.tunnel(head, response)).await;
        }
        let encoded = head.headers.contains_key(header::CONTENT_ENCODING);
        self.decorate(&mut head);
        if response.is_done() {
            return self.bodyless(head, response).await;
        }
        // Those who wait for the same answer get nothing of its head but the content type, so an encoded one is not
        // shared.
        let leader = self.leader.take().filter(|_| (200..300).contains(&self.record.status) && !encoded);
        let stream = !head.headers.contains_key(header::CONTENT_LENGTH);
        let budget = self.parts.budget.clone();
        let deadline = until.or_else(|| self.parts.deadline(self.request));
        let mut pump = Pump {
            source: Opaque { response, meter, budget, provider: self.info.provider },
            sink: Downstream::new(self.client, head).led_by(leader, stream),
            timers: StreamTimers::until(Instant::now(), deadline),
            growth: &mut self.growth,
            capture: &mut *self.capture,
            written: 0,
        };
        let went = pump.run(None).await;
        let Pump { source: Opaque { response, meter, .. }, sink, written, .. } = pump;
        let (leader, unheard) = sink.close();
        self.record.response_bytes = written;
        let whole = matches!(went, Ended::Clean) && meter.is_whole();
        let MeterReading { usage, model, run } = meter.read(self.request);
        *self.run = run.or(self.run.take());
        if let Some(leader) = leader {
            self.end(leader, whole, usage, model.clone());
        }
        self.record_usage(usage, model.map(Into::into));
        match went {
            Ended::Clean | Ended::InBand => {
                response.release(self.parts.settings.upstream_pool_size);
                match unheard {
                    Some(left) => Err(self.gone(left)),
                    None => Ok(()),
                }
            }
            Ended::ClientLeft(left) => Err(self.gone(left)),
            Ended::Unsent(fault) => {
                self.record.status = fault.status();
                self.fault(&fault).await
            }
            Ended::Cut(fault) => {
                self.record.fault = Some(fault.kind().row().label);
                self.client.cut().await;
                Err(ClientLeft::CutOff("upstream broke off"))
            }
        }
    }

    fn gone(&mut self, left: ClientLeft) -> ClientLeft {
        self.record.fault = Some("client_gone");
        left
    }

    async fn bodyless(&mut self, mut head: Box<ResponseHeader>, response: Response) -> Delivered {
        let bodyless = head.status == 204 || head.status == 304;
        if !bodyless && !head.headers.contains_key(header::CONTENT_LENGTH) {
            head.set_content_length(0).map_err(ClientLeft::Gone)?;
        }
        self.client.head(head, true).await?;
        response.release(self.parts.settings.upstream_pool_size);
        Ok(())
    }

    /// The connection has become another: both sides say what they like until one of them ends it.
    async fn tunnel(mut self, mut head: Box<ResponseHeader>, response: Response) -> Delivered {
        let upgraded = head
            .insert_header(header::UPGRADE, "websocket")
            .and_then(|()| head.insert_header(header::CONNECTION, "Upgrade"));
        upgraded.map_err(ClientLeft::Gone)?;
        self.client.head(head, false).await?;
        self.client.open_upload();
        let mut pump = Pump {
            source: Opaque {
                response,
                meter: Meter::Blind,
                budget: self.parts.budget.clone(),
                provider: self.info.provider,
            },
            sink: Downstream::tunnel(self.client),
            timers: StreamTimers::until(Instant::now(), None),
            growth: &mut self.growth,
            capture: &mut *self.capture,
            written: 0,
        };
        // However it ends: what was said was relayed.
        let _ = pump.run(None).await;
        self.record.response_bytes = pump.written;
        Ok(())
    }

    /// An answer that the cache kept.
    async fn cached(&mut self, entry: &CacheEntry) -> Delivered {
        self.record_usage(entry.usage, entry.model.as_deref().map(Into::into));
        let mut head = head_of(entry.status, &entry.content_type);
        let body = self.with_results(&head, entry.body.clone());
        self.capture.sent(&body);
        self.record.response_bytes += body.len() as u64;
        self.decorate(&mut head);
        match &mut self.keeper {
            Some(keeper) if entry.stream => Box::pin(keeper.piece(&body)).await,
            _ => self.keep(&body).await,
        }
        if entry.stream {
            return self.client.begin(head, Some(body), true).await;
        }
        self.client.whole(head, body).await
    }

    /// An answer that another call brings, piece by piece.
    async fn followed(mut self, begun: &AnswerHead, follower: Follower) -> Delivered {
        let mut head = head_of(begun.status, &begun.content_type);
        self.decorate(&mut head);
        let route = &self.request.ask.route;
        // What passes through is answered as the provider answers, and nothing is said beside it.
        let events = begun.stream && !route.raw && begun.content_type.starts_with("text/event-stream");
        let settings = &self.parts.settings;
        let keepalive = settings.stream_keepalive.filter(|_| events);
        let deadline = self.parts.deadline(self.request);
        let (dialect, operation) = (route.dialect, route.operation);
        let mut pump = Pump {
            source: Followed { follower, dialect, operation, events, usage: None, model: None },
            sink: Downstream::new(self.client, head).kept_by(self.keeper.take()),
            timers: StreamTimers::new(Instant::now(), settings.idle_timeout, keepalive, deadline),
            growth: &mut self.growth,
            capture: &mut *self.capture,
            written: self.record.response_bytes,
        };
        let went = pump.run(Some(Piece::default())).await;
        let Pump { source, written, .. } = pump;
        self.record.response_bytes = written;
        self.record_usage(source.usage, source.model.map(Into::into));
        match went {
            Ended::Clean => Ok(()),
            Ended::InBand => {
                self.record.fault = Some("stream_broken");
                Ok(())
            }
            Ended::ClientLeft(left) => Err(self.gone(left)),
            Ended::Unsent(_) | Ended::Cut(_) => {
                self.record.fault = Some("upstream_broken");
                self.client.cut().await;
                Err(ClientLeft::CutOff("the shared call was lost"))
            }
        }
    }

    /// What is no stream, for a client that has its 200 and comments: an error in-band.
    async fn late(&mut self, outcome: Outcome) -> Delivered {
        let dialect = self.request.ask.route.dialect;
        let failure = match outcome {
            Outcome::Fault(fault) => {
                self.record.fault = Some(fault.kind().row().label);
                failure_of(&fault, dialect)
            }
            Outcome::Whole(answer) if answer.failure.is_some() => {
                self.record.fault = Some("upstream_error");
                self.capture.received(&answer.original);
                if let Some(leader) = self.leader.take() {
                    leader.fail(answer.shared_failure());
                }
                let message = answer.failure.clone().unwrap_or_default();
                Failure { status: answer.status(), body: answer.body, message, usage: None }
            }
            Outcome::Whole(answer) if answer.status() == 446 => {
                let body = self.with_results(&answer.head, answer.body);
                Failure { status: 446, body, message: "guardrails denied".to_owned(), usage: None }
            }
            Outcome::Whole(answer) if self.info.hooks.is_some() && is_events(&answer.head) => {
                self.capture.sent(&answer.body);
                self.record_usage(answer.usage, None);
                self.record.response_bytes += answer.body.len() as u64;
                return self.client.piece(Some(answer.body), true).await;
            }
            _ => {
                self.record.status = 502;
                self.record.fault = Some("upstream_broken");
                in_dialect(dialect, "The provider answered a call for a stream with something else")
            }
        };
        let told = in_band(self.request.ask.route.operation, &failure);
        self.capture.sent(&told);
        self.record.response_bytes += told.len() as u64;
        self.client.piece(Some(told), true).await
    }
}

/// Whether a whole answer is one of events, all of which are there.
fn is_events(head: &ResponseHeader) -> bool {
    let media = head.headers.get(header::CONTENT_TYPE);
    head.status.is_success() && media.is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

impl<G: Growth> Growth for &mut G {
    fn saw(&mut self, bytes: usize, tokens: impl FnOnce() -> u64) {
        (**self).saw(bytes, tokens);
    }
}
