//! What single models of an integration have of their own, seen upstream and in the records.

use crate::harness::{Gateway, Upstream, eventually, hello, reply, with};
use serde_json::{Value, json};

async fn saying(text: &'static str) -> Upstream {
    Upstream::replying(move |_| reply::chat(text)).await
}

async fn ask(gateway: &Gateway, model: &str, trace: &str) -> String {
    let call = gateway.chat().provider("@main").header("x-gateway-trace-id", trace);
    call.json(&with(hello(), json!({ "model": model }))).send().await.expect(200).said()
}

#[tokio::test]
async fn a_model_has_its_own_host_and_headers() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (plain, own) = (saying("plain").await, saying("own").await);
    admin.provider("main", "openai", Some(&plain.url())).await;
    let headers = json!({ "configurations": { "custom_headers": { "x-team": "all", "x-kept": "kept" } } });
    admin.put("/integrations/main-integration", &headers).await.expect(200);
    let models = json!({ "models": [
        { "slug": "mine", "enabled": true, "is_custom": true,
          "configurations": { "custom_host": own.url() }, "custom_headers": { "x-team": "of the model" } },
    ]});
    admin.put("/integrations/main-integration/integration-models", &models).await.expect(200);
    assert_eq!(ask(&gateway, "mine", "t1").await, "own");
    let seen = own.only();
    assert_eq!((seen.header("x-team"), seen.header("x-kept")), (Some("of the model"), Some("kept")));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"));
    assert_eq!(ask(&gateway, "gpt-4o", "t2").await, "plain");
    assert_eq!(plain.only().header("x-team"), Some("all"));
    // The route is taken again, now from what was prepared for it.
    assert_eq!(ask(&gateway, "mine", "t3").await, "own");
    assert_eq!(own.seen()[1].header("x-team"), Some("of the model"));

    let plain_again = json!({ "models": [{ "slug": "mine", "enabled": true, "configurations": null }] });
    admin.put("/integrations/main-integration/models", &plain_again).await.expect(200);
    assert_eq!(ask(&gateway, "mine", "t4").await, "plain");
    assert_eq!(plain.seen()[1].header("x-team"), Some("all"));
    let all = gateway.get("/v1/models").send().await.expect(200).json();
    let ids: Vec<&str> = all["data"].as_array().expect("a list").iter().filter_map(|m| m["id"].as_str()).collect();
    assert!(ids.contains(&"@main/mine"), "{ids:?}");
}

/// Five tokens in, three out.
async fn cents(gateway: &Gateway, model: &str, trace: &str) -> Option<f64> {
    ask(gateway, model, trace).await;
    let admin = gateway.admin();
    let row = eventually("the record", || async {
        let list = admin.get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].get(0).cloned()
    })
    .await;
    let id = row["id"].as_str().expect("an id");
    let one: Value = admin.get(&format!("/logs/{id}")).await.expect(200).json();
    let one = if one["data"].is_object() { &one["data"] } else { &one };
    one["metrics"]["cost"].as_f64()
}

fn near(cost: Option<f64>, expected: f64) -> bool {
    cost.is_some_and(|c| (c - expected).abs() < 1e-7)
}

#[tokio::test]
async fn a_model_has_its_own_price_and_an_integration_a_factor() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = saying("x").await;
    admin.provider("main", "openai", Some(&upstream.url())).await;
    assert_eq!(cents(&gateway, "mine", "a").await, None, "nobody knows its price");
    let price = json!({ "type": "static", "pay_as_you_go": {
        "request_token": { "price": 0.002 }, "response_token": { "price": 0.01 } } });
    let models = json!({ "models": [
        { "slug": "mine", "enabled": true, "pricing_config": price },
        { "slug": "tuned", "enabled": true, "is_finetune": true, "base_model_slug": "gpt-4o" },
    ]});
    admin.put("/integrations/main-integration/models", &models).await.expect(200);
    let cost = cents(&gateway, "mine", "b").await;
    assert!(near(cost, 5.0 * 0.002 + 3.0 * 0.01), "{cost:?}");
    let base = cents(&gateway, "gpt-4o", "c").await;
    assert_eq!(cents(&gateway, "tuned", "d").await, base, "as its base model");
    let factor = json!({ "pricing_adjustments": { "multiplier": { "default": 2, "response_token": 0.5 } } });
    admin.put("/integrations/main-integration", &factor).await.expect(200);
    let cost = cents(&gateway, "mine", "e").await;
    assert!(near(cost, 2.0 * 5.0 * 0.002 + 0.5 * 3.0 * 0.01), "{cost:?}");
    let cost = cents(&gateway, "gpt-4o-2024-08-06", "f").await;
    assert!(near(cost, 2.0 * 5.0 * 0.000_25 + 0.5 * 3.0 * 0.001), "{cost:?}");
    admin.put("/integrations/main-integration", &json!({ "pricing_adjustments": null })).await.expect(200);
    assert_eq!(cents(&gateway, "gpt-4o", "g").await, base);
}

/// US cents of the record that the call leaves.
async fn spent(gateway: &Gateway, path: &str, body: &Value, provider: &str, trace: &str) -> Option<f64> {
    let call = gateway.post(path).provider(provider).header("x-gateway-trace-id", trace);
    call.json(body).send().await.expect(200);
    eventually("the record", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].get(0).map(|row| row["metrics"]["cost"].as_f64())
    })
    .await
}

#[tokio::test]
async fn each_class_of_usage_has_its_price() {
    let usage = json!({ "prompt_tokens": 1111, "completion_tokens": 333, "total_tokens": 1444,
        "prompt_tokens_details": { "cached_tokens": 1000, "audio_tokens": 100 },
        "completion_tokens_details": { "reasoning_tokens": 300, "audio_tokens": 30 } });
    let upstream = Upstream::replying(move |seen| {
        let body = match seen.target.as_str() {
            "/v1/images/generations" => json!({ "created": 1, "data": [{ "b64_json": "AA" }, { "b64_json": "AA" }] }),
            "/v1/messages" => json!({ "id": "m", "type": "message", "role": "assistant", "model": "mine",
                "content": [{ "type": "text", "text": "hi" }], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": { "input_tokens": 5, "output_tokens": 3, "cache_creation_input_tokens": 40 } }),
            _ => with(reply::completion("hi"), json!({ "usage": usage })),
        };
        reply::json(200, &body)
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let rates = json!({
        "request_token": { "price": 0.0001 }, "response_token": { "price": 0.001 },
        "cache_read_input_token": { "price": 0.00001 }, "cache_write_input_token": { "price": 0.0002 },
        "request_audio_token": { "price": 0.005 }, "response_audio_token": { "price": 0.02 },
        "reasoning_token": { "price": 0.003 }, "image": { "default": { "default": { "price": 4 } } },
        "additional_units": { "request": { "price": 0.5 } },
    });
    let model =
        json!({ "slug": "mine", "enabled": true, "pricing_config": { "type": "static", "pay_as_you_go": rates } });
    for (slug, family) in [("main", "openai"), ("claude", "anthropic")] {
        admin.provider(slug, family, Some(&upstream.url())).await;
        let models = json!({ "models": [model] });
        admin.put(&format!("/integrations/{slug}-integration/models"), &models).await.expect(200);
    }
    let chat = with(hello(), json!({ "model": "mine" }));
    let cost = spent(&gateway, "/v1/chat/completions", &chat, "@main", "classes").await;
    let expected = 0.5 + 11.0 * 0.0001 + 1000.0 * 0.00001 + 100.0 * 0.005 + 3.0 * 0.001 + 300.0 * 0.003 + 30.0 * 0.02;
    assert!(near(cost, expected), "{cost:?} for {expected}");
    let picture = json!({ "model": "mine", "prompt": "a cat", "n": 2 });
    let cost = spent(&gateway, "/v1/images/generations", &picture, "@main", "pictures").await;
    assert!(near(cost, 0.5 + 2.0 * 4.0), "{cost:?}");
    let written = with(chat.clone(), json!({ "max_tokens": 9 }));
    let cost = spent(&gateway, "/v1/messages", &written, "@claude", "written").await;
    assert!(near(cost, 0.5 + 5.0 * 0.0001 + 40.0 * 0.0002 + 3.0 * 0.001), "{cost:?}");
    let metrics = gateway.metrics().await;
    for class in ["input", "cache_read", "cache_write", "output", "reasoning", "audio_in", "audio_out"] {
        assert!(metrics.contains(&format!("type=\"{class}\"")), "{class}: {metrics}");
    }
    assert!(metrics.contains("gateway_unpriced_records_total 0"));
}

#[tokio::test]
async fn a_price_that_comes_later_is_told_of_earlier_calls() {
    let (gateway, upstream) = (Gateway::start().await, saying("x").await);
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    assert_eq!(cents(&gateway, "mine", "early").await, None);
    assert!(gateway.metrics().await.contains("gateway_unpriced_records_total 1"), "unknown, and said so");
    let rates = json!({ "request_token": { "price": 0.002 }, "response_token": { "price": 0.01 } });
    let price = json!({ "type": "static", "pay_as_you_go": rates });
    let models = json!({ "models": [{ "slug": "mine", "enabled": true, "pricing_config": price }] });
    gateway.admin().put("/integrations/main-integration/models", &models).await.expect(200);
    // Looked for every 30 seconds, and at start.
    let gateway = gateway.restart_with(&[]).await;
    let cost = eventually("a cost", || async {
        let list = gateway.admin().get("/logs?trace_id=early").await.expect(200).json();
        list["data"][0]["metrics"]["cost"].as_f64()
    })
    .await;
    assert!(near(Some(cost), 5.0 * 0.002 + 3.0 * 0.01), "{cost}");
}
