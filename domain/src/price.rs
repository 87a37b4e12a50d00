//! The price card of a model and the one `price()`.
//! Unknown stays unknown: a class that was used but has no rate makes the whole cost `None`, never zero.

use crate::money::{NanoUsd, PicoRate};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Rates per token (or per image) of one model; `None` is "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriceCard {
    pub input: Option<PicoRate>,
    pub cache_read: Option<PicoRate>,
    pub cache_write: Option<PicoRate>,
    pub output: Option<PicoRate>,
    /// Falls back to `output`, as every provider so far bills it.
    pub reasoning: Option<PicoRate>,
    pub audio_in: Option<PicoRate>,
    pub audio_out: Option<PicoRate>,
    pub image: Option<PicoRate>,
    /// Flat part of every request.
    pub request: Option<PicoRate>,
}

/// What `usage` costs by `card`: exact sum in picodollars, rounded half up to nanodollars once.
pub fn price(usage: &Usage, card: &PriceCard) -> Option<NanoUsd> {
    let classes = [
        (usage.input, card.input),
        (usage.cache_read, card.cache_read),
        (usage.cache_write, card.cache_write),
        (usage.output, card.output),
        (usage.reasoning, card.reasoning.or(card.output)),
        (usage.audio_in, card.audio_in),
        (usage.audio_out, card.audio_out),
        (usage.images, card.image),
    ];
    let mut pico: u128 = u128::from(card.request.map_or(0, |r| r.0));
    for (count, rate) in classes {
        if count > 0 {
            pico += u128::from(count) * u128::from(rate?.0);
        }
    }
    i64::try_from((pico + 500) / 1000).ok().map(NanoUsd)
}

/// One row of `data/prices.json`.
#[derive(Debug, Deserialize)]
struct Row {
    provider: String,
    model: String,
    #[expect(dead_code, reason = "kept beside the figure for whoever checks it")]
    source: String,
    #[expect(dead_code, reason = "kept beside the figure for whoever checks it")]
    date: String,
    card: PriceCard,
}

/// The prices that ship with the gateway, by provider and model.
#[derive(Debug, Default)]
pub struct PriceBook(HashMap<String, HashMap<String, PriceCard>>);

impl PriceBook {
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let rows: Vec<Row> = serde_json::from_str(json)?;
        let mut book: HashMap<String, HashMap<String, PriceCard>> = HashMap::new();
        for r in rows {
            book.entry(r.provider).or_default().insert(r.model, r.card);
        }
        Ok(Self(book))
    }

    pub fn builtin() -> &'static Self {
        static BOOK: LazyLock<PriceBook> =
            LazyLock::new(|| PriceBook::parse(include_str!("../data/prices.json")).unwrap_or_default());
        &BOOK
    }

    /// Models of a provider that have a price, in no order.
    pub fn models(&self, provider: &str) -> impl Iterator<Item = &str> {
        self.0.get(provider).into_iter().flat_map(|m| m.keys().map(String::as_str))
    }

    /// A dated snapshot (`gpt-4o-2024-08-06`, `claude-sonnet-4-20250514`) costs what its family does.
    pub fn card(&self, provider: &str, model: &str) -> Option<&PriceCard> {
        let models = self.0.get(provider)?;
        models.get(model).or_else(|| models.get(undated(model)?))
    }
}

/// The family of a dated snapshot of a model.
pub(crate) fn undated(model: &str) -> Option<&str> {
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let (head, tail) = model.rsplit_once('-')?;
    if digits(tail, 8) {
        return Some(head);
    }
    let (head, month) = head.rsplit_once('-')?;
    let (head, year) = head.rsplit_once('-')?;
    (digits(tail, 2) && digits(month, 2) && digits(year, 4)).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> PriceCard {
        PriceCard {
            input: Some(PicoRate(2_500_000)),
            cache_read: Some(PicoRate(1_250_000)),
            output: Some(PicoRate(10_000_000)),
            ..PriceCard::default()
        }
    }

    #[test]
    fn each_class_has_a_rate_of_its_own() {
        let rate = |n: u64| Some(PicoRate(n * 1_000));
        let all = PriceCard {
            input: rate(1),
            cache_read: rate(10),
            cache_write: rate(100),
            output: rate(1_000),
            reasoning: rate(10_000),
            audio_in: rate(100_000),
            audio_out: rate(1_000_000),
            image: rate(10_000_000),
            request: rate(100_000_000),
        };
        let none = Usage::default();
        let mut whole = 100_000_000;
        assert_eq!(price(&none, &all), Some(NanoUsd(whole)), "a request costs what it costs, though nothing be used");
        for (used, nanos) in [
            (Usage { input: 2, ..none }, 2),
            (Usage { cache_read: 3, ..none }, 30),
            (Usage { cache_write: 4, ..none }, 400),
            (Usage { output: 5, ..none }, 5_000),
            (Usage { reasoning: 6, ..none }, 60_000),
            (Usage { audio_in: 7, ..none }, 700_000),
            (Usage { audio_out: 8, ..none }, 8_000_000),
            (Usage { images: 9, ..none }, 90_000_000),
        ] {
            assert_eq!(price(&used, &all), Some(NanoUsd(nanos + 100_000_000)), "{used:?}");
            assert_eq!(price(&used, &PriceCard { request: rate(1), ..PriceCard::default() }), None, "{used:?}");
            whole += nanos;
        }
        let used = Usage {
            input: 2,
            cache_read: 3,
            cache_write: 4,
            output: 5,
            reasoning: 6,
            audio_in: 7,
            audio_out: 8,
            images: 9,
            estimated: true,
        };
        assert_eq!(price(&used, &all), Some(NanoUsd(whole)));
    }

    #[test]
    fn one_rounding_over_the_sum() {
        let u = Usage { input: 1, cache_read: 1, ..Usage::default() };
        assert_eq!(price(&u, &card()), Some(NanoUsd(3_750)));
        let third = PriceCard { input: Some(PicoRate(333)), output: Some(PicoRate(333)), ..PriceCard::default() };
        let u = Usage { input: 1, output: 1, ..Usage::default() };
        assert_eq!(price(&u, &third), Some(NanoUsd(1)), "666 pico rounds once, not 0 + 0");
    }

    #[test]
    fn unknown_class_makes_unknown_cost() {
        let u = Usage { input: 10, audio_in: 1, ..Usage::default() };
        assert_eq!(price(&u, &card()), None);
        assert_eq!(price(&Usage::default(), &card()), Some(NanoUsd(0)));
    }

    #[test]
    fn reasoning_is_billed_as_output() {
        let u = Usage { reasoning: 2, ..Usage::default() };
        assert_eq!(price(&u, &card()), Some(NanoUsd(20_000)));
    }

    #[test]
    fn dated_models_find_their_family() {
        assert_eq!(undated("gpt-4o-2024-08-06"), Some("gpt-4o"));
        assert_eq!(undated("claude-sonnet-4-20250514"), Some("claude-sonnet-4"));
        assert_eq!(undated("gpt-4o"), None);
        assert!(PriceBook::builtin().card("openai", "gpt-4o").is_some(), "the data file parses");
    }
}
