//! A row of `data/prices.json`, as it is written there.

use super::card::{DearHours, PictureRate, PriceList, RateTable, TierRates, UpperRates, halves_pictures};
use crate::money::PicoRate;
use crate::time::Timestamp;
use crate::usage::{PictureSize, ServiceTier};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a model is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    #[default]
    Chat,
    Completion,
    Embedding,
    Image,
    Transcription,
    Speech,
    Realtime,
    Rerank,
    Moderation,
    Ocr,
    Video,
}

/// A set of names out of a short list, a bit for each.
macro_rules! set {
    ($(#[$doc:meta])* $name:ident: $($bit:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u8);

        impl $name {
            const NAMES: &'static [&'static str] = &[$($bit),+];

            pub fn iter(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().enumerate().filter(move |(i, _)| (self.0 >> i) & 1 == 1).map(|(_, name)| *name)
            }

            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            fn of(names: &[&str]) -> Self {
                let bit = |name: &&str| Self::NAMES.iter().position(|n| n == name).map_or(0, |i| 1 << i);
                Self(names.iter().map(bit).fold(0, |all, bit| all | bit))
            }
        }
    };
}

set! {
    /// What a model reads or writes.
    Modalities: "text", "image", "audio", "video", "pdf"
}

set! {
    /// What a model can do beyond answering.
    Abilities: "tools", "reasoning", "vision", "caching", "schema", "search", "pdf"
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceRow<'a> {
    pub(super) provider: &'a str,
    pub(super) model: &'a str,
    #[serde(default, borrow)]
    pub(super) also: Vec<&'a str>,
    #[serde(default)]
    pub(super) region: &'a str,
    #[serde(default)]
    pub(super) kind: ModelKind,
    pub(super) name: Option<&'a str>,
    #[serde(default)]
    pub(super) context: u32,
    #[serde(default)]
    pub(super) output: u32,
    #[serde(default, borrow)]
    reads: Vec<&'a str>,
    #[serde(default, borrow)]
    writes: Vec<&'a str>,
    #[serde(default, borrow)]
    can: Vec<&'a str>,
    pub(super) from: Option<&'a str>,
    pub(super) until: Option<&'a str>,
    pub(super) shutdown: Option<&'a str>,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    #[serde(default, rename = "url")]
    _url: IgnoredAny,
    #[serde(rename = "date")]
    _date: IgnoredAny,
    rates: RateTable,
    #[serde(default, borrow)]
    image: BTreeMap<&'a str, BTreeMap<&'a str, PicoRate>>,
    #[serde(default)]
    over: Box<[UpperRates]>,
    #[serde(default)]
    tiers: BTreeMap<ServiceTier, TierRates>,
    #[serde(default, borrow)]
    windows: Vec<RowHours<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowHours<'a> {
    days: Vec<u8>,
    #[serde(borrow)]
    utc: Vec<&'a str>,
    rates: RateTable,
}

impl PriceRow<'_> {
    pub(super) fn reads(&self) -> Modalities {
        Modalities::of(&self.reads)
    }

    pub(super) fn writes(&self) -> Modalities {
        Modalities::of(&self.writes)
    }

    pub(super) fn abilities(&self) -> Abilities {
        Abilities::of(&self.can)
    }

    /// Its rates; `None` where hours cannot be read.
    pub(super) fn list(self) -> Option<PriceList> {
        let sizes =
            self.image.iter().flat_map(|(quality, sizes)| sizes.iter().map(move |(size, rate)| (quality, size, rate)));
        let pictures =
            sizes.map(|(quality, size, rate)| PictureRate { of: PictureSize::named(quality, size), rate: *rate });
        Some(PriceList {
            standard: TierRates { rates: self.rates, over: self.over },
            tiers: self.tiers.into_iter().collect(),
            hours: self.windows.into_iter().map(hours).collect::<Option<_>>()?,
            pictures: pictures.collect(),
            halves_pictures: halves_pictures(self.provider),
        })
    }
}

fn hours(window: RowHours<'_>) -> Option<DearHours> {
    let minute = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        Some(hour.parse::<u16>().ok()? * 60 + minute.parse::<u16>().ok()?)
    };
    let span = |text: &&str| {
        let (from, to) = text.split_once('-')?;
        Some((minute(from)?, minute(to)?))
    };
    let days = window.days.iter().filter(|d| (1..=7).contains(*d)).fold(0, |all, day| all | 1 << (day - 1));
    Some(DearHours { days, minutes: window.utc.iter().map(span).collect::<Option<_>>()?, rates: window.rates })
}

/// Midnight UTC of a day written `2026-11-22`.
pub(super) fn midnight(day: Option<&str>) -> Result<Option<Timestamp>, String> {
    day.map(str::parse).transpose()
}
