//! The one `price()`: usage times rates, in whole picodollars, rounded once.

use super::{PriceCard, PriceClass, RateTable, TierRates};
use crate::money::{NanoUsd, PicoRate};
use crate::time::Timestamp;
use crate::usage::{ServiceTier, Usage};

/// What `usage` of a call that began `at` costs: an exact sum, rounded half up to nanodollars once. A provider that
/// tells what it charged is believed before any list, but not before what an admin set.
pub fn price(usage: &Usage, card: Option<&PriceCard>, at: Timestamp) -> Option<NanoUsd> {
    let own = card.is_some_and(|c| c.is_set || c.factors.is_some());
    if let Some(told) = usage.detail.told.filter(|_| !own) {
        return Some(told);
    }
    let tariff = Tariff::of(card?, usage, at);
    // Thousandths of a picodollar: sound is counted in thousandths of a second.
    let mut sum: u128 = 0;
    let mut add = |count: u128, rate: PicoRate| sum = sum.saturating_add(count.saturating_mul(u128::from(rate.0)));
    for (class, count) in counts(usage) {
        if count > 0 {
            let scale = if matches!(class, PriceClass::SecondIn | PriceClass::SecondOut) { 1 } else { 1000 };
            add(u128::from(count) * scale, tariff.rate(class)?);
        }
    }
    if let Some(flat) = tariff.rate(PriceClass::Request) {
        add(1000, flat);
    }
    if usage.images > 0 {
        sum = sum.saturating_add(tariff.pictures(usage)?);
    }
    let own = i64::try_from(sum.saturating_add(500_000) / 1_000_000).ok()?;
    Some(NanoUsd(own.saturating_add(usage.detail.beside.map_or(0, |beside| beside.0))))
}

/// Every class with what was used of it, each unit once.
fn counts(usage: &Usage) -> [(PriceClass, u64); 23] {
    use PriceClass as C;
    let d = usage.detail;
    // A part is never more than what it is part of, whatever a provider says.
    let part = |whole: &mut u64, part: u32| {
        let part = u64::from(part).min(*whole);
        *whole -= part;
        part
    };
    let (mut input, mut output) = (usage.input, usage.output);
    let (mut read, mut written) = (usage.cache_read, usage.cache_write);
    [
        (C::ImageIn, part(&mut input, d.image_in)),
        (C::VideoIn, part(&mut input, d.video_in)),
        (C::Input, input),
        (C::ImageOut, part(&mut output, d.image_out)),
        (C::PredictionAccepted, part(&mut output, d.prediction_accepted)),
        (C::PredictionRejected, part(&mut output, d.prediction_rejected)),
        (C::Output, output),
        (C::AudioCacheRead, part(&mut read, d.audio_cache_read)),
        (C::ImageCacheRead, part(&mut read, d.image_cache_read)),
        (C::CacheRead, read),
        (C::CacheWrite1h, part(&mut written, d.cache_write_1h)),
        (C::CacheWrite, written),
        (C::Reasoning, usage.reasoning),
        (C::AudioIn, usage.audio_in),
        (C::AudioOut, usage.audio_out),
        (C::SecondIn, d.millis_in.into()),
        (C::SecondOut, d.millis_out.into()),
        (C::Character, d.characters.into()),
        (C::Page, d.pages.into()),
        (C::PageAnnotated, d.pages_annotated.into()),
        (C::SearchUnit, d.search_units.into()),
        (C::WebSearch, d.web_searches.into()),
        (C::TrainToken, d.trained.into()),
    ]
}

/// The rates that hold for one call.
struct Tariff<'a> {
    card: &'a PriceCard,
    /// Rates of the standard tier, by the length of the prompt.
    standard: Tables<'a>,
    /// Rates of the tier that served, where that is another one and has rates of its own.
    tier: Option<Tables<'a>>,
    served: ServiceTier,
    dear: Option<&'a RateTable>,
}

#[derive(Clone, Copy)]
struct Tables<'a> {
    base: &'a RateTable,
    /// Where it is there, tokens cost this and nothing else.
    upper: Option<&'a RateTable>,
}

impl<'a> Tables<'a> {
    fn of(rates: &'a TierRates, prompt: u64) -> Self {
        Self { base: &rates.rates, upper: rates.upper(prompt).map(|u| &u.rates) }
    }

    fn get(self, class: PriceClass) -> Option<PicoRate> {
        match self.upper.filter(|_| class.is_token()) {
            Some(upper) => upper.get(class),
            None => self.base.get(class),
        }
    }
}

impl<'a> Tariff<'a> {
    fn of(card: &'a PriceCard, usage: &Usage, at: Timestamp) -> Self {
        let (list, prompt) = (&*card.list, usage.prompt());
        let served = if card.is_set { ServiceTier::Standard } else { usage.detail.tier };
        let tier = list.tier(served).map(|rates| Tables::of(rates, prompt));
        let dear = list.hours.iter().find(|h| h.hold(at)).map(|h| &h.rates);
        Self { card, standard: Tables::of(&list.standard, prompt), tier, served, dear }
    }

    fn rate(&self, class: PriceClass) -> Option<PicoRate> {
        let stand_in = || self.listed(class.stand_in()?);
        let sound = || self.listed(PriceClass::CacheRead).filter(|_| self.card.rate(PriceClass::AudioIn).is_none());
        let rate = match class {
            PriceClass::AudioCacheRead => self.listed(class).or_else(sound)?,
            _ => self.listed(class).or_else(stand_in)?,
        };
        Some(self.card.factors.as_ref().map_or(rate, |factors| factors.apply(class, rate)))
    }

    fn listed(&self, class: PriceClass) -> Option<PicoRate> {
        let plain = || self.standard.get(class);
        match self.served {
            ServiceTier::Standard => self.dear.and_then(|dear| dear.get(class)).or_else(plain),
            _ if !class.is_token() => self.tier.and_then(|t| t.base.get(class)).or_else(plain),
            // Half of what it costs otherwise is what providers ask for a batch.
            ServiceTier::Batch => self.served_rate(class).or_else(|| plain().map(|r| PicoRate(r.0.div_ceil(2)))),
            _ => self.served_rate(class),
        }
    }

    /// A tier of which no rate for long prompts is known has none for them.
    fn served_rate(&self, class: PriceClass) -> Option<PicoRate> {
        let tier = self.tier?;
        if self.standard.upper.is_some() && tier.upper.is_none() {
            return None;
        }
        tier.get(class)
    }

    /// The price of all pictures, in thousandths of a picodollar. A model may be billed by the picture, by its size, by
    /// the steps that it took, or by several of these.
    fn pictures(&self, usage: &Usage) -> Option<u128> {
        let size = usage.detail.picture;
        let (width, height) = (u128::from(size.width), u128::from(size.height));
        let millionths = [
            (PriceClass::Megapixel, width * height),
            (PriceClass::Tile, width.div_ceil(512) * height.div_ceil(512) * 1_000_000),
            (PriceClass::Step, u128::from(usage.detail.steps) * 1_000_000),
        ];
        let mut each = self.picture(usage).map(|rate| u128::from(rate.0) * 1000);
        for (class, count) in millionths {
            let Some(rate) = self.rate(class) else { continue };
            if count == 0 {
                return None;
            }
            *each.get_or_insert(0) += count * u128::from(rate.0) / 1000;
        }
        let is_half = self.served == ServiceTier::Batch && self.card.list.halves_pictures;
        let all = each?.saturating_mul(usage.images.into());
        Some(if is_half { all.div_ceil(2) } else { all })
    }

    fn picture(&self, usage: &Usage) -> Option<PicoRate> {
        let rate = self.card.list.picture(usage.detail.picture)?;
        Some(self.card.factors.as_ref().map_or(rate, |factors| factors.apply_to_picture(rate)))
    }
}

#[cfg(test)]
#[path = "tests/bill.rs"]
mod tests;
