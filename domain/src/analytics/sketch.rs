//! Quantiles of many numbers in little room, by the idea of `DDSketch` (Masson, Rim, Lee: "DDSketch: A Fast and
//! Fully-Mergeable Quantile Sketch", VLDB 2019): numbers are counted in bins that grow by a constant factor, so that
//! any quantile is within 1 % of a number that is there. Two sketches are merged by adding their counts, in any order.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The relative error that a quantile may have at most.
const ACCURACY: f64 = 0.01;
/// Larger numbers are counted as this one. In microseconds it is almost 13 days, and the last bin is number 1,387.
const LARGEST: u64 = 1 << 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    bins: BTreeMap<u16, i64>,
}

fn gamma() -> f64 {
    (1.0 + ACCURACY) / (1.0 - ACCURACY)
}

impl Sketch {
    pub fn add(&mut self, number: u64) {
        *self.bins.entry(bin(number)).or_default() += 1;
    }

    /// Where a number lies: an engine that counts these by itself has counted what a sketch counts.
    pub fn bin(number: u64) -> u16 {
        bin(number)
    }

    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in &other.bins {
            *self.bins.entry(*bin).or_default() += count;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// `part` of 0 to 1; `None` of nothing.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let all: i64 = self.bins.values().sum();
        let last = self.bins.last_key_value().map(|(bin, _)| *bin)?;
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a rank among counted calls")]
        let rank = (part.clamp(0.0, 1.0) * (all - 1) as f64).floor() as i64;
        let mut seen = 0;
        let found = self.bins.iter().find(|(_, count)| {
            seen += **count;
            seen > rank
        });
        Some(middle(found.map_or(last, |(bin, _)| *bin)))
    }

    /// `bin:count` with commas. Such texts put behind one another with a comma are the text of both together.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.bins.len() * 8);
        for (bin, count) in &self.bins {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{bin}:{count}");
        }
        text
    }

    /// Adds what a text says. What cannot be read is left out.
    pub fn add_text(&mut self, text: &str) {
        for part in text.split(',') {
            let Some((bin, count)) = part.split_once(':') else { continue };
            if let (Ok(bin), Ok(count)) = (bin.parse::<u16>(), count.parse::<i64>()) {
                *self.bins.entry(bin).or_default() += count;
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 1,387, and never below 0"
)]
fn bin(number: u64) -> u16 {
    ((number.clamp(1, LARGEST) as f64).ln() / gamma().ln()).ceil() as u16
}

/// What a bin stands for: as far from its lower end as from its upper one, in parts of itself.
fn middle(bin: u16) -> f64 {
    gamma().powi(i32::from(bin)) * 2.0 / (gamma() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent_however_they_were_merged(
            numbers in prop::collection::vec(1_u64..10_000_000_000, 1..300), cut in 0_usize..300, part in 0.0_f64..=1.0,
        ) {
            let cut = cut.min(numbers.len());
            let (mut one, mut other) = (Sketch::default(), Sketch::default());
            numbers[..cut].iter().for_each(|n| one.add(*n));
            numbers[cut..].iter().for_each(|n| other.add(*n));
            one.add_text(&other.text());
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let want = sorted[(part * (sorted.len() - 1) as f64).floor() as usize] as f64;
            let got = one.quantile(part).expect("numbers");
            prop_assert!((got - want).abs() <= want * (ACCURACY + 1e-9), "{got} for {want}");
            let mut back = Sketch::default();
            back.add_text(&one.text());
            prop_assert_eq!(back, one);
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_extremes_have_bins() {
        let mut sketch = Sketch::default();
        assert_eq!(sketch.quantile(0.5), None);
        sketch.add_text("x,1:y,7,:,70000:1");
        assert!(sketch.is_empty());
        sketch.add(0);
        sketch.add(u64::MAX);
        assert!(sketch.quantile(0.0) < Some(1.1) && sketch.quantile(1.0) > Some(1e12));
    }
}
