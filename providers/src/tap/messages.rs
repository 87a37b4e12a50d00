//! Events of Anthropic's Messages.

use super::json::{EventPlaces, JsonObject, elements, text};
use super::{Closed, TappedEvent, TappedText, TextKind, TextLane};
use crate::sse;
use bytes::{Bytes, BytesMut};
use serde_json::json;

#[derive(Debug, Default)]
pub(super) struct TappedMessages {
    /// The block that began last: its end may have been heard, and never leave.
    open: Option<u32>,
}

impl TappedMessages {
    pub(super) fn read(&mut self, data: &str, places: EventPlaces, tapped: &mut TappedEvent) -> Option<()> {
        let event = JsonObject::parse(data)?;
        let index = event.number("index").unwrap_or(0);
        let kind = event.text("type").unwrap_or_default();
        match kind.as_str() {
            "ping" => tapped.is_aside = true,
            "content_block_delta" => {
                if let Some(delta) = event.object("delta") {
                    block(&delta, index, places, tapped);
                }
                // What is no text (signatures, citations) says something by itself.
                tapped.says_more |= tapped.texts.is_empty();
                return Some(());
            }
            "content_block_start" => {
                self.open = Some(index);
                if let Some(start) = event.object("content_block") {
                    tapped.is_call = matches!(start.text("type").as_deref(), Some(t) if t.ends_with("tool_use"));
                    block(&start, index, places, tapped);
                }
            }
            "content_block_stop" => {
                tapped.closed.push(Closed { choice: Some(0), part: Some(index) });
            }
            "message_start" => {
                let message = event.object("message");
                for raw in message.and_then(|m| m.get("content")).map(elements).unwrap_or_default() {
                    if let Some(start) = JsonObject::of(raw) {
                        block(&start, index, places, tapped);
                    }
                }
            }
            "message_delta" => tapped.closed.push(Closed { choice: None, part: None }),
            "message_stop" => {
                tapped.is_last = true;
                tapped.closed.push(Closed { choice: None, part: None });
            }
            _ => {}
        }
        tapped.says_more = true;
        Some(())
    }

    /// Whether this block stands open, and so would be ended by a refusal.
    pub(super) fn knows(&self, block: u32) -> bool {
        self.open == Some(block)
    }

    pub(super) fn refuse(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let mut push = |name: &str, mut event: serde_json::Value| {
            event["type"] = name.into();
            out.extend_from_slice(&sse::event(Some(name), event.to_string().as_bytes()));
        };
        if let Some(index) = self.open.take() {
            push("content_block_stop", json!({"index": index}));
        }
        let delta = json!({"stop_reason": "refusal", "stop_sequence": null});
        push("message_delta", json!({"delta": delta, "usage": {"output_tokens": 0}}));
        push("message_stop", json!({}));
        out.freeze()
    }
}

fn block(block: &JsonObject<'_>, index: u32, places: EventPlaces, tapped: &mut TappedEvent) {
    let mut add = |raw: &str, kind: TextKind| {
        if let Some(text) = text(raw) {
            let lane = TextLane { choice: 0, kind, part: index };
            tapped.texts.push(TappedText { lane, span: places.of(raw), text, is_echo: false });
        }
    };
    for (key, value) in block.members() {
        match key {
            "text" => add(value, TextKind::Text),
            "thinking" => add(value, TextKind::Reasoning),
            "partial_json" => {
                add(value, TextKind::Tool);
            }
            _ => {}
        }
    }
    tapped.is_call |= block.get("partial_json").is_some();
}
