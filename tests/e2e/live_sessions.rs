//! Sessions of the Live API (`GET /v1/live/sessions`): billed by the seconds that the provider adds up, each counted
//! once, and beside them the responses that another model is asked for.

use crate::harness::{Gateway, LiveProvider, Said, Socket, with};
use crate::realtime::{Heard, records};
use serde_json::{Value, json};

const PATH: &str = "/v1/live/sessions";

fn lasted(seconds: f64) -> Value {
    json!({ "type": "session.usage.updated", "event_id": "e", "usage": { "seconds": seconds } })
}

fn delegated() -> Value {
    let usage = json!({ "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100 });
    let response = json!({ "id": "resp_1", "status": "completed", "model": "gpt-4o-mini", "usage": usage });
    json!({ "type": "response.event", "event": { "type": "response.completed", "response": response } })
}

fn start(delegate: &str) -> Value {
    let delegation = json!({ "type": "responses", "responses": { "model": delegate } });
    json!({ "type": "session.start", "event_id": delegate, "session": { "model": "gpt-live-1", "delegation": delegation } })
}

/// Tells that a session lasted for a hundred seconds, in several words.
async fn provider() -> (LiveProvider, Heard) {
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            while let Said::Event(event) = socket.next().await {
                heard.note(&event);
                let said = match event["type"].as_str().unwrap_or_default() {
                    "session.start" => {
                        vec![with(json!({ "type": "session.started" }), json!({ "session": event["session"] }))]
                    }
                    "session.input_audio.append" => {
                        vec![lasted(30.0), lasted(90.0), lasted(90.0), delegated(), delegated()]
                    }
                    "session.close" => vec![json!({ "type": "session.closed", "usage": { "seconds": 100 } })],
                    _ => Vec::new(),
                };
                for event in said {
                    socket.say(&event).await;
                }
            }
        }
    })
    .await;
    (provider, heard)
}

/// So many cents for each second.
async fn house(provider: &LiveProvider, cents: f64) -> Gateway {
    let gateway = Gateway::start().await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let price =
        json!({ "type": "static", "pay_as_you_go": { "additional_units": { "second_in": { "price": cents } } } });
    let models = json!({ "allow_all_models": false, "models": [
        { "slug": "gpt-live-1", "enabled": true, "pricing_config": price },
        { "slug": "gpt-4o-mini", "enabled": true },
    ] });
    gateway.admin().put("/integrations/main-integration/models", &models).await.expect(200);
    gateway
}

async fn open(gateway: &Gateway, key: &str, trace: &str) -> Socket {
    let headers = [("x-gateway-api-key", key), ("x-gateway-provider", "@main"), ("x-gateway-trace-id", trace)];
    Socket::open(gateway.proxy, PATH, &headers).await.expect("it opens")
}

fn cents(record: &Value) -> f64 {
    record["metrics"]["cost"].as_f64().unwrap_or_else(|| panic!("no cost: {record}"))
}

#[tokio::test]
async fn seconds_are_counted_once_and_what_is_delegated_beside_them() {
    let (provider, heard) = provider().await;
    let gateway = house(&provider, 0.1).await;
    let limits = json!({ "usage_limits": { "credit_limit": 100, "type": "cost" } });
    let (_, key) = gateway.admin().workspace_key("live", limits).await;
    let mut client = open(&gateway, &key, "live").await;
    client.say(&start("gpt-dear")).await;
    let error = client.event("error").await;
    assert_eq!(
        (&error["error"]["code"], &error["error"]["event_id"]),
        (&json!("model_not_permitted"), &json!("gpt-dear"))
    );
    client.say(&start("gpt-4o-mini")).await;
    client.event("session.started").await;
    client.say(&json!({ "type": "session.input_audio.append", "audio": "AAAA" })).await;
    assert_eq!(client.event("session.usage.updated").await, lasted(30.0), "it passes as it came");
    assert_eq!(client.event("response.event").await, delegated());
    client.say(&json!({ "type": "session.close" })).await;
    client.event("session.closed").await;
    client.close(1000, "").await;
    client.end().await;
    assert_eq!(heard.kinds(), ["session.start", "session.input_audio.append", "session.close"]);
    let (session, parts) = records(&gateway, "live", 4).await;
    assert_eq!(session["realtime"]["totals"]["responses"], 1, "{session}");
    let told: Vec<_> = parts.iter().map(|part| part["realtime"]["id"].as_str().unwrap_or_default()).collect();
    assert_eq!(told, ["audio-1", "resp_1", "audio-2"]);
    for (part, (operation, expected)) in
        parts.iter().zip([("live.audio", 9.0), ("createModelResponse", 0.021), ("live.audio", 1.0)])
    {
        assert_eq!(part["metrics"]["operation"], operation, "{part}");
        assert!((cents(part) - expected).abs() < 1e-6, "{part}");
    }
}

#[tokio::test]
async fn a_budget_of_money_ends_a_live_session() {
    let (provider, _) = provider().await;
    let gateway = house(&provider, 2.0).await;
    // A dollar, of which more is used in 90 seconds.
    let limits = json!({ "usage_limits": { "credit_limit": 1, "type": "cost" } });
    let (_, key) = gateway.admin().workspace_key("short", limits).await;
    let mut client = open(&gateway, &key, "short").await;
    client.say(&start("gpt-4o-mini")).await;
    client.event("session.started").await;
    client.say(&json!({ "type": "session.input_audio.append", "audio": "AAAA" })).await;
    let error = client.event("error").await;
    assert_eq!(error["error"]["code"], "budget_exhausted", "{error}");
    assert_eq!(client.end().await.code(), Some(1008));
}
