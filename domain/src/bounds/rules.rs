//! The bounds of the contract as tables: one per operation, one line per field.

use crate::operation::Operation;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// What a value may be. `null` always passes: every API takes it for "absent".
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldShape {
    Any,
    Text,
    Flag,
    Integer(i128, i128),
    Number(f64, f64),
    Object,
    /// Fewest and most items.
    Array(usize, usize),
    /// A string of at most so many characters.
    ShortText(usize),
    /// One string, or an array with fewest and most items.
    TextOrArray(usize, usize),
    TextOrObject,
    /// A string of a closed list.
    OneOf(&'static [&'static str]),
    /// A string, and of a closed list where the model's name begins so: other models take others.
    Of(&'static str, &'static [&'static str]),
    /// A string, and of at most so many characters where the model's name begins so.
    ShortOf(&'static str, usize),
    /// A number, and within these bounds where the model's name begins so.
    NumberOf(&'static str, f64, f64),
    /// An object, some of whose members have rules of their own.
    Inside(&'static [FieldRule]),
    /// Fewest and most items; those that are objects have rules for some of their members.
    Items(usize, usize, &'static [FieldRule]),
    /// Chat messages: an array of at least one object with a string role.
    Messages,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FieldRule {
    pub(super) field: &'static str,
    pub(super) shape: FieldShape,
    pub(super) required: bool,
}

const fn may(field: &'static str, shape: FieldShape) -> FieldRule {
    FieldRule { field, shape, required: false }
}

const fn must(field: &'static str, shape: FieldShape) -> FieldRule {
    FieldRule { field, shape, required: true }
}

use FieldShape::{
    Any, Array, Flag, Inside, Integer, Items, Messages, Number, NumberOf, Object, Of, OneOf, ShortOf, ShortText, Text,
    TextOrArray, TextOrObject,
};

const UINT: FieldShape = Integer(0, i64::MAX as i128);
const POSITIVE: FieldShape = Integer(1, i64::MAX as i128);
const SEED: FieldShape = Integer(i64::MIN as i128, i64::MAX as i128);
const STOP: FieldShape = TextOrArray(1, 4);

const STREAM_OPTIONS: FieldShape = Inside(&[may("include_usage", Flag)]);

const THINKING: FieldShape = Inside(&[may("type", Text), may("budget_tokens", UINT)]);

static CHAT: &[FieldRule] = &[
    must("messages", Messages),
    may("model", Text),
    may("stream", Flag),
    may("stream_options", STREAM_OPTIONS),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("max_tokens", UINT),
    may("max_completion_tokens", UINT),
    may("n", Integer(1, 128)),
    may("stop", STOP),
    may("tools", Array(1, 128)),
    may("tool_choice", TextOrObject),
    may("parallel_tool_calls", Flag),
    may("response_format", Object),
    may("seed", SEED),
    may("frequency_penalty", Number(-2.0, 2.0)),
    may("presence_penalty", Number(-2.0, 2.0)),
    may("logit_bias", Object),
    may("logprobs", Flag),
    may("top_logprobs", Integer(0, 20)),
    may("thinking", THINKING),
    may("user", Text),
    may("functions", Array(0, usize::MAX)),
    may("function_call", TextOrObject),
];

static COMPLETIONS: &[FieldRule] = &[
    may("model", Text),
    may("prompt", TextOrArray(0, usize::MAX)),
    may("suffix", Text),
    may("echo", Flag),
    may("best_of", Integer(0, 20)),
    may("logprobs", Integer(0, 5)),
    may("seed", SEED),
    may("stream", Flag),
    may("stream_options", STREAM_OPTIONS),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("max_tokens", UINT),
    may("n", Integer(1, 128)),
    may("stop", STOP),
    may("frequency_penalty", Number(-2.0, 2.0)),
    may("presence_penalty", Number(-2.0, 2.0)),
    may("logit_bias", Object),
    may("user", Text),
];

static EMBEDDINGS: &[FieldRule] = &[
    must("input", TextOrArray(1, 2048)),
    may("model", Text),
    may("encoding_format", Of("text-embedding", &["float", "base64"])),
    may("dimensions", POSITIVE),
    may("user", Text),
];

static SPEECH: &[FieldRule] = &[
    must("input", ShortOf("tts-1", 4096)),
    may("model", Text),
    // An object names a voice of one's own.
    may("voice", TextOrObject),
    may("response_format", Of("tts-", &["mp3", "opus", "aac", "flac", "wav", "pcm"])),
    may("speed", NumberOf("tts-1", 0.25, 4.0)),
    // These models have no events.
    may("stream_format", Of("tts-1", &["audio"])),
];

static RERANK: &[FieldRule] = &[
    // Some models compare images, too.
    must("query", TextOrObject),
    must("documents", Array(1, usize::MAX)),
    may("model", Text),
    may("top_n", POSITIVE),
    may("return_documents", Flag),
    may("max_tokens_per_doc", POSITIVE),
    may("priority", UINT),
    may("rank_fields", Array(0, usize::MAX)),
    may("parameters", Object),
];

static CREATE_BATCH: &[FieldRule] = &[
    may("model", Text),
    may("input_file_id", Text),
    may("endpoint", Text),
    may("completion_window", Text),
    may("metadata", Object),
];

static CREATE_FINETUNE: &[FieldRule] = &[
    may("model", Text),
    may("training_file", Text),
    may("validation_file", Text),
    may("suffix", Text),
    may("method", Object),
];

static IMAGES: &[FieldRule] = &[
    must("prompt", ShortText(32_000)),
    may("model", Text),
    may("stream", Flag),
    may("n", Integer(1, 10)),
    may("partial_images", Integer(0, 3)),
    may("output_compression", Integer(0, 100)),
    may("frame_count", Integer(2, 16)),
    may("quality", Of("dall-e", &["standard", "hd"])),
    may("response_format", Of("dall-e", &["url", "b64_json"])),
    may("size", Of("dall-e", &["256x256", "512x512", "1024x1024", "1792x1024", "1024x1792"])),
    may("style", Of("dall-e", &["vivid", "natural"])),
    may("user", Text),
];

/// Edits and variations, as a form or as JSON.
static PICTURES: &[FieldRule] = &[
    may("prompt", ShortText(32_000)),
    may("model", Text),
    may("stream", Flag),
    may("n", Integer(1, 10)),
    may("partial_images", Integer(0, 3)),
    may("output_compression", Integer(0, 100)),
    may("response_format", Of("dall-e", &["url", "b64_json"])),
    may("size", Of("dall-e", &["256x256", "512x512", "1024x1024"])),
    may("user", Text),
];

/// Transcriptions and translations.
static HEARING: &[FieldRule] = &[
    may("model", Text),
    may("language", Text),
    may("prompt", Text),
    may("response_format", Of("whisper", &["json", "text", "srt", "verbose_json", "vtt"])),
    may("temperature", Number(0.0, 1.0)),
    may("stream", Flag),
];

static OCR: &[FieldRule] = &[must("document", Object), may("model", Text), may("stream", Flag)];

static MODERATIONS: &[FieldRule] = &[
    must("input", TextOrArray(0, usize::MAX)),
    may("model", Of("text-moderation", &["text-moderation-stable", "text-moderation-latest"])),
];

/// Body of POST /threads/{thread_id}/runs/{run_id}.
static MODIFY_RUN: &[FieldRule] = &[may("metadata", Object)];

/// The one body of the contract that allows no further properties.
pub(super) fn is_closed(rules: &[FieldRule]) -> bool {
    std::ptr::eq(rules, MODIFY_RUN)
}

static CREATE_RUN: &[FieldRule] = &[
    may("model", Text),
    may("stream", Flag),
    may("tools", Items(0, 20, &[may("file_search", Inside(&[may("max_num_results", Integer(1, 50))]))])),
    may(
        "truncation_strategy",
        Inside(&[may("type", OneOf(&["auto", "last_messages"])), may("last_messages", POSITIVE)]),
    ),
    may("max_prompt_tokens", Integer(256, i64::MAX as i128)),
    may("max_completion_tokens", Integer(256, i64::MAX as i128)),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
    may("metadata", Object),
    may("parallel_tool_calls", Flag),
];

const FILE_IDS: FieldRule = may("file_ids", Array(0, 500));
/// Official clients send so many at once.
const FILE_IDS_OF_BATCH: FieldRule = may("file_ids", Array(0, 2_000));

static CREATE_VECTOR_STORE: &[FieldRule] = &[
    FILE_IDS,
    may("name", Text),
    may("expires_after", Inside(&[may("anchor", Text), may("days", Integer(1, 365))])),
    may("chunking_strategy", Inside(&[may("type", Text)])),
    may("metadata", Object),
];

static CREATE_FILE_BATCH: &[FieldRule] = &[FILE_IDS_OF_BATCH, may("chunking_strategy", Inside(&[may("type", Text)]))];

static MESSAGES: &[FieldRule] = &[
    must("messages", Messages),
    may("model", Text),
    may("stream", Flag),
    may("max_tokens", UINT),
    may("temperature", Number(0.0, 2.0)),
    may("top_p", Number(0.0, 1.0)),
];

static OTHERS: &[FieldRule] = &[may("model", Text), may("stream", Flag), may("stream_options", STREAM_OPTIONS)];

/// Nothing is enforced on pass-through; the shapes only tell what to look for.
static RAW: &[FieldRule] = &[may("model", Any), may("stream", Any)];

pub(super) const fn of(operation: Operation) -> &'static [FieldRule] {
    match operation {
        Operation::ChatCompletions => CHAT,
        Operation::Completions => COMPLETIONS,
        Operation::Embeddings => EMBEDDINGS,
        Operation::ImagesGenerate => IMAGES,
        Operation::ImagesEdit | Operation::ImagesVary => PICTURES,
        Operation::Transcription | Operation::Translation => HEARING,
        Operation::Ocr => OCR,
        Operation::Speech => SPEECH,
        Operation::Rerank => RERANK,
        Operation::CreateBatch => CREATE_BATCH,
        Operation::CreateFinetune => CREATE_FINETUNE,
        Operation::Moderations => MODERATIONS,
        Operation::ModifyRun => MODIFY_RUN,
        Operation::CreateRun => CREATE_RUN,
        Operation::CreateVectorStore => CREATE_VECTOR_STORE,
        Operation::CreateFileBatch => CREATE_FILE_BATCH,
        Operation::Messages | Operation::CountTokens => MESSAGES,
        Operation::Proxy => RAW,
        _ => OTHERS,
    }
}

impl FieldRule {
    /// `raw` is valid JSON without blanks around it. An error names the field in backticks.
    pub(super) fn check(&self, raw: &str) -> Result<(), String> {
        let first = raw.as_bytes().first().copied().unwrap_or(b'n');
        if first == b'n' {
            return Ok(());
        }
        let ok = match self.shape {
            Any | Messages => true,
            Inside(rules) => return self.inside(raw, self.field, rules),
            Items(min, max, rules) => {
                let counted = first == b'[' && (min..=max).contains(&items(raw, max));
                if counted {
                    return self.each(raw, rules);
                }
                false
            }
            OneOf(list) => is_one_of(raw, list),
            Text | Of(..) | ShortOf(..) => first == b'"',
            ShortText(most) => first == b'"' && characters(raw, most) <= most,
            Flag => matches!(first, b't' | b'f'),
            Object => first == b'{',
            TextOrObject => matches!(first, b'"' | b'{'),
            Integer(min, max) => integer(raw).is_some_and(|n| (min..=max).contains(&n)),
            Number(min, max) => number(raw).is_some_and(|n| n >= min && n <= max),
            NumberOf(..) => number(raw).is_some(),
            Array(min, max) => first == b'[' && (min..=max).contains(&items(raw, max)),
            TextOrArray(min, max) => first == b'"' || (first == b'[' && (min..=max).contains(&items(raw, max))),
        };
        if ok { Ok(()) } else { Err(format!("`{}` {}", self.field, self.rule())) }
    }

    /// The value of a form's field as JSON, for [`Self::check`]: in a form it is text, whatever it stands for.
    pub(super) fn raw_of<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.shape {
            // Some clients write booleans as their language does.
            Flag => match text {
                "True" => "true".into(),
                "False" => "false".into(),
                // What is no word of JSON is none of its booleans.
                text if text.starts_with('n') => "0".into(),
                text => text.into(),
            },
            Integer(..) | Number(..) | NumberOf(..) if text.starts_with('n') => "-".into(),
            Integer(..) | Number(..) | NumberOf(..) => text.trim().into(),
            _ => serde_json::to_string(text).unwrap_or_default().into(),
        }
    }

    /// Whether [`Self::only_for`] may say anything.
    pub(super) const fn is_of_some_models(&self) -> bool {
        matches!(self.shape, Of(..) | ShortOf(..) | NumberOf(..))
    }

    /// A value that is fine for most models, and must be another one for those whose name begins so.
    pub(super) fn only_for(&self, raw: &str) -> Option<Narrow> {
        let (model, is_fine) = match self.shape {
            Of(model, list) => (model, is_one_of(raw, list)),
            ShortOf(model, most) => (model, characters(raw, most) <= most),
            NumberOf(model, min, max) => (model, number(raw).is_some_and(|n| (min..=max).contains(&n))),
            _ => return None,
        };
        if raw == "null" || is_fine {
            return None;
        }
        let rule = match self.shape {
            Of(_, list) => format!("one of {}", list.join(", ")),
            ShortOf(_, most) => format!("at most {most} characters long"),
            NumberOf(_, min, max) => format!("a number of {min}..{max}"),
            _ => return None,
        };
        Some(Narrow { model, rule: format!("`{}` must be {rule} for models named {model}…", self.field) })
    }

    fn inside(&self, raw: &str, path: &str, rules: &'static [Self]) -> Result<(), String> {
        let Ok(members) = serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(raw) else {
            return Err(format!("`{path}` must be an object"));
        };
        for rule in rules {
            let Some(value) = members.get(rule.field).filter(|value| value.get() != "null") else { continue };
            let path = format!("{path}.{}", rule.field);
            match rule.shape {
                Inside(rules) => self.inside(value.get(), &path, rules)?,
                _ => rule.check(value.get()).map_err(|_| format!("`{path}` {}", rule.rule()))?,
            }
        }
        Ok(())
    }

    fn each(&self, raw: &str, rules: &'static [Self]) -> Result<(), String> {
        let all: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| format!("`{}` {}", self.field, self.rule()))?;
        let objects = all.iter().enumerate().filter(|(_, item)| item.get().starts_with('{'));
        for (i, item) in objects {
            self.inside(item.get(), &format!("{}[{i}]", self.field), rules)?;
        }
        Ok(())
    }

    fn rule(&self) -> String {
        match self.shape {
            Any | Messages => "is not valid".into(),
            Text | Of(..) | ShortOf(..) => "must be a string".into(),
            ShortText(most) => format!("must be a string of at most {most} characters"),
            OneOf(list) => format!("must be one of {}", list.join(", ")),
            Inside(_) => "must be an object".into(),
            Items(min, max, _) => format!("must be an array of {min}..{max} items"),
            Flag => "must be true or false".into(),
            Object => "must be an object".into(),
            TextOrObject => "must be a string or an object".into(),
            Integer(min, max) if max >= i64::MAX as i128 && min > i64::MIN as i128 => {
                format!("must be an integer of at least {min}")
            }
            Integer(min, max) => format!("must be an integer of {min}..{max}"),
            Number(min, max) => format!("must be a number of {min}..{max}"),
            NumberOf(..) => "must be a number".into(),
            Array(min, usize::MAX) => format!("must be an array of at least {min} items"),
            Array(min, max) => format!("must be an array of {min}..{max} items"),
            TextOrArray(_, usize::MAX) => "must be a string or an array".into(),
            TextOrArray(min, max) => format!("must be a string or an array of {min}..{max} items"),
        }
    }
}

/// What a value may not be for some models.
#[derive(Debug)]
pub(super) struct Narrow {
    model: &'static str,
    pub(super) rule: String,
}

impl Narrow {
    /// `model` as the request names it.
    pub(super) fn is_of(&self, model: &str) -> bool {
        bare(model).starts_with(self.model)
    }
}

/// A model's name without the provider before it.
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

fn number(raw: &str) -> Option<f64> {
    raw.parse().ok()
}

fn is_one_of(raw: &str, list: &[&str]) -> bool {
    serde_json::from_str::<Cow<'_, str>>(raw).is_ok_and(|text| list.contains(&bare(&text)))
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

/// Characters of a text, counted only where there could be more than `most`: each has a byte at least.
fn characters(raw: &str, most: usize) -> usize {
    if raw.len() - 2 <= most {
        return 0;
    }
    serde_json::from_str::<Cow<'_, str>>(raw).map_or(usize::MAX, |text| text.chars().count())
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
