//! Writes steps as chunks of a chat completion stream. What all chunks of a stream share is made once.

use super::{Aside, Frame, Step};
use crate::wire::usage::ChatUsage;
use bytes::{BufMut, BytesMut};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

const END: &[u8] = b",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

pub(crate) struct ChunkWriter {
    frame: Frame,
    /// `data: {"id":…` up to the choices; empty until the answer is open.
    head: Vec<u8>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
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
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

impl ChunkWriter {
    pub(crate) fn new(frame: Frame) -> Self {
        Self { frame, head: Vec::new() }
    }

    pub(crate) fn write(&mut self, step: &Step<'_>, out: &mut BytesMut) {
        if let Step::Open { id, model } = step {
            return self.open(id.as_deref(), model.as_deref(), out);
        }
        if self.head.is_empty() {
            self.open(None, None, out);
        }
        match step {
            Step::Open { .. } => {}
            Step::Text { block, text } => {
                let blocks = self.piece(*block, Piece::Text { kind: "text", text });
                self.delta(&Delta { content: Some(text), reasoning_content: None, content_blocks: blocks }, out);
            }
            Step::Reasoning { block, text } => {
                let blocks = self.piece(*block, Piece::Thinking { kind: "thinking", thinking: text });
                self.delta(&Delta { content: None, reasoning_content: Some(text), content_blocks: blocks }, out);
            }
            Step::Aside { block, aside } => {
                let content_blocks = self.piece(*block, piece_of(aside));
                if content_blocks.is_some() {
                    self.delta(&Delta { content: None, reasoning_content: None, content_blocks }, out);
                }
            }
            Step::ToolOpen { call, id, name } => {
                let function = Function { name: Some(name), arguments: "" };
                let call = ToolCall { index: *call, id: Some(id), kind: Some("function"), function };
                self.delta(&ToolCalls { tool_calls: [call] }, out);
            }
            Step::ToolArguments { call, fragment } => {
                let function = Function { name: None, arguments: fragment };
                self.delta(&ToolCalls { tool_calls: [ToolCall { index: *call, id: None, kind: None, function }] }, out);
            }
            Step::Finish { reason, standard, usage } => {
                let reason = if self.frame.strict { standard } else { &**reason };
                self.finish(reason, &ChatUsage::new(usage, self.frame.strict), out);
            }
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
        self.delta(&json!({ "role": "assistant", "content": "" }), out);
    }

    fn piece<'p>(&self, block: u64, piece: Piece<'p>) -> Option<[Indexed<'p>; 1]> {
        (!self.frame.strict).then_some([Indexed { index: block, delta: piece }])
    }

    fn delta(&self, delta: &impl Serialize, out: &mut BytesMut) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":0,\"delta\":");
        write_json(out, delta);
        out.extend_from_slice(END);
    }

    fn finish(&self, reason: &str, usage: &ChatUsage, out: &mut BytesMut) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":");
        write_json(out, &reason);
        out.extend_from_slice(b"}],\"usage\":");
        write_json(out, usage);
        out.extend_from_slice(b"}\n\n");
        if self.frame.wants_usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(b"],\"usage\":");
            write_json(out, usage);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

fn piece_of<'a>(aside: &'a Aside<'a>) -> Piece<'a> {
    match aside {
        Aside::Signature(signature) => Piece::Signature { kind: "thinking", signature },
        Aside::Redacted(data) => Piece::Redacted { kind: "redacted_thinking", data },
        Aside::Citation(citation) => Piece::Citation { kind: "text", citations: [citation] },
        Aside::Block(block) => Piece::Block(block),
        Aside::Input(partial_json) => Piece::Input { partial_json },
    }
}

/// These types have nothing that could fail to become JSON.
fn write_json(out: &mut BytesMut, value: &impl Serialize) {
    if let Err(e) = serde_json::to_writer(out.writer(), value) {
        debug_assert!(false, "{e}");
    }
}
