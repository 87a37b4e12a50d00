//! What an admin multiplies rates by: parts of a million, so that money stays whole.

use super::PriceClass;
use crate::money::PicoRate;

const WHOLE: u128 = 1_000_000;

/// Factors by class, one for pictures, and one for all that have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactorTable {
    classes: Box<[(PriceClass, u64)]>,
    pictures: u64,
    default: u64,
}

impl FactorTable {
    /// The numbers must have been checked to lie in a range without surprises.
    pub fn new(classes: impl IntoIterator<Item = (PriceClass, f64)>, pictures: Option<f64>, default: f64) -> Self {
        Self {
            classes: classes.into_iter().map(|(class, factor)| (class, parts(factor))).collect(),
            pictures: parts(pictures.unwrap_or(default)),
            default: parts(default),
        }
    }

    pub(super) fn apply(&self, class: PriceClass, rate: PicoRate) -> PicoRate {
        let own = self.classes.iter().find(|(c, _)| *c == class).map(|(_, factor)| *factor);
        times(rate, own.unwrap_or(self.default))
    }

    pub(super) fn apply_to_picture(&self, rate: PicoRate) -> PicoRate {
        times(rate, self.pictures)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates, and NaN is nothing")]
fn parts(factor: f64) -> u64 {
    (factor * 1e6).round() as u64
}

fn times(rate: PicoRate, parts: u64) -> PicoRate {
    let product = (u128::from(rate.0) * u128::from(parts) + WHOLE / 2) / WHOLE;
    PicoRate(u64::try_from(product).unwrap_or(u64::MAX))
}
