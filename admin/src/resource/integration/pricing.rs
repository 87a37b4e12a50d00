//! Prices in bodies and views: rates of a model in cents per token, factors on those of an integration. What a
//! call's usage does not tell apart has no price here, and is refused rather than left out of a sum.

use crate::input::{Body, Edit};
use crate::problem::Problem;
use gateway_domain::resource::pricing::{Factors, Rates};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pricing {
    #[serde(rename = "type")]
    _kind: Kind,
    pay_as_you_go: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Static,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    price: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayAsYouGo {
    request_token: Option<Price>,
    response_token: Option<Price>,
    cache_read_input_token: Option<Price>,
    cache_write_input_token: Option<Price>,
    request_audio_token: Option<Price>,
    response_audio_token: Option<Price>,
    reasoning_token: Option<Price>,
    image: Option<Map<String, Value>>,
    additional_units: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Qualities {
    default: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    default: Price,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Units {
    request: Option<Price>,
}

/// Of every image: usage tells neither quality nor size.
fn image(under: &str, given: Map<String, Value>) -> Result<Price, Problem> {
    let under = format!("{under}image.");
    let qualities: Qualities = Body(given).read_under(&under)?;
    let sizes: Sizes = Body(qualities.default).read_under(&format!("{under}default."))?;
    Ok(sizes.default)
}

fn units(under: &str, given: Map<String, Value>) -> Result<Option<Price>, Problem> {
    let units: Units = Body(given).read_under(&format!("{under}additional_units."))?;
    Ok(units.request)
}

/// `under`: where the price stands in the body, with a dot at its end.
pub(super) fn rates(under: &str, given: Map<String, Value>) -> Result<Rates, Problem> {
    let mut body = Body(given);
    // Told on every read, so clients send them back.
    for name in ["calculate", "currency", "finetune_config"] {
        body.0.shift_remove(name);
    }
    let pricing: Pricing = body.read_under(under)?;
    let under = format!("{under}pay_as_you_go.");
    let mut prices = Body(pricing.pay_as_you_go);
    prices.refuse_later(&under, &["cache_read_audio_input_token"])?;
    let given: PayAsYouGo = prices.read_under(&under)?;
    let of = |price: Option<Price>| price.map(|p| p.price);
    let per_image = given.image.map(|given| image(&under, given)).transpose()?;
    let per_request = given.additional_units.map(|given| units(&under, given)).transpose()?.flatten();
    let rates = Rates {
        request_token: of(given.request_token),
        response_token: of(given.response_token),
        cache_read_input_token: of(given.cache_read_input_token),
        cache_write_input_token: of(given.cache_write_input_token),
        request_audio_token: of(given.request_audio_token),
        response_audio_token: of(given.response_audio_token),
        reasoning_token: of(given.reasoning_token),
        image: of(per_image),
        request: of(per_request),
    };
    rates.check(&under)?;
    Ok(rates)
}

pub(super) fn view(rates: &Rates) -> Value {
    let fields = json!(rates);
    let price = |(name, price): (&String, &Value)| {
        let price = json!({"price": price});
        match name.as_str() {
            "image" => (name.clone(), json!({"default": {"default": price}})),
            "request" => ("additional_units".to_owned(), json!({"request": price})),
            _ => (name.clone(), price),
        }
    };
    let prices: Map<String, Value> = fields.as_object().into_iter().flatten().map(price).collect();
    json!({"type": "static", "pay_as_you_go": prices})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Adjustments {
    multiplier: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Multiplier {
    default: Option<f64>,
    request_token: Option<f64>,
    response_token: Option<f64>,
    cache_read_input_token: Option<f64>,
    cache_write_input_token: Option<f64>,
    request_audio_token: Option<f64>,
    response_audio_token: Option<f64>,
    reasoning_token: Option<f64>,
    image: Option<Image>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    default: f64,
}

/// Classes that no usage tells apart.
const LATER: &[&str] = &[
    "cache_read_audio_input_token",
    "prediction_accepted_token",
    "prediction_rejected_token",
    "request_image_token",
    "response_image_token",
    "request_text_token",
    "response_text_token",
    "cache_read_text_input_token",
    "cache_write_text_input_token",
    "cache_read_image_input_token",
    "cache_write_image_input_token",
    "additional_units",
];

pub(super) fn adjust(stored: &mut Option<Factors>, given: Edit<Map<String, Value>>) -> Result<(), Problem> {
    const UNDER: &str = "pricing_adjustments.";
    const FACTORS: &str = "pricing_adjustments.multiplier.";
    let given = match given {
        Edit::Keep => return Ok(()),
        Edit::Clear => {
            *stored = None;
            return Ok(());
        }
        Edit::Set(given) => given,
    };
    let adjustments: Adjustments = Body(given).read_under(UNDER)?;
    let mut body = Body(adjustments.multiplier);
    body.refuse_later(FACTORS, LATER)?;
    let given: Multiplier = body.read_under(FACTORS)?;
    let factors = Factors {
        default: given.default,
        request_token: given.request_token,
        response_token: given.response_token,
        cache_read_input_token: given.cache_read_input_token,
        cache_write_input_token: given.cache_write_input_token,
        request_audio_token: given.request_audio_token,
        response_audio_token: given.response_audio_token,
        reasoning_token: given.reasoning_token,
        image: given.image.map(|i| i.default),
    };
    factors.check(FACTORS)?;
    *stored = Some(factors);
    Ok(())
}

pub(super) fn adjustments(stored: Option<&Factors>) -> Value {
    let Some(factors) = stored else { return Value::Null };
    let mut multiplier = json!(factors);
    if let Some(image) = factors.image {
        multiplier["image"] = json!({"default": image});
    }
    json!({"multiplier": multiplier})
}
