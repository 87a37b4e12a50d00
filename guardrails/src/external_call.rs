//! What a check asks of the world, as data: whoever runs checks makes the calls, under the rules for addresses that
//! others name, and hands the answers back. Nothing here opens a socket.

use crate::partners::CheckCredentials;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use std::fmt;

/// Bytes of an answer that are read.
pub const REPLY: usize = 1 << 20;
/// Bytes that are read of an answer which may hold a whole rewritten body.
pub const REPLY_WITH_BODY: usize = 8 << 20;
/// Asks of one check that are under way at the same time.
pub const AT_ONCE: usize = 8;

/// One thing to find out.
#[derive(Clone, Debug)]
pub enum CheckQuery {
    Call(Box<CheckRequest>),
    /// Whether the host has an address that may be dialled.
    Resolve {
        host: String,
        timeout_ms: u32,
    },
    /// The key set at an address, no older than `max_age_secs`. With `fresh` it is fetched again, at most once a
    /// minute; between that the one that is held is given.
    KeySet {
        uri: String,
        max_age_secs: u64,
        fresh: bool,
    },
    /// The body of a request to `/moderations`, for a provider of the workspace that serves them.
    Moderation {
        body: Bytes,
        timeout_ms: u32,
    },
}

/// A request to a service outside.
#[derive(Clone)]
pub struct CheckRequest {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Time for the whole call, redirects included.
    pub timeout_ms: u32,
    /// Longer answers are an error.
    pub most_reply: usize,
    /// Redirects that are followed, each to a checked address.
    pub redirects: u8,
    pub sign: Sign,
}

/// Credentials and queries stay out of logs: method, host and size are shown.
impl fmt::Debug for CheckRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = url::Url::parse(&self.url).ok();
        let host = url.as_ref().and_then(|u| u.host_str()).unwrap_or("?");
        let bytes = self.body.len();
        f.debug_struct("CheckRequest")
            .field("method", &self.method)
            .field("host", &host)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

/// What is still to be added to a request, by whoever knows the time and the clouds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    Nothing,
    /// Signature version 4 by these credentials.
    Aws {
        region: String,
        service: &'static str,
        credentials: CheckCredentials,
    },
    /// A bearer token of the cloud's sign-in for this audience.
    Azure {
        scope: &'static str,
        credentials: CheckCredentials,
    },
}

/// What came of an ask.
#[derive(Clone, Debug)]
pub enum CheckReply {
    /// The answer to a call, or a key set (status 200).
    Reply {
        status: u16,
        body: Bytes,
    },
    /// A body that is to stand in the content as it is, with its media type.
    Media {
        content_type: String,
        body: Bytes,
    },
    Resolved(bool),
    Failed(QueryFailure),
}

/// Why an ask has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryFailure {
    pub kind: FailureKind,
    /// What the client is told; names neither query nor credential.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Timeout,
    /// The rules for addresses forbid it.
    Forbidden,
    Unreachable,
    /// Too many calls to that host are under way.
    Busy,
    /// The answer is longer than it may be.
    TooLong,
}

impl FailureKind {
    /// The `name` of the check's error.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "Timeout",
            Self::Forbidden => "ForbiddenAddress",
            Self::Unreachable => "Unreachable",
            Self::Busy => "Busy",
            Self::TooLong => "ReplyTooLong",
        }
    }
}
