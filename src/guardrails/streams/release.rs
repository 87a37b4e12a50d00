//! Lets events go that were judged: as they came, or with other texts in the places of those that a guardrail took out.
//! Knows nothing of why.

use super::{HeldEvent, QueuedEvent, QueuedText, StreamJudge};
use bytes::Bytes;
use gateway_guardrails::stream::Released;
use gateway_providers::tap::TextKind;

impl StreamJudge {
    pub(super) fn release_ready(&mut self) {
        while let Some(released) = self.guard.as_mut().and_then(|guard| guard.take_next()) {
            self.release(released);
        }
    }

    fn release(&mut self, released: Released<QueuedEvent>) {
        self.queued_bytes -= match &released.event {
            QueuedEvent::Event(held) => held.event.bytes.len(),
            QueuedEvent::Text(queued) => queued.event.len(),
        };
        let held = match released.event {
            QueuedEvent::Event(held) => *held,
            QueuedEvent::Text(queued) if !released.is_touched => {
                self.has_text_left |= queued.says;
                self.out.pass(&queued.events, queued.event);
                return self.note_released(queued.lane, &queued.text);
            }
            QueuedEvent::Text(QueuedText { events, event, .. }) => {
                // It was like one that was read, so that it can be.
                let Ok(event) = self.tap.read_again(events.slice(event)) else { return };
                HeldEvent { event, arguments: vec![None], judged: vec![true] }
            }
        };
        self.release_read(held, released.texts);
    }

    fn release_read(&mut self, held: HeldEvent, texts: Vec<String>) {
        let HeldEvent { event, arguments, judged } = held;
        let mut pieces = texts.into_iter();
        let mut texts: Vec<Option<String>> = Vec::with_capacity(event.texts.len());
        for ((tapped, heard), arguments) in event.texts.iter().zip(&judged).zip(arguments) {
            texts.push(match (heard, tapped.lane.kind) {
                (true, TextKind::Tool) => arguments,
                (true, _) => {
                    let text = pieces.next().unwrap_or_default();
                    self.note_released(tapped.lane, &text);
                    Some(text)
                }
                (false, _) if self.is_told_lost => None,
                (false, _) => self.told.iter().find(|(lane, _)| *lane == tapped.lane).map(|(_, told)| told.clone()),
            });
        }
        let now_says = |at: usize| texts[at].as_ref().map_or(!event.texts[at].text.is_empty(), |text| !text.is_empty());
        let said = event.texts.iter().any(|text| !text.text.is_empty());
        let says = (0..texts.len()).any(now_says);
        if said && !says && !event.says_more {
            return;
        }
        self.has_text_left |= says || event.is_last;
        let bytes = event.with_texts(texts.iter().map(Option::as_deref));
        self.leave(bytes, event.is_last);
    }

    pub(super) fn leave(&mut self, event: Bytes, is_last: bool) {
        if is_last { self.last.extend_from_slice(&event) } else { self.out.add(event) }
    }
}
