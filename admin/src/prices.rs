//! What a model costs everybody, for who asks without a key: cents per token.
//! Prices that an admin set belong to an integration and are not told here.

use crate::problem::Problem;
use crate::route::{Place, Reply, Route, Visit, guest};
use gateway_domain::money::PicoRate;
use gateway_domain::price::{PriceBook, PriceCard};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<Route> {
    const PATH: &str = "/model-configs/pricing/{provider}/{model}";
    vec![guest(Method::GET, Place::Root, PATH, "Tell the price of a model, in cents per token", show)]
}

async fn show(visit: Visit) -> Result<Reply, Problem> {
    let (provider, model) = (visit.var("provider"), visit.var("model"));
    Ok(match PriceBook::builtin().card(provider, model) {
        Some(card) => Reply::json(view(card)),
        None => Reply::json(json!({"error": format!("no price is known for {provider}/{model}")}))
            .with_status(StatusCode::NOT_FOUND),
    })
}

fn view(card: &PriceCard) -> Value {
    let rates = [
        ("request_token", card.input),
        ("response_token", card.output),
        ("cache_write_input_token", card.cache_write),
        ("cache_read_input_token", card.cache_read),
        ("request_audio_token", card.audio_in),
        ("response_audio_token", card.audio_out),
        ("reasoning_token", card.reasoning),
    ];
    let known = rates.into_iter().filter_map(|(name, rate)| Some((name.to_owned(), json!({"price": cents(rate?)}))));
    let mut prices: Map<String, Value> = known.collect();
    if let Some(image) = card.image {
        prices.insert("image".into(), json!({"default": {"default": {"price": cents(image)}}}));
    }
    if let Some(request) = card.request {
        prices.insert("additional_units".into(), json!({"request": {"price": cents(request)}}));
    }
    let sum = |names: &[&str]| {
        let operands: Vec<&&str> = names.iter().filter(|n| prices.contains_key(**n)).collect();
        json!({"operation": "sum", "operands": operands})
    };
    let calculate = json!({
        "request": sum(&["request_token", "cache_write_input_token", "cache_read_input_token", "request_audio_token"]),
        "response": sum(&["response_token", "reasoning_token", "response_audio_token"]),
    });
    json!({"pay_as_you_go": prices, "calculate": calculate, "currency": "USD"})
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, never counted with")]
fn cents(rate: PicoRate) -> f64 {
    rate.0 as f64 / 1e10
}
