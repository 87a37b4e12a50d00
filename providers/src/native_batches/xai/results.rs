//! What xAI tells of a line: an answer under the name of what the line asked, an error, or neither. Of the answers only
//! those of chat have one name everywhere; what the others are is seen by their shape.

use super::super::google::http_status;
use super::super::{LineEnd, NativeLine, OtherAnswer};
use bytes::Bytes;
use gateway_domain::money::NanoUsd;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Answers of responses are told in this form as well.
const CHAT: &str = "chat_get_completion";

/// One result. As little as possible is expected of it, so that no line is lost for something that is odd about it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestResult<'a> {
    batch_request_id: Value,
    #[serde(borrow)]
    batch_result: Option<&'a RawValue>,
    error_message: Value,
    /// These two stand in what came of it, and beside it for one that never began.
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    error: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestEnd<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    error: Value,
}

/// A number of `google.rpc.Code`, of which 0 is no trouble, or a word.
#[derive(Default)]
struct RequestTrouble {
    code: Value,
    message: String,
}

/// What is seen of an answer to know what it is, and what it cost.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerShape<'a> {
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    usage: Option<BilledUsage>,
}

/// Ten billion of these are a dollar.
#[derive(Deserialize)]
struct BilledUsage {
    #[serde(default)]
    cost_in_usd_ticks: Option<i64>,
}

pub(super) fn line_of(text: &str) -> NativeLine {
    let told: RequestResult<'_> = serde_json::from_str(text).unwrap_or_default();
    let end = told.batch_result.and_then(|end| serde_json::from_str::<RequestEnd<'_>>(end.get()).ok());
    let RequestEnd { response, error } = end.unwrap_or_default();
    let error = if error.is_null() { told.error } else { error };
    let trouble = RequestTrouble::of(&error, &told.error_message);
    let name = match told.batch_request_id {
        Value::String(name) => name,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let answer = || answer_of(response.or(told.response)?);
    let end = trouble.map(RequestTrouble::end).or_else(answer).unwrap_or_else(untold);
    NativeLine { name, end }
}

fn untold() -> LineEnd {
    let message = "xAI tells neither an answer to this line nor an error of it";
    let body = json!({ "error": { "message": message, "type": "batch_error", "code": "no_answer" } });
    LineEnd::Answered { status: 502, body: body.to_string().into() }
}

/// `None`: there is none.
fn answer_of(response: &RawValue) -> Option<LineEnd> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(response.get()).unwrap_or_default();
    let answers = || members.iter().filter(|(_, value)| value.get().starts_with('{'));
    let body = |answer: &RawValue| Bytes::copy_from_slice(answer.get().as_bytes());
    if let Some(answer) = members.get(CHAT).filter(|answer| answer.get().starts_with('{')) {
        return Some(LineEnd::Answered { status: 200, body: body(answer) });
    }
    let answer = match answers().next() {
        Some((_, answer)) => answer,
        None if members.values().all(|value| value.get() == "null") => return None,
        // Not under a name of what was asked: all of it.
        None => response,
    };
    let shape: AnswerShape<'_> = serde_json::from_str(answer.get()).unwrap_or_default();
    let is_list = |value: Option<&RawValue>| value.is_some_and(|value| value.get().starts_with('['));
    let endpoint = match (is_list(shape.choices), is_list(shape.output), is_list(shape.data)) {
        (true, ..) => Some("/v1/chat/completions"),
        (_, true, _) => Some("/v1/responses"),
        (.., true) => Some("/v1/images/generations"),
        _ => None,
    };
    let ticks = shape.usage.and_then(|usage| usage.cost_in_usd_ticks);
    let cost = ticks.filter(|ticks| *ticks >= 0).map(|ticks| NanoUsd(ticks / 10));
    Some(LineEnd::Other(OtherAnswer { endpoint, body: body(answer), cost }))
}

impl RequestTrouble {
    /// `None`: there was none.
    fn of(error: &Value, message: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let own = match error {
            Value::String(_) => text(error),
            error => text(&error["message"]),
        };
        let code = error.get("code").cloned().unwrap_or_default();
        let trouble = Self { code, message: String::new() };
        let is_none = match &trouble.code {
            Value::Null => own.is_none(),
            _ => trouble.number() == Some(0) || trouble.word() == "ok",
        };
        let said = text(message);
        if is_none && said.is_none() {
            return None;
        }
        Some(Self { message: said.or(own).unwrap_or_default(), ..trouble })
    }

    fn number(&self) -> Option<u64> {
        self.code.as_u64().or_else(|| self.code.as_str()?.parse().ok())
    }

    fn word(&self) -> String {
        self.code.as_str().unwrap_or_default().to_ascii_lowercase()
    }

    fn end(self) -> LineEnd {
        let (number, word) = (self.number(), self.word());
        // `cancelled`, `batch_cancelled`, and how Americans write both.
        if number == Some(1) || word.contains("cancel") {
            return LineEnd::Cancelled;
        }
        if word.contains("expired") {
            return LineEnd::Expired;
        }
        let body = json!({ "error": { "message": self.message, "code": self.code.as_str() } });
        LineEnd::Answered { status: number.map_or(500, http_status), body: body.to_string().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(row: &Value) -> LineEnd {
        line_of(&row.to_string()).end
    }

    fn failed(error: &Value) -> LineEnd {
        end(&json!({ "batch_request_id": "a", "batch_result": { "error": error } }))
    }

    #[test]
    fn words_for_one_that_was_cancelled_or_expired_are_read_as_such() {
        for code in [json!(1), json!("1"), json!("cancelled"), json!("BATCH_CANCELLED"), json!("request_canceled")] {
            assert_eq!(failed(&json!({ "code": code, "message": "gone" })), LineEnd::Cancelled, "{code}");
        }
        assert_eq!(failed(&json!({ "code": "batch_expired" })), LineEnd::Expired);
        let LineEnd::Answered { status, .. } = failed(&json!({ "code": 4, "message": "slow" })) else {
            panic!("an error of its own");
        };
        assert_eq!(status, 504);
    }

    #[test]
    fn every_row_is_a_line_and_one_without_an_end_says_so() {
        let rows = [
            json!({ "batch_request_id": "a" }),
            json!({ "batch_request_id": "a", "batch_result": {} }),
            json!({ "batch_request_id": "a", "batch_result": { "response": null, "error": null } }),
            json!({ "batch_request_id": "a", "batch_result": { "response": {}, "error": { "code": 0 } } }),
            json!({ "batch_request_id": "a", "batch_result": { "response": { "chat_get_completion": null } } }),
            json!({ "batch_request_id": "a", "batch_result": 7, "error_message": "" }),
        ];
        for row in rows {
            let line = line_of(&row.to_string());
            let LineEnd::Answered { status: 502, body } = &line.end else { panic!("{row}: {line:?}") };
            assert!(line.name == "a" && body.windows(9).any(|part| part == b"no_answer"), "{row}: {line:?}");
        }
        let odd = failed(&json!("it fell over"));
        let LineEnd::Answered { status: 500, body } = odd else { panic!("{odd:?}") };
        assert!(String::from_utf8_lossy(&body).contains("it fell over"));
        assert_eq!(line_of("7").name, "", "nobody's, and a line all the same");
        let beside = end(&json!({ "batch_request_id": "a", "error": { "message": "no such model" } }));
        assert!(matches!(beside, LineEnd::Answered { status: 500, .. }), "{beside:?}");
    }

    #[test]
    fn answers_to_other_things_are_known_by_their_shape_whatever_they_are_called() {
        let of = |name: &str, answer: Value| {
            let row = json!({ "batch_request_id": "a", "batch_result": { "response": { name: answer } } });
            match end(&row) {
                LineEnd::Other(OtherAnswer { endpoint, body, cost }) => {
                    (endpoint, String::from_utf8_lossy(&body).into_owned(), cost)
                }
                other => panic!("{row}: {other:?}"),
            }
        };
        let (endpoint, ..) = of("create_response", json!({ "object": "response", "output": [] }));
        assert_eq!(endpoint, Some("/v1/responses"));
        let (endpoint, ..) = of("completion_response", json!({ "choices": [] }));
        assert_eq!(endpoint, Some("/v1/chat/completions"));
        let billed = json!({ "data": [{ "url": "u" }], "usage": { "cost_in_usd_ticks": 100_000_000 } });
        let (endpoint, _, cost) = of("image_generation", billed);
        assert_eq!((endpoint, cost), (Some("/v1/images/generations"), Some(NanoUsd(10_000_000))));
        let video = json!({ "video": { "url": "u", "duration": 8 }, "model": "grok-imagine-video" });
        assert_eq!(of("video_generation", video.clone()), (None, video.to_string(), None));
        let bare = end(&json!({ "batch_result": { "response": { "text": "hello" } } }));
        assert!(matches!(&bare, LineEnd::Other(answer) if answer.endpoint.is_none() && answer.body.len() > 5));
    }
}
