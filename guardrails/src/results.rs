//! Results as clients and records see them: the objects of `hook_results`, the body of a denial, and the place where
//! results stand in an answer. Field order is part of the form.

use crate::content::{BodyShape, with_last_member};
use crate::engine::Verdict;
use crate::guardrail::{FeedbackRule, HookType};
use bytes::Bytes;
use gateway_domain::Dialect;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

const DENIED: &str =
    "The guardrail checks defined in the config failed. You can find more information in the `hook_results` object.";
/// The type of a denial's error, also of one inside a stream.
pub const DENIED_TYPE: &str = "hooks_failed";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorResult {
    pub name: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    pub data: Value,
    pub verdict: bool,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorResult>,
    /// Milliseconds.
    pub execution_time: i64,
    pub transformed: bool,
    pub created_at: String,
    /// Always null: the field is there for clients that read it.
    pub log: (),
    pub fail_on_error: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookRunResult {
    pub verdict: bool,
    pub id: String,
    pub transformed: bool,
    pub checks: Vec<CheckResult>,
    pub feedback: Option<Value>,
    /// Milliseconds.
    pub execution_time: i64,
    #[serde(rename = "async")]
    pub is_async: bool,
    #[serde(rename = "type", deserialize_with = "hook_type")]
    pub hook_type: &'static str,
    pub created_at: String,
    /// It failed, and a failure of it ends the request.
    pub deny: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HookResult {
    Run(Box<HookRunResult>),
    /// It may not run here; for records only.
    Skipped {
        id: String,
        hook_type: &'static str,
    },
}

impl HookResult {
    pub fn skipped(id: &str, hook_type: HookType) -> Self {
        Self::Skipped { id: id.to_owned(), hook_type: hook_type.name() }
    }
}

impl Serialize for HookResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Run(run) => run.serialize(serializer),
            Self::Skipped { id, hook_type } => {
                json!({"id": id, "type": hook_type, "skipped": true}).serialize(serializer)
            }
        }
    }
}

/// Reads what [`HookResult`]'s serializer wrote: results that wait for the rest of their call are kept so.
impl<'de> Deserialize<'de> for HookResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let told = Value::deserialize(deserializer)?;
        if told["skipped"] != true {
            return HookRunResult::deserialize(told).map(|run| Self::Run(Box::new(run))).map_err(de::Error::custom);
        }
        let hook_type = hook_type(&told["type"]).map_err(de::Error::custom)?;
        Ok(Self::Skipped { id: told["id"].as_str().unwrap_or_default().to_owned(), hook_type })
    }
}

fn hook_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = [HookType::Guardrail, HookType::Mutator].into_iter().map(HookType::name).find(|known| *known == name);
    known.ok_or_else(|| de::Error::unknown_variant(&name, &["guardrail", "mutator"]))
}

/// The results of both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookResults {
    pub before_request_hooks: Vec<HookResult>,
    pub after_request_hooks: Vec<HookResult>,
}

impl HookResults {
    /// What clients are shown: neither what was skipped nor what runs beside the request.
    fn shown(&self) -> Self {
        let keep = |list: &[HookResult]| {
            list.iter().filter(|r| matches!(r, HookResult::Run(run) if !run.is_async)).cloned().collect()
        };
        Self {
            before_request_hooks: keep(&self.before_request_hooks),
            after_request_hooks: keep(&self.after_request_hooks),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.before_request_hooks.is_empty() && self.after_request_hooks.is_empty()
    }

    /// The JSON that clients are shown; `None` where there is nothing to show.
    pub fn json(&self) -> Option<String> {
        let shown = self.shown();
        if shown.is_empty() { None } else { serde_json::to_string(&shown).ok() }
    }
}

/// Feedback by the rule, and which checks led to it.
pub(crate) fn feedback(rule: &FeedbackRule, checks: &[CheckResult]) -> Value {
    let ids = |keep: &dyn Fn(&CheckResult) -> bool| {
        checks.iter().filter(|c| keep(c)).map(|c| c.id.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut metadata = rule.metadata.clone();
    metadata.insert("successfulChecks".into(), ids(&|c| c.verdict && c.error.is_none()).into());
    metadata.insert("failedChecks".into(), ids(&|c| !c.verdict && c.error.is_none()).into());
    metadata.insert("erroredChecks".into(), ids(&|c| c.error.is_some()).into());
    let mut out = Map::new();
    out.extend(rule.value.clone().map(|v| ("value".to_owned(), v)));
    out.extend(rule.weight.clone().map(|v| ("weight".to_owned(), v)));
    out.insert("metadata".into(), Value::Object(metadata));
    Value::Object(out)
}

/// The answer with `hook_results` as its last key, every other byte as it was. An answer that is no JSON object, and
/// one without results, stays as it is.
pub fn with_results(body: &Bytes, results: &HookResults) -> Bytes {
    let Some(json) = results.json() else { return body.clone() };
    let text = std::str::from_utf8(body).ok();
    match text.and_then(|t| with_last_member(t, "hook_results", &json)) {
        Some(spliced) => spliced.into(),
        None => body.clone(),
    }
}

/// The body of a 446.
pub fn denial(dialect: Dialect, results: &HookResults) -> Bytes {
    let error = match dialect {
        Dialect::OpenAi => json!({"error": {"message": DENIED, "type": DENIED_TYPE, "param": null, "code": null}}),
        Dialect::Anthropic => json!({"type": "error", "error": {"type": DENIED_TYPE, "message": DENIED}}),
        Dialect::Google => json!({"error": {"code": 446, "message": DENIED, "status": "FAILED_PRECONDITION"}}),
    };
    with_results(&error.to_string().into(), results)
}

/// What the gateway makes up for an answer of its own.
#[derive(Clone, Copy, Debug)]
pub struct SoftDenial<'a> {
    pub shape: BodyShape,
    pub model: &'a str,
    /// The answer's id, without the prefix of its dialect.
    pub id: &'a str,
    pub created_secs: i64,
}

/// A denial that reads as an answer of the model; `None` where a route has no such answer.
pub fn soft_denial(denied: SoftDenial<'_>, results: &HookResults) -> Option<Bytes> {
    let SoftDenial { shape, model, id, created_secs } = denied;
    let none = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    let body = match shape {
        BodyShape::Chat => json!({
            "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": created_secs, "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": DENIED, "refusal": null},
                "logprobs": null, "finish_reason": "stop"}],
            "usage": none,
        }),
        BodyShape::Completions => json!({
            "id": format!("cmpl-{id}"), "object": "text_completion", "created": created_secs, "model": model,
            "choices": [{"index": 0, "text": DENIED, "logprobs": null, "finish_reason": "stop"}],
            "usage": none,
        }),
        BodyShape::Messages => json!({
            "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
            "content": [{"type": "text", "text": DENIED}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }),
        BodyShape::Responses => json!({
            "id": format!("resp_{id}"), "object": "response", "created_at": created_secs, "status": "completed",
            "error": null, "incomplete_details": null, "model": model,
            "output": [{"type": "message", "id": format!("msg_{id}"), "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": DENIED, "annotations": []}]}],
            "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0},
        }),
        BodyShape::Embeddings | BodyShape::Area | BodyShape::Transcript | BodyShape::Unknown | BodyShape::Opaque => {
            return None;
        }
    };
    Some(with_results(&body.to_string().into(), results))
}

/// The value of the header that tells how guardrails judged: `in=pass; out=soft`. `None` where none ran.
pub fn header_value(input: Option<Verdict>, output: Option<Verdict>) -> Option<String> {
    let side = |name: &str, verdict: Option<Verdict>| verdict.map(|v| format!("{name}={}", v.name()));
    let sides: Vec<String> = [side("in", input), side("out", output)].into_iter().flatten().collect();
    (!sides.is_empty()).then(|| sides.join("; "))
}
