//! An upstream's answer, read as far as needed to decide whether it does: whole for JSON, up to the first
//! content for streams (invariant 2), not at all where it is passed through.

use super::Gateway;
use super::attempt::Prepared;
use super::body::Permit;
use super::capture::{Tape, secrets};
use super::head::HeadPlan;
use super::meter::Meter;
use super::patience::retry_after;
use super::request::Request;
use super::wire::{Answering, Client, Whole, WireError};
use crate::cache::{Entry, Follow, Head};
use crate::upstream::DialError;
use bytes::{Bytes, BytesMut};
use gateway_domain::record::mask;
use gateway_domain::{Dialect, Fault, FaultKind};
use gateway_providers::frames::MEDIA_TYPE;
use gateway_providers::{Ending, Failure, Progress, StreamTranslator};
use http::header;
use pingora::http::ResponseHeader;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most of a stream that is held back for its first content.
const MOST_HELD: usize = 64 * 1024;
/// Error bodies larger than this are not worth translating.
const MOST_ERROR: usize = 1 << 20;

pub(crate) enum Answer {
    /// Made by the gateway.
    Fault(Fault),
    /// Read to its end, in the client's dialect.
    Whole { status: u16, head: Box<ResponseHeader>, body: Bytes, reply: Told },
    /// A stream whose first content has been seen.
    Stream(Box<Begun>),
    /// To be passed on as it comes.
    Raw(Box<Passing>),
    /// From the response cache.
    Kept(Arc<Entry>),
    /// What another call brings just now.
    Followed(Head, Box<Follow>),
}

/// An answer that is passed on as it comes, and what is read of it on the way.
pub(crate) struct Passing {
    pub(crate) up: Answering,
    pub(crate) meter: Meter,
    /// When the time of the try is over, and the time that [`timed_out`](super::attempt::timed_out) names then.
    pub(crate) until: Option<(Instant, Duration)>,
}

impl Passing {
    /// A try has to bring the whole of it in time, not only its beginning.
    pub(crate) fn is_json(&self) -> bool {
        let media = self.up.head().and_then(|head| head.headers.get(header::CONTENT_TYPE));
        media.is_some_and(|media| is_json(&media.as_bytes().to_ascii_lowercase()))
    }
}

/// A stream at its first content: nothing of it has gone down yet.
pub(crate) struct Begun {
    pub(crate) head: Box<ResponseHeader>,
    pub(crate) up: Answering,
    pub(crate) translator: Box<dyn StreamTranslator>,
    pub(crate) held: Bytes,
    /// What was read for it.
    pub(crate) tape: Tape,
    /// The upstream's body is over.
    pub(crate) ended: bool,
}

/// What a whole answer told beside its body.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) usage: Option<gateway_domain::Usage>,
    pub(crate) model: Option<String>,
    pub(crate) failure: Option<String>,
    /// The body as the provider sent it.
    pub(crate) original: Bytes,
    /// What it takes of the budget, until it was delivered.
    pub(crate) held: Option<Permit>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Answer {
    /// A 200 of the gateway's own.
    pub(crate) fn made(json: String) -> Self {
        let mut head = super::reply::bare_head(200);
        let told = head.insert_header(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        debug_assert!(told.is_ok(), "a constant header");
        Self::Whole { status: 200, head, body: json.into(), reply: Told::default() }
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Fault(fault) => fault.status(),
            Self::Whole { status, .. } => *status,
            Self::Stream(begun) => begun.up.status(),
            Self::Raw(passing) => passing.up.status(),
            Self::Kept(entry) => entry.status,
            Self::Followed(head, _) => head.status,
        }
    }

    /// Can follow comments that went down before it.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Kept(entry) => entry.stream,
            Self::Followed(head, _) => head.stream && (200..300).contains(&head.status),
            Self::Fault(_) | Self::Whole { .. } | Self::Raw(_) => false,
        }
    }

    pub(crate) fn is_exception(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.kind().row().exception)
    }

    /// Whether a circuit breaker counts this: what the gateway itself refused says nothing of the target.
    pub(crate) fn tells_of_health(&self) -> bool {
        use FaultKind::{TimedOut, Unreachable, UpstreamBroken, UpstreamSilent};
        match self {
            Self::Fault(fault) => {
                matches!(fault.kind(), TimedOut | Unreachable | UpstreamBroken | UpstreamSilent)
            }
            Self::Kept(_) | Self::Followed(..) => false,
            _ => true,
        }
    }

    /// How long the provider, or a limit, asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let head = match self {
            Self::Fault(fault) => return fault.retry_after().map(Duration::from_millis),
            Self::Whole { head, .. } => head,
            Self::Stream(begun) => &begun.head,
            Self::Raw(passing) => passing.up.head()?,
            Self::Kept(_) | Self::Followed(..) => return None,
        };
        retry_after(&head.headers)
    }

    /// Providers like to quote the key that they refuse, and the client may not be the one whose key it is.
    #[must_use]
    pub(crate) fn without_credential(mut self, sent: &HeadPlan) -> Self {
        if let Self::Whole { body, reply, .. } = &mut self
            && reply.failure.is_some()
        {
            let secrets = sent.make().map(|head| secrets(&head.headers)).unwrap_or_default();
            for text in [body, &mut reply.original] {
                if let Some(blotted) = mask::without(text, &secrets) {
                    *text = blotted.into();
                }
            }
        }
        self
    }

    /// Not wanted: frees the connection.
    pub(crate) async fn discard(self, down: &mut Client<'_>, pool_size: usize) {
        match self {
            Self::Raw(passing) => passing.up.discard(down, pool_size).await,
            Self::Stream(_) | Self::Fault(_) | Self::Whole { .. } | Self::Kept(_) | Self::Followed(..) => {}
        }
    }
}

/// What stands for an upstream that gave no head or broke off before it could be used. `Err` hands a client's leaving
/// on.
pub(crate) fn ended_by(error: WireError, prepared: &Prepared<'_>) -> Result<Fault, WireError> {
    match error {
        WireError::ClientGone(e) => Err(WireError::ClientGone(e)),
        error => Ok(fallen(error, prepared.aim.adapter.info().slug)),
    }
}

/// Names neither addresses nor anything else that the client did not send.
pub(crate) fn fallen(error: WireError, provider: &str) -> Fault {
    match error {
        WireError::ClientGone(_) => Fault::new(FaultKind::ClientGone, "The client left"),
        WireError::ClientSlow => Fault::new(FaultKind::SlowClient, "The request body did not arrive in time"),
        WireError::NoConnection(DialError::Forbidden(why)) => {
            Fault::new(FaultKind::BadHost, format!("The host of provider {provider} {why}"))
        }
        WireError::NoConnection(DialError::Failed(why)) => {
            Fault::new(FaultKind::Unreachable, format!("{provider} could not be reached: {why}"))
        }
        WireError::Broken(why) => Fault::new(FaultKind::UpstreamBroken, format!("{provider} broke off: {why}")),
        WireError::Silent => Fault::new(FaultKind::UpstreamSilent, format!("{provider} did not answer in time")),
    }
}

pub(crate) async fn read(
    gateway: &Gateway,
    down: &mut Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
    up: Answering,
) -> Result<Answer, WireError> {
    let status = up.status();
    let Some(head) = up.head() else { return Ok(pass(up, request, prepared)) };
    let encoded =
        head.headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"));
    let translated = prepared.aim.adapter.translates(request.route.operation, request.route.dialect);
    if request.route.raw || request.upload.is_some() || ((encoded || status == 204 || status == 304) && !translated) {
        return Ok(pass(up, request, prepared));
    }
    if encoded {
        let fault = Fault::new(FaultKind::UpstreamBroken, "The provider compressed an answer that must be translated");
        return Ok(Answer::Fault(fault));
    }
    let media = head.headers.get(header::CONTENT_TYPE).map(|v| v.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let success = (200..300).contains(&status);
    let framed = media.starts_with(MEDIA_TYPE.as_bytes());
    if success && (framed || media.starts_with(b"text/event-stream")) {
        return hold(gateway, down, request, prepared, up).await;
    }
    if success && !translated && !media.is_empty() && !is_json(&media) {
        return Ok(pass(up, request, prepared));
    }
    whole(gateway, down, request, prepared, up).await
}

fn pass(up: Answering, request: &Request, prepared: &Prepared<'_>) -> Answer {
    let meter = up.head().map_or(Meter::Blind, |head| Meter::new(prepared.aim.adapter, request, head));
    Answer::Raw(Box::new(Passing { up, meter, until: None }))
}

fn is_json(media: &[u8]) -> bool {
    let essence = media.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    essence == b"application/json" || essence.ends_with(b"+json") || essence == b"text/json"
}

async fn whole(
    gateway: &Gateway,
    down: &mut Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
    mut up: Answering,
) -> Result<Answer, WireError> {
    let status = up.status();
    let success = (200..300).contains(&status);
    let most = if success { gateway.settings.max_body } else { MOST_ERROR };
    let mut held = None;
    let body = match up.read_whole(down, most, (&gateway.budget, &mut held)).await {
        Ok(Whole::Read(body)) => body,
        Ok(Whole::Full(fault)) => return Ok(Answer::Fault(fault)),
        Ok(Whole::TooLarge) => {
            let fault =
                Fault::new(FaultKind::UpstreamBroken, format!("The provider's answer is larger than {most} bytes"));
            return Ok(Answer::Fault(fault));
        }
        Err(e) => return ended_by(e, prepared).map(Answer::Fault),
    };
    let head = up.head().map(|h| super::reply::copy_head(h, true)).unwrap_or_else(|| super::reply::bare_head(status));
    up.release(gateway.settings.upstream_pool_size).await;
    let call = prepared.call(request);
    Ok(if success {
        match prepared.aim.adapter.response(&call, &body) {
            Ok(reply) => {
                let told = Told { usage: reply.usage, model: reply.model, failure: None, original: body, held };
                Answer::Whole { status, head, body: reply.body, reply: told }
            }
            Err(failure) => failed(failure, head, body),
        }
    } else {
        {
            let failure = prepared.aim.adapter.failed(&call, status, &head.headers, &body);
            failed(failure, head, body)
        }
    })
}

/// The head may be that of a 200 or of an HTML page: what is told is always JSON, with the failure's status.
fn failed(failure: Failure, mut head: Box<ResponseHeader>, original: Bytes) -> Answer {
    let told = head
        .set_status(failure.status)
        .and_then(|()| head.insert_header(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json")));
    debug_assert!(told.is_ok(), "a failure has a valid status");
    let told = Told { failure: Some(failure.message), original, ..Told::default() };
    Answer::Whole { status: failure.status, head, body: failure.body, reply: told }
}

/// Reads a stream until its first content, a finish or an error, so that an error inside a 200 can still
/// fall back; gives up waiting after `--stream-hold` or 64 KiB.
async fn hold(
    gateway: &Gateway,
    down: &mut Client<'_>,
    request: &Request,
    prepared: &Prepared<'_>,
    mut up: Answering,
) -> Result<Answer, WireError> {
    let mut translator = prepared.aim.adapter.stream(&prepared.call(request));
    let mut head = up.head().map(|h| super::reply::copy_head(h, true)).unwrap_or_else(|| super::reply::bare_head(200));
    // However the provider frames its events, clients read server-sent ones.
    let told = head.insert_header(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    debug_assert!(told.is_ok(), "a constant header");
    let until = Instant::now() + gateway.settings.stream_hold;
    let mut held = Held::default();
    let mut tape = Tape::new(request.keep, &gateway.budget);
    loop {
        if up.done() {
            return Ok(ended_while_held(head, up, translator, (held, tape), request.route.dialect));
        }
        let left = until.saturating_duration_since(Instant::now());
        let piece = match pingora_timeout::timeout(left, up.read(down)).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(e)) => return ended_by(e, prepared).map(Answer::Fault),
            Err(_) => {
                return Ok(begun(head, up, translator, (held, tape)));
            }
        };
        let Some(piece) = piece else { continue };
        tape.received(&piece);
        match translator.push(piece) {
            Ok(out) => {
                tape.said(&out);
                held.add(out);
            }
            Err(failure) => return Ok(failed(failure, head, tape.take())),
        }
        if translator.progress() != Progress::Quiet || held.len() > MOST_HELD {
            if up.done() {
                return Ok(ended_while_held(head, up, translator, (held, tape), request.route.dialect));
            }
            return Ok(begun(head, up, translator, (held, tape)));
        }
    }
}

fn begun(
    head: Box<ResponseHeader>,
    up: Answering,
    translator: Box<dyn StreamTranslator>,
    (held, tape): (Held, Tape),
) -> Answer {
    Answer::Stream(Box::new(Begun { head, up, translator, held: held.take(), tape, ended: false }))
}

/// The upstream's body is over before anything went down: a whole stream, or one that broke and can fall back.
fn ended_while_held(
    head: Box<ResponseHeader>,
    up: Answering,
    mut translator: Box<dyn StreamTranslator>,
    (mut held, mut tape): (Held, Tape),
    dialect: Dialect,
) -> Answer {
    let tail = translator.finish();
    tape.said(&tail);
    held.add(tail);
    if translator.ending().complete || translator.ending().failed.is_some() {
        return Answer::Stream(Box::new(Begun { head, up, translator, held: held.take(), tape, ended: true }));
    }
    if translator.progress() == Progress::Quiet {
        return Answer::Fault(Fault::new(FaultKind::UpstreamBroken, "The provider's stream ended before any content"));
    }
    let failure = broken(dialect, "The provider's stream ended before it was complete");
    let tail = translator.abort(&failure);
    tape.said(&tail);
    held.add(tail);
    Answer::Stream(Box::new(Begun { head, up, translator, held: held.take(), tape, ended: true }))
}

/// A failure for a stream that broke off, ready for [`StreamTranslator::abort`].
pub(crate) fn broken(dialect: Dialect, why: &'static str) -> Failure {
    failure_of(&Fault::new(FaultKind::UpstreamBroken, why), dialect)
}

pub(crate) fn failure_of(fault: &Fault, dialect: Dialect) -> Failure {
    Failure { status: fault.status(), body: fault.body(dialect).into(), message: fault.message().to_owned() }
}

/// What is held back; the common case of one piece is not copied.
#[derive(Default)]
struct Held {
    first: Bytes,
    rest: BytesMut,
}

impl Held {
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

    fn take(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { [&self.first[..], &self.rest[..]].concat().into() }
    }
}

/// What a stream used. What its provider did not tell is estimated, beside the threads that serve.
pub(crate) async fn usage_of(ending: Ending, request: Bytes) -> Option<gateway_domain::Usage> {
    if !ending.wants_estimate() {
        return ending.usage;
    }
    let told = ending.usage;
    let counted = tokio::task::spawn_blocking(move || ending.settled(&request)).await;
    counted.unwrap_or(told)
}

/// Tokens of the answer so far, by the same guess.
pub(crate) fn tokens_of(ending: &Ending) -> u64 {
    ending.said.chars().div_ceil(4)
}
