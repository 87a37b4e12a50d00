//! `webhook` and `log`: somebody else's service is told of a request or an answer, and may judge and rewrite it.
//! What the client sent in headers is never told, save the headers that the check names.

use super::BuiltJudge;
use crate::Direction;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep, Streaming};
use crate::content::{Content, Rewrite, Selection};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, REPLY, REPLY_WITH_BODY, Sign};
use crate::parameters::Parameters;
use http::{HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const LONGEST_TIMEOUT: u64 = 60_000;

/// Where to, and what goes with it.
#[derive(Debug)]
struct Hook {
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    forwarded: Vec<HeaderName>,
    timeout_ms: u32,
}

impl Hook {
    fn read(p: &Parameters<'_>, url_key: &'static str) -> Option<Self> {
        let headers = p.headers("headers");
        let forwarded = p.forwarded("forwardHeaders");
        let timeout_ms = p.number("timeout", 3_000, 1..=LONGEST_TIMEOUT) as u32;
        Some(Self { url: p.address(url_key)?, headers, forwarded, timeout_ms })
    }

    fn outgoing(&self, case: &Case<'_>, most_reply: usize) -> CheckQuery {
        let mut headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        headers.extend(forwarded(case, &self.forwarded, &self.headers));
        headers.retain(|(name, _)| !self.headers.iter().any(|(own, _)| own == name));
        headers.extend(self.headers.iter().cloned());
        CheckQuery::Call(Box::new(CheckRequest {
            method: Method::POST,
            url: self.url.clone(),
            headers,
            body: payload(case).into(),
            timeout_ms: self.timeout_ms,
            most_reply,
            redirects: 0,
            sign: Sign::Nothing,
        }))
    }

    /// The URL as it may be shown: without query and fragment, which may hold a secret.
    fn shown_url(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

/// The client's headers that are sent on; what the check sets itself wins.
pub(crate) fn forwarded(
    case: &Case<'_>,
    names: &[HeaderName],
    own: &[(HeaderName, HeaderValue)],
) -> Vec<(HeaderName, HeaderValue)> {
    let mut out = Vec::new();
    for name in names.iter().filter(|n| !own.iter().any(|(o, _)| o == **n)) {
        match case.facts.headers.get(name) {
            Some(value) => out.push((name.clone(), value.clone())),
            // A trace that the client did not begin begins here.
            None if name == "traceparent" => {
                let trace = trace_of(&case.facts.trace_id);
                let value = format!("00-{trace}-{}-01", &trace[16..]);
                out.extend(HeaderValue::try_from(value).ok().map(|v| (name.clone(), v)));
            }
            None => {}
        }
    }
    out
}

/// 32 hexadecimal digits from a trace id of any form.
fn trace_of(id: &str) -> String {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(32).collect::<String>().to_lowercase();
    if digits.bytes().any(|b| b != b'0') && digits.len() == 32 {
        return digits;
    }
    // Any other id is spread over the digits; equal ids give equal traces.
    let mut state = 0xcbf2_9ce4_8422_2325_u128;
    for byte in id.bytes().chain([0xff]) {
        state = (state ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("{:032x}", state | 1)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    request: RequestSide<'a>,
    response: ResponseSide<'a>,
    provider: &'a str,
    request_type: &'a str,
    metadata: Map<String, Value>,
    event_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestSide<'a> {
    json: &'a RawValue,
    text: String,
    is_streaming_request: bool,
    is_transformed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseSide<'a> {
    json: &'a RawValue,
    text: String,
    status_code: Option<u16>,
    is_transformed: bool,
}

fn json_of(content: Option<&Content>) -> &RawValue {
    let raw = content.and_then(|c| serde_json::from_slice::<&RawValue>(c.body()).ok());
    raw.or_else(|| serde_json::from_str("{}").ok()).unwrap_or(RawValue::NULL)
}

/// All texts of all choices, one after the other.
fn text_of(content: Option<&Content>) -> String {
    let joined = content.map(|c| c.joined(Selection::TEXT)).unwrap_or_default();
    joined.into_iter().map(|j| j.text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn metadata_of(case: &Case<'_>) -> Map<String, Value> {
    case.facts.metadata.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect()
}

fn payload(case: &Case<'_>) -> Vec<u8> {
    let is_input = case.content.direction() == Direction::Input;
    let (request, answer) = if is_input { (Some(case.content), None) } else { (case.request, Some(case.content)) };
    let payload = Payload {
        request: RequestSide {
            json: json_of(request),
            text: text_of(request),
            is_streaming_request: case.facts.streams,
            is_transformed: if is_input { case.is_transformed } else { case.request_is_transformed },
        },
        response: ResponseSide {
            json: json_of(answer),
            text: text_of(answer),
            status_code: case.status.filter(|_| !is_input),
            is_transformed: !is_input && case.is_transformed,
        },
        provider: &case.facts.provider,
        request_type: &case.facts.request_type,
        metadata: metadata_of(case),
        event_type: if is_input { "beforeRequestHook" } else { "afterRequestHook" },
    };
    serde_json::to_vec(&payload).unwrap_or_default()
}

#[derive(Debug)]
struct Webhook {
    hook: Hook,
    /// It says that parts of an answer are enough for its verdict: what it refuses, no further text would heal.
    streams: bool,
}

pub(super) fn webhook(p: &Parameters<'_>) -> BuiltJudge {
    let streams = p.flag("streams", false);
    Some(Box::new(Webhook { hook: Hook::read(p, "webhookURL")?, streams }))
}

#[derive(Deserialize)]
struct WebhookReply {
    verdict: Option<Value>,
    #[serde(rename = "transformedData")]
    transformed: Option<Transformed>,
}

#[derive(Deserialize)]
struct Transformed {
    request: Option<WebhookSide>,
    response: Option<WebhookSide>,
}

#[derive(Deserialize)]
struct WebhookSide {
    json: Option<Box<RawValue>>,
}

impl Webhook {
    fn data(&self, verdict: bool, reply: Option<&Value>, explanation: &str) -> Value {
        json!({"verdict": verdict, "explanation": explanation, "webhookUrl": self.hook.shown_url(),
            "responseData": reply, "requestContext": {"timeout": self.hook.timeout_ms}})
    }

    fn error(&self, name: &str, message: String, reply: Option<&Value>) -> JudgeStep {
        let data = self.data(false, reply, "The webhook gave no verdict");
        CheckOutcome::failed(CheckError::open(name, message)).with_data(data).into()
    }

    fn judged(&self, case: &Case<'_>, body: &[u8]) -> JudgeStep {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return self.error("InvalidReply", "The webhook's reply is no JSON".into(), None);
        };
        // What is no object has neither a verdict nor a rewritten side.
        let reply: Option<WebhookReply> = serde_json::from_slice(body).ok();
        let told = reply.as_ref().and_then(|r| r.verdict.as_ref()).and_then(Value::as_bool);
        let verdict = told.unwrap_or(false);
        let explanation = match told {
            Some(true) => "The webhook passed it",
            Some(false) => "The webhook refused it",
            None => "The webhook's reply holds no verdict",
        };
        let data = self.data(verdict, Some(value.get("data").unwrap_or(&value)), explanation);
        let transformed = reply.and_then(|r| r.transformed);
        let side = transformed.and_then(|t| if case.is_input() { t.request } else { t.response });
        let Some(rewritten) = side.and_then(|s| s.json).filter(|j| j.get() != "null") else {
            return CheckOutcome::new(verdict, data).into();
        };
        if !rewritten.get().starts_with('{') {
            return self.error("InvalidReply", "The webhook's transformed body is no JSON object".into(), None);
        }
        CheckOutcome::rewriting(verdict, data, Some(Rewrite::Body(rewritten.get().to_owned().into()))).into()
    }
}

impl Judge for Webhook {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        JudgeStep::Ask(vec![self.hook.outgoing(case, REPLY_WITH_BODY)])
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        match answers.first() {
            Some(CheckReply::Reply { status, body }) if (200..300).contains(status) => self.judged(case, body),
            Some(CheckReply::Reply { status, body }) => {
                let reply = serde_json::from_slice::<Value>(&body[..body.len().min(REPLY)]).ok();
                self.error("HttpError", format!("The webhook answered with status {status}"), reply.as_ref())
            }
            Some(CheckReply::Failed(failure)) => self.error(failure.kind.name(), failure.message.clone(), None),
            _ => self.error("Error", "The webhook gave no answer".into(), None),
        }
    }

    fn rewrites(&self) -> bool {
        true
    }

    /// It is told of the whole body; in a stream, of its parts.
    fn selection(&self) -> Selection {
        Selection::TEXT_AND_TOOL
    }

    fn streaming(&self) -> Option<Streaming> {
        self.streams.then_some(Streaming::Outside)
    }
}

#[derive(Debug)]
struct Log(Hook);

pub(super) fn log(p: &Parameters<'_>) -> BuiltJudge {
    Some(Box::new(Log(Hook::read(p, "logURL")?)))
}

impl Judge for Log {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        JudgeStep::Ask(vec![self.0.outgoing(case, REPLY)])
    }

    fn read(&self, _: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let error = match answers.first() {
            Some(CheckReply::Reply { status, .. }) if (200..300).contains(status) => {
                return CheckOutcome::new(true, json!({"message": "The log was delivered"})).into();
            }
            Some(CheckReply::Reply { status, .. }) => {
                CheckError::open("HttpError", format!("The log's receiver answered with status {status}"))
            }
            Some(CheckReply::Failed(failure)) => failure.into(),
            _ => CheckError::open("Error", "The log's receiver gave no answer"),
        };
        CheckOutcome::failed(error).with_data(json!({"message": "The log was not delivered"})).into()
    }
}
