//! Prices that an admin sets: rates of one model, and factors on every rate of an integration.
//! Cents per token and unit in, a [`PriceCard`] out.

use super::Invalid;
use crate::money::PicoRate;
use crate::price::{FactorTable, PictureRate, PriceCard, PriceClass};
use crate::usage::{PictureQuality, PictureSize};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Cents per token, image, request and unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_input_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_audio_input_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_token: Option<f64>,
    /// The rate for every image that no line of `pictures` is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<f64>,
    /// The rate of an image by its quality, then by its size; `default` stands for all others of either.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pictures: BTreeMap<String, BTreeMap<String, f64>>,
    /// The flat part of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<f64>,
    /// The rate of each unit, by a name of [`UNITS`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, f64>,
}

/// What each rate is multiplied by; `default` where a class has none of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Factors {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<f64>,
    /// The factor of each class of tokens, by a name of [`TOKENS`].
    #[serde(flatten, deserialize_with = "known")]
    pub tokens: BTreeMap<String, f64>,
    /// The factor for images, whatever their quality and size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<f64>,
    /// The factor of each unit, by a name of [`UNITS`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_units: BTreeMap<String, f64>,
}

/// What this version knows of what lies there: a newer one may have put more.
fn known<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let all = BTreeMap::<String, Value>::deserialize(d)?;
    let own = |(name, factor): (String, Value)| Some((name, factor.as_f64()?));
    Ok(all.into_iter().filter_map(own).filter(|(name, _)| TOKENS.iter().any(|(known, _)| known == name)).collect())
}

/// A name that clients know, and what it stands for.
type NamedClass = (&'static str, PriceClass);

/// Classes of tokens that a factor may be set for. `…_token` is the text that is left when the others are taken off.
pub const TOKENS: &[NamedClass] = &[
    ("request_token", PriceClass::Input),
    ("request_text_token", PriceClass::Input),
    ("response_token", PriceClass::Output),
    ("response_text_token", PriceClass::Output),
    ("cache_read_input_token", PriceClass::CacheRead),
    ("cache_read_text_input_token", PriceClass::CacheRead),
    ("cache_write_input_token", PriceClass::CacheWrite),
    ("cache_write_text_input_token", PriceClass::CacheWrite),
    ("cache_read_audio_input_token", PriceClass::AudioCacheRead),
    ("cache_read_image_input_token", PriceClass::ImageCacheRead),
    ("request_audio_token", PriceClass::AudioIn),
    ("response_audio_token", PriceClass::AudioOut),
    ("request_image_token", PriceClass::ImageIn),
    ("response_image_token", PriceClass::ImageOut),
    ("reasoning_token", PriceClass::Reasoning),
    ("prediction_accepted_token", PriceClass::PredictionAccepted),
    ("prediction_rejected_token", PriceClass::PredictionRejected),
];

/// What is counted beside tokens, and told of calls.
pub const UNITS: &[NamedClass] = &[
    ("request", PriceClass::Request),
    ("web_search", PriceClass::WebSearch),
    ("search_unit", PriceClass::SearchUnit),
    ("second_in", PriceClass::SecondIn),
    ("second_out", PriceClass::SecondOut),
    ("character", PriceClass::Character),
    ("page", PriceClass::Page),
    ("megapixel", PriceClass::Megapixel),
    ("tile", PriceClass::Tile),
    ("step", PriceClass::Step),
    ("train_token", PriceClass::TrainToken),
];

/// 10^-12 dollars in a cent.
const PICO_PER_CENT: f64 = 1e10;
/// A thousand dollars a token: keeps products of rates and counts far within 128 bits.
const MOST_CENTS: f64 = 1e5;
const MOST_FACTOR: f64 = 1e4;

fn check(fields: &[(&str, Option<f64>)], under: &str, most: f64) -> Result<(), Invalid> {
    let wrong = |v: f64| !(0.0..=most).contains(&v);
    match fields.iter().find(|(_, v)| v.is_some_and(wrong)) {
        Some((name, _)) => Err(Invalid::new(format!("{under}{name}"), format!("must be in 0..{most}"))),
        None => Ok(()),
    }
}

impl Rates {
    /// `under`: where they stand in the body, with a dot at its end.
    pub fn check(&self, under: &str) -> Result<(), Invalid> {
        let fields = [
            ("request_token", self.request_token),
            ("response_token", self.response_token),
            ("cache_read_input_token", self.cache_read_input_token),
            ("cache_write_input_token", self.cache_write_input_token),
            ("cache_read_audio_input_token", self.cache_read_audio_input_token),
            ("request_audio_token", self.request_audio_token),
            ("response_audio_token", self.response_audio_token),
            ("reasoning_token", self.reasoning_token),
            ("image.default.default", self.image),
            ("additional_units.request", self.request),
        ];
        check(&fields, under, MOST_CENTS)?;
        check_units(&self.units, under, MOST_CENTS)?;
        for (quality, sizes) in &self.pictures {
            if quality != "default" && PictureQuality::named(quality) == PictureQuality::Default {
                let rule = "must be one of default, low, medium, high, standard, hd";
                return Err(Invalid::new(format!("{under}image.{quality}"), rule));
            }
            for (size, cents) in sizes {
                let field = format!("image.{quality}.{size}");
                if size != "default" && PictureSize::named("", size).width == 0 {
                    return Err(Invalid::new(format!("{under}{field}"), "must be default or a size such as 1024x1024"));
                }
                check(&[(&field, Some(*cents))], under, MOST_CENTS)?;
            }
        }
        Ok(())
    }

    /// A class without a rate of its own costs what the plain tokens of its direction do.
    pub fn card(&self) -> PriceCard {
        let (input, output) = (self.request_token, self.response_token);
        let read = self.cache_read_input_token.or(input);
        let written = self.cache_write_input_token.or(input);
        let classes = [
            (PriceClass::Input, input),
            (PriceClass::CacheRead, read),
            (PriceClass::CacheWrite, written),
            (PriceClass::CacheWrite1h, written),
            (PriceClass::AudioCacheRead, self.cache_read_audio_input_token.or(read)),
            (PriceClass::Output, output),
            (PriceClass::Reasoning, self.reasoning_token.or(output)),
            (PriceClass::AudioIn, self.request_audio_token.or(input)),
            (PriceClass::AudioOut, self.response_audio_token.or(output)),
            (PriceClass::Request, self.request),
        ];
        let units = UNITS.iter().map(|(name, class)| (*class, self.units.get(*name).copied()));
        let known = classes.into_iter().chain(units).filter_map(|(class, cents)| Some((class, rate(cents?))));
        PriceCard::set(known.collect(), self.picture_rates())
    }

    fn picture_rates(&self) -> Box<[PictureRate]> {
        let any = self.image.map(|cents| PictureRate { of: PictureSize::default(), rate: rate(cents) });
        let lines = self.pictures.iter().flat_map(|(quality, sizes)| {
            sizes.iter().map(|(size, cents)| PictureRate { of: PictureSize::named(quality, size), rate: rate(*cents) })
        });
        lines.chain(any).collect()
    }
}

fn check_units(units: &BTreeMap<String, f64>, under: &str, most: f64) -> Result<(), Invalid> {
    for (name, value) in units {
        let field = format!("additional_units.{name}");
        if !UNITS.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
            return Err(Invalid::new(format!("{under}{field}"), format!("must be one of {}", known.join(", "))));
        }
        check(&[(&field, Some(*value))], under, most)?;
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn rate(cents: f64) -> PicoRate {
    PicoRate((cents * PICO_PER_CENT).round() as u64)
}

impl Factors {
    /// Whether all factors are in range. `under`: where they stand in the body, with a dot at its end.
    pub fn check(&self, under: &str) -> Result<(), Invalid> {
        check(&[("default", self.default), ("image.default", self.image)], under, MOST_FACTOR)?;
        for (name, factor) in &self.tokens {
            check(&[(name, Some(*factor))], under, MOST_FACTOR)?;
        }
        check_units(&self.additional_units, under, MOST_FACTOR)
    }

    /// The factors by class. A name for the text of a direction goes before one for all tokens of that direction.
    pub fn table(&self) -> FactorTable {
        let own = |class: PriceClass| {
            let names = TOKENS.iter().filter(move |(_, c)| *c == class).rev();
            names.filter_map(|(name, _)| self.tokens.get(*name)).copied().next()
        };
        let of = |class: PriceClass| match class {
            // An hour of keeping is a cache write as well.
            PriceClass::CacheWrite1h => own(PriceClass::CacheWrite),
            PriceClass::AudioCacheRead | PriceClass::ImageCacheRead => {
                own(class).or_else(|| self.tokens.get("cache_read_input_token").copied())
            }
            PriceClass::ImageIn | PriceClass::VideoIn => {
                own(class).or_else(|| self.tokens.get("request_token").copied())
            }
            PriceClass::ImageOut | PriceClass::PredictionAccepted | PriceClass::PredictionRejected => {
                own(class).or_else(|| self.tokens.get("response_token").copied())
            }
            _ => own(class),
        };
        let more = [PriceClass::CacheWrite1h, PriceClass::VideoIn];
        let tokens = TOKENS.iter().map(|(_, class)| *class).chain(more);
        let tokens = tokens.filter_map(|class| Some((class, of(class)?)));
        let units = UNITS.iter().filter_map(|(name, class)| Some((*class, *self.additional_units.get(*name)?)));
        FactorTable::new(tokens.chain(units), self.image, self.default.unwrap_or(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::price::price;
    use crate::time::Timestamp;
    use crate::usage::{Usage, UsageDetail};

    fn pico(card: &PriceCard, class: PriceClass) -> Option<u64> {
        card.rate(class).map(|rate| rate.0)
    }

    #[test]
    fn cents_per_token_make_a_card() {
        let rates = Rates { request_token: Some(0.000_25), response_token: Some(0.001), ..Rates::default() };
        let card = rates.card();
        let of = |class| pico(&card, class);
        assert_eq!((of(PriceClass::Input), of(PriceClass::Output)), (Some(2_500_000), Some(10_000_000)));
        assert_eq!((of(PriceClass::CacheRead), of(PriceClass::Reasoning)), (Some(2_500_000), Some(10_000_000)));
        assert_eq!(of(PriceClass::WebSearch), None, "unknown stays unknown");
        for (rates, field) in [
            (Rates { request_token: Some(-1.0), ..Rates::default() }, "p.request_token"),
            (Rates { response_token: Some(f64::NAN), ..Rates::default() }, "p.response_token"),
            (Rates { reasoning_token: Some(1e6), ..Rates::default() }, "p.reasoning_token"),
            (Rates { units: [("moons".to_owned(), 1.0)].into(), ..Rates::default() }, "p.additional_units.moons"),
        ] {
            assert_eq!(rates.check("p.").map_err(|e| e.field), Err(field.to_owned()));
        }
    }

    /// Nanodollars of a thousand units of one class, at a cent for ten of them, times what the factors say.
    fn times(factors: &Factors, usage: Usage) -> i64 {
        let units: BTreeMap<String, f64> = UNITS.iter().map(|(name, _)| ((*name).to_owned(), 0.1)).collect();
        let rates = Rates {
            request: None,
            ..Rates { request_token: Some(0.1), response_token: Some(0.1), units, ..Rates::default() }
        };
        let plain = Rates { units: rates.units.into_iter().filter(|(name, _)| name != "request").collect(), ..rates };
        let card = plain.card().times(Some(&std::sync::Arc::new(factors.table())));
        price(&usage, Some(&card), Timestamp(0)).expect("known").0 / 1_000_000_000
    }

    #[test]
    fn every_class_has_a_factor_of_its_own() {
        let detail = |detail| Usage { detail, ..Usage::default() };
        let none = UsageDetail::default();
        for (name, usage) in [
            ("request_token", Usage { input: 1000, ..Usage::default() }),
            ("request_text_token", Usage { input: 1000, ..Usage::default() }),
            ("response_token", Usage { output: 1000, ..Usage::default() }),
            ("response_text_token", Usage { output: 1000, ..Usage::default() }),
            ("cache_read_input_token", Usage { cache_read: 1000, ..Usage::default() }),
            ("cache_read_text_input_token", Usage { cache_read: 1000, ..Usage::default() }),
            ("cache_write_input_token", Usage { cache_write: 1000, ..Usage::default() }),
            ("cache_write_text_input_token", Usage { cache_write: 1000, ..Usage::default() }),
            (
                "cache_read_audio_input_token",
                Usage { cache_read: 1000, ..detail(UsageDetail { audio_cache_read: 1000, ..none }) },
            ),
            (
                "cache_read_image_input_token",
                Usage { cache_read: 1000, ..detail(UsageDetail { image_cache_read: 1000, ..none }) },
            ),
            ("request_audio_token", Usage { audio_in: 1000, ..Usage::default() }),
            ("response_audio_token", Usage { audio_out: 1000, ..Usage::default() }),
            ("request_image_token", Usage { input: 1000, ..detail(UsageDetail { image_in: 1000, ..none }) }),
            ("response_image_token", Usage { output: 1000, ..detail(UsageDetail { image_out: 1000, ..none }) }),
            ("reasoning_token", Usage { reasoning: 1000, ..Usage::default() }),
            (
                "prediction_accepted_token",
                Usage { output: 1000, ..detail(UsageDetail { prediction_accepted: 1000, ..none }) },
            ),
            (
                "prediction_rejected_token",
                Usage { output: 1000, ..detail(UsageDetail { prediction_rejected: 1000, ..none }) },
            ),
        ] {
            let own = Factors { default: Some(2.0), tokens: [(name.to_owned(), 7.0)].into(), ..Factors::default() };
            let other = Factors { default: Some(2.0), ..Factors::default() };
            assert_eq!((times(&own, usage), times(&other, usage)), (7, 2), "{name}");
        }
        for (name, usage) in [
            ("web_search", detail(UsageDetail { web_searches: 1000, ..none })),
            ("search_unit", detail(UsageDetail { search_units: 1000, ..none })),
            ("second_in", detail(UsageDetail { millis_in: 1_000_000, ..none })),
            ("second_out", detail(UsageDetail { millis_out: 1_000_000, ..none })),
            ("character", detail(UsageDetail { characters: 1000, ..none })),
            ("page", detail(UsageDetail { pages: 1000, ..none })),
        ] {
            let own = Factors { additional_units: [(name.to_owned(), 7.0)].into(), ..Factors::default() };
            assert_eq!((times(&own, usage), times(&Factors::default(), usage)), (7, 1), "{name}");
        }
    }

    #[test]
    fn documents_of_earlier_versions_are_read() {
        let rates: Rates = serde_json::from_str(r#"{"request_token":0.1,"image":4.0,"request":0.5}"#).expect("reads");
        assert_eq!((rates.request_token, rates.image, rates.request), (Some(0.1), Some(4.0), Some(0.5)));
        let factors: Factors =
            serde_json::from_str(r#"{"default":2.0,"reasoning_token":3.0,"image":4.0}"#).expect("reads");
        assert_eq!((factors.default, factors.image), (Some(2.0), Some(4.0)));
        assert_eq!(factors.tokens.get("reasoning_token"), Some(&3.0));
        assert_eq!(serde_json::to_value(&factors).expect("writes")["reasoning_token"], 3.0);
    }
}
