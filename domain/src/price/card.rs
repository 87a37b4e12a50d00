//! The card of a model: what each class costs, by the tier that served, the length of the prompt and the hour.

use super::PriceClass;
use super::factors::FactorTable;
use crate::money::PicoRate;
use crate::time::Timestamp;
use crate::usage::{PictureQuality, PictureSize, ServiceTier};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::Arc;

/// Rates by class; what is absent is not known. Few classes are known of any model, so they are looked through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateTable(Box<[(PriceClass, PicoRate)]>);

impl RateTable {
    pub fn get(&self, class: PriceClass) -> Option<PicoRate> {
        self.0.iter().find(|(c, _)| *c == class).map(|(_, rate)| *rate)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PriceClass, PicoRate)> {
        self.0.iter().copied()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(PriceClass, PicoRate)> for RateTable {
    fn from_iter<I: IntoIterator<Item = (PriceClass, PicoRate)>>(rates: I) -> Self {
        Self(rates.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for RateTable {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct RatesVisitor;
        impl<'de> Visitor<'de> for RatesVisitor {
            type Value = RateTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("rates by class")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RateTable, M::Error> {
                let mut rates = Vec::with_capacity(8);
                while let Some(entry) = map.next_entry()? {
                    rates.push(entry);
                }
                Ok(RateTable(rates.into()))
            }
        }
        d.deserialize_map(RatesVisitor)
    }
}

/// Rates of the whole request once its prompt, what was read from a cache included, has more tokens than this.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpperRates {
    pub tokens: u64,
    /// These rates hold from `tokens` on, not only above.
    #[serde(default)]
    pub inclusive: bool,
    pub rates: RateTable,
}

/// What one tier costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierRates {
    pub rates: RateTable,
    /// The lowest first.
    #[serde(default)]
    pub over: Box<[UpperRates]>,
}

impl TierRates {
    /// The rates that a prompt of this length is above the base for.
    pub(super) fn upper(&self, prompt: u64) -> Option<&UpperRates> {
        self.over.iter().rev().find(|u| prompt > u.tokens || (u.inclusive && prompt == u.tokens))
    }
}

/// Hours at which other rates hold. Days by bits, Monday the lowest; minutes of the day in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DearHours {
    pub(super) days: u8,
    pub(super) minutes: Box<[(u16, u16)]>,
    pub rates: RateTable,
}

impl DearHours {
    const DAY: i64 = 86_400;

    pub(super) fn hold(&self, at: Timestamp) -> bool {
        let (day, second) = (at.secs().div_euclid(Self::DAY), at.secs().rem_euclid(Self::DAY));
        // The first of January 1970 was a Thursday.
        let weekday = (day + 3).rem_euclid(7);
        let minute = second / 60;
        (self.days >> weekday) & 1 == 1
            && self.minutes.iter().any(|(from, to)| (i64::from(*from)..i64::from(*to)).contains(&minute))
    }
}

/// What a picture of one quality and size costs; either may be the one for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureRate {
    pub of: PictureSize,
    pub rate: PicoRate,
}

/// Whether a provider gives half on all that a batch used, pictures by the piece among it
/// (<https://help.openai.com/en/articles/9197833-batch-api-faq>).
pub fn halves_pictures(provider: &str) -> bool {
    matches!(provider, "openai" | "azure-openai")
}

/// All rates of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceList {
    pub standard: TierRates,
    pub tiers: Box<[(ServiceTier, TierRates)]>,
    pub hours: Box<[DearHours]>,
    pub pictures: Box<[PictureRate]>,
    /// A picture costs half in a batch, as tokens do. Where that is not known of a provider, it costs the usual price.
    pub halves_pictures: bool,
}

impl PriceList {
    pub fn tier(&self, tier: ServiceTier) -> Option<&TierRates> {
        self.tiers.iter().find(|(t, _)| *t == tier).map(|(_, rates)| rates)
    }

    /// The most fitting of: both as asked, the quality, the size, any.
    pub(super) fn picture(&self, asked: PictureSize) -> Option<PicoRate> {
        let any = PictureSize::default();
        let wanted = [
            asked,
            PictureSize { quality: asked.quality, ..any },
            PictureSize { quality: PictureQuality::Default, ..asked },
            any,
        ];
        wanted.iter().find_map(|want| self.pictures.iter().find(|p| p.of == *want)).map(|p| p.rate)
    }
}

/// What a model costs whoever pays by this card. Cheap to copy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceCard {
    pub list: Arc<PriceList>,
    /// What an admin multiplies the rates by.
    pub(super) factors: Option<Arc<FactorTable>>,
    /// Set by an admin: it stands whatever tier served, and before the provider's own figure.
    pub(super) is_set: bool,
}

impl PriceCard {
    /// What everybody pays.
    pub fn public(list: PriceList) -> Self {
        Self { list: Arc::new(list), factors: None, is_set: false }
    }

    /// Rates that an admin set.
    pub fn set(rates: RateTable, pictures: Box<[PictureRate]>) -> Self {
        let standard = TierRates { rates, ..TierRates::default() };
        let list = PriceList { standard, pictures, ..PriceList::default() };
        Self { list: Arc::new(list), factors: None, is_set: true }
    }

    #[must_use]
    pub fn times(self, factors: Option<&Arc<FactorTable>>) -> Self {
        Self { factors: factors.cloned(), ..self }
    }

    /// The rate of a class for a short prompt at the standard tier.
    pub fn rate(&self, class: PriceClass) -> Option<PicoRate> {
        self.list.standard.rates.get(class)
    }
}
