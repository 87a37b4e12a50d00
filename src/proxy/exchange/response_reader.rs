//! Reads an upstream's answer as far as needed to decide whether it does: whole for JSON, up to the first content for
//! streams, not at all where it is passed through. Knows no client.

use super::{batch_passthrough, fine_tuning_usage, runs};
use crate::guardrails::TargetGuards;
use crate::proxy::body::Permit;
use crate::proxy::call::{ResolvedTarget, raw_call};
use crate::proxy::decompression::{Encoding, Packing, UnpackedStream, Unpacker};
use crate::proxy::deliver::{
    Accounted, BegunStream, Break, DeliveryParts, Meter, Outcome, PassthroughResponse, Piece, Source, SourceEvent,
    TranslatedSource, WholeAnswer, fallen, is_json, media_of, passed_head,
};
use crate::proxy::head::HeadPlan;
use crate::proxy::hooks::answers_in_events;
use crate::proxy::objects::{Binder, BoundStream};
use crate::proxy::record::{BodyCapture, secrets};
use crate::proxy::request::Request;
use crate::upstream::http1::{Response, SendError};
use bytes::{Bytes, BytesMut};
use gateway_domain::record::mask;
use gateway_domain::{AnswerForm, Fault, FaultKind, Operation};
use gateway_providers::frames::MEDIA_TYPE;
use gateway_providers::tap::TextPlace;
use gateway_providers::{Adapter as _, Progress, Raw, streamed};
use http::header;
use pingora::http::ResponseHeader;
use std::sync::Arc;
use std::time::Instant;

/// Most of a stream that is held back for its first content.
const MOST_HELD: usize = 64 * 1024;
/// Error bodies larger than this are not worth translating.
const MOST_ERROR: usize = 1 << 20;
/// So much of a compressed body is unpacked at once.
const PACKED_PIECE: usize = 4096;
/// A body larger than this is taken from the budget.
const MOST_FREE: usize = 64 * 1024;

/// A status that no client of this route can be told: a redirect, which a client would follow with its key and body to
/// wherever it leads, or a number that HTTP does not have.
fn no_answer(status: u16, request: &Request) -> Option<String> {
    // That nothing has changed is an answer to who looks again, and to nobody else.
    let looks = status == 304 && request.ask.method != http::Method::POST;
    let redirect = (300..400).contains(&status) && !looks && !request.ask.route.raw;
    match status {
        _ if redirect => Some(format!("The provider answered with a redirect ({status}), which is not followed")),
        600.. => Some(format!("The provider answered with the status {status}, which HTTP does not have")),
        _ => None,
    }
}

pub(crate) struct ResponseReader<'a> {
    pub(crate) delivery: &'a DeliveryParts,
    pub(crate) request: &'a Request,
    pub(crate) resolved: &'a ResolvedTarget<'a>,
    /// What went up.
    pub(crate) head: &'a HeadPlan,
    /// When all of the answer was there, if it is read to its end.
    pub(crate) whole_at: &'a mut Option<Instant>,
}

/// Waits, for a bounded time, until it is noted which workspace owns the objects in the answer: the client is not to
/// hear of them before.
async fn settled(binder: Arc<Binder>, answer: Box<WholeAnswer>) -> Outcome {
    binder.settled().await;
    Outcome::Whole(answer)
}

impl ResponseReader<'_> {
    pub(crate) async fn read(self, response: Response) -> Outcome {
        let status = response.status();
        let route = &self.request.ask.route;
        let headers = response.head().headers();
        let translated = self.resolved.aim.adapter.translates(route.operation, route.dialect);
        if let Some(why) = no_answer(status, self.request) {
            return broken(&why);
        }
        // Only what is asked for by POST has to have an answer.
        let bodyless = matches!(status, 204 | 304) && self.request.ask.method != http::Method::POST;
        let media = media_of(headers);
        let has_text = is_json(&media) || media.starts_with(b"text/event-stream");
        let binder = self.binder().filter(|_| is_json(&media) && !bodyless);
        // What is in a file passes as it is; why it does not come is told as all else is.
        let reshapes = self.resolved.reshapes(self.request)
            && (route.operation != Operation::RetrieveFileContent || !(200..300).contains(&status));
        let is_read = self.is_judged(status)
            || fine_tuning_usage::looks(self.request)
            || batch_passthrough::reads(self.request)
            || (runs::are_meant(self.request) && is_json(&media));
        if route.raw && !reshapes && has_text && binder.is_none() && is_read {
            return Box::pin(self.held(response)).await;
        }
        let is_answered_call = self.request.ask.call.is_some() && (200..300).contains(&status);
        let passes = route.raw || self.request.ask.upload.is_some() || is_answered_call;
        if (passes && !reshapes) || (bodyless && !translated) {
            return match binder {
                Some(binder) => Box::pin(self.bound(response, binder)).await,
                None => self.pass(response),
            };
        }
        let encoding = Encoding::of(headers);
        let success = (200..300).contains(&status);
        let framed = media.starts_with(MEDIA_TYPE.as_bytes());
        if success && (framed || media.starts_with(b"text/event-stream")) {
            // Boxed, as it is large and most calls are no streams.
            return match encoding.packing() {
                Ok(packing) => Box::pin(self.hold(response, packing)).await,
                Err(why) => broken(why),
            };
        }
        if success
            && !translated
            && !media.is_empty()
            && !is_json(&media)
            // What is text of a transcript tells how long that was.
            && !media.starts_with(b"text/")
            && route.operation.facts().answer == AnswerForm::Sound
        {
            return self.pass(response);
        }
        match encoding.packing() {
            Ok(packing) => self.whole(response, packing).await,
            Err(why) => broken(why),
        }
    }

    fn pass(&self, response: Response) -> Outcome {
        let meter = Meter::new(Raw(self.resolved.aim.adapter), self.request, response.head(), &self.delivery.budget);
        Outcome::Passthrough(Box::new(PassthroughResponse {
            response,
            meter,
            until: None,
            status: None,
            location: None,
        }))
    }

    /// Guardrails decide on this answer.
    fn is_judged(&self, status: u16) -> bool {
        let guarded = self.resolved.guarded.as_deref();
        status == 200 && self.request.ask.upload.is_none() && guarded.is_some_and(TargetGuards::decides_on_answers)
    }

    /// What passes through, held until it was judged. Not a byte of it is changed.
    async fn held(self, mut response: Response) -> Outcome {
        let mut held = None;
        let body = match self.collect(&mut response, self.delivery.settings.max_body, &mut held).await {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let head = passed_head(response.take_head(), false);
        response.release(self.delivery.settings.upstream_pool_size);
        let reply = Raw(self.resolved.aim.adapter).response(&raw_call(self.request), &body).ok();
        let (usage, model) = reply.map_or((None, None), |reply| (reply.usage, reply.model));
        let original = body.clone();
        Outcome::Whole(Box::new(WholeAnswer { usage, model, original, held, ..WholeAnswer::new(head, body) }))
    }

    /// What binds ids in this answer.
    fn binder(&self) -> Option<Arc<Binder>> {
        self.resolved.binder.clone().filter(|binder| binder.reads())
    }

    /// What passes through but for the ids in it.
    async fn bound(self, mut response: Response, binder: Arc<Binder>) -> Outcome {
        let packing = match Encoding::of(response.head().headers()).packing() {
            Ok(packing) => packing,
            Err(why) => return broken(why),
        };
        let (most, mut held) = (self.delivery.settings.max_body, None);
        let body = match self.collect(&mut response, most, &mut held).await {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let mut head = passed_head(response.take_head(), true);
        response.release(self.delivery.settings.upstream_pool_size);
        let unpacked = packing.map(|packing| {
            head.remove_header(&header::CONTENT_ENCODING);
            self.unpack(packing, &body, most, &mut held)
        });
        let body = match unpacked.transpose() {
            Ok(unpacked) => unpacked.unwrap_or(body),
            Err(outcome) => return outcome,
        };
        let reply = Raw(self.resolved.aim.adapter).response(&raw_call(self.request), &body).ok();
        let (usage, model) = reply.map_or((None, None), |reply| (reply.usage, reply.model));
        let told = binder.bound(&body);
        if (200..300).contains(&head.status.as_u16()) {
            binder.done();
        }
        let whole = WholeAnswer { usage, model, original: body, held, ..WholeAnswer::new(head, told) };
        Box::pin(settled(binder, Box::new(whole))).await
    }

    async fn whole(self, mut response: Response, packing: Option<Packing>) -> Outcome {
        let status = response.status();
        let success = (200..300).contains(&status);
        let most = if success { self.delivery.settings.max_body } else { MOST_ERROR };
        let mut held = None;
        let body = match self.collect(&mut response, most, &mut held).await {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let mut head = passed_head(response.take_head(), true);
        let now = Instant::now();
        response.release_at(now, self.delivery.settings.upstream_pool_size);
        *self.whole_at = Some(now);
        let unpacked = packing.map(|packing| {
            head.remove_header(&header::CONTENT_ENCODING);
            self.unpack(packing, &body, most, &mut held)
        });
        let body = match unpacked.transpose() {
            Ok(unpacked) => unpacked.unwrap_or(body),
            Err(outcome) => return outcome,
        };
        let (adapter, call) = (self.resolved.aim.adapter, self.resolved.call(self.request));
        let answer = if success {
            match adapter.response(&call, &body) {
                Ok(reply) => {
                    let (usage, model) = (reply.usage, reply.model);
                    let (mut head, mut told) = (head, reply.body);
                    if let Some(media) = adapter.media(&call) {
                        let set = head.insert_header(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
                        debug_assert!(set.is_ok(), "a constant header");
                    }
                    // One that is judged is made a stream when that is done.
                    let streams = self.resolved.content.stream && self.resolved.guarded.is_none();
                    if streams && answers_in_events(self.request.ask.route.operation) {
                        let Some(events) = streamed(&call, adapter.info().slug, &told) else {
                            return broken("The provider answered a call for a stream with something else");
                        };
                        let media = header::HeaderValue::from_static("text/event-stream");
                        let set = head.insert_header(header::CONTENT_TYPE, media);
                        debug_assert!(set.is_ok(), "a constant header");
                        told = events;
                    }
                    WholeAnswer { usage, model, original: body, held, ..WholeAnswer::new(head, told) }
                }
                Err(failure) => self.without_credential(WholeAnswer::failed(failure, head, body)),
            }
        } else {
            let failure = adapter.failed(&call, status, &head.headers, &body);
            self.without_credential(WholeAnswer::failed(failure, head, body))
        };
        let (mut answer, binder) = (Box::new(answer), self.binder());
        if let Some(binder) = &binder {
            answer.body = binder.bound(&answer.body);
            if success {
                binder.done();
            }
        }
        match binder {
            None => Outcome::Whole(answer),
            // Boxed with the answer, as few calls have ids that are bound.
            Some(binder) => Box::pin(settled(binder, answer)).await,
        }
    }

    /// The whole body, up to `most` bytes.
    async fn collect(&self, response: &mut Response, most: usize, held: &mut Option<Permit>) -> Result<Bytes, Outcome> {
        let mut first = Bytes::new();
        let mut whole: Option<BytesMut> = None;
        while !response.is_done() {
            let piece = match response.read().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(e) => return Err(self.fallen(e)),
            };
            let total = whole.as_ref().map_or(first.len(), |w| w.len()) + piece.len();
            if total > most {
                return Err(broken(&format!("The provider's answer is larger than {most} bytes")));
            }
            if total > MOST_FREE {
                let permit = held.get_or_insert_with(|| Permit::new(&self.delivery.budget));
                permit.grow_to(total).map_err(Outcome::Fault)?;
            }
            match &mut whole {
                Some(whole) => whole.extend_from_slice(&piece),
                None if first.is_empty() => first = piece,
                None => {
                    let mut joined = BytesMut::with_capacity(total * 2);
                    joined.extend_from_slice(&first);
                    joined.extend_from_slice(&piece);
                    whole = Some(joined);
                }
            }
        }
        Ok(whole.map_or(first, BytesMut::freeze))
    }

    /// What was compressed though nobody asked, taken from the budget as it grows.
    fn unpack(&self, packing: Packing, body: &Bytes, most: usize, held: &mut Option<Permit>) -> Result<Bytes, Outcome> {
        let mut unpacker = Unpacker::new(packing);
        let mut whole = BytesMut::new();
        let pieces = body.chunks(PACKED_PIECE).map(Some).chain([None]);
        for piece in pieces {
            let more = match piece {
                Some(piece) => unpacker.push(piece),
                None => unpacker.finish(),
            };
            whole.extend_from_slice(&more.map_err(|why| broken(why.describe()))?);
            if whole.len() > most {
                return Err(broken(&format!("The provider's answer is larger than {most} bytes")));
            }
            if whole.len() > MOST_FREE {
                let permit = held.get_or_insert_with(|| Permit::new(&self.delivery.budget));
                permit.grow_to(body.len() + whole.len()).map_err(Outcome::Fault)?;
            }
        }
        Ok(whole.freeze())
    }

    fn fallen(&self, error: SendError) -> Outcome {
        Outcome::Fault(fallen(error, self.resolved.provider()))
    }

    /// Providers like to quote the key that they refuse, and the client may not be the one whose key it is.
    fn without_credential(&self, mut answer: WholeAnswer) -> WholeAnswer {
        let secrets = secrets(self.head.request().headers());
        for text in [&mut answer.body, &mut answer.original] {
            if let Some(blotted) = mask::without(text, &secrets) {
                *text = blotted.into();
            }
        }
        answer
    }

    /// Reads a stream until its first content, a finish or an error, so that an error inside a 200 can still
    /// fall back; gives up waiting after `--stream-hold` or 64 KiB.
    async fn hold(self, mut response: Response, packing: Option<Packing>) -> Outcome {
        let mut head = passed_head(response.take_head(), true);
        head.remove_header(&header::CONTENT_ENCODING);
        // However the provider frames its events, clients read server-sent ones.
        let media = self.resolved.aim.adapter.media(&self.resolved.call(self.request)).unwrap_or("text/event-stream");
        let told = head.insert_header(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
        debug_assert!(told.is_ok(), "a constant header");
        let until = Instant::now() + self.delivery.settings.stream_hold;
        let translator = self.resolved.aim.adapter.stream(&self.resolved.call(self.request));
        let dialect = self.request.ask.route.dialect;
        let translator = match packing {
            Some(packing) => UnpackedStream::over(translator, packing, dialect),
            None => translator,
        };
        let translator = match self.binder() {
            Some(binder) => BoundStream::over(translator, binder),
            None => translator,
        };
        let translator = Accounted::new(translator, &self.delivery.budget, dialect);
        let source = TranslatedSource { response, translator, dialect, aborted: false, judge: None };
        let mut held = HeldStream {
            source,
            head,
            pieces: HeldBuffer::default(),
            texts: self.resolved.guarded.is_some().then(Vec::new),
            capture: BodyCapture::new(self.request.caller.keep, &self.delivery.budget),
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = match pingora_timeout::timeout(left, held.source.next()).await {
                Ok(event) => event,
                Err(_) => return held.begun(false),
            };
            match event {
                SourceEvent::Piece(Piece { received, bytes, last }) => {
                    held.capture.received(&received);
                    held.note_texts();
                    held.add(bytes);
                    if last {
                        return held.ended();
                    }
                    if held.source.translator.progress() != Progress::Quiet || held.pieces.len() > MOST_HELD {
                        return held.begun(false);
                    }
                }
                SourceEvent::End => return held.ended(),
                SourceEvent::Broke(Break::Failed(failure)) => {
                    let answer = WholeAnswer::failed(*failure, held.head, held.capture.take());
                    return Outcome::Whole(Box::new(self.without_credential(answer)));
                }
                SourceEvent::Broke(Break::Upstream(e)) => return self.fallen(e),
                SourceEvent::Broke(_) => return self.fallen(SendError::Silent),
            }
        }
    }
}

fn broken(why: &str) -> Outcome {
    Outcome::Fault(Fault::new(FaultKind::UpstreamBroken, why.to_owned()))
}

/// A stream that is held back.
struct HeldStream {
    source: TranslatedSource,
    head: Box<ResponseHeader>,
    pieces: HeldBuffer,
    /// Where texts stand in them; `None`: nobody asks.
    texts: Option<Vec<TextPlace>>,
    capture: BodyCapture,
}

impl HeldStream {
    /// Notes where texts stand in the piece that comes next.
    fn note_texts(&mut self) {
        let Some(texts) = &mut self.texts else { return };
        let before = self.pieces.len();
        texts.extend(self.source.translator.texts().iter().map(|place| place.behind(before)));
    }

    fn add(&mut self, piece: Bytes) {
        self.capture.sent(&piece);
        self.pieces.add(piece);
    }

    fn begun(self, ended: bool) -> Outcome {
        let Self { source: TranslatedSource { response, translator, aborted, .. }, head, pieces, texts, capture } =
            self;
        Outcome::Stream(Box::new(BegunStream {
            head,
            response,
            translator,
            held: pieces.join(),
            texts: texts.unwrap_or_default(),
            capture,
            ended,
            aborted,
            judge: None,
        }))
    }

    /// The upstream's body is over before anything went down: a whole stream, or one that broke and can fall back.
    fn ended(mut self) -> Outcome {
        let tail = match self.source.finish() {
            Ok(tail) => tail,
            Err(_) if self.source.translator.progress() == Progress::Quiet => {
                return broken("The provider's stream ended before any content");
            }
            Err(tail) => self.source.cut_short(tail),
        };
        self.add(tail);
        self.begun(true)
    }
}

/// What is held back; the common case of one piece is not copied.
#[derive(Default)]
struct HeldBuffer {
    first: Bytes,
    rest: BytesMut,
}

impl HeldBuffer {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else {
            self.rest.extend_from_slice(&piece);
        }
    }

    fn join(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { [&self.first[..], &self.rest[..]].concat().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_held_piece_is_not_copied() {
        let piece = Bytes::from_static(b"data: 1\n\n");
        let mut pieces = HeldBuffer::default();
        pieces.add(Bytes::new());
        pieces.add(piece.clone());
        assert_eq!(pieces.len(), piece.len());
        assert_eq!(pieces.join().as_ptr(), piece.as_ptr());
    }

    #[test]
    fn held_pieces_keep_their_order() {
        let mut pieces = HeldBuffer::default();
        for piece in ["a", "", "b", "c"] {
            pieces.add(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(&pieces.join()[..], b"abc");
    }
}
