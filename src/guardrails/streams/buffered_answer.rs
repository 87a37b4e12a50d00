//! Answers that stream and are held whole: their events wait, and go down as they came, or with other texts in their
//! first pieces.

use super::{TargetGuards, Transcript};
use bytes::{Bytes, BytesMut};
use gateway_domain::Operation;
use gateway_guardrails::stream::MOST_HOLD;
use gateway_guardrails::{Content, Direction, GuardrailSubject};
use gateway_providers::tap::{Tap, TappedEvent, TextLane};

/// Events of an answer that is held whole.
#[derive(Debug)]
pub(crate) struct HeldEvents {
    tap: Tap,
    events: Vec<TappedEvent>,
    bytes: usize,
    transcript: Transcript,
    is_unreadable: bool,
}

impl HeldEvents {
    pub(crate) fn new(operation: Operation) -> Option<Self> {
        let (events, transcript) = (Vec::new(), Transcript::default());
        Some(Self { tap: Tap::new(operation)?, events, bytes: 0, transcript, is_unreadable: false })
    }

    /// False: it is longer than what is held.
    pub(crate) fn push(&mut self, events: &Bytes) -> bool {
        self.bytes += events.len();
        match self.tap.read(events) {
            Ok(tapped) => {
                for event in tapped {
                    for text in &event.texts {
                        if !text.is_echo || !self.transcript.has(text.lane) {
                            self.transcript.add(text.lane, &text.text);
                        }
                    }
                    self.events.push(event);
                }
            }
            Err(_) => {
                self.is_unreadable = true;
                self.events.push(TappedEvent::unknown(events.clone()));
            }
        }
        self.bytes <= MOST_HOLD
    }

    /// Bytes that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The answer as a whole, to be judged. What could not be read is judged as what nobody can read.
    pub(crate) fn whole(&self, guarded: &TargetGuards) -> GuardrailSubject {
        let mut subject = guarded.answering(self.transcript.body(guarded.shape), guarded.shape);
        if self.is_unreadable {
            subject.content = Content::new(Bytes::from_static(b"?"), guarded.shape, Direction::Output);
        }
        subject
    }

    /// Gives the events as they came. Where a text was changed, its first piece becomes the whole new text, and the
    /// others are empty.
    pub(crate) fn release(self, rewritten: Option<&Content>) -> Bytes {
        let changed = rewritten.map(|content| self.transcript.read_back(content.body())).unwrap_or_default();
        let mut out = BytesMut::with_capacity(self.bytes);
        let mut begun: Vec<TextLane> = Vec::new();
        for event in self.events {
            let mut is_emptied = false;
            let mut texts: Vec<Option<String>> = Vec::with_capacity(event.texts.len());
            for text in &event.texts {
                let whole = changed.iter().find(|(lane, _)| *lane == text.lane).map(|(_, whole)| whole.clone());
                texts.push(match whole {
                    Some(_) if !text.is_echo && begun.contains(&text.lane) => {
                        is_emptied |= !text.text.is_empty();
                        Some(String::new())
                    }
                    Some(whole) if !text.text.is_empty() || text.is_echo => {
                        begun.push(text.lane);
                        Some(whole)
                    }
                    _ => None,
                });
            }
            let says = (0..texts.len())
                .any(|at| texts[at].as_ref().map_or(!event.texts[at].text.is_empty(), |text| !text.is_empty()));
            if is_emptied && !says && !event.says_more {
                continue;
            }
            out.extend_from_slice(&event.with_texts(texts.iter().map(Option::as_deref)));
        }
        out.freeze()
    }
}

/// The texts of a whole event stream as one answer; `None`: nobody can read it.
pub(crate) fn transcribed(operation: Operation, events: &Bytes, guarded: &TargetGuards) -> Option<Bytes> {
    let mut held = HeldEvents::new(operation)?;
    held.push(events);
    (!held.is_unreadable).then(|| held.transcript.body(guarded.shape))
}
