//! What checks ask of the world: calls of services that an admin or a client named, over the same dialler that checks
//! every address. Each call has a deadline, each reply a bound, and no redirect is followed but those that a check asks
//! for, each checked like the first. Knows no check.

use super::hosts::{Hosts, NotNow};
use super::key_sets::KeySets;
use super::signing;
use crate::upstream::http1::{self, Clocks, Framing, RequestBody, RequestHead, Response, SendError};
use crate::upstream::{Credentials, DialError, Dialer};
use bytes::{Bytes, BytesMut};
use gateway_domain::egress::{BaseUrl, Trusted, check_custom_host};
use gateway_guardrails::outside::{Answer, Ask, Failure, FailureKind, Outgoing, REPLY, Sign};
use gateway_providers::Pieces;
use http::{Method, header};
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;

/// Idle connections that are kept for each host.
const IDLE: usize = 64;
const KEY_SET_TIMEOUT_MS: u32 = 5_000;
/// Bytes of a reply before room for it is grown.
const USUAL_REPLY: usize = 4 << 10;

pub(crate) struct Outside {
    dialer: Arc<Dialer>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) trusted: Arc<Trusted>,
    hosts: Hosts,
    key_sets: KeySets,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// A managed provider of a workspace that serves `/moderations`, and how it is signed in to.
pub(crate) struct Moderator {
    pub(crate) base: Arc<BaseUrl>,
    pub(crate) target: String,
    pub(crate) authorization: http::HeaderValue,
}

impl std::fmt::Debug for Moderator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moderator").field("host", &self.base.host).finish_non_exhaustive()
    }
}

/// What may stand in an error that a client reads: neither query nor credential.
fn failed(kind: FailureKind, message: impl Into<String>) -> Answer {
    Answer::Failed(Failure { kind, message: message.into() })
}

/// An address taken apart, and allowed as far as that can be said without looking it up.
struct OutsidePlace {
    base: Arc<BaseUrl>,
    /// Path and query.
    target: String,
}

impl Outside {
    pub(crate) fn new(dialer: Arc<Dialer>, credentials: Arc<Credentials>, trusted: Arc<Trusted>) -> Self {
        Self { dialer, credentials, trusted, hosts: Hosts::default(), key_sets: KeySets::default() }
    }

    /// Never waits longer than the ask says. `moderator`: the caller's own provider, where it has one that moderates.
    /// A key set is asked for seldom, and what that takes is boxed.
    pub(super) async fn answer(&self, ask: Ask, moderator: Option<&Moderator>) -> Answer {
        match ask {
            Ask::Call(outgoing) => self.call(*outgoing).await,
            Ask::Resolve { host, timeout_ms } => {
                let looked_up = pingora_timeout::timeout(millis(timeout_ms), self.resolves(&host)).await;
                looked_up
                    .map_or_else(|_| failed(FailureKind::Timeout, "The name was not found in time"), Answer::Resolved)
            }
            Ask::KeySet { uri, max_age_secs, fresh } => {
                let fetch = self.call(Outgoing {
                    method: Method::GET,
                    url: uri.clone(),
                    headers: vec![(header::ACCEPT, http::HeaderValue::from_static("application/json"))],
                    body: Bytes::new(),
                    timeout_ms: KEY_SET_TIMEOUT_MS,
                    most_reply: REPLY,
                    redirects: 0,
                    sign: Sign::Nothing,
                });
                let fetch = async {
                    match fetch.await {
                        Answer::Media { body, .. } => Answer::Reply { status: 200, body },
                        other => other,
                    }
                };
                Box::pin(self.key_sets.find(&uri, Duration::from_secs(max_age_secs), fresh, fetch)).await
            }
            Ask::Moderation { body, timeout_ms } => match moderator {
                Some(moderator) => self.moderate(moderator, body, timeout_ms).await,
                None => failed(FailureKind::Unreachable, "No managed provider of this workspace moderates"),
            },
        }
    }

    /// The address is an admin's: it is checked when it is dialled, as that of each call to the provider is.
    async fn moderate(&self, moderator: &Moderator, body: Bytes, timeout_ms: u32) -> Answer {
        let outgoing = Outgoing {
            method: Method::POST,
            url: String::new(),
            headers: vec![
                (header::CONTENT_TYPE, http::HeaderValue::from_static("application/json")),
                (header::AUTHORIZATION, moderator.authorization.clone()),
            ],
            body,
            timeout_ms,
            most_reply: REPLY,
            redirects: 0,
            sign: Sign::Nothing,
        };
        let place = OutsidePlace { base: moderator.base.clone(), target: moderator.target.clone() };
        let asked = async {
            let mut response = self.send(&outgoing, place).await?;
            self.read(&outgoing, &mut response).await.inspect(|_| response.release(IDLE))
        };
        match pingora_timeout::timeout(millis(timeout_ms), asked).await {
            Ok(Ok(answer) | Err(answer)) => answer,
            Err(_) => failed(FailureKind::Timeout, format!("No answer within {timeout_ms}ms")),
        }
    }

    async fn resolves(&self, host: &str) -> bool {
        let url = format!("https://{host}");
        let Ok(base) = check_custom_host(&url, &self.trusted) else { return false };
        self.dialer.origin(&Arc::new(base)).await.is_ok()
    }

    async fn call(&self, outgoing: Outgoing) -> Answer {
        let limit = millis(outgoing.timeout_ms);
        match pingora_timeout::timeout(limit, self.follow(outgoing)).await {
            Ok(Ok(answer) | Err(answer)) => answer,
            Err(_) => failed(FailureKind::Timeout, format!("No answer within {}ms", limit.as_millis())),
        }
    }

    async fn follow(&self, outgoing: Outgoing) -> Result<Answer, Answer> {
        let mut url =
            Url::parse(&outgoing.url).map_err(|_| failed(FailureKind::Forbidden, "The address cannot be read"))?;
        let mut left = outgoing.redirects;
        loop {
            let mut response = self.send(&outgoing, self.place(&url)?).await?;
            let next = (left > 0).then(|| redirect(&response, &url)).flatten();
            if let Some(next) = next {
                response.discard(IDLE).await;
                (url, left) = (next, left - 1);
                continue;
            }
            return self.read(&outgoing, &mut response).await.inspect(|_| response.release(IDLE));
        }
    }

    fn place(&self, url: &Url) -> Result<OutsidePlace, Answer> {
        let forbidden = |why: &str| failed(FailureKind::Forbidden, format!("The address {why}"));
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden("must not contain credentials"));
        }
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let authority = format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default());
        let base = check_custom_host(&authority, &self.trusted).map_err(forbidden)?;
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        Ok(OutsidePlace { base: Arc::new(base), target: format!("{}{query}", url.path()) })
    }

    async fn send(&self, outgoing: &Outgoing, place: OutsidePlace) -> Result<Response, Answer> {
        let authority = place.base.authority();
        let call = self.hosts.enter(&authority, Instant::now()).map_err(|why| match why {
            NotNow::Busy => failed(FailureKind::Busy, "Too many calls of this host are under way"),
            NotNow::Resting => failed(FailureKind::Unreachable, "The host gave only errors and rests for a while"),
        })?;
        let pieces = Pieces::One(outgoing.body.clone());
        let head = self.head(outgoing, &place, &authority, &pieces).await?;
        let origin = match self.dialer.origin(&place.base).await {
            Ok(origin) => origin,
            Err(e) => {
                call.note(matches!(e, DialError::Forbidden(_)), Instant::now());
                return Err(fallen(&SendError::NoConnection(e)));
            }
        };
        // The whole call has one clock, which the caller holds.
        let patience = millis(outgoing.timeout_ms);
        let clocks = Clocks { first_byte: patience, idle: patience };
        let sent = http1::send(&self.dialer, &origin, &head, RequestBody::Held(&pieces), clocks).await;
        call.note(sent.as_ref().is_ok_and(|r| r.status() < 500), Instant::now());
        sent.map_err(|e| fallen(&e))
    }

    async fn head(
        &self,
        outgoing: &Outgoing,
        place: &OutsidePlace,
        authority: &str,
        body: &Pieces,
    ) -> Result<RequestHead, Answer> {
        let unsendable = |_| failed(FailureKind::Forbidden, "The address cannot be sent");
        let mut head =
            RequestHead::new(outgoing.method.clone(), &place.target).map_err(|e| unsendable(e.to_string()))?;
        let host = http::HeaderValue::from_str(authority).map_err(|e| unsendable(e.to_string()))?;
        head.set(header::HOST, host);
        for (name, value) in outgoing.headers.iter().filter(|(name, _)| *name != header::HOST) {
            head.set(name.clone(), value.clone());
        }
        signing::sign(&self.credentials, &outgoing.sign, &mut head, body)
            .await
            .map_err(|why| failed(FailureKind::Unreachable, why))?;
        if !body.is_empty() || outgoing.method == Method::POST {
            head.set_framing(Framing::Length(body.len()));
        }
        Ok(head)
    }

    async fn read(&self, outgoing: &Outgoing, response: &mut Response) -> Result<Answer, Answer> {
        let too_long =
            || failed(FailureKind::TooLong, format!("The answer is longer than {} bytes", outgoing.most_reply));
        let status = response.status();
        let mut body = BytesMut::new();
        while !response.is_done() {
            let piece = match response.read().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(e) => return Err(fallen(&e)),
            };
            if body.len() + piece.len() > outgoing.most_reply {
                return Err(too_long());
            }
            if body.is_empty() {
                body.reserve(USUAL_REPLY.max(piece.len()));
            }
            body.extend_from_slice(&piece);
        }
        let body = body.freeze();
        if outgoing.method == Method::GET && (200..300).contains(&status) {
            let kind = response.head().headers().get(header::CONTENT_TYPE);
            let content_type = kind.and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
            return Ok(Answer::Media { content_type, body });
        }
        Ok(Answer::Reply { status, body })
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// Where a redirect leads, if the answer is one.
fn redirect(response: &Response, from: &Url) -> Option<Url> {
    if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.head().headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(to).ok()
}

fn fallen(error: &SendError) -> Answer {
    match error {
        SendError::NoConnection(DialError::Forbidden(why)) => {
            failed(FailureKind::Forbidden, format!("The address {why}"))
        }
        SendError::NoConnection(DialError::Failed(why)) => {
            failed(FailureKind::Unreachable, format!("The host could not be reached: {why}"))
        }
        SendError::Broken(why) => failed(FailureKind::Unreachable, format!("The host broke off: {why}")),
        SendError::Silent => failed(FailureKind::Timeout, "The host did not answer in time"),
    }
}
