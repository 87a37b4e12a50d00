//! One line: asked, asked again where that may help, and put down as it was answered. A refusal of the gateway's own
//! limits makes it wait; that it waited counts as no try.

use crate::batches::batch_id;
use crate::batches::document::LineUsage;
use crate::batches::line_context::{BookedAnswer, LineGuest, LineTask};
use crate::batches::lines::FileLine;
use crate::batches::log::LineDone;
use crate::batches::loopback::{LineCall, LineRoad, NativeCall};
use crate::batches::operations::now_secs;
use crate::batches::pinned_config::{ConfigOfBatch, PinnedConfig};
use bytes::Bytes;
use gateway_domain::cloud::CloudService;
use gateway_domain::id::KeyId;
use gateway_domain::ports::{OutsideError, OutsideReply};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// Before a line is asked again, if nobody says how long.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What all lines of a batch are sent with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LineSetup {
    /// The gateway's own headers and the credential of the request that made the batch.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) metadata: Map<String, Value>,
    #[serde(default)]
    pub(crate) config: ConfigOfBatch,
    /// What a provider's own batch is asked with besides.
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
}

#[derive(Clone)]
pub(super) struct LineSender {
    pub(super) road: Arc<LineRoad>,
    pub(super) setup: Arc<LineSetup>,
    pub(super) config: PinnedConfig,
    pub(super) batch: Uuid,
    pub(super) endpoint: Arc<str>,
    pub(super) key: KeyId,
    pub(super) retries: u32,
    /// When the batch expires, in seconds since 1970: a line that would have to wait longer is over.
    pub(super) until: i64,
    /// No line is asked any more.
    pub(super) halting: watch::Receiver<bool>,
}

/// What is to become of an answer.
enum NextTry {
    /// It is the line's answer.
    None,
    /// The gateway itself refused for a while: the line is asked again after this time, as often as it takes.
    Free(Duration),
    /// The provider failed: the line is asked again after this time, but only so many times.
    Counted(Duration),
}

/// Why nothing became of a line at the door; without a status it did not come so far.
#[derive(Debug)]
pub(super) struct DoorRefusal {
    pub(super) status: u16,
    pub(super) message: String,
}

/// A line that was asked, as it is answered.
struct AskedLine<'a> {
    id: String,
    custom_id: &'a str,
    number: u64,
}

impl LineSender {
    /// `None`: it was never answered, since the batch ends.
    pub(super) async fn ask(mut self, line: FileLine, again: bool) -> Option<LineDone> {
        let read = line.read().ok()?;
        let asked = AskedLine { id: line_id(self.batch, line.number), custom_id: &read.custom_id, number: line.number };
        let mut call = self.call(&line, Bytes::copy_from_slice(read.body.get().as_bytes()), again);
        let (mut tries, mut cost) = (0, 0_i64);
        loop {
            call.guest = LineGuest::new(self.config.clone(), LineTask::Asked);
            let answered = self.road.send(&call).await;
            if answered.is_ok() {
                cost = cost.saturating_add(call.guest.cost().await);
            }
            let wait = match self.next_try(&answered, tries) {
                NextTry::None => return Some(asked.done(answered, cost)),
                NextTry::Free(wait) => wait,
                NextTry::Counted(wait) => {
                    tries += 1;
                    wait
                }
            };
            // What it was told so far was no answer.
            tokio::select! { biased;
                _ = self.halting.wait_for(|halting| *halting) => return None,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn call(&self, line: &FileLine, body: Bytes, again: bool) -> LineCall {
        LineCall {
            endpoint: self.endpoint.to_string(),
            key: self.key,
            headers: self.headers(line.number, again),
            body,
            guest: LineGuest::new(self.config.clone(), LineTask::Asked),
        }
    }

    /// Why none of the targets that a line may come to may be asked for its model. What else may be wrong with it is
    /// seen when it is asked.
    pub(super) async fn refusal(&self, line: &FileLine) -> Option<String> {
        refusal_of(&self.explained(line).await?)
    }

    /// What would become of a line; `None`: that cannot be said now.
    pub(super) async fn explained(&self, line: &FileLine) -> Option<Value> {
        let body = Bytes::copy_from_slice(line.read().ok()?.body.get().as_bytes());
        let told = self.road.suppose_line(&self.call(line, body, false)).await.ok()?;
        serde_json::from_slice(&told.body).ok()
    }

    /// Counts what a provider answered to a line; what it cost, in billionths of a dollar.
    pub(super) async fn book(&self, number: u64, booked: BookedAnswer) -> i64 {
        match self.done(number, Bytes::new(), LineTask::Booked(Box::new(booked))).await {
            Ok((_, cost)) => cost,
            Err(refused) => {
                let why = refused.message;
                tracing::warn!(batch = %self.batch, line = number, why, "a line of a provider's batch was not counted");
                0
            }
        }
    }

    /// Sends a line to the door for something else than to be asked; what is told of it, and what it cost.
    pub(super) async fn done(&self, number: u64, body: Bytes, task: LineTask) -> Result<(Bytes, i64), DoorRefusal> {
        let is_counted = matches!(&task, LineTask::Booked(booked) if booked.record.is_some());
        let call = LineCall {
            endpoint: self.endpoint.to_string(),
            key: self.key,
            headers: self.headers(number, false),
            body,
            guest: LineGuest::new(self.config.clone(), task),
        };
        match self.road.send(&call).await {
            Ok(reply) if reply.status == 200 => {
                let cost = if is_counted { call.guest.cost().await } else { 0 };
                Ok((reply.body, cost))
            }
            Ok(reply) => Err(DoorRefusal { status: reply.status, message: message_of(&reply) }),
            Err(why) => Err(DoorRefusal { status: 0, message: why.to_string() }),
        }
    }

    /// A call of the provider itself.
    pub(super) fn native(&self, method: Method, target: String, body: &Value) -> NativeCall {
        let mut headers = self.headers(0, false);
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        if !body.is_empty() {
            headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        let task = LineTask::Native { at: CloudService::Api, streams: false, begins: false };
        let guest = LineGuest::new(self.config.clone(), task);
        NativeCall { key: self.key, method, target, headers, body, guest }
    }

    /// Makes a call go to another service of the provider; with a content type its body streams up.
    pub(super) fn native_at(
        &self,
        mut call: NativeCall,
        (at, begins): (CloudService, bool),
        content_type: Option<&str>,
    ) -> NativeCall {
        let task = LineTask::Native { at, streams: content_type.is_some(), begins };
        call.guest = LineGuest::new(self.config.clone(), task);
        let kind = content_type.and_then(|kind| HeaderValue::from_str(kind).ok());
        call.headers.extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
        call
    }

    fn headers(&self, number: u64, again: bool) -> Vec<(HeaderName, HeaderValue)> {
        let mut metadata = self.setup.metadata.clone();
        metadata.insert("batch_id".to_owned(), batch_id(self.batch).into());
        if number > 0 {
            metadata.insert("batch_line".to_owned(), number.to_string().into());
        }
        if again {
            // It may have been answered before, to a process that is no more.
            metadata.insert("batch_resent".to_owned(), "true".into());
        }
        let own = [
            ("x-gateway-metadata".to_owned(), Value::Object(metadata).to_string()),
            ("x-gateway-trace-id".to_owned(), format!("{}-{number}", batch_id(self.batch))),
        ];
        let all = self.setup.headers.iter().cloned().chain(own);
        all.filter_map(|(name, value)| Some((name.parse().ok()?, HeaderValue::from_str(&value).ok()?))).collect()
    }

    fn next_try(&self, answered: &Result<OutsideReply, OutsideError>, tries: u32) -> NextTry {
        let left = Duration::from_secs(u64::try_from(self.until - now_secs()).unwrap_or_default());
        let backoff = FIRST_WAIT.saturating_mul(1 << tries.min(6)).min(LONGEST_WAIT);
        let reply = match answered {
            Err(OutsideError::Busy | OutsideError::Resting) => return NextTry::Free(FIRST_WAIT),
            Err(OutsideError::Unreachable(_) | OutsideError::Timeout(_)) if tries < self.retries => {
                return NextTry::Counted(backoff);
            }
            Err(_) => return NextTry::None,
            Ok(reply) => reply,
        };
        let told = retry_after(&reply.headers);
        match reply.status {
            429 | 503 if is_own(&reply.body) => NextTry::Free(told.unwrap_or(backoff).clamp(FIRST_WAIT, LONGEST_WAIT)),
            // A budget that begins anew in time is waited for.
            412 if is_own(&reply.body) && told.is_some_and(|wait| wait < left) => {
                NextTry::Free(told.unwrap_or(backoff).min(LONGEST_WAIT))
            }
            429 | 500.. if tries < self.retries => NextTry::Counted(told.unwrap_or(backoff).min(LONGEST_WAIT)),
            _ => NextTry::None,
        }
    }
}

/// Why the gateway refuses.
fn message_of(reply: &OutsideReply) -> String {
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let message = told["error"]["message"].as_str().map(ToOwned::to_owned);
    message.unwrap_or_else(|| format!("status {}", reply.status))
}

/// The id that a line has in the files of results.
pub(super) fn line_id(batch: Uuid, number: u64) -> String {
    format!("batch_req_{}_{number}", batch.simple())
}

/// The gateway says this, and no provider: only the gateway writes the message beside its error, and where it says what
/// a provider said, the provider's name stands there too.
pub(super) fn is_own(body: &[u8]) -> bool {
    let told: Option<Value> = serde_json::from_slice(body).ok();
    told.is_some_and(|told| {
        told.get("message").is_some() && told.get("error").is_some() && told.get("provider").is_none()
    })
}

pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    number("retry-after-ms").map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}

impl AskedLine<'_> {
    fn done(&self, answered: Result<OutsideReply, OutsideError>, cost: i64) -> LineDone {
        let (line, is_good, usage) = match answered {
            Ok(reply) => {
                let body: Value = match serde_json::from_slice(&reply.body) {
                    Ok(json) => json,
                    Err(_) => String::from_utf8_lossy(&reply.body).into_owned().into(),
                };
                let usage = usage(&body);
                let request = reply.headers.get("x-gateway-trace-id").and_then(|v| v.to_str().ok());
                let response = json!({ "status_code": reply.status, "request_id": request, "body": body });
                let line = json!({ "id": self.id, "custom_id": self.custom_id, "response": response, "error": null });
                (line, (200..300).contains(&reply.status), usage)
            }
            Err(why) => {
                let told = why.to_string();
                (unanswered(&self.id, self.custom_id, ("request_failed", &told)), false, LineUsage::default())
            }
        };
        let line = RawValue::from_string(line.to_string()).unwrap_or_default();
        LineDone { number: self.number, is_good, usage, cost, line }
    }
}

/// What an explanation says of a request that no target may be asked: the reason of the first. A target that is only
/// away for now, or whose request cannot be written, is none of these.
fn refusal_of(explained: &Value) -> Option<String> {
    let targets = explained["targets"].as_array().filter(|targets| !targets.is_empty())?;
    let is_refused = |target: &Value| {
        target["provider"].is_null() && matches!(target["refused"]["status"].as_u64(), Some(400 | 403 | 404))
    };
    let first = targets.iter().all(is_refused).then(|| targets[0]["refused"]["message"].as_str())?;
    Some(first.unwrap_or_default().to_owned())
}

/// A line that has no answer, with code and message.
pub(super) fn unanswered(id: &str, custom_id: &str, (code, message): (&str, &str)) -> Value {
    json!({ "id": id, "custom_id": custom_id, "response": null, "error": { "code": code, "message": message } })
}

fn usage(body: &Value) -> LineUsage {
    let told = |name: &str, other: &str| {
        let usage = &body["usage"];
        usage[name].as_u64().or_else(|| usage[other].as_u64()).unwrap_or_default()
    };
    LineUsage { input: told("prompt_tokens", "input_tokens"), output: told("completion_tokens", "output_tokens") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_says_is_told_from_what_providers_say() {
        let is_own = |body: Value| is_own(body.to_string().as_bytes());
        let error = json!({ "message": "too many", "type": "rate_limit_error" });
        assert!(is_own(json!({ "error": error, "message": "too many" })));
        assert!(!is_own(json!({ "error": error })));
        assert!(!is_own(json!({ "error": error, "message": "too many", "provider": "cohere" })));
        assert!(!is_own(json!("busy")));
    }

    #[test]
    fn a_line_is_refused_where_every_target_is() {
        let refused = |status: u16| json!({ "refused": { "status": status, "message": "not enabled" } });
        let open = json!({ "provider": "openai" });
        let broken = json!({ "provider": "openai", "refused": { "status": 400, "message": "no such field" } });
        let of = |targets: Value| refusal_of(&json!({ "targets": targets }));
        assert_eq!(of(json!([refused(403), refused(400)])).as_deref(), Some("not enabled"));
        for targets in [json!([]), json!([refused(403), open]), json!([refused(503)]), json!([broken])] {
            assert_eq!(of(targets.clone()), None, "{targets}");
        }
        assert_eq!(refusal_of(&json!({ "error": { "message": "no" } })), None);
    }

    #[test]
    fn usage_is_read_in_both_forms() {
        let of = |usage: Value| usage_of(&usage);
        fn usage_of(usage: &Value) -> (u64, u64) {
            let told = super::usage(&json!({ "usage": usage }));
            (told.input, told.output)
        }
        assert_eq!(of(json!({ "prompt_tokens": 5, "completion_tokens": 3 })), (5, 3));
        assert_eq!(of(json!({ "input_tokens": 4, "output_tokens": 2 })), (4, 2));
        assert_eq!(of(Value::Null), (0, 0));
    }
}
