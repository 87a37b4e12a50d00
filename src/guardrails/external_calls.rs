//! What checks ask of the world, answered: calls of services that an admin or a client named, each signed as the check
//! wants it and made through the port for such calls. Knows no check.

use super::key_sets::KeySets;
use super::signing;
use crate::upstream::Credentials;
use bytes::Bytes;
use gateway_domain::egress::BaseUrl;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError, OutsideReply};
use gateway_guardrails::external_call::{CheckQuery, CheckReply, CheckRequest, FailureKind, QueryFailure, REPLY, Sign};
use http::{Method, header};
use std::sync::Arc;
use std::time::Duration;

const KEY_SET_TIMEOUT_MS: u32 = 5_000;

pub(crate) struct OutsideAnswers {
    calls: Arc<dyn Outside>,
    credentials: Arc<Credentials>,
    key_sets: KeySets,
}

impl std::fmt::Debug for OutsideAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideAnswers").finish_non_exhaustive()
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
fn failed(kind: FailureKind, message: impl Into<String>) -> CheckReply {
    CheckReply::Failed(QueryFailure { kind, message: message.into() })
}

impl OutsideAnswers {
    pub(crate) fn new(calls: Arc<dyn Outside>, credentials: Arc<Credentials>) -> Self {
        Self { calls, credentials, key_sets: KeySets::default() }
    }

    /// Never waits longer than the ask says. `moderator`: the caller's own provider, where it has one that moderates.
    /// A key set is asked for seldom, and what that takes is boxed.
    pub(super) async fn answer(&self, ask: CheckQuery, moderator: Option<&Moderator>) -> CheckReply {
        match ask {
            CheckQuery::Call(outgoing) => self.call(*outgoing).await,
            CheckQuery::Resolve { host, timeout_ms } => {
                let looked_up = pingora_timeout::timeout(millis(timeout_ms), self.calls.resolves(&host)).await;
                looked_up.map_or_else(
                    |_| failed(FailureKind::Timeout, "The name was not found in time"),
                    CheckReply::Resolved,
                )
            }
            CheckQuery::KeySet { uri, max_age_secs, fresh } => {
                let fetch = self.call(CheckRequest {
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
                        CheckReply::Media { body, .. } => CheckReply::Reply { status: 200, body },
                        other => other,
                    }
                };
                Box::pin(self.key_sets.find(&uri, Duration::from_secs(max_age_secs), fresh, fetch)).await
            }
            CheckQuery::Moderation { body, timeout_ms } => match moderator {
                Some(moderator) => self.moderate(moderator, body, timeout_ms).await,
                None => failed(FailureKind::Unreachable, "No managed provider of this workspace moderates"),
            },
        }
    }

    async fn moderate(&self, moderator: &Moderator, body: Bytes, timeout_ms: u32) -> CheckReply {
        let scheme = if moderator.base.tls { "https" } else { "http" };
        let outgoing = CheckRequest {
            method: Method::POST,
            url: format!("{scheme}://{}{}", moderator.base.authority(), moderator.target),
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
        self.call(outgoing).await
    }

    async fn call(&self, outgoing: CheckRequest) -> CheckReply {
        let is_get = outgoing.method == Method::GET;
        let within = millis(outgoing.timeout_ms);
        let answered = async {
            let call = self.signed(outgoing).await?;
            self.calls.call(call).await.map_err(|error| fallen(&error))
        };
        match pingora_timeout::timeout(within, answered).await {
            Ok(Ok(reply)) if is_get && (200..300).contains(&reply.status) => media(reply),
            Ok(Ok(reply)) => CheckReply::Reply { status: reply.status, body: reply.body },
            Ok(Err(answer)) => answer,
            Err(_) => late(within),
        }
    }

    async fn signed(&self, outgoing: CheckRequest) -> Result<OutsideCall, CheckReply> {
        let CheckRequest { method, url, headers, body, timeout_ms, most_reply, redirects, sign } = outgoing;
        let mut call = OutsideCall { method, url, headers, body, within: millis(timeout_ms), most_reply, redirects };
        signing::sign(&self.credentials, &sign, &mut call)
            .await
            .map_err(|why| failed(FailureKind::Unreachable, why))?;
        Ok(call)
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn media(reply: OutsideReply) -> CheckReply {
    let kind = reply.headers.get(header::CONTENT_TYPE);
    let content_type = kind.and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    CheckReply::Media { content_type, body: reply.body }
}

fn late(within: Duration) -> CheckReply {
    failed(FailureKind::Timeout, format!("No answer within {}ms", within.as_millis()))
}

fn fallen(error: &OutsideError) -> CheckReply {
    let kind = match error {
        OutsideError::Timeout(within) => return late(*within),
        OutsideError::Forbidden(_) => FailureKind::Forbidden,
        OutsideError::Unreachable(_) | OutsideError::Resting => FailureKind::Unreachable,
        OutsideError::Busy => FailureKind::Busy,
        OutsideError::TooLong(_) => FailureKind::TooLong,
    };
    // A sentence of its own where it is shown.
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    failed(kind, first.into_iter().chain(letters).collect::<String>())
}
