//! What calls cost by the public list and by prices of one's own: tiers, kept caches, figures of the provider's, and
//! models that nobody knows the price of.

use crate::harness::{Gateway, Upstream, eventually, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};

/// Answers chat and messages with these fields over the usual ones.
async fn saying(fields: Value) -> Upstream {
    Upstream::replying(move |seen| {
        let body = match seen.target.as_str() {
            "/v1/messages" => json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
                "content": [{ "type": "text", "text": "hi" }], "stop_reason": "end_turn", "stop_sequence": null }),
            _ => reply::completion("hi"),
        };
        reply::json(200, &with(body, fields.clone()))
    })
    .await
}

/// US cents of the record that the call leaves.
async fn spent(gateway: &Gateway, path: &str, body: &Value, trace: &str) -> Option<f64> {
    let call = gateway.post(path).provider("@main").header("x-gateway-trace-id", trace);
    call.json(body).send().await.expect(200);
    eventually("the record", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].get(0).map(|row| row["metrics"]["cost"].as_f64())
    })
    .await
}

fn near(cost: Option<f64>, expected: f64) -> bool {
    cost.is_some_and(|c| (c - expected).abs() < 1e-7)
}

#[tokio::test]
async fn the_tier_that_served_is_billed_and_not_the_one_asked_for() {
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 });
    let chat = with(hello(), json!({ "model": "gpt-5.5", "service_tier": "priority" }));
    for (served, dollars) in [
        (json!("priority"), Some(0.0125 + 0.0075)),
        (json!("default"), Some(0.005 + 0.003)),
        (Value::Null, Some(0.005 + 0.003)),
        (json!("flex"), Some(0.0025 + 0.0015)),
        (json!("scale"), None),
    ] {
        let upstream = saying(json!({ "usage": usage, "service_tier": served })).await;
        let gateway = Gateway::start().await;
        gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
        let cost = spent(&gateway, "/v1/chat/completions", &chat, "tier").await;
        match dollars {
            Some(dollars) => assert!(near(cost, dollars * 100.0), "{served}: {cost:?}"),
            None => assert_eq!(cost, None, "{served}"),
        }
    }
}

#[tokio::test]
async fn a_cache_that_is_kept_for_an_hour_costs_more_to_write() {
    let usage = json!({ "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 3000,
        "cache_creation": { "ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000 } });
    let upstream = saying(json!({ "usage": usage })).await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("main", "anthropic", Some(&upstream.url())).await;
    let body = with(hello(), json!({ "model": "claude-sonnet-4-5", "max_tokens": 9 }));
    let cost = spent(&gateway, "/v1/messages", &body, "kept").await;
    assert!(near(cost, (1000.0 * 3.75 + 2000.0 * 6.0) / 1e4), "{cost:?}");
}

#[tokio::test]
async fn a_provider_that_tells_what_it_charged_is_believed_where_that_is_what_is_paid() {
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8, "cost": 0.0123 });
    let upstream = saying(json!({ "usage": usage })).await;
    for (family, model, cents) in [("openrouter", "some/model", 1.23), ("openai", "gpt-4o", 0.00425)] {
        let gateway = Gateway::start().await;
        gateway.admin().provider("main", family, Some(&upstream.url())).await;
        let body = with(hello(), json!({ "model": model }));
        let cost = spent(&gateway, "/v1/chat/completions", &body, "told").await;
        assert!(near(cost, cents), "{family}: {cost:?}");
    }
}

#[tokio::test]
async fn an_organisation_has_prices_of_its_own_behind_those_of_an_integration() {
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000 });
    let upstream = saying(json!({ "usage": usage })).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let body = with(hello(), json!({ "model": "gpt-4o" }));
    let path = "/v1/chat/completions";
    assert!(near(spent(&gateway, path, &body, "public").await, 0.25));
    let price = |cents: f64| json!({ "type": "static", "pay_as_you_go": { "request_token": { "price": cents } } });
    let prices = json!({ "model_prices": { "openai/gpt-4o": price(0.001) } });
    admin.put("/admin/organisation", &prices).await.expect(200);
    assert!(near(spent(&gateway, path, &body, "org").await, 1.0));
    let models = json!({ "models": [{ "slug": "gpt-4o", "enabled": true, "pricing_config": price(0.002) }] });
    admin.put("/integrations/main-integration/models", &models).await.expect(200);
    assert!(near(spent(&gateway, path, &body, "own").await, 2.0));
    let factors = json!({ "pricing_adjustments": { "multiplier": { "request_text_token": 3 } } });
    admin.put("/integrations/main-integration", &factors).await.expect(200);
    assert!(near(spent(&gateway, path, &body, "times").await, 6.0));
    let wrong = json!({ "model_prices": { "nobody/m": price(1.0) } });
    let refused = admin.put("/admin/organisation", &wrong).await.expect(400).text();
    assert!(refused.contains("model_prices must name models as provider/model"), "{refused}");
}

#[tokio::test]
async fn a_budget_of_money_warns_of_models_without_a_price() {
    stand_at_noon();
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8 });
    let upstream = saying(json!({ "usage": usage })).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let policy = json!({ "name": "Spend", "conditions": [{ "key": "api_key", "value": "*" }],
        "group_by": [{ "key": "api_key" }], "type": "cost", "credit_limit": 5 });
    admin.post("/policies/usage-limits", &policy).await.expect(200);
    let body = with(hello(), json!({ "model": "nobody-knows" }));
    assert_eq!(spent(&gateway, "/v1/chat/completions", &body, "unknown").await, None);
    let known = with(hello(), json!({ "model": "gpt-4o" }));
    assert!(spent(&gateway, "/v1/chat/completions", &known, "known").await.is_some());
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("gateway_unlimited_money_requests_total 1"), "{metrics}");
    let counted = "gateway_unpriced_models_total{model=\"nobody-knows\",provider=\"openai\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    let seen = admin.get("/model-prices/unpriced").await.expect(200).json();
    assert_eq!(seen["total"], 1, "{seen}");
    let model = &seen["data"][0];
    assert_eq!(
        (&model["model"], &model["ai_service"], &model["provider"]),
        (&json!("nobody-knows"), &json!("openai"), &json!("main"))
    );
}

/// The price list is read on a thread of its own: what the log says of it is said by that thread alone, and only where
/// nobody else had read it by then.
const READ_FOR_A_CALL: &str = "for_whom=\"a call\"";
const READ_AT_THE_START: &str = "for_whom=\"the start\"";

#[tokio::test]
async fn a_call_that_needs_a_price_has_the_list_read_beside_the_workers() {
    stand_at_noon();
    let upstream = saying(json!({})).await;
    let flags = ["--log-level", "debug"];
    let gateway = Gateway::with(&flags).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let policy = json!({ "name": "Spend", "conditions": [{ "key": "api_key", "value": "*" }],
        "group_by": [{ "key": "api_key" }], "type": "cost", "credit_limit": 5 });
    gateway.admin().post("/policies/usage-limits", &policy).await.expect(200);
    assert!(!gateway.process.output().contains("the price list was read"), "nothing needed it");
    let body = with(hello(), json!({ "model": "gpt-4o" }));
    let calls = (0..8).map(|_| async { gateway.chat().provider("@main").json(&body).send().await.expect(200) });
    futures_util::future::join_all(calls).await;
    let output = gateway.process.output();
    assert_eq!(output.matches(READ_FOR_A_CALL).count(), 1, "{output}");
    // Whoever has an integration will be asked for prices: it is read before anybody calls.
    let gateway = gateway.restart_with(&flags).await;
    eventually("the list is read", || async {
        let output = gateway.process.output();
        output.contains(READ_AT_THE_START).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_catalogue_is_listed_from_a_list_that_was_read_beside_the_workers() {
    let upstream = saying(json!({})).await;
    let gateway = Gateway::with(&["--log-level", "debug"]).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let list = gateway.get("/v1/models").send().await.expect(200).json();
    assert!(list["total_count"].as_u64() > Some(50), "{list}");
    let output = gateway.process.output();
    assert!(output.contains(READ_FOR_A_CALL), "{output}");
}
