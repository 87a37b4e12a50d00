//! Reads streams of chat and text completions: `data:` chunks and a closing `[DONE]`.
//! Once a stream has begun, an event is only searched for the few names that matter, not parsed.

use super::scan::{says, strings_after};
use crate::adapter::{Call, Failure, Progress};
use crate::failure::{self, ProviderError};
use crate::passthrough::{EventVerdict, Grammar, ReplyStreamState};
use crate::sse;
use crate::tokens::StreamedText;
use crate::wire::usage::{OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Dialect, Operation};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::sync::LazyLock;

struct ChunkNames {
    usage: Finder<'static>,
    error: Finder<'static>,
    finish: Finder<'static>,
    /// Keys of what is written, the commonest first.
    written: [Finder<'static>; 6],
}

static NAMES: LazyLock<ChunkNames> = LazyLock::new(|| ChunkNames {
    usage: Finder::new("\"usage\""),
    error: Finder::new("\"error\""),
    finish: Finder::new("\"finish_reason\""),
    written: ["\"content\"", "\"reasoning_content\"", "\"reasoning\"", "\"arguments\"", "\"text\"", "\"refusal\""]
        .map(Finder::new),
});

#[derive(Deserialize)]
struct CompatChunk<'a> {
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<ChunkChoice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<GroqUsage<'a>>,
}

/// Groq reports the usage of a stream here.
#[derive(Deserialize)]
struct GroqUsage<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<ChunkDelta<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkDelta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

impl ChunkChoice<'_> {
    fn begins(&self) -> bool {
        let said = |d: &ChunkDelta<'_>| {
            [d.content, d.reasoning_content, d.reasoning, d.refusal, d.audio, d.tool_calls, d.function_call]
                .into_iter()
                .any(speaks)
        };
        speaks(self.text) || speaks(self.finish_reason) || self.delta.as_ref().is_some_and(said)
    }
}

pub(crate) struct ChunkGrammar {
    slug: &'static str,
    /// The client did not ask for the usage chunk (`choices: []`), whoever did.
    hide_usage: bool,
    /// How many choices were asked for, and which of them have ended.
    choices: usize,
    finished: Vec<u64>,
}

impl ChunkGrammar {
    pub(crate) fn new(slug: &'static str, call: &Call<'_>) -> Self {
        Self { slug, hide_usage: !call.wants_usage, choices: choices(call), finished: Vec::new() }
    }

    /// An event that changes nothing but the amount of text.
    fn plain(event: &[u8]) -> bool {
        event.len() > 40 && !says(event, &NAMES.usage) && !says(event, &NAMES.error) && !says(event, &NAMES.finish)
    }

    /// A chunk writes text, or reasoning, or arguments; some providers send the same reasoning under two names,
    /// so only the first name that carries anything counts.
    fn hear(event: &[u8], said: &mut StreamedText) {
        for key in &NAMES.written {
            let mut any = false;
            for (text, chars) in strings_after(event, key).filter(|(_, chars)| *chars > 0) {
                said.push_escaped(text, chars);
                any = true;
            }
            if any {
                return;
            }
        }
    }

    fn take(&mut self, chunk: &CompatChunk<'_>, data: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        if speaks(chunk.error) || chunk.object.is_some_and(|o| o.get() == "\"error\"") {
            let trouble = ProviderError::read(data).unwrap_or_default();
            return EventVerdict::Fail(trouble.verbatim(trouble.status(), Bytes::copy_from_slice(data)));
        }
        if seen.model.is_none() {
            seen.model = chunk.model.as_ref().filter(|m| !m.0.is_empty()).map(|m| m.0.to_string());
        }
        let usage = chunk.usage.or_else(|| chunk.x_groq.as_ref()?.usage);
        let usage = usage.and_then(|raw| read::<OpenAiUsage>(raw.get().as_bytes())?.split());
        let usage = served(chunk.service_tier.map(RawValue::get), filter_reported_cost(self.slug, usage));
        seen.usage = usage.or(seen.usage);
        match chunk.choices.as_deref() {
            Some([]) if usage.is_some() && self.hide_usage => EventVerdict::Hide,
            choices => {
                let choices = choices.unwrap_or_default();
                for choice in choices.iter().filter(|c| speaks(c.finish_reason)) {
                    if !self.finished.contains(&choice.index) && self.finished.len() < self.choices {
                        self.finished.push(choice.index);
                    }
                }
                if choices.iter().any(ChunkChoice::begins) {
                    seen.begin();
                }
                EventVerdict::Pass
            }
        }
    }

    fn study(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let Some(data) = sse::data(event).filter(|d| !d.trim_ascii().is_empty()) else { return EventVerdict::Pass };
        if data.trim_ascii() == b"[DONE]" {
            // A stream that failed has no clean end.
            if seen.failed.is_some() {
                return EventVerdict::Hide;
            }
            seen.progress = Progress::Complete;
            return EventVerdict::Pass;
        }
        match read::<CompatChunk<'_>>(&data) {
            Some(chunk) => self.take(&chunk, &data, seen),
            None if seen.quiet() && read::<IgnoredAny>(&data).is_none() => {
                EventVerdict::Fail(failure::unreadable(self.slug, "an event of the stream", &data, Dialect::OpenAi))
            }
            None => EventVerdict::Pass,
        }
    }
}

impl Grammar for ChunkGrammar {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let is_plain = Self::plain(event);
        let verdict = if !seen.quiet() && is_plain { EventVerdict::Pass } else { self.study(event, seen) };
        if !seen.quiet() && matches!(verdict, EventVerdict::Pass) {
            Self::hear(event, &mut seen.said);
            if is_plain {
                return EventVerdict::Text(Operation::ChatCompletions);
            }
        }
        verdict
    }

    fn error(&self, failure: &Failure) -> Bytes {
        sse::event(None, &failure.body)
    }

    fn dialect(&self) -> Dialect {
        Dialect::OpenAi
    }

    /// Some servers leave out the mark: every choice has ended, and so has the body.
    fn end(&self) -> Option<Bytes> {
        (self.finished.len() >= self.choices).then(|| Bytes::from_static(b"data: [DONE]\n\n"))
    }
}

/// How many answers a body asks for; of a list of prompts nobody counts them.
fn choices(call: &Call<'_>) -> usize {
    #[derive(Deserialize)]
    struct CompletionParameters<'a> {
        n: Option<usize>,
        #[serde(borrow)]
        prompt: Option<&'a RawValue>,
    }
    let prompts = call.operation == Operation::Completions;
    if !prompts && memchr::memmem::find(call.body, b"\"n\"").is_none() {
        return 1;
    }
    let Some(asked) = read::<CompletionParameters<'_>>(call.body) else { return 1 };
    let many = asked.prompt.is_some_and(|prompt| prompt.get().starts_with('['));
    if prompts && many { usize::MAX } else { asked.n.unwrap_or(1).clamp(1, 128) }
}
