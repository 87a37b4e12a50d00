//! Steps of an answer from chunks of OpenAI's chat. A whole completion is read as the one chunk that would have
//! brought it. Servers that imitate OpenAI differ in details; whatever can be understood is.

mod calls;

use super::blocks::{SaidBlocks, Saying};
use crate::answer::{Aside, ResponseEvent};
use crate::failure::ProviderError;
use crate::translate::{EventError, EventReader};
use crate::wire::usage::{OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read, speaks};
use calls::Calls;
use gateway_domain::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<ChatChoice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<Groq<'a>>,
}

/// Groq reports the usage of a stream here.
#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatChoice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, alias = "message")]
    delta: Option<ChatMessageDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    logprobs: Option<ChatLogprobs<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatLogprobs<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// A message, or the next part of one.
#[derive(Default, Deserialize)]
struct ChatMessageDelta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    /// Reasoning under the name that OpenRouter, Groq and others use.
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<calls::ChatToolCallDelta<'a>>>,
    #[serde(borrow)]
    function_call: Option<calls::ChatFunctionDelta<'a>>,
    #[serde(borrow)]
    annotations: Option<Vec<&'a RawValue>>,
}

/// A part of content that came as an array.
#[derive(Deserialize)]
struct ChatDeltaPart<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    /// Mistral's reasoning: text parts inside a part.
    #[serde(borrow)]
    thinking: Option<Vec<ChatDeltaPart<'a>>>,
    /// Databricks': the same under another name.
    #[serde(borrow)]
    summary: Option<Vec<ChatDeltaPart<'a>>>,
    #[serde(borrow)]
    refusal: Option<JsonStr<'a>>,
}

/// What is known of one choice.
#[derive(Debug, Default)]
struct ChoiceState {
    index: u64,
    calls: Calls,
    finished: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    opened: bool,
    ended: bool,
    choices: Vec<ChoiceState>,
    choice: u64,
    blocks: SaidBlocks,
    usage: Option<Usage>,
    model: Option<String>,
}

impl EventReader for ChatReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if data.trim_ascii() == b"[DONE]" {
            self.done(steps);
            return Ok(());
        }
        self.chunk(data, steps)
    }

    /// Some servers leave out the mark: every choice has ended, and so has the body.
    fn close(&mut self, steps: &mut Vec<ResponseEvent<'static>>) {
        if !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finished) {
            self.done(steps);
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

impl ChatReader {
    /// A whole completion.
    pub(crate) fn completion<'a>(
        &mut self,
        body: &'a [u8],
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        self.chunk(body, steps)?;
        if self.choices.is_empty() {
            return Err(EventError::Unreadable);
        }
        self.done(steps);
        Ok(())
    }

    fn chunk<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let chunk = read::<Chunk<'a>>(data).ok_or(EventError::Unreadable)?;
        if speaks(chunk.error) || chunk.object.is_some_and(|o| o.get() == "\"error\"") {
            return Err(EventError::trouble(ProviderError::read(data).unwrap_or_default()));
        }
        let usage = chunk.usage.or_else(|| chunk.x_groq.as_ref()?.usage);
        let usage = usage.and_then(|raw| read::<OpenAiUsage>(raw.get().as_bytes())?.split());
        self.usage = served(chunk.service_tier.map(RawValue::get), filter_reported_cost("", usage)).or(self.usage);
        let said = |text: &JsonStr<'_>| !text.0.is_empty();
        let says_more = chunk.model.as_ref().is_some_and(said) || chunk.choices.as_ref().is_some_and(|c| !c.is_empty());
        // Azure begins with what its filter thinks of the prompt, and names neither answer nor model there.
        if !self.opened && says_more {
            self.opened = true;
            let model = chunk.model.filter(said);
            self.model = model.as_ref().map(|m| m.0.to_string());
            steps.push(ResponseEvent::Open { id: chunk.id.filter(said).map(|t| t.0), model: model.map(|t| t.0) });
        }
        for choice in chunk.choices.into_iter().flatten() {
            self.take(choice, steps)?;
        }
        Ok(())
    }

    fn take<'a>(&mut self, choice: ChatChoice<'a>, steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if let Some(error) = choice.error.filter(|raw| speaks(Some(raw))) {
            return Err(EventError::trouble(ProviderError::read(error.get().as_bytes()).unwrap_or_default()));
        }
        if choice.index != self.choice {
            self.choice = choice.index;
            self.blocks.close();
            steps.push(ResponseEvent::Choice(choice.index));
        }
        let at = self.choices.iter().position(|state| state.index == choice.index).unwrap_or_else(|| {
            self.choices.push(ChoiceState { index: choice.index, ..ChoiceState::default() });
            self.choices.len() - 1
        });
        if self.choices[at].finished {
            return Ok(());
        }
        self.said(at, choice.delta.unwrap_or_default(), choice.logprobs.and_then(|l| l.content), steps);
        if let Some(reason) = choice.finish_reason.filter(|r| !r.0.is_empty()) {
            if reason.0 == "error" {
                return Err(EventError::trouble(ProviderError::new("the provider ended the answer with an error")));
            }
            self.finish(at, reason.0, steps);
        }
        Ok(())
    }

    fn said<'a>(
        &mut self,
        at: usize,
        said: ChatMessageDelta<'a>,
        logprobs: Option<&'a RawValue>,
        steps: &mut Vec<ResponseEvent<'a>>,
    ) {
        let reasoning = said.reasoning_content.filter(|raw| speaks(Some(raw))).or(said.reasoning);
        if let Some(text) = reasoning.and_then(|raw| read::<JsonStr<'a>>(raw.get().as_bytes())) {
            self.blocks.say(Saying::Reasoning, text.0, steps);
        }
        self.content(said.content, steps);
        if let Some(text) = said.refusal {
            self.blocks.say(Saying::Refusal, text.0, steps);
        }
        if let Some(content) = logprobs.filter(|raw| speaks(Some(raw))) {
            steps.push(ResponseEvent::Logprobs { block: self.blocks.number(), content: Cow::Borrowed(content) });
        }
        for raw in said.annotations.iter().flatten().filter_map(|raw| citation(raw)) {
            steps.push(ResponseEvent::Aside { block: self.blocks.number(), aside: Aside::Citation(Cow::Owned(raw)) });
        }
        let legacy = said.function_call.map(calls::ChatToolCallDelta::legacy);
        for called in said.tool_calls.into_iter().flatten().chain(legacy) {
            self.blocks.close();
            self.choices[at].calls.take(called, steps);
        }
    }

    fn content<'a>(&mut self, raw: Option<&'a RawValue>, steps: &mut Vec<ResponseEvent<'a>>) {
        let Some(raw) = raw else { return };
        if raw.get().starts_with('"') {
            if let Some(text) = read::<JsonStr<'a>>(raw.get().as_bytes()) {
                self.blocks.say(Saying::Text, text.0, steps);
            }
            return;
        }
        for part in read::<Vec<ChatDeltaPart<'a>>>(raw.get().as_bytes()).into_iter().flatten() {
            for thought in part.thinking.into_iter().chain(part.summary).flatten().filter_map(|t| t.text) {
                self.blocks.say(Saying::Reasoning, thought.0, steps);
            }
            if let Some(text) = part.text {
                self.blocks.say(Saying::Text, text.0, steps);
            }
            if let Some(text) = part.refusal {
                self.blocks.say(Saying::Refusal, text.0, steps);
            }
        }
    }

    fn finish<'a>(&mut self, at: usize, reason: Cow<'a, str>, steps: &mut Vec<ResponseEvent<'a>>) {
        let state = &mut self.choices[at];
        state.finished = true;
        state.calls.close(steps);
        // Some servers say `stop` beside the calls that they made.
        let standard = match &*reason {
            "length" | "max_tokens" | "model_length" => "length",
            "content_filter" => "content_filter",
            "tool_calls" | "function_call" => "tool_calls",
            _ if state.calls.any() => "tool_calls",
            _ => "stop",
        };
        steps.push(ResponseEvent::Finish { reason, standard });
    }

    fn done(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for at in 0..self.choices.len() {
            if !self.choices[at].finished {
                steps.push(ResponseEvent::Choice(self.choices[at].index));
                self.finish(at, Cow::Borrowed("stop"), steps);
            }
        }
        steps.push(ResponseEvent::End { usage: self.usage });
    }
}

/// A citation in the form that the writers know, from an annotation of a web search.
pub(super) fn citation(annotation: &RawValue) -> Option<Box<RawValue>> {
    let annotation: Value = serde_json::from_str(annotation.get()).ok()?;
    let cited = annotation.get("url_citation").unwrap_or(&annotation);
    let url = cited["url"].as_str()?;
    let text = cited["content"].as_str().unwrap_or_default();
    let made = json!({
        "type": "web_search_result_location", "url": url, "title": cited["title"], "cited_text": text,
        "encrypted_index": "",
    });
    RawValue::from_string(made.to_string()).ok()
}

#[cfg(test)]
mod tests;
