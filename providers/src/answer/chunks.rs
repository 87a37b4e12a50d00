//! Writes steps as chunks of a chat completion stream. What all chunks of a stream share is made once.

use super::{Aside, ReplyContext, ResponseEvent, sources, write_json, write_pieces, write_text};
use crate::opaque::OpaqueKind;
use crate::tap::chat::block_part;
use crate::tap::{TextKind, TextLane, TextPlace};
use crate::wire::usage::ChatUsage;
use bytes::BytesMut;
use gateway_domain::Usage;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

const END: &[u8] = b",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

pub(crate) struct ChunkWriter {
    frame: ReplyContext,
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

/// A delta of one text, by the name that chat has for it.
struct TextDelta<'a> {
    name: &'static str,
    text: &'a str,
    kind: TextKind,
    /// Position of the text among those of its choice and kind.
    part: u32,
    /// The block that says it once more, by the provider's number, and what its type and its text are called.
    block: Option<(u64, [&'static str; 2])>,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    content_blocks: [Indexed<'a>; 1],
}

/// A piece of a content block, in the form that SDKs merge by index.
#[derive(Serialize)]
struct Indexed<'a> {
    index: u64,
    delta: ChunkContentBlock<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChunkContentBlock<'a> {
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
    tool_calls: [ChunkToolCall<'a>; 1],
}

#[derive(Serialize)]
struct ChunkToolCall<'a> {
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: ChunkFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct ChunkFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

impl ChunkWriter {
    pub(super) fn new(frame: ReplyContext) -> Self {
        Self { frame, head: Vec::new(), choice: 0, begun: Vec::new(), finish: None, sources: None }
    }

    pub(super) fn write(&mut self, step: &ResponseEvent<'_>, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
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
                let block = (!self.frame.strict).then_some((*block, ["text", "text"]));
                self.text(&TextDelta { name: "content", text, kind: TextKind::Text, part: 0, block }, out, texts);
            }
            ResponseEvent::Refusal { text, .. } => {
                let delta = TextDelta { name: "refusal", text, kind: TextKind::Text, part: 1, block: None };
                self.text(&delta, out, texts);
            }
            ResponseEvent::Logprobs { content, .. } => self.logprobs(content, out),
            ResponseEvent::Reasoning { block, text } => {
                let block = (!self.frame.strict).then_some((*block, ["thinking", "thinking"]));
                let delta = TextDelta { name: "reasoning_content", text, kind: TextKind::Reasoning, part: 0, block };
                self.text(&delta, out, texts);
            }
            ResponseEvent::Aside { block, aside } => self.aside(*block, aside, out),
            ResponseEvent::ToolOpen { call, id, name, signature } => {
                let function = ChunkFunction { name: Some(name), arguments: "" };
                let extra_content = signature.as_deref().filter(|_| !self.frame.strict);
                let extra_content = extra_content.map(|s| extra(&self.frame, s));
                let call =
                    ChunkToolCall { index: *call, id: Some(id), kind: Some("function"), function, extra_content };
                self.delta(&ToolCalls { tool_calls: [call] }, out);
            }
            ResponseEvent::ToolArguments { call, fragment } => {
                self.arguments(*call, fragment, out, texts);
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
                stamped = self.frame.stamp(OpaqueKind::Signature, signature);
                ChunkContentBlock::Signature { kind: "thinking", signature: &stamped }
            }
            Aside::Redacted(data) => {
                stamped = self.frame.stamp(OpaqueKind::Redacted, data);
                ChunkContentBlock::Redacted { kind: "redacted_thinking", data: &stamped }
            }
            Aside::Citation(citation) => ChunkContentBlock::Citation { kind: "text", citations: [citation] },
            Aside::Block(block) => ChunkContentBlock::Block(block),
            Aside::Input(partial_json) => ChunkContentBlock::Input { partial_json },
        };
        if let Some(content_blocks) = self.piece(block, piece) {
            self.delta(&BlockDelta { content_blocks }, out);
        }
    }

    fn piece<'p>(&self, block: u64, piece: ChunkContentBlock<'p>) -> Option<[Indexed<'p>; 1]> {
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

    fn text(&self, delta: &TextDelta<'_>, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        let from = out.len();
        self.start(self.choice, out);
        write_pieces(out, &["{\"", delta.name, "\":"]);
        let quoted = write_text(out, delta.text);
        let again = delta.block.map(|(block, [kind, name])| {
            write_pieces(out, &[",\"content_blocks\":[{\"index\":", itoa::Buffer::new().format(block)]);
            write_pieces(out, &[",\"delta\":{\"type\":\"", kind, "\",\"", name, "\":"]);
            let quoted = write_text(out, delta.text);
            write_pieces(out, &["}}]"]);
            (block_part(block), quoted)
        });
        write_pieces(out, &["}"]);
        out.extend_from_slice(END);
        let event = from..out.len();
        let tell = |part, quoted| Some(TextPlace::of(self.lane(delta.kind, part)?, event.clone(), quoted, delta.text));
        match again {
            None => texts.extend(tell(delta.part, quoted)),
            Some((block, again)) => {
                let both = tell(delta.part, quoted).zip(block.and_then(|block| tell(block, again)));
                texts.extend(both.into_iter().flat_map(|(one, other)| [one, other]));
            }
        }
    }

    fn arguments(&self, call: u64, fragment: &str, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        let from = out.len();
        self.start(self.choice, out);
        write_pieces(out, &["{\"tool_calls\":[{\"index\":", itoa::Buffer::new().format(call)]);
        write_pieces(out, &[",\"function\":{\"arguments\":"]);
        let quoted = write_text(out, fragment);
        write_pieces(out, &["}}]}"]);
        out.extend_from_slice(END);
        let lane = u32::try_from(call).ok().and_then(|call| self.lane(TextKind::Tool, call));
        texts.extend(lane.map(|lane| TextPlace::of(lane, from..out.len(), quoted, fragment)));
    }

    /// `None`: more than are told apart.
    fn lane(&self, kind: TextKind, part: u32) -> Option<TextLane> {
        Some(TextLane { choice: u32::try_from(self.choice).ok()?, kind, part })
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
pub(super) fn extra(frame: &ReplyContext, signature: &str) -> serde_json::Value {
    json!({ "google": { "thought_signature": frame.stamp(OpaqueKind::Call, signature) } })
}
