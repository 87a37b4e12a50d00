//! What a call used. Classes are disjoint: a token counted as a cache read is not in `input`,
//! a reasoning token is not in `output`. Providers report overlapping numbers; translators split them.

mod detail;

pub use detail::{PictureQuality, PictureSize, ServiceTier, UsageDetail};

use serde::{Deserialize, Serialize};

/// Tokens of either direction that have no bytes in the bodies: as many as fit into the largest models.
const UNSEEN: u64 = 2 * 1024 * 1024;
/// Tokens of one class that an answer may tell: a thousand times what any model takes, and so few that sums of a year
/// hold them.
const MOST_TOKENS: u64 = 1 << 32;
/// Images that one answer may tell; a higher number counts as this one.
const MOST_IMAGES: u64 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    pub reasoning: u64,
    pub audio_in: u64,
    pub audio_out: u64,
    pub images: u64,
    /// Counted or guessed by the gateway, not reported by the provider.
    pub estimated: bool,
    /// What prices look at beside these counts; most calls have none of it.
    #[serde(skip_serializing_if = "UsageDetail::is_plain")]
    pub detail: UsageDetail,
}

impl Usage {
    /// Tokens that went in, of every class.
    pub const fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write + self.audio_in
    }

    /// Tokens that came out, of every class.
    pub const fn completion(&self) -> u64 {
        self.output + self.reasoning + self.audio_out
    }

    pub const fn total(&self) -> u64 {
        self.prompt() + self.completion()
    }

    /// Both together, as of parts of one call that each tell what they used.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            audio_in: self.audio_in.saturating_add(other.audio_in),
            audio_out: self.audio_out.saturating_add(other.audio_out),
            images: self.images.saturating_add(other.images),
            estimated: self.estimated || other.estimated,
            detail: self.detail.plus(other.detail),
        }
    }

    /// Bounds the tokens of each class. For hosts that admins name, which tell what they bill and may err.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let tokens = [
            &mut self.input,
            &mut self.cache_read,
            &mut self.cache_write,
            &mut self.output,
            &mut self.reasoning,
            &mut self.audio_in,
            &mut self.audio_out,
        ];
        tokens.into_iter().for_each(|told| *told = (*told).min(MOST_TOKENS));
        self
    }

    /// Bounds usage to what can be true of a call with bodies of so many bytes: a token has a byte at least, but for
    /// what nobody saw pass by (pictures by address, reasoning that is kept back). For hosts that clients bring, which
    /// say what they like.
    #[must_use]
    pub fn believable(self, sent: u64, received: u64) -> Self {
        let (mut prompt, mut completion) = (sent.saturating_add(UNSEEN), received.saturating_add(UNSEEN));
        let take = |room: &mut u64, told: u64| {
            let taken = told.min(*room);
            *room -= taken;
            taken
        };
        let bounded = Self {
            input: take(&mut prompt, self.input),
            cache_read: take(&mut prompt, self.cache_read),
            cache_write: take(&mut prompt, self.cache_write),
            audio_in: take(&mut prompt, self.audio_in),
            output: take(&mut completion, self.output),
            reasoning: take(&mut completion, self.reasoning),
            audio_out: take(&mut completion, self.audio_out),
            images: self.images.min(MOST_IMAGES),
            estimated: self.estimated,
            detail: self.detail.believable(),
        };
        Self { estimated: self.estimated || bounded != self, ..bounded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_call_are_added_up() {
        use crate::money::NanoUsd;
        let drawn = |beside, tier| UsageDetail { image_out: 40, beside, tier, ..UsageDetail::default() };
        let part = |detail| Usage { input: 5, output: 40, images: 1, detail, ..Usage::default() };
        let first = part(drawn(Some(NanoUsd(7)), ServiceTier::Standard));
        let both = first.plus(part(drawn(Some(NanoUsd(4)), ServiceTier::Standard)));
        assert_eq!((both.input, both.output, both.images, both.estimated), (10, 80, 2, false));
        assert_eq!((both.detail.image_out, both.detail.beside), (80, Some(NanoUsd(11))));
        let unknown = part(drawn(None, ServiceTier::Unknown)).plus(first);
        assert_eq!((unknown.detail.beside, unknown.detail.tier), (Some(NanoUsd(7)), ServiceTier::Unknown));
    }

    #[test]
    fn what_cannot_be_true_is_not_believed() {
        let honest = Usage { input: 70_000, cache_read: 3_000, output: 900, images: 2, ..Usage::default() };
        assert_eq!(honest.believable(4_000, 10_000), honest);
        let wild = Usage { input: u64::MAX, cache_read: u64::MAX, reasoning: u64::MAX, images: 9_999, ..honest };
        let bounded = wild.believable(1_000, 2_000);
        assert!(bounded.estimated && bounded.images == MOST_IMAGES);
        assert_eq!((bounded.prompt(), bounded.completion()), (1_000 + UNSEEN, 2_000 + UNSEEN));
        assert_eq!((bounded.input, bounded.cache_read), (1_000 + UNSEEN, 0));
        assert_eq!(honest.bounded(), honest);
        assert_eq!((wild.bounded().total(), wild.bounded().images), (3 * MOST_TOKENS + 900, 9_999));
    }
}
