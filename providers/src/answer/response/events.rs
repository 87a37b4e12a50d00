//! The events of a streamed response, numbered as they are written. Knows no items.

use super::super::{write_json, write_pieces, write_text};
use crate::tap::responses::part;
use crate::tap::{TextKind, TextLane, TextPlace};
use bytes::BytesMut;
use serde_json::{Map, Value};

#[derive(Default)]
pub(super) struct NumberedEvents {
    sequence: u64,
    /// The answer is wanted whole, so nobody hears its events.
    unheard: bool,
    out: BytesMut,
    /// Where texts stand in it.
    texts: Vec<TextPlace>,
}

/// The kind of text that a delta event brings a piece of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseDelta {
    Text,
    Refusal,
    Summary,
    Arguments,
}

impl ResponseDelta {
    fn event(self) -> &'static str {
        match self {
            Self::Text => "response.output_text.delta",
            Self::Refusal => "response.refusal.delta",
            Self::Summary => "response.reasoning_summary_text.delta",
            Self::Arguments => "response.function_call_arguments.delta",
        }
    }

    fn kind(self) -> TextKind {
        match self {
            Self::Text | Self::Refusal => TextKind::Text,
            Self::Summary => TextKind::Reasoning,
            Self::Arguments => TextKind::Tool,
        }
    }

    /// How its event calls the number of the part; arguments have none.
    fn numbered(self) -> Option<&'static str> {
        match self {
            Self::Text | Self::Refusal => Some("content_index"),
            Self::Summary => Some("summary_index"),
            Self::Arguments => None,
        }
    }
}

impl NumberedEvents {
    pub(super) fn unheard() -> Self {
        Self { unheard: true, ..Self::default() }
    }

    pub(super) fn are_unheard(&self) -> bool {
        self.unheard
    }

    pub(super) fn drain(&mut self, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        texts.extend(self.texts.drain(..).map(|place| place.behind(out.len())));
        out.unsplit(self.out.split());
    }

    /// One event; `fields` are those beside its type and number.
    pub(super) fn write(&mut self, event: &'static str, fields: Value) {
        if self.unheard {
            return;
        }
        let mut members = Map::from_iter([("type".to_owned(), event.into())]);
        members.insert("sequence_number".to_owned(), self.sequence.into());
        if let Value::Object(fields) = fields {
            members.extend(fields);
        }
        self.sequence += 1;
        write_pieces(&mut self.out, &["event: ", event, "\ndata: "]);
        write_json(&mut self.out, &members);
        write_pieces(&mut self.out, &["\n\n"]);
    }

    /// The next piece of a text, in the part `place` of an item, which is named by its id and its number.
    pub(super) fn delta(&mut self, delta: ResponseDelta, (id, item): (&str, u64), place: u64, text: &str) {
        if self.unheard {
            return;
        }
        let (from, number, event) = (self.out.len(), self.sequence, delta.event());
        self.sequence += 1;
        write_pieces(&mut self.out, &["event: ", event, "\ndata: {\"type\":\"", event, "\",\"sequence_number\":"]);
        write_pieces(&mut self.out, &[itoa::Buffer::new().format(number), ",\"item_id\":"]);
        write_json(&mut self.out, &id);
        write_pieces(&mut self.out, &[",\"output_index\":", itoa::Buffer::new().format(item)]);
        if let Some(numbered) = delta.numbered() {
            write_pieces(&mut self.out, &[",\"", numbered, "\":", itoa::Buffer::new().format(place)]);
        }
        write_pieces(&mut self.out, &[",\"delta\":"]);
        let quoted = write_text(&mut self.out, text);
        write_pieces(&mut self.out, &[if delta == ResponseDelta::Text { ",\"logprobs\":[]}\n\n" } else { "}\n\n" }]);
        if let Some(part) = part(item, place) {
            let lane = TextLane { choice: 0, kind: delta.kind(), part };
            let place = TextPlace::of(lane, from..self.out.len(), quoted, text);
            self.texts.push(TextPlace { number: Some(number), ..place });
        }
    }
}
