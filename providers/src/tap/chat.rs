//! Chunks of chat and text completions.

use super::json::{EventPlaces, JsonObject, elements, text};
use super::{Closed, TappedEvent, TappedText, TextKind, TextLane, Vary};
use crate::sse;
use crate::wire::says;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

/// Blocks of content beside the message's own are numbered from here.
const BLOCKS: u32 = 16;

/// The number of the text of a block; `None` for more than are told apart.
pub(crate) fn block_part(block: u64) -> Option<u32> {
    u32::try_from(block).ok()?.checked_add(BLOCKS)
}

/// A first chunk that is longer is not kept.
const LONGEST_FIRST: usize = 16 * 1024;

/// What a closing chunk repeats.
#[derive(Debug, Default)]
pub(super) struct TappedChunks {
    /// The first chunk of an answer, of which a refusal says `id`, `object`, `created` and `model` again.
    first: Option<Box<str>>,
    /// What was heard may never leave, the end of a choice among it: all are ended by a refusal.
    open: Vec<u32>,
    is_text: bool,
}

struct ChunkReading<'a> {
    places: EventPlaces,
    choice: u32,
    tapped: &'a mut TappedEvent,
}

impl TappedChunks {
    pub(super) fn read(&mut self, data: &str, places: EventPlaces, tapped: &mut TappedEvent) -> Option<()> {
        let chunk = JsonObject::parse(data)?;
        if self.first.is_none() && data.len() <= LONGEST_FIRST && chunk.get("choices").is_some() {
            self.first = Some(data.into());
        }
        let mut has_choices = false;
        for (key, value) in chunk.members() {
            if key == "obfuscation" {
                tapped.varies.push((places.of(value), Vary::Padding));
            }
            if key != "choices" {
                tapped.says_more |= matches!(key, "usage" | "error") && says(value);
                continue;
            }
            for raw in elements(value) {
                has_choices = true;
                let choice = JsonObject::of(raw)?;
                let index = choice.number("index").unwrap_or(0);
                if !self.open.contains(&index) && self.open.len() < 128 {
                    self.open.push(index);
                }
                self.is_text |= choice.get("text").is_some();
                if (ChunkReading { places, choice: index, tapped: &mut *tapped }).choice(&choice) {
                    tapped.closed.push(Closed { choice: Some(index), part: None });
                }
            }
        }
        tapped.says_more |= !has_choices;
        Some(())
    }

    /// Whether a choice was heard, and so would be ended by a refusal.
    pub(super) fn knows(&self, choice: u32) -> bool {
        self.first.is_some() && self.open.contains(&choice)
    }

    pub(super) fn refuse(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let head = self.first.as_deref().and_then(head).unwrap_or_else(|| json!({"object": "chat.completion.chunk"}));
        for index in std::mem::take(&mut self.open) {
            let mut chunk = head.clone();
            let mut choice = json!({"index": index, "logprobs": null, "finish_reason": "content_filter"});
            if self.is_text {
                choice["text"] = "".into();
            } else {
                choice["delta"] = json!({});
            }
            chunk["choices"] = json!([choice]);
            out.extend_from_slice(&sse::event(None, chunk.to_string().as_bytes()));
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        out.freeze()
    }
}

/// What all chunks of an answer share.
fn head(chunk: &str) -> Option<Value> {
    let chunk = JsonObject::parse(chunk)?;
    let shared = ["id", "object", "created", "model"].into_iter();
    Some(Value::Object(
        shared.filter_map(|k| Some((k.to_owned(), serde_json::from_str(chunk.get(k)?).ok()?))).collect(),
    ))
}

impl ChunkReading<'_> {
    /// True: it has ended.
    fn choice(&mut self, choice: &JsonObject<'_>) -> bool {
        let mut ended = false;
        for (key, value) in choice.members() {
            match key {
                "delta" => self.delta(value),
                "text" => self.add(value, TextKind::Text, 0),
                "finish_reason" if says(value) => {
                    (ended, self.tapped.says_more) = (true, true);
                }
                "logprobs" | "content_filter_offsets" if says(value) => {
                    self.tapped.about.push((self.places.of(value), "null"));
                }
                _ => {}
            }
        }
        ended
    }

    fn delta(&mut self, raw: &str) {
        let Some(delta) = JsonObject::of(raw) else { return };
        for (key, value) in delta.members() {
            match key {
                "content" => self.add(value, TextKind::Text, 0),
                "refusal" => self.add(value, TextKind::Text, 1),
                "reasoning_content" => self.add(value, TextKind::Reasoning, 0),
                "reasoning" => self.add(value, TextKind::Reasoning, 1),
                "audio" => {
                    self.tapped.says_more = true;
                    let audio = JsonObject::of(value);
                    if let Some(transcript) = audio.and_then(|audio| audio.get("transcript")) {
                        self.add(transcript, TextKind::Text, 2);
                    }
                }
                "tool_calls" => elements(value).into_iter().for_each(|call| self.call(call)),
                "function_call" => {
                    self.tapped.is_call = true;
                    if let Some(function) = JsonObject::of(value) {
                        self.function(&function, 0);
                    }
                }
                "content_blocks" => elements(value).into_iter().for_each(|block| self.block(block)),
                "role" => self.tapped.says_more |= says(value),
                _ => {}
            }
        }
    }

    fn call(&mut self, raw: &str) {
        self.tapped.is_call = true;
        let Some(call) = JsonObject::of(raw) else { return };
        let index = call.number("index").unwrap_or(0);
        self.tapped.says_more |= call.get("id").is_some();
        for (key, value) in call.members() {
            if let ("function" | "custom", Some(function)) = (key, JsonObject::of(value)) {
                self.function(&function, index);
            }
        }
    }

    fn function(&mut self, function: &JsonObject<'_>, index: u32) {
        for (key, value) in function.members() {
            match key {
                "arguments" | "input" => self.add(value, TextKind::Tool, index),
                "name" => self.tapped.says_more |= says(value),
                _ => {}
            }
        }
    }

    /// Reads a block, which tells texts of the same chunk once more.
    fn block(&mut self, raw: &str) {
        let Some(block) = JsonObject::of(raw) else { return };
        let index = block.number("index").unwrap_or(0);
        let part = block_part(index.into()).unwrap_or(index);
        let Some(delta) = block.object("delta") else { return };
        for (key, value) in delta.members() {
            match key {
                "text" => self.add(value, TextKind::Text, part),
                "thinking" => self.add(value, TextKind::Reasoning, part),
                "type" => {}
                _ => self.tapped.says_more = true,
            }
        }
    }

    fn add(&mut self, raw: &str, kind: TextKind, part: u32) {
        if let Some(text) = text(raw) {
            let lane = TextLane { choice: self.choice, kind, part };
            self.tapped.texts.push(TappedText { lane, span: self.places.of(raw), text, is_echo: false });
        }
    }
}
