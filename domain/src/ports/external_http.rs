//! One HTTP call to an address that somebody else named: an admin, a tenant, a check. Whoever makes it holds the
//! address to the rules of custom hosts, when it is read and when it is dialled.

use super::Fut;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::fmt;
use std::time::Duration;

#[derive(Clone)]
pub struct OutsideCall {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// The time that the whole call may take, redirects included.
    pub within: Duration,
    /// Longer answers are an error.
    pub most_reply: usize,
    /// Redirects that are followed, each to a checked address.
    pub redirects: u8,
}

/// Credentials and queries stay out of logs: method, bare address and size are shown.
impl fmt::Debug for OutsideCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        f.debug_struct("OutsideCall")
            .field("method", &self.method)
            .field("url", &url)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// An answer, read whole, whatever its status.
#[derive(Clone, Debug)]
pub struct OutsideReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer; names neither query nor credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// The rules for addresses forbid it: the rest of a sentence.
    #[error("the address {0}")]
    Forbidden(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// Too many calls of that host are under way to begin another.
    #[error("too many calls of this host are under way")]
    Busy,
    /// It gave errors in a row, and is left alone for some seconds.
    #[error("the host gave only errors and rests for a while")]
    Resting,
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

pub trait Outside: Send + Sync {
    fn call(&self, call: OutsideCall) -> Fut<'_, Result<OutsideReply, OutsideError>>;
    /// Whether a host has an address that may be called.
    fn resolves<'a>(&'a self, host: &'a str) -> Fut<'a, bool>;
}
