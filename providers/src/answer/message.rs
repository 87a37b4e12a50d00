//! Writes steps as Anthropic's message: one block open at a time, in order. Events of a stream and a whole message are
//! two sinks of the same blocks.

use super::{Aside, ReplyContext, ResponseEvent, write_json, write_pieces, write_text};
use crate::opaque::OpaqueKind;
use crate::tap::{TextKind, TextLane, TextPlace};
use crate::wire::usage::MessageUsage;
use bytes::{Bytes, BytesMut};
use gateway_domain::Usage;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What blocks are written to.
pub(crate) trait MessagesSink {
    fn start(&mut self, id: &str, model: &str);
    /// `block` as it stands in `content_block_start`: nothing said yet.
    fn open(&mut self, index: u64, block: Value);
    fn delta(&mut self, index: u64, delta: MessagesBlockDelta<'_>);
    fn close(&mut self, index: u64);
    fn end(&mut self, stop_reason: &str, usage: MessageUsage);
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "Anthropic's names")]
pub(crate) enum MessagesBlockDelta<'a> {
    TextDelta { text: &'a str },
    ThinkingDelta { thinking: &'a str },
    SignatureDelta { signature: &'a str },
    InputJsonDelta { partial_json: &'a str },
    CitationsDelta { citation: &'a RawValue },
}

/// What stands open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBlock {
    Text(u64),
    Thinking(u64),
    Call(u64),
    Foreign(u64),
}

pub(crate) struct MessagesWriter<S> {
    sink: S,
    frame: ReplyContext,
    started: bool,
    open: Option<OpenBlock>,
    /// Blocks opened so far.
    blocks: u64,
    /// The open thinking block has its signature.
    signed: bool,
    /// Follows the arguments of the open call, to see when they are whole.
    arguments: Nesting,
    /// Calls that began while another one was not whole.
    waiting: Vec<Waiting>,
    /// The model said that it will not answer.
    refused: bool,
    reason: Option<String>,
}

struct Waiting {
    call: u64,
    id: String,
    name: String,
    signature: Option<String>,
    arguments: String,
}

impl<S: MessagesSink> MessagesWriter<S> {
    pub(super) fn new(frame: ReplyContext, sink: S) -> Self {
        Self {
            sink,
            frame,
            started: false,
            open: None,
            blocks: 0,
            signed: false,
            arguments: Nesting::default(),
            waiting: Vec::new(),
            refused: false,
            reason: None,
        }
    }

    pub(super) fn take(&mut self, step: &ResponseEvent<'_>) {
        if let ResponseEvent::Open { id, model } = step {
            return self.start(id.as_deref(), model.as_deref());
        }
        if !self.started {
            self.start(None, None);
        }
        match step {
            ResponseEvent::Open { .. }
            | ResponseEvent::Choice(_)
            | ResponseEvent::Logprobs { .. }
            | ResponseEvent::Sources(_) => {}
            ResponseEvent::Text { block, text } | ResponseEvent::Refusal { block, text } => {
                self.refused |= matches!(step, ResponseEvent::Refusal { .. });
                self.enter(OpenBlock::Text(*block), || json!({ "type": "text", "text": "" }));
                self.delta(MessagesBlockDelta::TextDelta { text });
            }
            ResponseEvent::Reasoning { block, text } => {
                self.think(*block);
                self.delta(MessagesBlockDelta::ThinkingDelta { thinking: text });
            }
            ResponseEvent::Aside { block, aside } => self.aside(*block, aside),
            ResponseEvent::ToolOpen { call, id, name, signature } => self.call(*call, id, name, signature.as_deref()),
            ResponseEvent::ToolArguments { call, fragment } => self.argue(*call, fragment),
            ResponseEvent::Finish { reason, standard } => self.reason = Some(stop_reason(reason, standard).to_owned()),
            ResponseEvent::End { usage } => self.end(usage.as_ref()),
        }
    }

    fn start(&mut self, id: Option<&str>, model: Option<&str>) {
        self.started = true;
        let made = || self.frame.made_id("msg", 0);
        // Ids of other dialects would mislead whoever looks them up.
        let id = id.filter(|id| id.starts_with("msg_")).map_or_else(made, str::to_owned);
        self.sink.start(&id, model.unwrap_or_default());
    }

    fn delta(&mut self, delta: MessagesBlockDelta<'_>) {
        self.sink.delta(self.blocks.saturating_sub(1), delta);
    }

    fn enter(&mut self, wanted: OpenBlock, block: impl FnOnce() -> Value) {
        if self.open == Some(wanted) {
            return;
        }
        if !matches!(wanted, OpenBlock::Call(_)) {
            self.flush(true);
        }
        self.leave();
        self.sink.open(self.blocks, block());
        self.blocks += 1;
        self.open = Some(wanted);
    }

    fn leave(&mut self) {
        match self.open.take() {
            None => return,
            // Clients send thinking back with a signature, so there must be one, though the provider signs nothing.
            Some(OpenBlock::Thinking(_)) if !std::mem::take(&mut self.signed) => {
                let signature = self.frame.stamp(OpaqueKind::Signature, "");
                self.delta(MessagesBlockDelta::SignatureDelta { signature: &signature });
            }
            Some(_) => {}
        }
        self.sink.close(self.blocks - 1);
    }

    fn think(&mut self, block: u64) {
        if self.open != Some(OpenBlock::Thinking(block)) {
            self.enter(OpenBlock::Thinking(block), || json!({ "type": "thinking", "thinking": "", "signature": "" }));
            self.signed = false;
        }
    }

    fn single(&mut self, block: Value) {
        self.flush(true);
        self.leave();
        self.sink.open(self.blocks, block);
        self.sink.close(self.blocks);
        self.blocks += 1;
    }

    fn aside(&mut self, block: u64, aside: &Aside<'_>) {
        match aside {
            Aside::Signature(signature) => {
                self.think(block);
                self.signed = true;
                let signature = self.frame.stamp(OpaqueKind::Signature, signature);
                self.delta(MessagesBlockDelta::SignatureDelta { signature: &signature });
            }
            Aside::Redacted(data) => {
                self.single(
                    json!({ "type": "redacted_thinking", "data": self.frame.stamp(OpaqueKind::Redacted, data) }),
                );
            }
            Aside::Citation(citation) => {
                self.enter(OpenBlock::Text(block), || json!({ "type": "text", "text": "" }));
                self.delta(MessagesBlockDelta::CitationsDelta { citation });
            }
            Aside::Block(raw) => {
                let shown = serde_json::from_str(raw.get()).unwrap_or_default();
                self.enter(OpenBlock::Foreign(block), || shown);
            }
            Aside::Input(fragment) => {
                if self.open == Some(OpenBlock::Foreign(block)) {
                    self.delta(MessagesBlockDelta::InputJsonDelta { partial_json: fragment });
                }
            }
        }
    }

    fn call(&mut self, call: u64, id: &str, name: &str, signature: Option<&str>) {
        if matches!(self.open, Some(OpenBlock::Call(_))) && !self.arguments.whole() {
            let (id, name) = (id.to_owned(), name.to_owned());
            let signature = signature.map(str::to_owned);
            self.waiting.push(Waiting { call, id, name, signature, arguments: String::new() });
            return;
        }
        if let Some(signature) = signature {
            self.leave();
            let data = self.frame.stamp(OpaqueKind::Call, signature);
            self.sink.open(self.blocks, json!({ "type": "redacted_thinking", "data": data }));
            self.sink.close(self.blocks);
            self.blocks += 1;
        }
        self.enter(OpenBlock::Call(call), || json!({ "type": "tool_use", "id": id, "name": name, "input": {} }));
        self.arguments = Nesting::default();
    }

    fn argue(&mut self, call: u64, fragment: &str) {
        if self.open == Some(OpenBlock::Call(call)) {
            self.arguments.read(fragment);
            self.delta(MessagesBlockDelta::InputJsonDelta { partial_json: fragment });
            if self.arguments.whole() && !self.waiting.is_empty() {
                self.flush(false);
            }
        } else if let Some(waiting) = self.waiting.iter_mut().find(|w| w.call == call) {
            waiting.arguments.push_str(fragment);
        }
    }

    /// Writes the calls that wait. With `all` also those behind one that will never be whole.
    fn flush(&mut self, all: bool) {
        for waiting in std::mem::take(&mut self.waiting) {
            if all {
                self.leave();
            }
            self.call(waiting.call, &waiting.id, &waiting.name, waiting.signature.as_deref());
            self.argue(waiting.call, &waiting.arguments);
        }
    }

    fn end(&mut self, usage: Option<&Usage>) {
        self.flush(true);
        self.leave();
        let reason = self.reason.take().unwrap_or_else(|| "end_turn".to_owned());
        let reason = if self.refused && reason == "end_turn" { "refusal".to_owned() } else { reason };
        self.sink.end(&reason, MessageUsage::new(usage.unwrap_or(&Usage::default())));
    }
}

impl MessagesWriter<MessagesEventBuffer> {
    pub(super) fn drain(&mut self, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        texts.extend(self.sink.texts.drain(..).map(|place| place.behind(out.len())));
        out.unsplit(self.sink.out.split());
    }
}

impl MessagesWriter<Collected> {
    pub(super) fn whole(self) -> Bytes {
        let Collected { id, model, blocks, end, .. } = self.sink;
        let (stop_reason, usage) = end.unzip();
        let message = json!({
            "id": id, "type": "message", "role": "assistant", "model": model, "content": blocks,
            "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
        });
        message.to_string().into()
    }
}

/// Anthropic's name for why an answer ended; a provider that uses its names is taken by its word.
fn stop_reason<'a>(reason: &'a str, standard: &'static str) -> &'a str {
    const ANTHROPICS: &[&str] = &[
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
    ];
    match standard {
        _ if ANTHROPICS.contains(&reason) => reason,
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        _ => "end_turn",
    }
}

/// The events of a stream.
#[derive(Default)]
pub(crate) struct MessagesEventBuffer {
    out: BytesMut,
    /// Where texts stand in it.
    texts: Vec<TextPlace>,
}

impl MessagesEventBuffer {
    fn event(&mut self, name: &str, body: &impl Serialize) {
        self.out.extend_from_slice(b"event: ");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\ndata: ");
        write_json(&mut self.out, body);
        self.out.extend_from_slice(b"\n\n");
    }

    /// A delta that says a text, by Anthropic's names for it.
    fn text(&mut self, index: u64, kind: TextKind, text: &str) {
        let from = self.out.len();
        let (named, name) = match kind {
            TextKind::Text => ("text_delta", "text"),
            TextKind::Reasoning => ("thinking_delta", "thinking"),
            TextKind::Tool => ("input_json_delta", "partial_json"),
        };
        self.out.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        self.out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        write_pieces(&mut self.out, &[",\"delta\":{\"type\":\"", named, "\",\"", name, "\":"]);
        let quoted = write_text(&mut self.out, text);
        self.out.extend_from_slice(b"}}\n\n");
        if let Ok(part) = u32::try_from(index) {
            let lane = TextLane { choice: 0, kind, part };
            self.texts.push(TextPlace::of(lane, from..self.out.len(), quoted, text));
        }
    }
}

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u64,
    delta: MessagesBlockDelta<'a>,
}

impl MessagesSink for MessagesEventBuffer {
    fn start(&mut self, id: &str, model: &str) {
        let message = json!({
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 0, "output_tokens": 0 },
        });
        self.event("message_start", &json!({ "type": "message_start", "message": message }));
    }

    fn open(&mut self, index: u64, block: Value) {
        let event = json!({ "type": "content_block_start", "index": index, "content_block": block });
        self.event("content_block_start", &event);
    }

    fn delta(&mut self, index: u64, delta: MessagesBlockDelta<'_>) {
        match delta {
            MessagesBlockDelta::TextDelta { text } => self.text(index, TextKind::Text, text),
            MessagesBlockDelta::ThinkingDelta { thinking } => self.text(index, TextKind::Reasoning, thinking),
            MessagesBlockDelta::InputJsonDelta { partial_json } => self.text(index, TextKind::Tool, partial_json),
            delta => self.event("content_block_delta", &Changed { kind: "content_block_delta", index, delta }),
        }
    }

    fn close(&mut self, index: u64) {
        self.event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }));
    }

    fn end(&mut self, stop_reason: &str, usage: MessageUsage) {
        let delta = json!({ "stop_reason": stop_reason, "stop_sequence": null });
        self.event("message_delta", &json!({ "type": "message_delta", "delta": delta, "usage": usage }));
        self.event("message_stop", &json!({ "type": "message_stop" }));
    }
}

/// A whole message.
#[derive(Default)]
pub(crate) struct Collected {
    id: String,
    model: String,
    blocks: Vec<Map<String, Value>>,
    /// Input of the open block, in pieces of JSON.
    input: String,
    end: Option<(String, MessageUsage)>,
}

impl MessagesSink for Collected {
    fn start(&mut self, id: &str, model: &str) {
        (self.id, self.model) = (id.to_owned(), model.to_owned());
    }

    fn open(&mut self, _index: u64, block: Value) {
        if let Value::Object(block) = block {
            self.blocks.push(block);
        }
    }

    fn delta(&mut self, _index: u64, delta: MessagesBlockDelta<'_>) {
        let Some(block) = self.blocks.last_mut() else { return };
        let (key, more) = match delta {
            MessagesBlockDelta::TextDelta { text } => ("text", text),
            MessagesBlockDelta::ThinkingDelta { thinking } => ("thinking", thinking),
            MessagesBlockDelta::SignatureDelta { signature } => ("signature", signature),
            MessagesBlockDelta::InputJsonDelta { partial_json } => return self.input.push_str(partial_json),
            MessagesBlockDelta::CitationsDelta { citation } => {
                let citation = serde_json::from_str(citation.get()).unwrap_or_default();
                if let Value::Array(all) = block.entry("citations").or_insert_with(|| json!([])) {
                    all.push(citation);
                }
                return;
            }
        };
        if let Value::String(text) = block.entry(key).or_insert_with(|| "".into()) {
            text.push_str(more);
        }
    }

    fn close(&mut self, _index: u64) {
        let input = std::mem::take(&mut self.input);
        if let (Some(block), Ok(input)) = (self.blocks.last_mut(), serde_json::from_str::<Value>(&input)) {
            block.insert("input".to_owned(), input);
        }
    }

    fn end(&mut self, stop_reason: &str, usage: MessageUsage) {
        self.end = Some((stop_reason.to_owned(), usage));
    }
}

/// Whether JSON that comes in pieces is whole.
#[derive(Debug, Default)]
struct Nesting {
    depth: u64,
    begun: bool,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    fn read(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => (self.depth, self.begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}
