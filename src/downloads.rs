//! Reads what providers keep elsewhere, at addresses that they tell: under the rules for any address that somebody names,
//! and without a credential.

use crate::upstream::CheckedCalls;
use crate::upstream::http1::Response;
use bytes::Bytes;
use gateway_domain::ports::{OutsideCall, OutsideError};
use http::Method;
use http::header::{CONTENT_LENGTH, LOCATION};
use std::time::Duration;

/// Between two pieces.
const BETWEEN_PIECES: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Downloads(CheckedCalls);

impl Downloads {
    pub(crate) const fn new(calls: CheckedCalls) -> Self {
        Self(calls)
    }

    /// The answer of an address, whatever its status. A redirect is not followed.
    pub(crate) async fn open(&self, url: &str) -> Result<Response, OutsideError> {
        let call = OutsideCall {
            method: Method::GET,
            url: url.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            within: BETWEEN_PIECES,
            most_reply: 0,
            redirects: 0,
        };
        self.0.open(&call, None).await
    }
}

/// Where an answer says that something lies now, by a whole address.
pub(crate) fn moved_to(response: &Response) -> Option<&str> {
    if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    response.head().headers().get(LOCATION)?.to_str().ok().filter(|to| to.contains("://"))
}

/// How many bytes an answer says that it has.
pub(crate) fn declared_length(response: &Response) -> Option<usize> {
    response.head().headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
