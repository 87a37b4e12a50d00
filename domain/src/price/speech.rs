//! Speech whose provider told nothing of what it used: counted by what was to be said and by how long the sound is, in
//! the unit that the model is billed by.

use super::{PriceCard, PriceClass};
use crate::usage::{Usage, UsageDetail};

/// Characters of text that make a token, as a rule of thumb.
const CHARACTERS_A_TOKEN: u64 = 4;
/// Tokens of sound are told by Google as 25 a second (<https://ai.google.dev/gemini-api/docs/audio>); OpenAI's prices
/// by the minute come to 21.
const MILLIS_A_TOKEN: u64 = 40;

/// What is known of speech that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UntoldSpeech {
    /// How long the text is that was to be said.
    pub characters: u32,
    /// How long the sound is, as far as it came, in thousandths of a second.
    pub millis: u32,
}

impl UntoldSpeech {
    /// An estimate that `card` has rates for. Where nothing is known of prices, all that is known of the speech is
    /// told.
    pub fn usage(self, card: Option<&PriceCard>) -> Usage {
        let Self { characters, millis } = self;
        let bills = |class| card.is_some_and(|card| card.rate(class).is_some());
        let plain = Usage { estimated: true, ..Usage::default() };
        let detail = UsageDetail::default();
        if bills(PriceClass::Character) {
            return Usage { detail: UsageDetail { characters, ..detail }, ..plain };
        }
        let input = u64::from(characters).div_ceil(CHARACTERS_A_TOKEN);
        if bills(PriceClass::SecondOut) {
            let input = if bills(PriceClass::Input) { input } else { 0 };
            return Usage { input, detail: UsageDetail { millis_out: millis, ..detail }, ..plain };
        }
        let sound = u64::from(millis).div_ceil(MILLIS_A_TOKEN);
        if bills(PriceClass::AudioOut) {
            return Usage { input, audio_out: sound, ..plain };
        }
        if bills(PriceClass::Output) {
            return Usage { input, output: sound, ..plain };
        }
        Usage { detail: UsageDetail { characters, millis_out: millis, ..detail }, ..plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::NanoUsd;
    use crate::price::{PriceBook, PriceQuery, price};
    use crate::time::Timestamp;

    #[test]
    fn speech_is_estimated_in_the_unit_that_its_model_is_billed_by() {
        let at = Timestamp::from_secs(1_795_000_000);
        let speech = UntoldSpeech { characters: 1_000, millis: 60_000 };
        for (provider, model, nanos) in [
            // Billed by the character, by the second and tokens of text, and by tokens alone.
            ("openai", "tts-1", 15_000_000),
            ("openai", "gpt-4o-mini-tts", 15_000_000 + 150_000),
            ("vertex-ai", "gemini-2.5-flash-tts", 15_000_000 + 125_000),
        ] {
            let query = PriceQuery { provider, model, region: "", at };
            let card = PriceBook::builtin().card(query).expect("a price");
            let usage = speech.usage(Some(card));
            assert!(usage.estimated, "{model}");
            assert_eq!(price(&usage, Some(card), at), Some(NanoUsd(nanos)), "{model}: {usage:?}");
        }
        let unknown = speech.usage(None);
        assert_eq!((unknown.detail.characters, unknown.detail.millis_out), (1_000, 60_000));
        assert_eq!(price(&unknown, None, at), None, "unknown, and not nothing");
    }
}
