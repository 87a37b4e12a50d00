//! What is public of models, for who asks without a key: what they cost everybody, in cents for each unit, and what
//! they are for. Prices that an admin set are of an integration or an organisation, and not told here. For who has a
//! key: the models that were called and have no price.

use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, MountPoint, Visit, authed, guest};
use gateway_domain::money::PicoRate;
use gateway_domain::price::{CatalogModel, DEPLOYING, PriceBook, PriceClass, PriceList, PriceQuery, RateTable};
use gateway_domain::record::Unpriced;
use gateway_domain::scope::Scope;
use gateway_domain::usage::ServiceTier;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LOGS: &[Scope] = &[Scope::named("logs.list")];
    const PRICING: &str = "/model-configs/pricing/{provider}/{*model}";
    const GENERAL: &str = "/model-configs/general/{provider}/{*model}";
    vec![
        guest(Method::GET, MountPoint::Root, PRICING, "Tell the price of a model, in cents per token", pricing),
        guest(Method::GET, MountPoint::Root, GENERAL, "Tell what a model is for", general),
        authed(
            Method::GET,
            "/model-prices/unpriced",
            LOGS,
            "List the models that were called and have no price",
            unpriced,
        )
        .asks(HERE),
    ]
}

/// More are not shown: whoever has so many sets a few prices first.
const MOST_SHOWN: usize = 1_000;

async fn unpriced(call: AdminCall) -> Result<AdminReply, Problem> {
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let mut groups = call.app.repricing.unpriced().await?;
    groups.retain(|g| g.org == call.actor.org && named.is_none_or(|workspace| workspace == g.workspace));
    groups.sort_by(|a, b| (&a.provider, &a.model, &a.virtual_key).cmp(&(&b.provider, &b.model, &b.virtual_key)));
    let view = |g: &Unpriced| {
        json!({
            "object": "unpriced_model",
            "model": g.model,
            "ai_service": g.provider,
            "provider": Some(&g.virtual_key).filter(|slug| !slug.is_empty()),
            "workspace_id": g.workspace,
        })
    };
    let data: Vec<Value> = groups.iter().take(MOST_SHOWN).map(view).collect();
    Ok(AdminReply::json(json!({"object": "list", "total": groups.len(), "data": data})))
}

async fn pricing(visit: Visit) -> Result<AdminReply, Problem> {
    Ok(reply_for_model(&visit, "no price is known for", |model| view(&model.card.list)))
}

async fn general(visit: Visit) -> Result<AdminReply, Problem> {
    Ok(reply_for_model(&visit, "nothing is known of", |model| {
        let supported: Vec<&str> = model.abilities.iter().collect();
        json!({"params": [], "type": {"primary": model.kind, "supported": supported}, "isDefault": false})
    }))
}

fn reply_for_model(visit: &Visit, lost: &str, view: impl Fn(&CatalogModel) -> Value) -> AdminReply {
    let (provider, model) = (visit.var("provider"), visit.var("model"));
    let query = PriceQuery { provider, model, region: "", at: visit.now };
    let book = PriceBook::builtin();
    // What a cloud serves of somebody else's models and has no price of its own for costs what it costs there.
    let maker = || book.model(PriceQuery { provider: "openai", ..query }).filter(|_| provider == DEPLOYING);
    match book.model(query).or_else(maker) {
        Some(model) => AdminReply::json(view(model)),
        None => {
            AdminReply::json(json!({"error": format!("{lost} {provider}/{model}")})).with_status(StatusCode::NOT_FOUND)
        }
    }
}

fn view(list: &PriceList) -> Value {
    let mut view = json!({
        "pay_as_you_go": prices(list, &list.standard.rates),
        "calculate": calculate(&list.standard.rates),
        "currency": "USD",
    });
    for required in ["request_token", "response_token", "cache_write_input_token", "cache_read_input_token"] {
        let price = &mut view["pay_as_you_go"][required];
        if price.is_null() {
            // The public schema wants a number here; what is not known says so beside it.
            *price = json!({"price": 0, "known": false});
        }
    }
    for (tier, rates) in &list.tiers {
        let name = match tier {
            ServiceTier::Batch => "batch_config",
            ServiceTier::Flex => "flex_config",
            ServiceTier::Priority => "priority_config",
            ServiceTier::Fast => "fast_config",
            ServiceTier::Ultrafast => "ultrafast_config",
            ServiceTier::Standard | ServiceTier::Unknown => continue,
        };
        view[name] = json!({"pay_as_you_go": classes(&rates.rates)});
    }
    // Several steps are told from the lowest on; one is told by itself.
    let mut steps: Vec<Value> = list
        .standard
        .over
        .iter()
        .map(|upper| {
            json!({
                "threshold_tokens": upper.tokens,
                "inclusive": upper.inclusive,
                "pay_as_you_go": classes(&upper.rates),
            })
        })
        .collect();
    match steps.len() {
        0 => {}
        1 => view["long_context_config"] = steps.remove(0),
        _ => view["long_context_config"] = Value::Array(steps),
    }
    let training = [("pay_per_token", PriceClass::TrainToken), ("pay_per_hour", PriceClass::TrainHour)];
    let rates = &list.standard.rates;
    let training = training.into_iter().filter_map(|(name, class)| Some((name.to_owned(), price(rates.get(class)?))));
    let training: Map<String, Value> = training.collect();
    if !training.is_empty() {
        view["finetune_config"] = Value::Object(training);
    }
    view
}

fn prices(list: &PriceList, rates: &RateTable) -> Value {
    let mut prices = classes(rates);
    for picture in &list.pictures {
        let quality = picture.of.quality.name();
        let (width, height) = (picture.of.width, picture.of.height);
        let size = if width == 0 { "default".to_owned() } else { format!("{width}x{height}") };
        prices["image"][quality][size] = price(picture.rate);
    }
    prices
}

/// Rates under the names of the public schema; what it has no name for is an additional unit.
fn classes(rates: &RateTable) -> Value {
    let mut prices = json!({});
    for (class, rate) in rates.iter() {
        match name(class) {
            Some(name) => prices[name] = price(rate),
            None if matches!(class, PriceClass::TrainToken | PriceClass::TrainHour) => {}
            None => {
                let unit = json!(class);
                prices["additional_units"][unit.as_str().unwrap_or_default()] = price(rate);
            }
        }
    }
    prices
}

const fn name(class: PriceClass) -> Option<&'static str> {
    Some(match class {
        PriceClass::Input => "request_token",
        PriceClass::Output => "response_token",
        PriceClass::Reasoning => "reasoning_token",
        PriceClass::CacheRead => "cache_read_input_token",
        PriceClass::CacheWrite => "cache_write_input_token",
        PriceClass::CacheWrite1h => "cache_write_1h_input_token",
        PriceClass::CacheWrite12h => "cache_write_12h_input_token",
        PriceClass::AudioIn => "request_audio_token",
        PriceClass::AudioOut => "response_audio_token",
        PriceClass::AudioCacheRead => "cache_read_audio_input_token",
        _ => return None,
    })
}

/// How the parts of a call and the rates make its cost.
fn calculate(rates: &RateTable) -> Value {
    let sum = |parts: &[(PriceClass, &str, bool)]| {
        let known = parts.iter().filter(|(class, _, always)| *always || rates.get(*class).is_some());
        let product = |(class, count, _): &(PriceClass, &str, bool)| {
            let rate = format!("rates.{}", name(*class).unwrap_or_default());
            json!({"operation": "multiply", "operands": [{"value": count}, {"value": rate}]})
        };
        json!({"operation": "sum", "operands": known.map(product).collect::<Vec<Value>>()})
    };
    json!({
        "request": sum(&[
            (PriceClass::Input, "input_tokens", true),
            (PriceClass::CacheWrite, "cache_write_tokens", true),
            (PriceClass::CacheRead, "cache_read_tokens", true),
            (PriceClass::AudioIn, "audio_input_tokens", false),
            (PriceClass::AudioCacheRead, "cache_read_audio_tokens", false),
        ]),
        "response": sum(&[
            (PriceClass::Output, "output_tokens", true),
            (PriceClass::AudioOut, "audio_output_tokens", false),
        ]),
    })
}

fn price(rate: PicoRate) -> Value {
    json!({"price": cents(rate)})
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown to people, never counted with; a quotient of so few digits prints as written"
)]
fn cents(rate: PicoRate) -> f64 {
    rate.0 as f64 / 1e10
}
