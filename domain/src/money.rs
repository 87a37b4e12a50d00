//! Money without floating point: rates are integer picodollars per unit, amounts integer nanodollars.

use serde::{Deserialize, Serialize};

/// 10^-12 US dollars per unit. 1 USD per million tokens is 1,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PicoRate(pub u64);

/// 10^-9 US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl NanoUsd {
    /// The log API speaks cents.
    #[expect(clippy::cast_precision_loss, reason = "shown to people, never counted with")]
    pub fn cents(self) -> f64 {
        self.0 as f64 / 1e7
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to people, never counted with")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }
}
