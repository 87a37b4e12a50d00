//! How the mock shall behave: by flags for every request, by `x-mock-*` headers for one.
//! Decides delays, statuses and faults; knows no dialect and writes nothing.

use super::stats::Stats;
use super::wire::Head;
use clap::ValueEnum;
use std::sync::Arc;
use std::time::Duration;

/// Defaults of every request; an `x-mock-` header of the same name beats them for its own request.
#[derive(Clone, Debug, clap::Args)]
pub struct MockSettings {
    /// Milliseconds before the response head.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub delay: u64,
    /// Milliseconds between the events of a stream.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub chunk_gap: u64,
    /// Answer with this status; from 400 up with an error body.
    #[arg(long, default_value_t = 200, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub status: u16,
    /// Value of the `retry-after` header, in seconds.
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<String>,
    /// What to do wrong.
    #[arg(long, value_enum)]
    pub fault: Option<MockFault>,
    /// Content events in a stream; one a word when absent.
    #[arg(long, value_name = "N")]
    pub chunks: Option<usize>,
    /// Length of the answer's text; an echo of what was said when absent.
    #[arg(long, value_name = "BYTES")]
    pub reply_bytes: Option<usize>,
    /// Report the usage of OpenAI's streams unasked and refuse `stream_options`, as Mistral does.
    #[arg(long)]
    pub unasked_usage: bool,
    #[arg(skip)]
    pub stats: Arc<Stats>,
}

impl Default for MockSettings {
    fn default() -> Self {
        Self {
            delay: 0,
            chunk_gap: 0,
            status: 200,
            retry_after: None,
            fault: None,
            chunks: None,
            reply_bytes: None,
            unasked_usage: false,
            stats: Arc::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MockFault {
    /// Part of a response head, then RST.
    ResetHead,
    /// Half of the body or stream, then RST.
    ResetBody,
    /// Half of the body or stream, then FIN.
    CloseBody,
    /// Bytes that are not HTTP.
    GarbageHead,
    /// Reads the request and never answers.
    Silent,
    /// One byte each gap, of a millisecond at least.
    Drip,
    /// Answers 413 and closes, the request body unread.
    #[value(name = "early-413")]
    Early413,
    /// An error object as the first event of a 200 stream.
    ErrorEvent,
    /// An error object after half of the content.
    ErrorMid,
    /// A stream that ends without its end mark.
    NoDone,
    /// A body compressed with gzip, whether or not it was asked for.
    Gzip,
    /// A chunked body that ends with a trailer field.
    Trailers,
    /// 204 without a body.
    #[value(name = "204")]
    NoContent,
    /// 304 without a body.
    #[value(name = "304")]
    NotModified,
    /// 200 with a body that is not JSON.
    BadJson,
}

/// What holds for one request.
#[derive(Clone, Debug)]
pub(super) struct Behaviour {
    pub(super) delay: Duration,
    pub(super) gap: Duration,
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) retry_after_ms: Option<String>,
    pub(super) fault: Option<MockFault>,
    pub(super) chunks: Option<usize>,
    pub(super) reply_bytes: Option<usize>,
    pub(super) unasked_usage: bool,
}

/// An `x-mock-` header that cannot be read: a test with a typing error must not pass by luck.
#[derive(Debug)]
pub(super) struct BadHeader(pub(super) &'static str);

impl Behaviour {
    pub(super) fn of(head: &Head, settings: &MockSettings) -> Result<Self, BadHeader> {
        let mut status = number(head, "x-mock-status")?;
        let mut fault = head.header("x-mock-fault").map(|v| MockFault::from_str(v, true)).transpose();
        let first = number::<u64>(head, "x-mock-fail-first")?;
        if let Some(first) = first {
            let id = head.header("x-mock-id").ok_or(BadHeader("x-mock-id"))?;
            if settings.stats.seen(id) >= first {
                (status, fault) = (Some(200), Ok(None));
            } else if status.is_none() && fault.as_ref().is_ok_and(Option::is_none) {
                status = Some(500);
            }
        }
        let fault = fault.map_err(|_| BadHeader("x-mock-fault"))?;
        let status = status.unwrap_or(settings.status);
        if !(200..=599).contains(&status) {
            return Err(BadHeader("x-mock-status"));
        }
        Ok(Self {
            delay: Duration::from_millis(number(head, "x-mock-delay")?.unwrap_or(settings.delay)),
            gap: Duration::from_millis(number(head, "x-mock-chunk-gap")?.unwrap_or(settings.chunk_gap)),
            status,
            retry_after: text(head, "x-mock-retry-after").or_else(|| settings.retry_after.clone()),
            retry_after_ms: text(head, "x-mock-retry-after-ms"),
            fault: if first.is_some() { fault } else { fault.or(settings.fault) },
            chunks: number(head, "x-mock-chunks")?.or(settings.chunks),
            reply_bytes: number(head, "x-mock-reply-bytes")?.or(settings.reply_bytes),
            unasked_usage: settings.unasked_usage,
        })
    }

    pub(super) fn plain() -> Self {
        Self {
            delay: Duration::ZERO,
            gap: Duration::ZERO,
            status: 200,
            retry_after: None,
            retry_after_ms: None,
            fault: None,
            chunks: None,
            reply_bytes: None,
            unasked_usage: false,
        }
    }
}

fn text(head: &Head, name: &str) -> Option<String> {
    head.header(name).map(ToOwned::to_owned)
}

fn number<T: std::str::FromStr>(head: &Head, name: &'static str) -> Result<Option<T>, BadHeader> {
    head.header(name).map(|v| v.trim().parse().map_err(|_| BadHeader(name))).transpose()
}
