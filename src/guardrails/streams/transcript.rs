//! What a stream has said so far, as the whole answer that it stands for: for guardrails that judge an answer as a
//! whole.

use bytes::Bytes;
use gateway_guardrails::BodyShape;
use gateway_guardrails::stream::MOST_HOLD;
use gateway_providers::tap::{TextKind, TextLane};
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lanes: Vec<(TextLane, String)>,
    bytes: usize,
}

/// A body, and where each text stands in it.
struct LaidOut {
    body: Value,
    /// JSON pointers (RFC 6901).
    places: Vec<(TextLane, String)>,
}

impl Transcript {
    pub(super) fn has(&self, lane: TextLane) -> bool {
        self.lanes.iter().any(|(known, _)| *known == lane)
    }

    /// Adds a piece of a text. Beyond the bound nothing more is kept: what is longer is not judged as a whole.
    pub(super) fn add(&mut self, lane: TextLane, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.is_too_long() {
            self.lanes = Vec::new();
            return;
        }
        match self.lanes.iter_mut().find(|(known, _)| *known == lane) {
            Some((_, whole)) => whole.push_str(text),
            None => self.lanes.push((lane, text.to_owned())),
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// There is no room for more: it is not judged as a whole.
    pub(super) fn give_up(&mut self) {
        (self.bytes, self.lanes) = (usize::MAX, Vec::new());
    }

    pub(super) const fn is_too_long(&self) -> bool {
        self.bytes > MOST_HOLD
    }

    /// The whole answer as a body in the client's dialect.
    pub(super) fn body(&self, shape: BodyShape) -> Bytes {
        self.laid(shape).body.to_string().into()
    }

    /// The texts as they stand in a body that was made here and changed since; those that stayed are left out.
    pub(super) fn read_back(&self, body: &[u8]) -> Vec<(TextLane, String)> {
        let Ok(changed) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
        let shape = match () {
            () if changed.get("content").is_some() => BodyShape::Messages,
            () if changed.get("output").is_some() => BodyShape::Responses,
            () if changed.pointer("/choices/0/text").is_some() => BodyShape::Completions,
            () => BodyShape::Chat,
        };
        let laid = self.laid(shape);
        let now = |place: &str| match changed.pointer(place)? {
            Value::String(text) => Some(text.clone()),
            // Input of a tool stands as it is.
            other => Some(other.to_string()),
        };
        let before = |lane: TextLane| self.lanes.iter().find(|(known, _)| *known == lane).map(|(_, text)| text);
        let found = laid.places.into_iter().filter_map(|(lane, place)| {
            let was = laid.body.pointer(&place)?;
            let text = now(&place)?;
            let is_same = changed.pointer(&place) == Some(was) || before(lane) == Some(&text);
            (!is_same).then_some((lane, text))
        });
        found.collect()
    }

    fn laid(&self, shape: BodyShape) -> LaidOut {
        match shape {
            BodyShape::Messages => self.message(),
            BodyShape::Responses => self.response(),
            BodyShape::Completions => {
                self.choices(|choice| json!({"index": choice, "text": "", "finish_reason": "stop"}))
            }
            _ => self.choices(|choice| {
                json!({"index": choice, "message": {"role": "assistant", "content": null}, "finish_reason": "stop"})
            }),
        }
    }

    fn choices(&self, make: impl Fn(u32) -> Value) -> LaidOut {
        let mut numbers: Vec<u32> = self.lanes.iter().map(|(lane, _)| lane.choice).collect();
        numbers.push(0);
        numbers.sort_unstable();
        numbers.dedup();
        let mut choices: Vec<Value> = numbers.iter().map(|n| make(*n)).collect();
        let mut places = Vec::new();
        for (lane, text) in &self.lanes {
            let Some(at) = numbers.iter().position(|n| *n == lane.choice) else { continue };
            let choice = &mut choices[at];
            let place = match (lane.kind, lane.part) {
                (TextKind::Text, _) if choice.get("text").is_some() => {
                    choice["text"] = text.as_str().into();
                    "/text".to_owned()
                }
                (TextKind::Text, 0) => {
                    choice["message"]["content"] = text.as_str().into();
                    "/message/content".to_owned()
                }
                (TextKind::Text, 1) => {
                    choice["message"]["refusal"] = text.as_str().into();
                    "/message/refusal".to_owned()
                }
                (TextKind::Text, 2) => {
                    choice["message"]["audio"] = json!({"transcript": text});
                    "/message/audio/transcript".to_owned()
                }
                (TextKind::Reasoning, 0) => {
                    choice["message"]["reasoning_content"] = text.as_str().into();
                    "/message/reasoning_content".to_owned()
                }
                (TextKind::Reasoning, 1) => {
                    choice["message"]["reasoning"] = text.as_str().into();
                    "/message/reasoning".to_owned()
                }
                (TextKind::Text, _) => push(choice, "content_blocks", json!({"type": "text", "text": text}), "text"),
                (TextKind::Reasoning, _) => {
                    push(choice, "content_blocks", json!({"type": "thinking", "thinking": text}), "thinking")
                }
                (TextKind::Tool, _) => {
                    let call = json!({"type": "function", "function": {"arguments": text}});
                    push(choice, "tool_calls", call, "function/arguments")
                }
            };
            places.push((*lane, format!("/choices/{at}{place}")));
        }
        LaidOut { body: json!({"object": "chat.completion", "choices": choices}), places }
    }

    fn message(&self) -> LaidOut {
        let (mut content, mut places) = (Vec::new(), Vec::new());
        for (lane, text) in &self.lanes {
            let (block, key) = match lane.kind {
                TextKind::Text => (json!({"type": "text", "text": text}), "text"),
                TextKind::Reasoning => (json!({"type": "thinking", "thinking": text}), "thinking"),
                TextKind::Tool => {
                    let input = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
                    (json!({"type": "tool_use", "input": input}), "input")
                }
            };
            places.push((*lane, format!("/content/{}/{key}", content.len())));
            content.push(block);
        }
        LaidOut { body: json!({"type": "message", "role": "assistant", "content": content}), places }
    }

    fn response(&self) -> LaidOut {
        let (mut output, mut places) = (Vec::new(), Vec::new());
        for (lane, text) in &self.lanes {
            let (item, key) = match lane.kind {
                TextKind::Text => {
                    let part = json!({"type": "output_text", "text": text});
                    (json!({"type": "message", "role": "assistant", "content": [part]}), "content/0/text")
                }
                TextKind::Reasoning => {
                    let part = json!({"type": "summary_text", "text": text});
                    (json!({"type": "reasoning", "summary": [part]}), "summary/0/text")
                }
                TextKind::Tool => (json!({"type": "function_call", "arguments": text}), "arguments"),
            };
            places.push((*lane, format!("/output/{}/{key}", output.len())));
            output.push(item);
        }
        LaidOut { body: json!({"object": "response", "status": "completed", "output": output}), places }
    }
}

/// Adds to a list of the choice's message; gives the place of `key` in it.
fn push(choice: &mut Value, list: &str, item: Value, key: &str) -> String {
    let place = &mut choice["message"][list];
    if !place.is_array() {
        *place = json!([]);
    }
    let at = place.as_array().map_or(0, Vec::len);
    if let Value::Array(items) = place {
        items.push(item);
    }
    format!("/message/{list}/{at}/{key}")
}
