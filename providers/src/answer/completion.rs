//! Collects steps into a whole chat completion.

use super::{Aside, Frame, Step};
use crate::wire::usage::ChatUsage;
use bytes::Bytes;
use gateway_domain::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) struct Completion {
    frame: Frame,
    id: Option<String>,
    model: Option<String>,
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    blocks: BTreeMap<u64, Map<String, Value>>,
    finish: Option<(String, Usage)>,
}

#[derive(Debug, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct Written<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    provider: &'static str,
    choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ChatUsage>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u64,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// Null when all that was said is tool calls.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Call]>::is_empty")]
    tool_calls: &'a [Call],
    #[serde(skip_serializing_if = "Option::is_none")]
    content_blocks: Option<Vec<&'a Map<String, Value>>>,
}

impl Completion {
    pub(crate) fn new(frame: Frame) -> Self {
        let (text, reasoning) = (String::new(), String::new());
        let (calls, blocks) = (Vec::new(), BTreeMap::new());
        Self { frame, id: None, model: None, text, reasoning, calls, blocks, finish: None }
    }

    pub(crate) fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Open { id, model } => {
                self.id = id.as_deref().map(str::to_owned);
                self.model = model.as_deref().map(str::to_owned);
            }
            Step::Text { block, text } => {
                self.text.push_str(text);
                self.extend(*block, "text", "text", text);
            }
            Step::Reasoning { block, text } => {
                self.reasoning.push_str(text);
                self.extend(*block, "thinking", "thinking", text);
            }
            Step::Aside { block, aside } => self.aside(*block, aside),
            Step::ToolOpen { id, name, .. } => {
                let function = Function { name: name.to_string(), arguments: String::new() };
                self.calls.push(Call { id: id.to_string(), kind: "function", function });
            }
            Step::ToolArguments { call, fragment } => {
                let call = usize::try_from(*call).ok().and_then(|call| self.calls.get_mut(call));
                if let Some(call) = call {
                    call.function.arguments.push_str(fragment);
                }
            }
            Step::Finish { reason, standard, usage } => {
                let reason = if self.frame.strict { (*standard).to_owned() } else { reason.to_string() };
                self.finish = Some((reason, *usage));
            }
        }
    }

    fn aside(&mut self, block: u64, aside: &Aside<'_>) {
        match aside {
            Aside::Signature(signature) => self.extend(block, "thinking", "signature", signature),
            Aside::Redacted(data) => self.extend(block, "redacted_thinking", "data", data),
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
            Aside::Input(fragment) => self.extend(block, "server_tool_use", "partial_json", fragment),
        }
    }

    fn block(&mut self, block: u64, kind: &str) -> &mut Map<String, Value> {
        self.blocks.entry(block).or_insert_with(|| Map::from_iter([("type".to_owned(), kind.into())]))
    }

    fn extend(&mut self, block: u64, kind: &str, key: &str, more: &str) {
        if self.frame.strict {
            return;
        }
        if let Value::String(text) = self.block(block, kind).entry(key).or_insert_with(|| "".into()) {
            text.push_str(more);
        }
    }

    pub(crate) fn write(mut self) -> Bytes {
        for block in self.blocks.values_mut() {
            // The input of a provider's own tool came in pieces of JSON.
            let input = block.remove("partial_json");
            if let Some(input) = input.and_then(|i| serde_json::from_str::<Value>(i.as_str()?).ok()) {
                block.insert("input".to_owned(), input);
            }
        }
        let id = self.id.unwrap_or_else(|| self.frame.id());
        let (reason, usage) = self.finish.unzip();
        let message = Message {
            role: "assistant",
            content: (!self.text.is_empty() || self.calls.is_empty()).then_some(&self.text),
            reasoning_content: (!self.reasoning.is_empty()).then_some(&self.reasoning),
            tool_calls: &self.calls,
            content_blocks: (!self.frame.strict).then(|| self.blocks.values().collect()),
        };
        let finish_reason = reason.as_deref().unwrap_or("stop");
        let written = Written {
            id: &id,
            object: "chat.completion",
            created: self.frame.created(),
            model: self.model.as_deref().unwrap_or_default(),
            provider: self.frame.provider,
            choices: [Choice { index: 0, message, logprobs: None, finish_reason }],
            usage: usage.map(|usage| ChatUsage::new(&usage, self.frame.strict)),
        };
        serde_json::to_vec(&written).unwrap_or_default().into()
    }
}
