//! Listens to a stream as its client will read it: which texts each event carries, and where in its bytes they stand,
//! so that they can be judged before the event leaves, and changed without touching another byte. What is heard is what
//! is sent, whichever provider said it and through whichever translation it came. An event that is like the one before
//! it, but for its text, is not read anew. Knows no rule about texts.

pub(crate) mod chat;
mod json;
mod messages;
pub(crate) mod repeated_events;
pub(crate) mod responses;

use crate::sse;
use bytes::{Bytes, BytesMut};
use gateway_domain::Operation;
use repeated_events::{Shapes, Vary};
use std::borrow::Cow;
use std::ops::Range;

/// Which text of an answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextLane {
    pub choice: u32,
    pub kind: TextKind,
    /// Tells apart texts of the same choice and kind: blocks, items, calls.
    pub part: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    Text,
    Reasoning,
    /// Arguments of a tool's call.
    Tool,
}

/// A text inside an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TappedText {
    pub lane: TextLane,
    /// The JSON string in the event's bytes, quotes included.
    span: Range<usize>,
    pub text: String,
    /// It repeats the whole text of its lane, and is no further piece of it.
    pub is_echo: bool,
}

/// Texts that are whole from here on; what is `None` stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    pub choice: Option<u32>,
    pub part: Option<u32>,
}

/// One event, or a comment between events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TappedEvent {
    pub bytes: Bytes,
    pub texts: Vec<TappedText>,
    pub closed: Vec<Closed>,
    /// It belongs to no text and may overtake those that wait: comments and pings.
    pub is_aside: bool,
    /// Nothing of the answer comes behind it.
    pub is_last: bool,
    /// It says something beside its texts, so that it must not be dropped when they are gone.
    pub says_more: bool,
    /// It carries the rest of a call that is under way, or opens one.
    pub is_call: bool,
    /// Values that are about the text as it was: probabilities and offsets. With what stands in their place.
    about: Vec<(Range<usize>, &'static str)>,
    /// Values that differ from event to event and say nothing.
    varies: Vec<(Range<usize>, Vary)>,
}

impl TappedEvent {
    /// Bytes of which nobody knows what they say.
    pub fn unknown(bytes: Bytes) -> Self {
        Self { bytes, says_more: true, ..Self::default() }
    }

    /// The event's bytes with other texts, in the order of [`Self::texts`]; `None` leaves one as it is.
    pub fn with_texts<'t>(&self, texts: impl IntoIterator<Item = Option<&'t str>>) -> Bytes {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        for (tapped, text) in self.texts.iter().zip(texts) {
            let changed = text.filter(|text| *text != tapped.text);
            edits.extend(changed.map(|text| (tapped.span.clone(), quoted(text))));
        }
        if edits.is_empty() {
            return self.bytes.clone();
        }
        edits.extend(self.about.iter().map(|(span, instead)| (span.clone(), (*instead).to_owned())));
        edits.sort_by_key(|(span, _)| span.start);
        let mut out = BytesMut::with_capacity(self.bytes.len() + 64);
        let mut at = 0;
        for (span, text) in edits.iter().filter(|(span, _)| span.end <= self.bytes.len()) {
            if span.start < at {
                continue;
            }
            out.extend_from_slice(&self.bytes[at..span.start]);
            out.extend_from_slice(text.as_bytes());
            at = span.end;
        }
        out.extend_from_slice(&self.bytes[at..]);
        out.freeze()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An event that is no JSON object: nobody can say what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untappable;

#[derive(Debug)]
enum TapDialect {
    Chat(chat::TappedChunks),
    Messages(messages::TappedMessages),
    Responses(responses::TappedResponses),
}

#[derive(Debug)]
pub struct Tap {
    dialect: TapDialect,
    shapes: Shapes,
}

/// Where a text of an event stands, told by the translator that gave the event and knows what it says. Of one event all
/// its texts are told, in their order, and it says nothing beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    pub lane: TextLane,
    pub event: Range<usize>,
    /// The inside of a JSON string.
    pub text: Range<usize>,
    /// The text has no escapes: what stands there is what is read.
    pub is_plain: bool,
    /// The event's number in the stream, which only Responses has.
    pub number: Option<u64>,
}

impl TextPlace {
    /// The place in an event whose JSON string at `quoted`, quotes included, says `text`.
    pub(crate) fn of(lane: TextLane, event: Range<usize>, quoted: Range<usize>, text: &str) -> Self {
        let inside = quoted.start + 1..quoted.end - 1;
        // An escape is longer than what it stands for.
        let is_plain = inside.len() == text.len();
        Self { lane, event, text: inside, is_plain, number: None }
    }

    /// What it says.
    fn read<'e>(&self, events: &'e Bytes) -> Option<Cow<'e, str>> {
        let quoted = events.get(self.text.start.checked_sub(1)?..self.text.end + 1)?;
        match self.is_plain {
            true => std::str::from_utf8(&quoted[1..quoted.len() - 1]).ok().map(Cow::Borrowed),
            false => repeated_events::read(quoted),
        }
    }

    /// The place where `before` more bytes stand in front of the event.
    #[must_use]
    pub fn behind(&self, before: usize) -> Self {
        let later = |range: &Range<usize>| range.start + before..range.end + before;
        Self { event: later(&self.event), text: later(&self.text), ..*self }
    }
}

/// What stands next in a stream.
#[derive(Debug)]
pub enum TappedItem<'e> {
    /// A piece of one text and nothing else: an event like one before it.
    Text(HeardText<'e>),
    Event(TappedEvent),
}

#[derive(Debug)]
pub struct HeardText<'e> {
    pub lane: TextLane,
    pub text: Cow<'e, str>,
    /// Where its event stands.
    pub event: Range<usize>,
}

impl Tap {
    /// A tap for answers of an operation that streams; `None`: nobody knows how its clients read them.
    pub fn new(operation: Operation) -> Option<Self> {
        let dialect = match operation {
            Operation::ChatCompletions | Operation::Completions => TapDialect::Chat(chat::TappedChunks::default()),
            Operation::Messages => TapDialect::Messages(messages::TappedMessages::default()),
            Operation::Responses => TapDialect::Responses(responses::TappedResponses::default()),
            _ => return None,
        };
        Some(Self { dialect, shapes: Shapes::default() })
    }

    /// The event at `at` of whole events, as a translator gives them, and where the next one begins.
    pub fn next<'e>(&mut self, events: &'e Bytes, at: usize) -> Result<(TappedItem<'e>, usize), Untappable> {
        let rest = &events[at..];
        if let Some(fit) = self.shapes.fit(rest) {
            if let (Some(number), TapDialect::Responses(responses)) = (fit.number, &mut self.dialect) {
                responses.counted(number);
            }
            let end = at + fit.length;
            return Ok((TappedItem::Text(HeardText { lane: fit.lane, text: fit.text, event: at..end }), end));
        }
        let length = sse::event_len(rest).unwrap_or(rest.len());
        let event = self.one(events.slice(at..at + length))?;
        self.shapes.learn(&event);
        Ok((TappedItem::Event(event), at + length))
    }

    /// What a translator tells of an event, by the places of all its texts, as if it had been heard here. `None`: this
    /// one wants to hear it itself.
    pub fn read_places<'e>(&mut self, events: &'e Bytes, places: &[TextPlace]) -> Option<TappedItem<'e>> {
        let place = places.first()?;
        match &mut self.dialect {
            TapDialect::Chat(chunks) => chunks.knows(place.lane.choice),
            TapDialect::Messages(messages) => messages.knows(place.lane.part),
            TapDialect::Responses(responses) => responses.knows(place.number),
        }
        .then_some(())?;
        let event = place.event.clone();
        if places.len() == 1 && place.lane.kind != TextKind::Tool {
            return Some(TappedItem::Text(HeardText { lane: place.lane, text: place.read(events)?, event }));
        }
        let bytes = events.get(event.clone()).map(|bytes| events.slice_ref(bytes))?;
        let text = |place: &TextPlace| {
            let span = place.text.start.checked_sub(event.start + 1)?..place.text.end + 1 - event.start;
            Some(TappedText { lane: place.lane, span, text: place.read(events)?.into_owned(), is_echo: false })
        };
        let texts: Vec<_> = places.iter().map(text).collect::<Option<_>>()?;
        let is_call = place.lane.kind == TextKind::Tool;
        Some(TappedItem::Event(TappedEvent { bytes, texts, is_call, ..TappedEvent::default() }))
    }

    /// An event that was heard as a text before, with its places.
    pub fn read_again(&mut self, event: Bytes) -> Result<TappedEvent, Untappable> {
        self.one(event)
    }

    /// Takes whole events, as a translator gives them.
    pub fn read(&mut self, events: &Bytes) -> Result<Vec<TappedEvent>, Untappable> {
        sse::events(events).map(|event| self.one(events.slice_ref(event))).collect()
    }

    fn one(&mut self, bytes: Bytes) -> Result<TappedEvent, Untappable> {
        let Some(data) = sse::data(&bytes) else {
            return Ok(TappedEvent { bytes, is_aside: true, ..TappedEvent::default() });
        };
        // Data of several lines is written in one, so that every text has one place.
        let bytes = match data {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(data) => sse::event(name(&bytes).as_deref(), &data),
        };
        self.event(bytes)
    }

    fn event(&mut self, bytes: Bytes) -> Result<TappedEvent, Untappable> {
        let whole = bytes.clone();
        let Some(Cow::Borrowed(data)) = sse::data(&whole) else { return Err(Untappable) };
        let data = std::str::from_utf8(data).map_err(|_| Untappable)?;
        if data.trim().is_empty() {
            return Ok(TappedEvent { bytes, is_aside: true, ..TappedEvent::default() });
        }
        let mut tapped = TappedEvent { bytes, ..TappedEvent::default() };
        if data.trim() == "[DONE]" {
            (tapped.is_last, tapped.says_more) = (true, true);
            tapped.closed.push(Closed { choice: None, part: None });
            return Ok(tapped);
        }
        let places = json::EventPlaces { start: whole.as_ptr() as usize };
        match &mut self.dialect {
            TapDialect::Chat(chunks) => chunks.read(data, places, &mut tapped),
            TapDialect::Messages(events) => events.read(data, places, &mut tapped),
            TapDialect::Responses(events) => events.read(data, places, &mut tapped),
        }
        .ok_or(Untappable)?;
        Ok(tapped)
    }

    /// Ends the answer as one that a filter has stopped, behind all that went down.
    pub fn refuse(&mut self) -> Bytes {
        match &mut self.dialect {
            TapDialect::Chat(chunks) => chunks.refuse(),
            TapDialect::Messages(events) => events.refuse(),
            TapDialect::Responses(events) => events.refuse(),
        }
    }

    /// An event of the gateway's own, which clients that asked for extras read.
    pub fn aside(&self, json: &str) -> Bytes {
        let name = if matches!(self.dialect, TapDialect::Chat(_)) { None } else { Some("hook_results") };
        sse::event(name, json.as_bytes())
    }
}

/// An event of an answer to `operation`, read for its shape alone.
pub(crate) fn shape(operation: Operation, event: &[u8]) -> Option<TappedEvent> {
    let bytes = Bytes::copy_from_slice(event);
    let Some(Cow::Borrowed(_)) = sse::data(&bytes) else { return None };
    Tap::new(operation)?.event(bytes).ok()
}

fn name(event: &[u8]) -> Option<String> {
    let line = event.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"event:"))?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

#[cfg(test)]
mod tests;
