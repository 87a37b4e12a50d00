//! Writes steps as chunks of a chat completion stream. What all chunks of a stream share is made once.

use super::{Aside, Frame, ResponseEvent, sources, write_json};
use crate::opaque::Kind;
use crate::wire::usage::ChatUsage;
use bytes::BytesMut;
use gateway_domain::Usage;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

const END: &[u8] = b",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

pub(crate) struct ChunkWriter {
    frame: Frame,
    /// `data: {"id":…` up to the choices; empty until the answer is open.
    head: Vec<u8>,
    choice: u64,
    /// Choices that have been given their role.
    begun: Vec<u64>,
    /// The end of a choice, held back since the last one carries the usage.
    finish: Option<(u64, String)>,
    /// Go with the last end.
    sources: Option<serde_json::Value>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_blocks: Option<[Indexed<'a>; 1]>,
}

/// A piece of a content block, in the form that SDKs merge by index.
#[derive(Serialize)]
struct Indexed<'a> {
    index: u64,
    delta: Piece<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: &'a str,
    },
    Thinking {
        #[serde(rename = "type")]
        kind: &'static str,
        thinking: &'a str,
    },
    Signature {
        #[serde(rename = "type")]
        kind: &'static str,
        signature: &'a str,
    },
    Redacted {
        #[serde(rename = "type")]
        kind: &'static str,
        data: &'a str,
    },
    Citation {
        #[serde(rename = "type")]
        kind: &'static str,
        citations: [&'a RawValue; 1],
    },
    Block(&'a RawValue),
    Input {
        partial_json: &'a str,
    },
}

#[derive(Serialize)]
struct ToolCalls<'a> {
    tool_calls: [ToolCall<'a>; 1],
}

#[derive(Serialize)]
struct ToolCall<'a> {
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

impl ChunkWriter {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, head: Vec::new(), choice: 0, begun: Vec::new(), finish: None, sources: None }
    }

    pub(super) fn write(&mut self, step: &ResponseEvent<'_>, out: &mut BytesMut) {
        if let ResponseEvent::Open { id, model } = step {
            return self.open(id.as_deref(), model.as_deref(), out);
        }
        if self.head.is_empty() {
            self.open(None, None, out);
        }
        match step {
            ResponseEvent::Open { .. } => {}
            ResponseEvent::Choice(choice) => self.choose(*choice, out),
            ResponseEvent::Text { block, text } => {
                let content_blocks = self.piece(*block, Piece::Text { kind: "text", text });
                self.delta(&Delta { content: Some(text), content_blocks, ..Delta::default() }, out);
            }
            ResponseEvent::Refusal { text, .. } => self.delta(&Delta { refusal: Some(text), ..Delta::default() }, out),
            ResponseEvent::Logprobs { content, .. } => self.logprobs(content, out),
            ResponseEvent::Reasoning { block, text } => {
                let content_blocks = self.piece(*block, Piece::Thinking { kind: "thinking", thinking: text });
                self.delta(&Delta { reasoning_content: Some(text), content_blocks, ..Delta::default() }, out);
            }
            ResponseEvent::Aside { block, aside } => self.aside(*block, aside, out),
            ResponseEvent::ToolOpen { call, id, name, signature } => {
                let function = Function { name: Some(name), arguments: "" };
                let extra_content = signature.as_deref().filter(|_| !self.frame.strict);
                let extra_content = extra_content.map(|s| extra(&self.frame, s));
                let call = ToolCall { index: *call, id: Some(id), kind: Some("function"), function, extra_content };
                self.delta(&ToolCalls { tool_calls: [call] }, out);
            }
            ResponseEvent::ToolArguments { call, fragment } => {
                let function = Function { name: None, arguments: fragment };
                let call = ToolCall { index: *call, id: None, kind: None, function, extra_content: None };
                self.delta(&ToolCalls { tool_calls: [call] }, out);
            }
            ResponseEvent::Finish { reason, standard } => {
                self.finish(None, out);
                let reason = if self.frame.strict { (*standard).to_owned() } else { reason.to_string() };
                self.finish = Some((self.choice, reason));
            }
            ResponseEvent::Sources(results) => self.sources = Some(sources(results)),
            ResponseEvent::End { usage } => self.end(usage.as_ref(), out),
        }
    }

    fn open(&mut self, id: Option<&str>, model: Option<&str>, out: &mut BytesMut) {
        let shared = json!({
            "id": id.map_or_else(|| self.frame.id(), str::to_owned),
            "object": "chat.completion.chunk",
            "created": self.frame.created(),
            "model": model.unwrap_or_default(),
            "provider": self.frame.provider,
        });
        let shared = shared.to_string();
        self.head = [b"data: ", shared.trim_end_matches('}').as_bytes(), b",\"choices\":["].concat();
        self.choose(0, out);
    }

    fn choose(&mut self, choice: u64, out: &mut BytesMut) {
        self.choice = choice;
        // They may begin in any order.
        if !self.begun.contains(&choice) {
            self.begun.push(choice);
            self.delta(&json!({ "role": "assistant", "content": "" }), out);
        }
    }

    fn aside(&self, block: u64, aside: &Aside<'_>, out: &mut BytesMut) {
        let stamped;
        let piece = match aside {
            Aside::Signature(signature) => {
                stamped = self.frame.stamp(Kind::Signature, signature);
                Piece::Signature { kind: "thinking", signature: &stamped }
            }
            Aside::Redacted(data) => {
                stamped = self.frame.stamp(Kind::Redacted, data);
                Piece::Redacted { kind: "redacted_thinking", data: &stamped }
            }
            Aside::Citation(citation) => Piece::Citation { kind: "text", citations: [citation] },
            Aside::Block(block) => Piece::Block(block),
            Aside::Input(partial_json) => Piece::Input { partial_json },
        };
        let content_blocks = self.piece(block, piece);
        if content_blocks.is_some() {
            self.delta(&Delta { content_blocks, ..Delta::default() }, out);
        }
    }

    fn piece<'p>(&self, block: u64, piece: Piece<'p>) -> Option<[Indexed<'p>; 1]> {
        (!self.frame.strict).then_some([Indexed { index: block, delta: piece }])
    }

    fn start(&self, choice: u64, out: &mut BytesMut) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        out.extend_from_slice(itoa::Buffer::new().format(choice).as_bytes());
        out.extend_from_slice(b",\"delta\":");
    }

    fn delta(&self, delta: &impl Serialize, out: &mut BytesMut) {
        self.start(self.choice, out);
        write_json(out, delta);
        out.extend_from_slice(END);
    }

    fn logprobs(&self, content: &RawValue, out: &mut BytesMut) {
        self.start(self.choice, out);
        out.extend_from_slice(b"{},\"logprobs\":{\"content\":");
        out.extend_from_slice(content.get().as_bytes());
        out.extend_from_slice(b",\"refusal\":null},\"finish_reason\":null}]}\n\n");
    }

    fn finish(&mut self, usage: Option<&ChatUsage>, out: &mut BytesMut) {
        let Some((choice, reason)) = self.finish.take() else { return };
        self.start(choice, out);
        out.extend_from_slice(b"{},\"logprobs\":null,\"finish_reason\":");
        write_json(out, &reason);
        out.extend_from_slice(b"}]");
        if let Some(sources) = self.sources.take().and_then(|told| told.as_object().cloned()) {
            for (key, value) in &sources {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"\":");
                write_json(out, value);
            }
        }
        self.usage(usage, out);
    }

    fn usage(&self, usage: Option<&ChatUsage>, out: &mut BytesMut) {
        if let Some(usage) = usage {
            out.extend_from_slice(b",\"usage\":");
            write_json(out, usage);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn end(&mut self, usage: Option<&Usage>, out: &mut BytesMut) {
        let usage = usage.map(|usage| ChatUsage::new(usage, self.frame.strict));
        self.finish(usage.as_ref(), out);
        if self.frame.wants_usage && usage.is_some() {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(b"]");
            self.usage(usage.as_ref(), out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

/// Where Google's own OpenAI-like API puts it, so that clients which know that one carry it.
pub(super) fn extra(frame: &Frame, signature: &str) -> serde_json::Value {
    json!({ "google": { "thought_signature": frame.stamp(Kind::Call, signature) } })
}
