//! Collects steps into a whole chat completion.

use super::chunks::extra;
use super::{Aside, ReplyContext, ResponseEvent, sources};
use crate::opaque::OpaqueKind;
use crate::wire::usage::ChatUsage;
use bytes::Bytes;
use gateway_domain::Usage;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) struct Completion {
    frame: ReplyContext,
    id: Option<String>,
    model: Option<String>,
    choices: BTreeMap<u64, CollectedChoice>,
    choice: u64,
    usage: Option<Usage>,
    sources: Option<Value>,
}

/// One choice.
#[derive(Default)]
struct CollectedChoice {
    text: String,
    refusal: String,
    reasoning: String,
    logprobs: Vec<Box<RawValue>>,
    calls: Vec<CompletionToolCall>,
    blocks: BTreeMap<u64, Map<String, Value>>,
    finish: Option<String>,
}

#[derive(Debug, Serialize)]
struct CompletionToolCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CompletionFunction,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Debug, Serialize)]
struct CompletionFunction {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct WrittenCompletion<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    provider: &'static str,
    choices: Vec<CompletionChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ChatUsage>,
    #[serde(flatten)]
    sources: Option<&'a Value>,
}

#[derive(Serialize)]
struct CompletionChoice<'a> {
    index: u64,
    message: CompletionMessage<'a>,
    logprobs: Option<CompletionLogprobs<'a>>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct CompletionLogprobs<'a> {
    content: &'a [Box<RawValue>],
    refusal: Option<()>,
}

#[derive(Serialize)]
struct CompletionMessage<'a> {
    role: &'static str,
    /// Null when all that was said is tool calls, or no.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[CompletionToolCall]>::is_empty")]
    tool_calls: &'a [CompletionToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    content_blocks: Option<Vec<&'a Map<String, Value>>>,
}

impl Completion {
    pub(super) fn new(frame: ReplyContext) -> Self {
        Self { frame, id: None, model: None, choices: BTreeMap::new(), choice: 0, usage: None, sources: None }
    }

    pub(super) fn take(&mut self, step: &ResponseEvent<'_>) {
        let frame = self.frame;
        let said = self.choices.entry(self.choice).or_default();
        match step {
            ResponseEvent::Open { id, model } => {
                self.id = id.as_deref().map(str::to_owned);
                self.model = model.as_deref().map(str::to_owned);
            }
            ResponseEvent::Choice(choice) => {
                self.choice = *choice;
                self.choices.entry(*choice).or_default();
            }
            ResponseEvent::Text { block, text } => {
                said.text.push_str(text);
                said.extend(frame, *block, "text", ("text", text));
            }
            ResponseEvent::Refusal { text, .. } => said.refusal.push_str(text),
            ResponseEvent::Logprobs { content, .. } => {
                said.logprobs.extend(serde_json::from_str::<Vec<Box<RawValue>>>(content.get()).unwrap_or_default());
            }
            ResponseEvent::Reasoning { block, text } => {
                said.reasoning.push_str(text);
                said.extend(frame, *block, "thinking", ("thinking", text));
            }
            ResponseEvent::Aside { block, aside } => said.aside(frame, *block, aside),
            ResponseEvent::ToolOpen { id, name, signature, .. } => {
                let function = CompletionFunction { name: name.to_string(), arguments: String::new() };
                let extra_content = signature.as_deref().filter(|_| !frame.strict).map(|s| extra(&frame, s));
                said.calls.push(CompletionToolCall { id: id.to_string(), kind: "function", function, extra_content });
            }
            ResponseEvent::ToolArguments { call, fragment } => {
                let call = usize::try_from(*call).ok().and_then(|call| said.calls.get_mut(call));
                if let Some(call) = call {
                    call.function.arguments.push_str(fragment);
                }
            }
            ResponseEvent::Finish { reason, standard } => {
                said.finish = Some(if frame.strict { (*standard).to_owned() } else { reason.to_string() });
            }
            ResponseEvent::Sources(results) => self.sources = Some(sources(results)),
            ResponseEvent::End { usage } => self.usage = *usage,
        }
    }

    pub(super) fn write(mut self) -> Bytes {
        self.choices.values_mut().for_each(CollectedChoice::close);
        let id = self.id.unwrap_or_else(|| self.frame.id());
        let written = WrittenCompletion {
            id: &id,
            object: "chat.completion",
            created: self.frame.created(),
            model: self.model.as_deref().unwrap_or_default(),
            provider: self.frame.provider,
            choices: self.choices.iter().map(|(index, said)| said.written(*index, self.frame)).collect(),
            usage: self.usage.map(|usage| ChatUsage::new(&usage, self.frame.strict)),
            sources: self.sources.as_ref(),
        };
        serde_json::to_vec(&written).unwrap_or_default().into()
    }
}

impl CollectedChoice {
    fn aside(&mut self, frame: ReplyContext, block: u64, aside: &Aside<'_>) {
        if frame.strict {
            return;
        }
        match aside {
            Aside::Signature(signature) => {
                self.extend(frame, block, "thinking", ("signature", &frame.stamp(OpaqueKind::Signature, signature)));
            }
            Aside::Redacted(data) => {
                self.extend(frame, block, "redacted_thinking", ("data", &frame.stamp(OpaqueKind::Redacted, data)));
            }
            Aside::Citation(citation) => {
                let block = self.block(block, "text");
                let citation: Value = serde_json::from_str(citation.get()).unwrap_or_default();
                if let Value::Array(all) = block.entry("citations").or_insert_with(|| json!([])) {
                    all.push(citation);
                }
            }
            Aside::Block(raw) => {
                if let Ok(whole) = serde_json::from_str(raw.get()) {
                    self.blocks.insert(block, whole);
                }
            }
            Aside::Input(fragment) => self.extend(frame, block, "server_tool_use", ("partial_json", fragment)),
        }
    }

    fn block(&mut self, block: u64, kind: &str) -> &mut Map<String, Value> {
        self.blocks.entry(block).or_insert_with(|| Map::from_iter([("type".to_owned(), kind.into())]))
    }

    fn extend(&mut self, frame: ReplyContext, block: u64, kind: &str, (key, more): (&str, &str)) {
        if frame.strict {
            return;
        }
        if let Value::String(text) = self.block(block, kind).entry(key).or_insert_with(|| "".into()) {
            text.push_str(more);
        }
    }

    /// The input of a provider's own tool came in pieces of JSON.
    fn close(&mut self) {
        for block in self.blocks.values_mut() {
            let input = block.remove("partial_json");
            if let Some(input) = input.and_then(|i| serde_json::from_str::<Value>(i.as_str()?).ok()) {
                block.insert("input".to_owned(), input);
            }
        }
    }

    fn written(&self, index: u64, frame: ReplyContext) -> CompletionChoice<'_> {
        let silent = self.text.is_empty() && !(self.calls.is_empty() && self.refusal.is_empty());
        let message = CompletionMessage {
            role: "assistant",
            content: (!silent).then_some(&*self.text),
            refusal: (!self.refusal.is_empty()).then_some(&*self.refusal),
            reasoning_content: (!self.reasoning.is_empty()).then_some(&*self.reasoning),
            tool_calls: &self.calls,
            content_blocks: (!frame.strict).then(|| self.blocks.values().collect()),
        };
        let logprobs =
            (!self.logprobs.is_empty()).then_some(CompletionLogprobs { content: &self.logprobs, refusal: None });
        CompletionChoice { index, message, logprobs, finish_reason: self.finish.as_deref().unwrap_or("stop") }
    }
}
