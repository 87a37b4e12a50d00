//! Events of OpenAI's Responses: texts come piece by piece, and once more whole when they, their item and the response
//! end.

use super::json::{EventPlaces, JsonObject, elements, text};
use super::{Closed, TappedEvent, TappedText, TextKind, TextLane, Vary};
use crate::sse;
use bytes::Bytes;
use serde_json::{Value, json};

/// Parts of one item.
const PARTS: u32 = 256;
/// Texts of reasoning that are no summaries are numbered from here.
const THOUGHTS: u32 = 1 << 24;

/// The number of a text among those of a response, by the places of its item and its part; `None` for more than are
/// told apart.
pub(crate) fn part(item: u64, part: u64) -> Option<u32> {
    u32::try_from(item).ok()?.checked_mul(PARTS)?.checked_add(u32::try_from(part).ok()?)
}

#[derive(Debug, Default)]
pub(super) struct TappedResponses {
    /// The response as the first event told it.
    response: Option<Value>,
    sequence: u64,
}

struct ResponseReading<'a> {
    places: EventPlaces,
    tapped: &'a mut TappedEvent,
    is_echo: bool,
}

impl TappedResponses {
    pub(super) fn read(&mut self, data: &str, places: EventPlaces, tapped: &mut TappedEvent) -> Option<()> {
        let event = JsonObject::parse(data)?;
        self.sequence = event.number("sequence_number").map_or(self.sequence, |n| u64::from(n) + 1);
        for (key, value) in event.members() {
            match key {
                "obfuscation" => tapped.varies.push((places.of(value), Vary::Padding)),
                "sequence_number" => tapped.varies.push((places.of(value), Vary::Number)),
                _ => {}
            }
        }
        let kind = event.text("type").unwrap_or_default();
        let item = event.number("output_index").unwrap_or(0) * PARTS;
        let part = event.number("content_index").or_else(|| event.number("summary_index")).unwrap_or(0);
        if let (true, Some(response)) = (self.response.is_none(), event.get("response")) {
            self.response = serde_json::from_str(response).ok();
        }
        let is_delta = kind.ends_with(".delta");
        tapped.says_more = !is_delta;
        let mut reading = ResponseReading { places, tapped, is_echo: !is_delta };
        let (lane, key) = match kind.rsplit_once('.').map_or("", |(name, _)| name) {
            "response.output_text" => (TextKind::Text, "text"),
            "response.refusal" => (TextKind::Text, "refusal"),
            "response.reasoning_summary_text" => (TextKind::Reasoning, "text"),
            "response.reasoning_text" => (TextKind::Reasoning, "text"),
            "response.audio.transcript" => (TextKind::Text, "transcript"),
            "response.function_call_arguments" | "response.mcp_call_arguments" => (TextKind::Tool, "arguments"),
            "response.custom_tool_call_input" => (TextKind::Tool, "input"),
            "response.content_part" => {
                event.get("part").into_iter().for_each(|raw| reading.part(raw, item + part));
                return Some(());
            }
            "response.reasoning_summary_part" => {
                event.get("part").into_iter().for_each(|raw| reading.thought(raw, item + part));
                return Some(());
            }
            "response.output_item" => {
                event.get("item").into_iter().for_each(|raw| reading.item(raw, item));
                return Some(());
            }
            "response" => {
                let response = event.object("response");
                let output = response.and_then(|r| r.get("output")).map(elements).unwrap_or_default();
                for (at, raw) in (0..).zip(output) {
                    reading.item(raw, at * PARTS);
                }
                let is_last = matches!(
                    kind.as_str(),
                    "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled"
                );
                if is_last {
                    tapped.is_last = true;
                    tapped.closed.push(Closed { choice: None, part: None });
                }
                return Some(());
            }
            _ => {
                tapped.says_more = true;
                return Some(());
            }
        };
        let place = match (lane, kind.contains("reasoning_text")) {
            (TextKind::Tool, _) => item,
            (_, true) => THOUGHTS + item + part,
            _ => item + part,
        };
        reading.tapped.is_call = lane == TextKind::Tool;
        if let Some(raw) = event.get(if is_delta { "delta" } else { key }) {
            reading.add(raw, lane, place);
        }
        if let Some(probabilities) = event.get("logprobs") {
            tapped.about.push((places.of(probabilities), "[]"));
        }
        if !is_delta {
            tapped.closed.push(Closed { choice: Some(0), part: Some(place) });
        }
        Some(())
    }

    /// Whether the response was heard that a refusal would end; an event of this number goes by then.
    pub(super) fn knows(&mut self, number: Option<u64>) -> bool {
        let Some(number) = number.filter(|_| self.response.is_some()) else { return false };
        self.counted(number);
        true
    }

    /// An event of this number has gone by.
    pub(super) fn counted(&mut self, number: u64) {
        self.sequence = number + 1;
    }

    pub(super) fn refuse(&mut self) -> Bytes {
        let mut response = self.response.take().unwrap_or_else(|| json!({"object": "response", "output": []}));
        response["status"] = "incomplete".into();
        response["incomplete_details"] = json!({"reason": "content_filter"});
        let event = json!({"type": "response.incomplete", "sequence_number": self.sequence, "response": response});
        sse::event(Some("response.incomplete"), event.to_string().as_bytes())
    }
}

impl ResponseReading<'_> {
    fn item(&mut self, raw: &str, place: u32) {
        let Some(item) = JsonObject::of(raw) else { return };
        let kind = item.text("type").unwrap_or_default();
        let is_call = kind.ends_with("_call");
        // One that opens has its arguments still to come.
        self.tapped.is_call |= is_call;
        for (key, value) in item.members() {
            match key {
                "content" => {
                    for (at, raw) in (0..).zip(elements(value)) {
                        self.part(raw, place + at);
                    }
                }
                "summary" => {
                    for (at, raw) in (0..).zip(elements(value)) {
                        self.thought(raw, place + at);
                    }
                }
                "arguments" | "input" if is_call => self.add(value, TextKind::Tool, place),
                _ => {}
            }
        }
    }

    fn part(&mut self, raw: &str, place: u32) {
        let Some(part) = JsonObject::of(raw) else { return };
        let is_thought = part.text("type").as_deref() == Some("reasoning_text");
        for (key, value) in part.members() {
            match key {
                "text" if is_thought => self.add(value, TextKind::Reasoning, THOUGHTS + place),
                "text" | "refusal" | "transcript" => self.add(value, TextKind::Text, place),
                "logprobs" => self.tapped.about.push((self.places.of(value), "[]")),
                _ => {}
            }
        }
    }

    fn thought(&mut self, raw: &str, place: u32) {
        let Some(part) = JsonObject::of(raw) else { return };
        if let Some(value) = part.get("text") {
            self.add(value, TextKind::Reasoning, place);
        }
    }

    fn add(&mut self, raw: &str, kind: TextKind, part: u32) {
        if let Some(text) = text(raw) {
            let (lane, is_echo) = (TextLane { choice: 0, kind, part }, self.is_echo);
            self.tapped.texts.push(TappedText { lane, span: self.places.of(raw), text, is_echo });
        }
    }
}
