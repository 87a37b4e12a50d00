//! The bounds of the contract as tables: one per operation, one line per field.

use crate::operation::Operation;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a value may be. `null` always passes: every API takes it for "absent".
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Any,
    Text,
    Flag,
    Integer(i128, i128),
    Number(f64, f64),
    Object,
    /// Fewest and most items.
    Array(usize, usize),
    /// One string, or an array of up to `n` items.
    TextOrArray(usize),
    TextOrObject,
    /// Chat messages: an array of at least one object with a string role.
    Messages,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) field: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
}

const fn may(field: &'static str, shape: Shape) -> Rule {
    Rule { field, shape, required: false }
}

const fn must(field: &'static str, shape: Shape) -> Rule {
    Rule { field, shape, required: true }
}

use Shape::{Any, Array, Flag, Integer, Messages, Number, Object, Text, TextOrArray, TextOrObject};

const UINT: Shape = Integer(0, i64::MAX as i128);

static CHAT: &[Rule] = &[
    must("messages", Messages),
    may("model", Text),
    may("stream", Flag),
    may("stream_options", Object),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("max_tokens", UINT),
    may("max_completion_tokens", UINT),
    may("n", Integer(1, 128)),
    may("stop", TextOrArray(usize::MAX)),
    may("tools", Array(1, 128)),
    may("tool_choice", TextOrObject),
    may("parallel_tool_calls", Flag),
    may("response_format", Object),
    may("seed", Integer(i64::MIN as i128, i64::MAX as i128)),
    may("frequency_penalty", Number(-2.0, 2.0)),
    may("presence_penalty", Number(-2.0, 2.0)),
    may("logit_bias", Object),
    may("logprobs", Flag),
    may("top_logprobs", Integer(0, 20)),
    may("thinking", Object),
    may("user", Text),
    may("functions", Array(0, usize::MAX)),
    may("function_call", TextOrObject),
];

static COMPLETIONS: &[Rule] = &[
    may("model", Text),
    may("prompt", TextOrArray(usize::MAX)),
    may("stream", Flag),
    may("stream_options", Object),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("max_tokens", UINT),
    may("n", Integer(1, 128)),
    may("stop", TextOrArray(usize::MAX)),
    may("frequency_penalty", Number(-2.0, 2.0)),
    may("presence_penalty", Number(-2.0, 2.0)),
    may("logit_bias", Object),
    may("user", Text),
];

static EMBEDDINGS: &[Rule] = &[
    must("input", TextOrArray(usize::MAX)),
    may("model", Text),
    may("dimensions", Integer(1, i64::MAX as i128)),
    may("user", Text),
];

static IMAGES: &[Rule] = &[
    may("prompt", Text),
    may("model", Text),
    may("stream", Flag),
    may("n", Integer(1, 10)),
    may("quality", Text),
    may("response_format", Text),
    may("size", Text),
    may("style", Text),
    may("user", Text),
];

static MODERATIONS: &[Rule] = &[must("input", TextOrArray(usize::MAX)), may("model", Text)];

/// `spec/service.md`, POST /threads/{thread_id}/runs/{run_id}.
static MODIFY_RUN: &[Rule] = &[may("metadata", Object)];

/// The one body of the contract that allows no further properties.
pub(super) fn is_closed(rules: &[Rule]) -> bool {
    std::ptr::eq(rules, MODIFY_RUN)
}

static CREATE_RUN: &[Rule] = &[
    may("model", Text),
    may("stream", Flag),
    may("tools", Array(0, 20)),
    may("max_prompt_tokens", Integer(256, i64::MAX as i128)),
    may("max_completion_tokens", Integer(256, i64::MAX as i128)),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("metadata", Object),
    may("parallel_tool_calls", Flag),
];

static MESSAGES: &[Rule] = &[
    must("messages", Messages),
    may("model", Text),
    may("stream", Flag),
    may("max_tokens", UINT),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
];

static OTHERS: &[Rule] = &[may("model", Text), may("stream", Flag), may("stream_options", Object)];

/// Nothing is enforced on pass-through; the shapes only tell what to look for.
static RAW: &[Rule] = &[may("model", Any), may("stream", Any)];

pub(super) const fn of(operation: Operation) -> &'static [Rule] {
    match operation {
        Operation::ChatCompletions => CHAT,
        Operation::Completions => COMPLETIONS,
        Operation::Embeddings => EMBEDDINGS,
        Operation::ImagesGenerate => IMAGES,
        Operation::Moderations => MODERATIONS,
        Operation::ModifyRun => MODIFY_RUN,
        Operation::CreateRun => CREATE_RUN,
        Operation::Messages | Operation::CountTokens => MESSAGES,
        Operation::Proxy => RAW,
        _ => OTHERS,
    }
}

impl Rule {
    /// `raw` is valid JSON without blanks around it. An error names the field in backticks.
    pub(super) fn check(&self, raw: &str) -> Result<(), String> {
        let first = raw.as_bytes().first().copied().unwrap_or(b'n');
        if first == b'n' {
            return Ok(());
        }
        let ok = match self.shape {
            Any | Messages => true,
            Text => first == b'"',
            Flag => matches!(first, b't' | b'f'),
            Object => first == b'{',
            TextOrObject => matches!(first, b'"' | b'{'),
            Integer(min, max) => integer(raw).is_some_and(|n| (min..=max).contains(&n)),
            Number(min, max) => raw.parse::<f64>().is_ok_and(|n| n >= min && n <= max),
            Array(min, max) => first == b'[' && (min..=max).contains(&items(raw, max)),
            TextOrArray(max) => first == b'"' || (first == b'[' && items(raw, max) <= max),
        };
        if ok { Ok(()) } else { Err(format!("`{}` {}", self.field, self.rule())) }
    }

    fn rule(&self) -> String {
        match self.shape {
            Any | Messages => "is not valid".into(),
            Text => "must be a string".into(),
            Flag => "must be true or false".into(),
            Object => "must be an object".into(),
            TextOrObject => "must be a string or an object".into(),
            Integer(min, max) if max >= i64::MAX as i128 && min > i64::MIN as i128 => {
                format!("must be an integer of at least {min}")
            }
            Integer(min, max) => format!("must be an integer of {min}..{max}"),
            Number(min, max) => format!("must be a number of {min}..{max}"),
            Array(min, usize::MAX) => format!("must be an array of at least {min} items"),
            Array(min, max) => format!("must be an array of {min}..{max} items"),
            TextOrArray(usize::MAX) => "must be a string or an array".into(),
            TextOrArray(max) => format!("must be a string or an array of at most {max} items"),
        }
    }
}

/// Integers as JSON spells them, `1.0` and `1e2` included: SDKs of languages without integers send those.
fn integer(raw: &str) -> Option<i128> {
    if let Ok(n) = raw.parse::<i128>() {
        return Some(n);
    }
    let n = raw.parse::<f64>().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "bounded and whole")]
    (n.fract() == 0.0 && n.abs() < 9e18).then_some(n as i128)
}

/// Number of items of an array, counted only when it could exceed `max`: n items need 2n + 1 bytes.
fn items(raw: &str, max: usize) -> usize {
    let empty = raw[1..].trim_start().starts_with(']');
    if empty {
        return 0;
    }
    if raw.len() / 2 <= max {
        return 1;
    }
    Vec::<IgnoredAny>::deserialize(&mut serde_json::Deserializer::from_str(raw)).map_or(0, |v| v.len())
}
