//! Steps of an answer from Anthropic's events. A whole message is read as the events that would have brought it.

use crate::answer::{Aside, ResponseEvent};
use crate::failure::ProviderError;
use crate::translate::{EventError, EventReader};
use crate::wire::messages::{MessagesBlock, MessagesDelta, MessagesEvent, MessagesResponse};
use crate::wire::usage::AnthropicUsage;
use crate::wire::{JsonStr, read};
use gateway_domain::Usage;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What kind of block an index stands for, as far as its deltas are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagesBlockKind {
    Said,
    Tool {
        call: u64,
        /// Arguments have come; without any the call has none, which chat spells `{}`.
        argued: bool,
    },
    Foreign,
}

#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    open: Vec<(u64, MessagesBlockKind)>,
    calls: u64,
    usage: AnthropicUsage,
    /// The final counts have come, not only those of the start.
    counted: bool,
    stop: Option<String>,
    model: Option<String>,
}

impl EventReader for MessageReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let event = read::<MessagesEvent<'a>>(data).ok_or(EventError::Unreadable)?;
        if event.kind.0 == "error" {
            return Err(EventError::trouble(ProviderError::read(data).unwrap_or_default()));
        }
        self.take(event, steps);
        Ok(())
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.split()
    }

    fn uncounted(&self) -> bool {
        !self.counted
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

impl MessageReader {
    fn take<'a>(&mut self, event: MessagesEvent<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        match &*event.kind.0 {
            "message_start" => {
                if let Some(message) = event.message {
                    self.start(&message, steps);
                }
            }
            "content_block_start" => {
                if let Some(raw) = event.content_block {
                    self.block(event.index, raw, steps);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta.and_then(|raw| read::<MessagesDelta<'a>>(raw.get().as_bytes())) {
                    self.delta(event.index, delta, steps);
                }
            }
            "content_block_stop" => self.close_block(event.index, steps),
            "message_delta" => {
                let delta = event.delta.and_then(|raw| read::<MessagesDelta<'a>>(raw.get().as_bytes()));
                self.end(delta.and_then(|d| d.stop_reason).as_ref(), event.usage.as_ref());
            }
            "message_stop" => self.stop(steps),
            _ => {}
        }
    }

    pub(crate) fn message<'a>(&mut self, message: &MessagesResponse<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        self.start(message, steps);
        for (index, raw) in (0..).zip(&message.content) {
            self.block(index, raw, steps);
            self.close_block(index, steps);
        }
        self.end(message.stop_reason.as_ref(), message.usage.as_ref());
        self.stop(steps);
    }

    fn start<'a>(&mut self, message: &MessagesResponse<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        if let Some(usage) = &message.usage {
            self.usage.update(usage);
        }
        self.model = message.model.as_ref().map(|m| m.0.to_string());
        let text = |text: &Option<JsonStr<'a>>| text.as_ref().map(|t| t.0.clone());
        steps.push(ResponseEvent::Open { id: text(&message.id), model: text(&message.model) });
    }

    /// A block may come with content in it: in a whole message it has all of it.
    fn block<'a>(&mut self, index: u64, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        let Some(block) = read::<MessagesBlock<'a>>(raw.get().as_bytes()) else { return };
        let mut kind = MessagesBlockKind::Said;
        match &*block.kind.0 {
            "text" => {
                steps.extend(some(block.text).map(|text| ResponseEvent::Text { block: index, text }));
                let citations = block.citations.into_iter().flatten().map(|raw| Aside::Citation(Cow::Borrowed(raw)));
                steps.extend(citations.map(|aside| ResponseEvent::Aside { block: index, aside }));
            }
            "thinking" => {
                steps.extend(some(block.thinking).map(|text| ResponseEvent::Reasoning { block: index, text }));
                let signature = some(block.signature).map(Aside::Signature);
                steps.extend(signature.map(|aside| ResponseEvent::Aside { block: index, aside }));
            }
            "redacted_thinking" => {
                let data = some(block.data).map(Aside::Redacted);
                steps.extend(data.map(|aside| ResponseEvent::Aside { block: index, aside }));
            }
            "tool_use" => {
                let call = self.calls;
                self.calls += 1;
                let part = |text: Option<JsonStr<'a>>| text.map(|t| t.0).unwrap_or_default();
                let (id, name) = (part(block.id), part(block.name));
                steps.push(ResponseEvent::ToolOpen { call, id, name, signature: None });
                let input = block.input.map(RawValue::get).filter(|i| !is_empty_object(i));
                steps.extend(input.map(|input| ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed(input) }));
                kind = MessagesBlockKind::Tool { call, argued: input.is_some() };
            }
            _ => {
                kind = MessagesBlockKind::Foreign;
                steps.push(ResponseEvent::Aside { block: index, aside: Aside::Block(raw) });
            }
        }
        self.open.retain(|(open, _)| *open != index);
        self.open.push((index, kind));
    }

    fn delta<'a>(&mut self, index: u64, delta: MessagesDelta<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let kind = self.open.iter_mut().find(|(open, _)| *open == index).map(|(_, kind)| kind);
        let aside = |aside| ResponseEvent::Aside { block: index, aside };
        steps.extend(some(delta.text).map(|text| ResponseEvent::Text { block: index, text }));
        steps.extend(some(delta.thinking).map(|text| ResponseEvent::Reasoning { block: index, text }));
        steps.extend(some(delta.signature).map(|signature| aside(Aside::Signature(signature))));
        if let Some(citation) = delta.citation {
            steps.push(aside(Aside::Citation(Cow::Borrowed(citation))));
        }
        let Some(fragment) = some(delta.partial_json) else { return };
        match kind {
            Some(MessagesBlockKind::Tool { call, argued }) => {
                *argued = true;
                steps.push(ResponseEvent::ToolArguments { call: *call, fragment });
            }
            Some(MessagesBlockKind::Foreign) => steps.push(aside(Aside::Input(fragment))),
            Some(MessagesBlockKind::Said) | None => {}
        }
    }

    fn close_block(&mut self, index: u64, steps: &mut Vec<ResponseEvent<'_>>) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == index) {
            let (_, kind) = self.open.remove(at);
            finish_call(kind, steps);
        }
    }

    fn end(&mut self, stop: Option<&JsonStr<'_>>, usage: Option<&AnthropicUsage>) {
        if let Some(stop) = stop {
            self.stop = Some(stop.0.to_string());
        }
        if let Some(usage) = usage {
            self.usage.update(usage);
            self.counted = true;
        }
    }

    fn stop(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        for (_, kind) in self.open.drain(..) {
            finish_call(kind, steps);
        }
        let reason = self.stop.take().unwrap_or_else(|| "end_turn".to_owned());
        steps.push(ResponseEvent::Finish { standard: standard(&reason), reason: Cow::Owned(reason) });
        steps.push(ResponseEvent::End { usage: self.usage.split() });
    }
}

/// Text that says something: an empty piece is no step.
fn some(text: Option<JsonStr<'_>>) -> Option<Cow<'_, str>> {
    text.map(|t| t.0).filter(|t| !t.is_empty())
}

fn finish_call(kind: MessagesBlockKind, steps: &mut Vec<ResponseEvent<'_>>) {
    if let MessagesBlockKind::Tool { call, argued: false } = kind {
        steps.push(ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed("{}") });
    }
}

fn is_empty_object(json: &str) -> bool {
    json.strip_prefix('{').and_then(|j| j.strip_suffix('}')).is_some_and(|inside| inside.trim().is_empty())
}

/// OpenAI's name for why an answer ended.
fn standard(stop_reason: &str) -> &'static str {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        // end_turn, stop_sequence, pause_turn, and whatever comes.
        _ => "stop",
    }
}
