//! Prices in bodies and views: rates of a model in cents per token and unit, factors on those of an integration. What
//! no call's usage tells apart has no price here, and is refused rather than left out of a sum.

use crate::input::{Edit, JsonBody};
use crate::problem::{Problem, bad};
use gateway_domain::resource::pricing::{Factors, Rates, TOKENS};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pricing {
    #[serde(rename = "type")]
    _kind: PricingKind,
    pay_as_you_go: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PricingKind {
    Static,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitPrice {
    price: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayAsYouGo {
    request_token: Option<UnitPrice>,
    response_token: Option<UnitPrice>,
    cache_read_input_token: Option<UnitPrice>,
    cache_write_input_token: Option<UnitPrice>,
    cache_read_audio_input_token: Option<UnitPrice>,
    request_audio_token: Option<UnitPrice>,
    response_audio_token: Option<UnitPrice>,
    reasoning_token: Option<UnitPrice>,
    image: Option<Map<String, Value>>,
    additional_units: Option<Map<String, Value>>,
}

/// Qualities and sizes that one model has prices for: far fewer than this.
const MOST_PICTURES: usize = 64;

/// Reads prices of images by quality and size; `default` stands for all others of either.
fn pictures(under: &str, given: Map<String, Value>) -> Result<BTreeMap<String, BTreeMap<String, f64>>, Problem> {
    let mut all = BTreeMap::new();
    for (quality, sizes) in given {
        let field = format!("{under}image.{quality}");
        let Value::Object(sizes) = sizes else { return Err(bad(&field, "must be an object of sizes")) };
        all.insert(quality, prices(&format!("{field}."), sizes)?);
    }
    if all.values().map(BTreeMap::len).sum::<usize>() > MOST_PICTURES {
        return Err(bad(format_args!("{under}image"), format_args!("must hold at most {MOST_PICTURES} prices")));
    }
    Ok(all)
}

fn prices(under: &str, given: Map<String, Value>) -> Result<BTreeMap<String, f64>, Problem> {
    let price = |(name, price): (String, Value)| {
        let Value::Object(price) = price else {
            return Err(bad(format_args!("{under}{name}"), "must be an object with price"));
        };
        let price: UnitPrice = JsonBody(price).read_under(&format!("{under}{name}."))?;
        Ok((name, price.price))
    };
    given.into_iter().map(price).collect()
}

/// `under`: where the price stands in the body, with a dot at its end.
pub(in crate::resource) fn rates(under: &str, given: Map<String, Value>) -> Result<Rates, Problem> {
    let mut body = JsonBody(given);
    // Told on every read, so clients send them back.
    for name in ["calculate", "currency", "finetune_config"] {
        body.0.shift_remove(name);
    }
    let pricing: Pricing = body.read_under(under)?;
    pay_as_you_go(&format!("{under}pay_as_you_go."), pricing.pay_as_you_go)
}

fn pay_as_you_go(under: &str, given: Map<String, Value>) -> Result<Rates, Problem> {
    let given: PayAsYouGo = JsonBody(given).read_under(under)?;
    let of = |price: Option<UnitPrice>| price.map(|p| p.price);
    let mut pictures = given.image.map(|given| pictures(under, given)).transpose()?.unwrap_or_default();
    let image = pictures.get_mut("default").and_then(|sizes| sizes.remove("default"));
    pictures.retain(|_, sizes| !sizes.is_empty());
    let units = given.additional_units.map(|given| prices(&format!("{under}additional_units."), given));
    let mut units = units.transpose()?.unwrap_or_default();
    let rates = Rates {
        request_token: of(given.request_token),
        response_token: of(given.response_token),
        cache_read_input_token: of(given.cache_read_input_token),
        cache_write_input_token: of(given.cache_write_input_token),
        cache_read_audio_input_token: of(given.cache_read_audio_input_token),
        request_audio_token: of(given.request_audio_token),
        response_audio_token: of(given.response_audio_token),
        reasoning_token: of(given.reasoning_token),
        image,
        pictures,
        request: units.remove("request"),
        units,
    };
    rates.check(under)?;
    Ok(rates)
}

pub(in crate::resource) fn view(rates: &Rates) -> Value {
    json!({"type": "static", "pay_as_you_go": pay_as_you_go_view(rates)})
}

fn pay_as_you_go_view(rates: &Rates) -> Value {
    let price = |price: &Value| json!({"price": price});
    let fields = json!(rates);
    let plain = fields.as_object().into_iter().flatten();
    let plain = plain.filter(|(name, _)| !matches!(name.as_str(), "image" | "pictures" | "request" | "units"));
    let mut view: Map<String, Value> = plain.map(|(name, cents)| (name.clone(), price(cents))).collect();
    let mut pictures = json!(rates.pictures);
    for cents in pictures.as_object_mut().into_iter().flat_map(|q| q.values_mut()) {
        for cents in cents.as_object_mut().into_iter().flat_map(|s| s.values_mut()) {
            *cents = price(cents);
        }
    }
    if let Some(cents) = rates.image {
        pictures["default"]["default"] = json!({"price": cents});
    }
    if pictures.as_object().is_some_and(|all| !all.is_empty()) {
        view.insert("image".into(), pictures);
    }
    let units = rates.units.iter().map(|(name, cents)| (name.as_str(), *cents));
    let units = units.chain(rates.request.map(|cents| ("request", cents)));
    let units: Map<String, Value> = units.map(|(name, cents)| (name.to_owned(), json!({"price": cents}))).collect();
    if !units.is_empty() {
        view.insert("additional_units".into(), Value::Object(units));
    }
    Value::Object(view)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Adjustments {
    multiplier: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    default: f64,
}

/// Classes that no usage tells apart.
const LATER: &[&str] = &["cache_write_image_input_token"];

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
    let adjustments: Adjustments = JsonBody(given).read_under(UNDER)?;
    let mut body = JsonBody(adjustments.multiplier);
    body.refuse_later(FACTORS, LATER)?;
    let mut factors = Factors::default();
    for (name, value) in body.0.into_iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("{FACTORS}{name}");
        let number = || value.as_f64().ok_or_else(|| bad(&field, "must be a number"));
        match name.as_str() {
            "default" => factors.default = Some(number()?),
            "image" | "additional_units" => {
                let Value::Object(given) = value else { return Err(bad(&field, "must be an object")) };
                let under = format!("{field}.");
                if name == "image" {
                    factors.image = Some(JsonBody(given).read_under::<Image>(&under)?.default);
                } else {
                    let number = |(name, value): (String, Value)| {
                        let number =
                            value.as_f64().ok_or_else(|| bad(format_args!("{under}{name}"), "must be a number"))?;
                        Ok((name, number))
                    };
                    factors.additional_units = given.into_iter().map(number).collect::<Result<_, Problem>>()?;
                }
            }
            token if TOKENS.iter().any(|(known, _)| *known == token) => {
                factors.tokens.insert(token.to_owned(), number()?);
            }
            _ => return Err(bad(&field, "is not a known field")),
        }
    }
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
