//! Reads what providers keep elsewhere, at addresses that they tell: under the rules for any address that somebody
//! names, and without a credential.

use crate::upstream::CheckedCalls;
use crate::upstream::http1::{Response, SendError};
use bytes::{Bytes, BytesMut};
use gateway_domain::ports::{OutsideCall, OutsideError};
use http::Method;
use http::header::{CONTENT_LENGTH, LOCATION};
use std::time::Duration;

/// The longest wait between two pieces of a body.
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

/// All of an answer. `None`: it has more bytes than that, or says so; what is left of it is not read.
pub(crate) async fn read_within(response: &mut Response, most: usize) -> Result<Option<Bytes>, SendError> {
    let declared = response.head().headers().get(CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > most) {
        return Ok(None);
    }
    let mut body = BytesMut::new();
    while let Some(piece) = response.read().await? {
        body.extend_from_slice(&piece);
        if body.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(body.freeze()))
}
