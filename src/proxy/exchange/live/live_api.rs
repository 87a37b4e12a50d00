//! What is different in a session of the Live API (`GET /v1/live/sessions`): it has no turns, and is billed by the
//! second of its sound, which the provider tells as a sum from time to time; what the session cannot say itself it asks
//! another model for, whose responses are told inside of its events. All else is as in any session.
//!
//! Events are those of <https://developers.openai.com/api/docs/guides/live-conversations>.

use super::session::LiveSession;
use super::session_validity::LiveStanding;
use super::turns::{LiveTurn, TurnOutcome};
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Operation, Usage};
use gateway_realtime::{ProviderEvent, Tally};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What is counted at a time while a session lasts, so that limits see it.
const AT_ONCE: u32 = 60_000;
/// Longer than sessions last.
const MOST_SECONDS: f64 = 1_000_000.0;

/// Thousandths of a second.
#[derive(Debug, Default)]
pub(super) struct LiveSeconds {
    told: u32,
    counted: u32,
    parts: u32,
}

impl LiveSeconds {
    /// The sum was told, which only grows.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    fn hear(&mut self, seconds: f64) {
        if (0.0..=MOST_SECONDS).contains(&seconds) {
            self.told = self.told.max((seconds * 1000.0).round() as u32);
        }
    }

    /// What is to be counted now, with its number.
    fn take(&mut self, least: u32) -> Option<(u32, u32)> {
        let millis = self.told - self.counted;
        if millis == 0 || millis < least {
            return None;
        }
        self.counted = self.told;
        self.parts += 1;
        Some((millis, self.parts))
    }
}

impl LiveSession<'_, '_, '_> {
    pub(super) fn is_live(&self) -> bool {
        self.gate.request.ask.route.operation == Operation::LiveSession
    }

    /// Whether something of it was counted.
    pub(super) async fn lasted(&mut self, seconds: f64, is_last: bool) -> bool {
        if !self.is_live() {
            return false;
        }
        self.seconds.hear(seconds);
        self.count_seconds(if is_last { 0 } else { AT_ONCE }).await
    }

    /// Counts what was told and is at least so much.
    pub(super) async fn count_seconds(&mut self, least: u32) -> bool {
        let Some((millis_in, part)) = self.seconds.take(least) else { return false };
        let usage = Usage { detail: UsageDetail { millis_in, ..UsageDetail::default() }, ..Usage::default() };
        let (model, id) = (self.model(), format!("audio-{part}"));
        self.count_part(model, part_of(Operation::LiveAudio, usage, (&id, "completed"))).await;
        true
    }

    /// What another model answered, at its own price and once.
    pub(super) async fn delegated(&mut self, event: &RawValue) -> bool {
        let ProviderEvent::ResponseDone { id, status, usage: Some(_), .. } = ProviderEvent::read(event.get()) else {
            return false;
        };
        let (usage, model) = gateway_providers::response_usage(self.opened.provider, event.get().as_bytes());
        let Some(usage) = usage.filter(|_| self.is_live() && self.turns.is_new(&id)) else { return false };
        self.totals.responses += 1;
        self.count_part(model.as_deref().map(Arc::from), part_of(Operation::Responses, usage, (&id, &status))).await;
        true
    }

    async fn count_part(&mut self, model: Option<Arc<str>>, outcome: TurnOutcome<'_>) {
        let Ok(standing) = LiveStanding::new(self.gate, self.live(), self.opened, model) else { return };
        let turn = LiveTurn { standing, holds: None, tally: Tally::default(), prompt: 0 };
        self.settle(turn, outcome).await;
    }
}

fn part_of<'t>(operation: Operation, usage: Usage, (id, status): (&'t str, &'t str)) -> TurnOutcome<'t> {
    TurnOutcome { operation, id, status, usage: Some(usage), told: None, notes: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_a_sum_that_is_counted_once() {
        let mut seconds = LiveSeconds::default();
        for (told, least, counted) in [
            (30.0, AT_ONCE, None),
            (75.5, AT_ONCE, Some((75_500, 1))),
            (75.5, AT_ONCE, None),
            (80.0, AT_ONCE, None),
            (70.0, 0, Some((4_500, 2))),
            (-1.0, 0, None),
            (f64::NAN, 0, None),
            (1e300, 0, None),
        ] {
            seconds.hear(told);
            assert_eq!(seconds.take(least), counted, "{told}");
        }
    }
}
