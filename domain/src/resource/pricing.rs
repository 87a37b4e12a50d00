//! Prices that an admin sets: rates of one model, and factors on every rate of an integration.
//! Cents per token in, a [`PriceCard`] out.

use super::Invalid;
use crate::money::PicoRate;
use crate::price::PriceCard;
use serde::{Deserialize, Serialize};

/// Cents per token, image and request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub request_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_token: Option<f64>,
    /// Of every image, whatever its quality and size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<f64>,
    /// The flat part of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<f64>,
}

/// What each rate is multiplied by; `default` where a class has none of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Factors {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_input_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_audio_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_token: Option<f64>,
    /// Of images, whatever their quality and size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<f64>,
}

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
            ("request_audio_token", self.request_audio_token),
            ("response_audio_token", self.response_audio_token),
            ("reasoning_token", self.reasoning_token),
            ("image.default.default", self.image),
            ("additional_units.request", self.request),
        ];
        check(&fields, under, MOST_CENTS)
    }

    /// A class without a rate of its own costs what the plain tokens of its direction do.
    pub fn card(&self) -> PriceCard {
        let (input, output) = (self.request_token, self.response_token);
        PriceCard {
            input: input.map(rate),
            cache_read: self.cache_read_input_token.or(input).map(rate),
            cache_write: self.cache_write_input_token.or(input).map(rate),
            output: output.map(rate),
            reasoning: self.reasoning_token.or(output).map(rate),
            audio_in: self.request_audio_token.or(input).map(rate),
            audio_out: self.response_audio_token.or(output).map(rate),
            image: self.image.map(rate),
            request: self.request.map(rate),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn rate(cents: f64) -> PicoRate {
    PicoRate((cents * PICO_PER_CENT).round() as u64)
}

impl Factors {
    /// As [`Rates::check`].
    pub fn check(&self, under: &str) -> Result<(), Invalid> {
        let fields = [
            ("default", self.default),
            ("request_token", self.request_token),
            ("response_token", self.response_token),
            ("cache_read_input_token", self.cache_read_input_token),
            ("cache_write_input_token", self.cache_write_input_token),
            ("request_audio_token", self.request_audio_token),
            ("response_audio_token", self.response_audio_token),
            ("reasoning_token", self.reasoning_token),
            ("image.default", self.image),
        ];
        check(&fields, under, MOST_FACTOR)
    }

    pub fn apply(&self, card: &PriceCard) -> PriceCard {
        let of = |rate: Option<PicoRate>, own: Option<f64>| rate.map(|r| times(r, own.or(self.default).unwrap_or(1.0)));
        PriceCard {
            input: of(card.input, self.request_token),
            cache_read: of(card.cache_read, self.cache_read_input_token),
            cache_write: of(card.cache_write, self.cache_write_input_token),
            output: of(card.output, self.response_token),
            // Where reasoning costs what output does, a factor of its own parts them.
            reasoning: match self.reasoning_token {
                Some(own) => of(card.reasoning.or(card.output), Some(own)),
                None => of(card.reasoning, None),
            },
            audio_in: of(card.audio_in, self.request_audio_token),
            audio_out: of(card.audio_out, self.response_audio_token),
            image: of(card.image, self.image),
            request: of(card.request, None),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are far below 2^53, and a cast saturates"
)]
fn times(rate: PicoRate, factor: f64) -> PicoRate {
    PicoRate((rate.0 as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_per_token_make_a_card() {
        let rates = Rates { request_token: Some(0.000_25), response_token: Some(0.001), ..Rates::default() };
        let card = rates.card();
        assert_eq!((card.input, card.output), (Some(PicoRate(2_500_000)), Some(PicoRate(10_000_000))));
        assert_eq!((card.cache_read, card.reasoning), (card.input, card.output), "as the plain ones");
        assert_eq!(card.image, None, "unknown stays unknown");
        for (rates, field) in [
            (Rates { request_token: Some(-1.0), ..Rates::default() }, "p.request_token"),
            (Rates { response_token: Some(f64::NAN), ..Rates::default() }, "p.response_token"),
            (Rates { reasoning_token: Some(1e6), ..Rates::default() }, "p.reasoning_token"),
        ] {
            assert_eq!(rates.check("p.").map_err(|e| e.field), Err(field.to_owned()));
        }
    }

    #[test]
    fn factors_fall_back_to_the_default_one() {
        let card = PriceCard { input: Some(PicoRate(100)), output: Some(PicoRate(200)), ..PriceCard::default() };
        let factors = Factors { default: Some(2.0), response_token: Some(0.5), ..Factors::default() };
        let dear = factors.apply(&card);
        assert_eq!((dear.input, dear.output, dear.reasoning), (Some(PicoRate(200)), Some(PicoRate(100)), None));
        let factors = Factors { reasoning_token: Some(3.0), ..Factors::default() };
        assert_eq!(factors.apply(&card).reasoning, Some(PicoRate(600)));
        assert_eq!(Factors::default().apply(&card), card);
    }

    #[test]
    fn every_class_has_a_factor_of_its_own() {
        let rate = |n| Some(PicoRate(n));
        let card = PriceCard {
            input: rate(10),
            cache_read: rate(10),
            cache_write: rate(10),
            output: rate(10),
            reasoning: rate(10),
            audio_in: rate(10),
            audio_out: rate(10),
            image: rate(10),
            request: rate(10),
        };
        let factors = Factors {
            default: Some(2.0),
            request_token: Some(3.0),
            response_token: Some(4.0),
            cache_read_input_token: Some(5.0),
            cache_write_input_token: Some(6.0),
            request_audio_token: Some(7.0),
            response_audio_token: Some(8.0),
            reasoning_token: Some(9.0),
            image: Some(10.0),
        };
        let dear = PriceCard {
            input: rate(30),
            cache_read: rate(50),
            cache_write: rate(60),
            output: rate(40),
            reasoning: rate(90),
            audio_in: rate(70),
            audio_out: rate(80),
            image: rate(100),
            request: rate(20),
        };
        assert_eq!(factors.apply(&card), dear);
    }
}
