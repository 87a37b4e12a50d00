//! Pictures that come as vectors: another model draws those, and what it takes is charged beside the picture.

use crate::wire::usage::OpenAiUsage;
use crate::wire::{JsonStr, read, speaks};
use gateway_domain::price::{PriceBook, PriceQuery, price};
use gateway_domain::usage::ServiceTier;
use gateway_domain::{NanoUsd, Timestamp, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct VectorUsage<'a> {
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
}

/// `usage` of the picture, and `svg_usage` as it was told beside it.
pub(super) fn charged(slug: &str, usage: Option<Usage>, vectors: Option<&RawValue>) -> Option<Usage> {
    let Some(vectors) = vectors.filter(|raw| speaks(Some(*raw))) else { return usage };
    let mut usage = usage.unwrap_or_default();
    put_beside(&mut usage, charge(slug, vectors));
    Some(usage)
}

/// What another model takes for its part of a call.
pub(super) fn put_beside(usage: &mut Usage, charge: Option<NanoUsd>) {
    match charge {
        Some(charge) => {
            let before = usage.detail.beside.map_or(0, |beside| beside.0);
            usage.detail.beside = Some(NanoUsd(before.saturating_add(charge.0)));
        }
        // Nobody knows what the call costs then, and less than it did would be told otherwise.
        None => usage.detail.tier = ServiceTier::Unknown,
    }
}

pub(super) fn charge(slug: &str, vectors: &RawValue) -> Option<NanoUsd> {
    let raw = vectors.get().as_bytes();
    let model = read::<VectorUsage<'_>>(raw)?.model?;
    charge_of(slug, &model.0, &read::<OpenAiUsage>(raw)?.split()?)
}

/// What usage costs by the prices in force, since a call tells no time here.
pub(super) fn charge_of(slug: &str, model: &str, used: &Usage) -> Option<NanoUsd> {
    let at = Timestamp(i64::MAX);
    let card = PriceBook::builtin().card(PriceQuery { provider: slug, model, region: "", at });
    price(used, card, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged_beside(vectors: &str) -> Usage {
        let vectors: Box<RawValue> = serde_json::from_str(vectors).expect("JSON");
        let picture = Usage { images: 1, ..Usage::default() };
        charged("openai", Some(picture), Some(&vectors)).expect("usage")
    }

    #[test]
    fn vectors_are_charged_at_the_price_of_the_model_that_drew_them() {
        // $2.50 and $10 a million.
        let usage = charged_beside(r#"{"model":"gpt-4o","input_tokens":1000,"output_tokens":100,"total_tokens":1100}"#);
        assert_eq!((usage.images, usage.detail.beside), (1, Some(NanoUsd(2_500_000 + 1_000_000))));
        assert_eq!(charged_beside("null").detail.beside, None);
        let unknown = charged_beside(r#"{"model":"nobody-knows","input_tokens":1000,"output_tokens":100}"#);
        assert_eq!((unknown.detail.beside, unknown.detail.tier), (None, ServiceTier::Unknown));
    }
}
