//! What came of one target: an answer that is not yet delivered, so that another target may still have its turn, or the
//! fault that stands for it. Knows how answers are judged, not how they were come by.

use super::meter::Meter;
use super::timers::Deadline;
use crate::cache::{AnswerHead, CacheEntry, FailedAnswer, Follower};
use crate::guardrails::StreamJudge;
use crate::proxy::body::Permit;
use crate::proxy::record::BodyCapture;
use crate::upstream::DialError;
use crate::upstream::http1::{Response, SendError};
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, FaultKind, Usage};
use gateway_providers::tap::TextPlace;
use gateway_providers::{Ending, Failure, StreamTranslator};
use http::{HeaderMap, HeaderValue, header};
use pingora::http::ResponseHeader;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Outcome {
    /// Made by the gateway.
    Fault(Fault),
    /// Read to its end, in the client's dialect.
    Whole(Box<WholeAnswer>),
    /// A stream whose first content has been seen.
    Stream(Box<BegunStream>),
    /// A provider's answer that is passed on as it comes.
    Passthrough(Box<PassthroughResponse>),
    /// An answer that the response cache held.
    Cached(Arc<CacheEntry>),
    /// What another call brings just now.
    Followed(AnswerHead, Box<Follower>),
}

/// An answer in one piece, and what it told beside its body.
pub(crate) struct WholeAnswer {
    pub(crate) head: Box<ResponseHeader>,
    pub(crate) body: Bytes,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    /// It tells of an error of the provider's: in these words.
    pub(crate) failure: Option<String>,
    /// The body as the provider sent it.
    pub(crate) original: Bytes,
    /// What it takes of the budget, until it was delivered.
    pub(crate) held: Option<Permit>,
}

/// An answer that is passed on as it comes, and what is read of it on the way.
pub(crate) struct PassthroughResponse {
    pub(crate) response: Response,
    pub(crate) meter: Meter,
    /// When the time of the try is over; `None`: with the whole request.
    pub(crate) until: Option<Deadline>,
    /// The status that goes down in place of the provider's.
    pub(crate) status: Option<u16>,
    /// The `location` header that goes down in place of the provider's.
    pub(crate) location: Option<HeaderValue>,
}

/// A stream at its first content: nothing of it has gone down yet.
pub(crate) struct BegunStream {
    pub(crate) head: Box<ResponseHeader>,
    pub(crate) response: Response,
    pub(crate) translator: Box<dyn StreamTranslator>,
    pub(crate) held: Bytes,
    /// Where texts stand in it, as far as its translator told; empty where nothing judges them.
    pub(crate) texts: Vec<TextPlace>,
    /// What was read for it.
    pub(crate) capture: BodyCapture,
    /// The upstream's body is over.
    pub(crate) ended: bool,
    /// Closed with an error of the gateway's own.
    pub(crate) aborted: bool,
    /// It is judged as it goes down.
    pub(crate) judge: Option<Box<StreamJudge>>,
}

impl PassthroughResponse {
    /// A try has to bring the whole of it in time, not only its beginning.
    pub(crate) fn is_json(&self) -> bool {
        is_json(&media_of(self.response.head().headers()))
    }
}

impl WholeAnswer {
    /// A 200 of the gateway's own.
    pub(crate) fn made(json: String) -> Self {
        let mut head = super::head::bare_head(200);
        let told = head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        debug_assert!(told.is_ok(), "a constant header");
        Self::new(head, json.into())
    }

    pub(crate) const fn new(head: Box<ResponseHeader>, body: Bytes) -> Self {
        Self { head, body, usage: None, model: None, failure: None, original: Bytes::new(), held: None }
    }

    /// The head may be that of a 200 or of an HTML page: what is told is always JSON, with the failure's status.
    pub(crate) fn failed(failure: Failure, mut head: Box<ResponseHeader>, original: Bytes) -> Self {
        let told = head
            .set_status(failure.status)
            .and_then(|()| head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        debug_assert!(told.is_ok(), "a failure has a valid status");
        let usage = failure.usage.map(|usage| *usage);
        Self { usage, failure: Some(failure.message), original, ..Self::new(head, failure.body) }
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    /// The failure for those who wait for the same call.
    pub(crate) fn shared_failure(&self) -> FailedAnswer {
        FailedAnswer { head: self.head.clone(), body: self.body.clone(), message: self.failure.clone() }
    }
}

impl From<FailedAnswer> for WholeAnswer {
    fn from(FailedAnswer { head, body, message }: FailedAnswer) -> Self {
        Self { failure: message, ..Self::new(head, body) }
    }
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Outcome {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Fault(fault) => fault.status(),
            Self::Whole(answer) => answer.status(),
            Self::Stream(stream) => stream.head.status.as_u16(),
            Self::Passthrough(passing) => passing.status.unwrap_or_else(|| passing.response.status()),
            Self::Cached(entry) => entry.status,
            Self::Followed(head, _) => head.status,
        }
    }

    /// Can follow comments that went down before it.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Cached(entry) => entry.stream,
            Self::Followed(head, _) => head.stream && (200..300).contains(&head.status),
            Self::Fault(_) | Self::Whole(_) | Self::Passthrough(_) => false,
        }
    }

    pub(crate) fn is_exception(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.kind().row().exception)
    }

    /// The gateway's name for what went wrong, where it has one.
    pub(crate) fn fault_label(&self) -> Option<&'static str> {
        match self {
            Self::Fault(fault) => Some(fault.kind().row().label),
            _ => None,
        }
    }

    /// Whether a circuit breaker counts this: what the gateway itself refused says nothing of the target.
    pub(crate) fn is_health_signal(&self) -> bool {
        use FaultKind::{TimedOut, Unreachable, UpstreamBroken, UpstreamSilent};
        match self {
            Self::Fault(fault) => {
                matches!(fault.kind(), TimedOut | Unreachable | UpstreamBroken | UpstreamSilent)
            }
            Self::Cached(_) | Self::Followed(..) => false,
            _ => true,
        }
    }

    /// How long the provider, or a limit, asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Fault(fault) => fault.retry_after().map(Duration::from_millis),
            Self::Whole(answer) => retry_after(&answer.head.headers),
            Self::Stream(stream) => retry_after(&stream.head.headers),
            Self::Passthrough(passing) => retry_after(passing.response.head().headers()),
            Self::Cached(_) | Self::Followed(..) => None,
        }
    }

    /// Not wanted: frees the connection.
    pub(crate) async fn discard(self, pool_size: usize) {
        if let Self::Passthrough(passing) = self {
            passing.response.discard(pool_size).await;
        }
    }
}

/// What an answer says that it is, in small letters; nothing where it does not say. A copy only where it writes it
/// otherwise.
pub(crate) fn media_of(headers: &HeaderMap) -> Cow<'_, [u8]> {
    match headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default() {
        media if media.iter().any(u8::is_ascii_uppercase) => Cow::Owned(media.to_ascii_lowercase()),
        media => Cow::Borrowed(media),
    }
}

pub(crate) fn is_json(media: &[u8]) -> bool {
    let essence = media.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    essence == b"application/json" || essence.ends_with(b"+json") || essence == b"text/json"
}

/// `retry-after-ms`, `x-ms-retry-after-ms`, `retry-after` in seconds, in this order; dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let ms = number("retry-after-ms").or_else(|| number("x-ms-retry-after-ms"));
    ms.map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}

/// What stands for an upstream that gave no head or broke off. Names neither addresses nor anything else that the
/// client did not send.
pub(crate) fn fallen(error: SendError, provider: &str) -> Fault {
    match error {
        SendError::NoConnection(DialError::Forbidden(why)) => {
            Fault::new(FaultKind::BadHost, format!("The host of provider {provider} {why}"))
        }
        SendError::NoConnection(DialError::Failed(why)) => {
            Fault::new(FaultKind::Unreachable, format!("{provider} could not be reached: {why}"))
        }
        SendError::Broken(why) => Fault::new(FaultKind::UpstreamBroken, format!("{provider} broke off: {why}")),
        SendError::Silent => Fault::new(FaultKind::UpstreamSilent, format!("{provider} did not answer in time")),
    }
}

pub(crate) fn timed_out(after: Duration) -> Fault {
    Fault::new(FaultKind::TimedOut, overlong(after))
}

pub(crate) fn overlong(after: Duration) -> String {
    format!("Request exceeded the timeout sent in the request: {}ms", after.as_millis())
}

/// A failure for a stream that broke off, ready for [`StreamTranslator::abort`].
pub(crate) fn in_dialect(dialect: Dialect, why: &'static str) -> Failure {
    failure_of(&Fault::new(FaultKind::UpstreamBroken, why), dialect)
}

pub(crate) fn failure_of(fault: &Fault, dialect: Dialect) -> Failure {
    Failure {
        status: fault.status(),
        body: fault.body(dialect).into(),
        message: fault.message().to_owned(),
        usage: None,
    }
}

/// What a stream used. What its provider did not tell is estimated, beside the threads that serve.
pub(crate) async fn usage_of(ending: Ending, request: Bytes) -> Option<Usage> {
    if !ending.wants_estimate() {
        return ending.usage;
    }
    let told = ending.usage;
    let counted = tokio::task::spawn_blocking(move || ending.settled(&request)).await;
    counted.unwrap_or(told)
}

/// Tokens of the answer so far, by the same guess.
pub(crate) fn tokens_of(stream: &dyn StreamTranslator) -> u64 {
    stream.said_chars().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_header_that_says_it_counts() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let headers: HeaderMap =
                pairs.iter().map(|(k, v)| (http::HeaderName::from_static(k), HeaderValue::from_static(v))).collect();
            retry_after(&headers).map(|d| d.as_millis())
        };
        assert_eq!(of(&[("retry-after", "2"), ("x-ms-retry-after-ms", "30"), ("retry-after-ms", "4")]), Some(4));
        assert_eq!(of(&[("retry-after", "2"), ("x-ms-retry-after-ms", "30")]), Some(30));
        assert_eq!(of(&[("retry-after", "2"), ("retry-after-ms", "soon")]), Some(2000));
        assert_eq!(of(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn media_types_of_json() {
        for (media, json) in [
            (&b"application/json"[..], true),
            (b"application/json; charset=utf-8", true),
            (b"application/problem+json", true),
            (b"text/json", true),
            (b"text/html; application/json", false),
            (b"", false),
        ] {
            assert_eq!(is_json(media), json, "{media:?}");
        }
    }

    #[test]
    fn a_refusal_of_the_gateways_own_says_nothing_of_the_target() {
        for (kind, tells) in [
            (FaultKind::TimedOut, true),
            (FaultKind::Unreachable, true),
            (FaultKind::UpstreamBroken, true),
            (FaultKind::UpstreamSilent, true),
            (FaultKind::RateLimited, false),
            (FaultKind::BadBody, false),
            (FaultKind::SlowClient, false),
        ] {
            assert_eq!(Outcome::Fault(Fault::new(kind, "x")).is_health_signal(), tells, "{kind:?}");
        }
        let whole = WholeAnswer::made("{}".to_owned());
        assert!(Outcome::Whole(Box::new(whole)).is_health_signal());
    }
}
