//! Calls of services that an admin, a tenant or a check named, over the dialler that checks every address: the backend
//! of the port [`Outside`]. Each call has a deadline, each reply a bound, and no redirect is followed but those that
//! the caller asks for, each checked like the first. Knows nothing of what is asked.

mod hosts;

use crate::dial::{DialError, Dialer};
use crate::http1::{self, BodySource, Framing, PeerTimeouts, RequestBody, RequestHead, Response, SendError};
use bytes::{Bytes, BytesMut};
use gateway_domain::egress::{BaseUrl, Trusted, check_custom_host};
use gateway_domain::ports::{Fut, Outside, OutsideCall, OutsideError, OutsideReply};
use gateway_providers::BodyPieces;
use hosts::{Hosts, NotNow};
use http::{HeaderValue, Method, header};
use std::sync::Arc;
use std::time::Instant;
use url::Url;

/// Idle connections that are kept for each host.
const IDLE: usize = 64;
/// Bytes of a reply before room for it is grown.
const USUAL_REPLY: usize = 4 << 10;

/// What becomes of a host that gave errors in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterErrors {
    /// It is left alone for some seconds, so that calls which somebody waits for fail at once.
    Rest,
    /// It is asked on: the caller has a pace of its own.
    GoOn,
}

#[derive(Debug)]
pub struct CheckedCalls {
    dialer: Arc<Dialer>,
    trusted: Arc<Trusted>,
    hosts: Hosts,
}

/// A body that streams up, and how long it is.
pub struct StreamedBody {
    pub source: Box<dyn BodySource>,
    pub length: usize,
}

impl std::fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamedBody").field("length", &self.length).finish_non_exhaustive()
    }
}

/// An address taken apart, and allowed as far as that can be said without looking it up.
struct OutsidePlace {
    base: Arc<BaseUrl>,
    /// Path and query.
    target: String,
}

impl CheckedCalls {
    pub fn new(dialer: Arc<Dialer>, trusted: Arc<Trusted>, after_errors: AfterErrors) -> Self {
        Self { dialer, trusted, hosts: Hosts::new(after_errors) }
    }

    /// Makes a call that is too long to be held: the body streams up, where one is given in the place of the call's
    /// own, and the answer is the caller's to read. The deadline is that of each wait; no redirect is followed.
    pub async fn open(&self, call: &OutsideCall, body: Option<StreamedBody>) -> Result<Response, OutsideError> {
        let url = Url::parse(&call.url).map_err(|_| OutsideError::Forbidden("cannot be read".to_owned()))?;
        self.send(call, body, &self.place(&url)?).await
    }

    async fn follow(&self, call: &OutsideCall) -> Result<OutsideReply, OutsideError> {
        let unread = |_| OutsideError::Forbidden("cannot be read".to_owned());
        let mut url = Url::parse(&call.url).map_err(unread)?;
        let mut left = call.redirects;
        loop {
            let mut response = self.send(call, None, &self.place(&url)?).await?;
            let next = (left > 0).then(|| redirect(&response, &url)).flatten();
            if let Some(next) = next {
                response.discard(IDLE).await;
                (url, left) = (next, left - 1);
                continue;
            }
            let body = read(call, &mut response).await?;
            let reply = OutsideReply { status: response.status(), headers: response.head().headers().clone(), body };
            response.release(IDLE);
            return Ok(reply);
        }
    }

    fn place(&self, url: &Url) -> Result<OutsidePlace, OutsideError> {
        let forbidden = |why: &str| OutsideError::Forbidden(why.to_owned());
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden("must not contain credentials"));
        }
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let authority = format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default());
        let base = check_custom_host(&authority, &self.trusted).map_err(forbidden)?;
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        Ok(OutsidePlace { base: Arc::new(base), target: format!("{}{query}", url.path()) })
    }

    async fn send(
        &self,
        call: &OutsideCall,
        body: Option<StreamedBody>,
        place: &OutsidePlace,
    ) -> Result<Response, OutsideError> {
        let authority = place.base.authority();
        let under_way = self.hosts.enter(&authority, Instant::now()).map_err(|why| match why {
            NotNow::Busy => OutsideError::Busy,
            NotNow::Resting => OutsideError::Resting,
        })?;
        let mut head = head(call, &place.target, &authority)?;
        let origin = match self.dialer.origin(&place.base).await {
            Ok(origin) => origin,
            Err(e) => {
                under_way.note(matches!(e, DialError::Forbidden(_)), Instant::now());
                return Err(fallen(&SendError::NoConnection(e), call));
            }
        };
        // The whole call has one clock, which `call` holds.
        let clocks = PeerTimeouts { first_byte: call.within, idle: call.within };
        let pieces = BodyPieces::One(call.body.clone());
        let body = match body {
            Some(StreamedBody { source, length }) => {
                head.set_framing(Framing::Length(length));
                RequestBody::Streaming(source)
            }
            None => RequestBody::Held(&pieces),
        };
        let sent = http1::send(&self.dialer, &origin, &head, body, clocks).await;
        under_way.note(sent.as_ref().is_ok_and(|r| r.status() < 500), Instant::now());
        sent.map_err(|e| fallen(&e, call))
    }
}

impl Outside for CheckedCalls {
    fn call(&self, call: OutsideCall) -> Fut<'_, Result<OutsideReply, OutsideError>> {
        Box::pin(async move {
            let answered = pingora_timeout::timeout(call.within, self.follow(&call)).await;
            answered.unwrap_or(Err(OutsideError::Timeout(call.within)))
        })
    }

    fn resolves<'a>(&'a self, host: &'a str) -> Fut<'a, bool> {
        Box::pin(async move {
            let Ok(base) = check_custom_host(&format!("https://{host}"), &self.trusted) else { return false };
            self.dialer.origin(&Arc::new(base)).await.is_ok()
        })
    }
}

fn head(call: &OutsideCall, target: &str, authority: &str) -> Result<RequestHead, OutsideError> {
    let unsendable = || OutsideError::Forbidden("cannot be sent".to_owned());
    let mut head = RequestHead::new(call.method.clone(), target).map_err(|_| unsendable())?;
    head.set(header::HOST, HeaderValue::from_str(authority).map_err(|_| unsendable())?);
    for (name, value) in call.headers.iter().filter(|(name, _)| *name != header::HOST) {
        head.set(name.clone(), value.clone());
    }
    if !call.body.is_empty() || call.method == Method::POST {
        head.set_framing(Framing::Length(call.body.len()));
    }
    Ok(head)
}

async fn read(call: &OutsideCall, response: &mut Response) -> Result<Bytes, OutsideError> {
    let mut body = BytesMut::new();
    while !response.is_done() {
        let Some(piece) = response.read().await.map_err(|e| fallen(&e, call))? else { break };
        if body.len() + piece.len() > call.most_reply {
            return Err(OutsideError::TooLong(call.most_reply));
        }
        if body.is_empty() {
            body.reserve(USUAL_REPLY.max(piece.len()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// Where a redirect leads, if the answer is one.
fn redirect(response: &Response, from: &Url) -> Option<Url> {
    if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.head().headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(to).ok()
}

fn fallen(error: &SendError, call: &OutsideCall) -> OutsideError {
    match error {
        SendError::NoConnection(DialError::Forbidden(why)) => OutsideError::Forbidden((*why).to_owned()),
        SendError::NoConnection(DialError::Failed(why)) => {
            OutsideError::Unreachable(format!("the host could not be reached: {why}"))
        }
        SendError::Broken(why) => OutsideError::Unreachable(format!("the host broke off: {why}")),
        SendError::Silent => OutsideError::Timeout(call.within),
    }
}
