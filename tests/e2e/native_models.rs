//! The model that is called is the model that counts: lists, policies, prices, budgets and records see what the
//! provider goes by, on every route and however it is spelled.

use crate::clouds::{bare, integration};
use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, reply, stand_at_noon, with};
use crate::record_fields::record_of;
use serde_json::{Value, json};

const PRO: &str = "/v1/proxy/v1beta/models/gemini-2.5-pro:generateContent";
const FLASH: &str = "/v1/proxy/v1beta/models/gemini-2.5-flash:generateContent";

fn native() -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hi" }] }] })
}

fn decoy(model: &str) -> Value {
    with(native(), json!({ "model": model }))
}

/// Every family's answer, by its path. Google's says which model answered, Bedrock's does not.
async fn families() -> Upstream {
    Upstream::replying(|seen| {
        let told = if seen.target.contains("/model/") {
            json!({ "output": { "message": { "role": "assistant", "content": [{ "text": "Hi" }] } },
                    "stopReason": "end_turn", "metrics": { "latencyMs": 1 },
                    "usage": { "inputTokens": 1000, "outputTokens": 2000, "totalTokens": 3000 } })
        } else if seen.target.contains("enerateContent") {
            json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] }, "index": 0,
                                     "finishReason": "STOP" }],
                    "modelVersion": "gemini-2.5-pro", "responseId": "r1",
                    "usageMetadata": { "promptTokenCount": 1000, "candidatesTokenCount": 2000,
                                       "totalTokenCount": 3000 } })
        } else {
            reply::completion("Hi")
        };
        reply::json(200, &told)
    })
    .await
}

async fn switch(gateway: &Gateway, models: Value) {
    gateway.admin().put("/integrations/cloud-i/models", &models).await.expect(200);
}

async fn policy(gateway: &Gateway, fields: Value) {
    let base = json!({ "name": "Few", "type": "requests", "unit": "rph", "group_by": [{ "key": "api_key" }] });
    gateway.admin().post("/policies/rate-limits", &with(base, fields)).await.expect(200);
}

fn chat(model: &str) -> Value {
    with(hello(), json!({ "model": model }))
}

#[tokio::test]
async fn a_model_that_is_switched_off_is_off_on_every_route() {
    let (up, gateway) = (families().await, Gateway::start().await);
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    let off = json!({ "allow_all_models": true, "models": [{ "slug": "gemini-2.5-pro", "enabled": false }] });
    switch(&gateway, off).await;
    let call = |path: &str, body: &Value| gateway.post(path).provider("@cloud").json(body).send();
    for (path, body) in [
        ("/v1/chat/completions", chat("gemini-2.5-pro")),
        ("/v1/chat/completions", chat("models/gemini-2.5-pro")),
        (PRO, native()),
        (PRO, decoy("gemini-2.5-flash")),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", native()),
        ("/v1/proxy/v1beta/models%2Fgemini-2.5-pro:generateContent", native()),
        ("/v1/proxy/v1beta/models/gemini-2.5-pro%3AgenerateContent", native()),
        (FLASH, with(native(), json!({ "model": "x", "Model": "gemini-2.5-pro" }))),
    ] {
        let refused = call(path, &body).await.expect(400);
        // The error has the form of the API whose route it is.
        let error = &refused.json()["error"];
        let named = [&error["param"], &error["details"][0]["fieldViolations"][0]["field"]];
        assert!(named.contains(&&json!("model")), "{path} {body}: {}", refused.text());
    }
    assert_eq!(up.seen().len(), 0, "none of them went up");
    for body in [native(), decoy("gemini-2.5-pro")] {
        call(FLASH, &body).await.expect(200);
    }
}

/// A gateway with one managed provider that serves the model `cheap` alone.
async fn only_cheap(family: &str, up: &Upstream) -> Gateway {
    let gateway = Gateway::start().await;
    let host = bare(up);
    let (key, settings) = match family {
        "azure-openai" => {
            let settings = json!({ "custom_host": format!("{host}/openai"), "azure_auth_mode": "default",
                                   "azure_resource_name": "contoso", "azure_api_version": "2024-10-21" });
            (Some("azure-key-0001"), settings)
        }
        "bedrock" => {
            let settings = json!({ "custom_host": host, "aws_auth_type": "accessKey", "aws_region": "eu-west-1",
                                   "aws_access_key_id": "AKIDSTATIC",
                                   "aws_secret_access_key": "very-secret-key-of-aws" });
            (None, settings)
        }
        "openai" => (Some("sk-managed"), json!({ "custom_host": up.url() })),
        _ => (Some("managed-0001"), json!({ "custom_host": host })),
    };
    integration(&gateway, family, key, settings).await;
    let only = json!({ "allow_all_models": false, "models": [{ "slug": "cheap", "enabled": true }] });
    switch(&gateway, only).await;
    gateway
}

#[tokio::test]
async fn only_these_models_means_those_that_are_called() {
    let up = families().await;
    for (family, path) in [
        ("google", "/v1/proxy/models/{}:generateContent"),
        ("azure-openai", "/v1/proxy/deployments/{}/chat/completions?api-version=2024-06-01"),
        ("azure-openai", "/v1/openai/deployments/{}/chat/completions"),
        ("bedrock", "/v1/proxy/model/{}/invoke"),
        ("bedrock", "/v1/model/{}/converse"),
        ("openai", "/v1/proxy/engines/{}/completions"),
    ] {
        let gateway = only_cheap(family, &up).await;
        let call = |path: &str, body: &Value| gateway.post(path).provider("@cloud").json(body).send();
        let (dear, cheap) = (path.replace("{}", "dear"), path.replace("{}", "cheap"));
        let before = up.seen().len();
        for body in [native(), decoy("cheap")] {
            let refused = call(&dear, &body).await.expect(400);
            assert!(refused.error().contains("dear is not enabled"), "{family} {path}: {}", refused.error());
        }
        assert_eq!(up.seen().len(), before, "{family} {path} went up");
        call(&cheap, &native()).await.expect(200);
        call(&cheap, &decoy("dear")).await.expect(200);
    }
}

#[tokio::test]
async fn what_names_its_model_elsewhere_or_twice_is_refused_where_models_are_listed() {
    let up = families().await;
    let gateway = only_cheap("openai", &up).await;
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"cheap","Model":"dear","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/proxy/chat/completions", r#"{"model":"cheap","Model":"dear"}"#),
        ("/v1/proxy/chat/completions", r#"{"model":"cheap","model":"dear"}"#),
        ("/v1/proxy/chat/completions", r#"{"model":["dear"]}"#),
        ("/v1/proxy/chat/completions", r#"{"model":"dear"}"#),
        ("/v1/proxy/chat/completions?model=cheap", "{}"),
        ("/v1/proxy/chat/completions", r#"[{"model":"cheap"}]"#),
        ("/v1/proxy/batches", r#"{"model":"cheap","input_file_id":"f"}"#),
        ("/v1/batches", r#"{"model":"cheap","input_file_id":"f"}"#),
    ] {
        let refused = gateway.post(path).provider("@cloud").bytes(body).send().await.expect(400);
        assert_eq!(refused.json()["error"]["param"], "model", "{path} {body}: {}", refused.text());
    }
    assert_eq!(up.seen().len(), 0, "none of them went up");
    gateway.post("/v1/proxy/chat/completions").provider("@cloud").json(&chat("cheap")).send().await.expect(200);
    gateway.get("/v1/proxy/files").provider("@cloud").send().await.expect(200);
    // Where nothing is switched, spellings are the provider's business.
    gateway.admin().provider("free", "openai", Some(&up.url())).await;
    let odd = r#"{"model":"cheap","Model":"dear"}"#;
    gateway.post("/v1/proxy/chat/completions").provider("@free").bytes(odd).send().await.expect(200);
}

#[tokio::test]
async fn policies_and_records_see_the_model_of_the_path() {
    stand_at_noon();
    let (up, gateway) = (families().await, Gateway::start().await);
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    policy(&gateway, json!({ "value": 1, "conditions": [{ "key": "model", "value": "gemini-2.5-pro" }] })).await;
    policy(&gateway, json!({ "value": 1, "conditions": [{ "key": "model", "value": "gpt-4*" }] })).await;
    let call = |path: &str, body: &Value, trace: &str| {
        gateway.post(path).provider("@cloud").header("x-gateway-trace-id", trace).json(body).send()
    };
    for trace in ["f1", "f2"] {
        call(FLASH, &decoy("gpt-4o"), trace).await.expect(200);
    }
    call(PRO, &decoy("gemini-2.5-flash"), "p1").await.expect(200);
    for (path, body) in [(PRO, native()), (PRO, decoy("x")), ("/v1/chat/completions", chat("gemini-2.5-pro"))] {
        call(path, &body, "p2").await.expect(429);
    }
    for (trace, model) in [("f1", "gemini-2.5-flash"), ("p1", "gemini-2.5-pro")] {
        let record = record_of(&gateway, trace).await;
        assert_eq!(record["metrics"]["ai_model"], model, "{record}");
    }
}

/// Targets of several families may read one path in several ways: it may then be any model until one is chosen.
#[tokio::test]
async fn targets_that_read_a_path_differently_are_held_to_both() {
    stand_at_noon();
    let (up, gateway) = (families().await, Gateway::start().await);
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    policy(&gateway, json!({ "value": 1, "conditions": [{ "key": "model", "value": "gemini-2.5-pro" }] })).await;
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&up), { "provider": "@cloud" }] });
    let call = || gateway.post(PRO).config(&config).json(&decoy("cheap")).send();
    call().await.expect(200);
    call().await.expect(429);
}

fn prices(slug: &str) -> Value {
    // $5 for 1000 tokens in and 2000 out.
    let price = json!({ "type": "static", "pay_as_you_go": {
        "request_token": { "price": 0.1 }, "response_token": { "price": 0.2 } } });
    json!({ "models": [{ "slug": slug, "enabled": true, "pricing_config": price }] })
}

async fn spender(gateway: &Gateway) -> String {
    let limits = json!({ "usage_limits": { "type": "cost", "credit_limit": 1 } });
    gateway.admin().workspace_key("spender", limits).await.1
}

#[tokio::test]
async fn native_calls_cost_what_their_model_costs() {
    stand_at_noon();
    for (family, path, slug) in [
        ("google", PRO, "gemini-2.5-pro"),
        ("bedrock", "/v1/proxy/model/us.amazon.nova-lite-v1%3A0/converse", "us.amazon.nova-lite-v1:0"),
        // The path names no model that has a price: the answer does.
        ("google", "/v1/proxy/v1beta/dynamic/shared:generateContent", "gemini-2.5-pro"),
        ("google", "/v1/proxy/v1beta/models/of-today:generateContent", "gemini-2.5-pro"),
    ] {
        let up = families().await;
        let gateway = only_cheap(family, &up).await;
        switch(&gateway, with(prices(slug), json!({ "allow_all_models": true }))).await;
        let key = spender(&gateway).await;
        let call = |trace: &str| {
            gateway.post(path).key(&key).provider("@cloud").header("x-gateway-trace-id", trace).json(&native()).send()
        };
        call("first").await.expect(200);
        call("second").await.expect(412);
        let record = record_of(&gateway, "first").await;
        assert_eq!(record["metrics"]["cost"], json!(500.0), "{path}: {record}");
    }
}

#[tokio::test]
async fn json_without_a_model_is_cached_and_chosen_by() {
    let gateway = Gateway::start().await;
    let up = Upstream::replying(|seen| reply::json(200, &json!({ "at": seen.target }))).await;
    let config = with(target(&up), json!({ "cache": { "mode": "simple" } }));
    for (path, body, expected) in [
        ("/v1/proxy/foo", r#"{"a":1}"#, "MISS"),
        ("/v1/proxy/foo", r#"{"a":1}"#, "HIT"),
        ("/v1/proxy/foo", r#"{"a":2}"#, "MISS"),
        ("/v1/proxy/foo?q=1", r#"{"a":1}"#, "MISS"),
        ("/v1/proxy/bar", r#"{"a":1}"#, "MISS"),
        ("/v1/proxy/foo", "[1]", "MISS"),
        ("/v1/proxy/foo", "[1]", "HIT"),
        ("/v1/proxy/foo", "{no json", "DISABLED"),
    ] {
        let answer = gateway.post(path).config(&config).bytes(body).send().await.expect(200);
        assert_eq!(answer.header("x-gateway-cache-status"), Some(expected), "{path} {body}");
    }
    let on = |n: u32| json!({ "query": { "params.a": { "$eq": n } }, "then": "one" });
    let chosen = json!({ "strategy": { "mode": "conditional", "conditions": [on(1)], "default": "other" },
                         "targets": [with(target(&up), json!({ "name": "one" })),
                                     with(target(&up), json!({ "name": "other" }))] });
    for (body, index) in [(r#"{"a":1}"#, "config.targets[0]"), (r#"{"a":2}"#, "config.targets[1]")] {
        let answer = gateway.post("/v1/proxy/foo").config(&chosen).bytes(body).send().await.expect(200);
        assert_eq!(answer.header("x-gateway-last-used-option-index"), Some(index), "{body}");
    }
}

/// Sends a path as it is spelled here: other clients would put it straight first.
async fn spelled(gateway: &Gateway, path: &str, extra: &str, body: &str) -> u16 {
    let mut client = Raw::connect(gateway.proxy).await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n{extra}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.exchange(head.as_bytes()).await.head.status
}

#[tokio::test]
async fn an_operation_is_counted_however_its_path_is_spelled() {
    stand_at_noon();
    let (gateway, body) = (Gateway::start().await, hello().to_string());
    policy(&gateway, json!({ "value": 2, "conditions": [{ "key": "endpoint_type", "value": "chatComplete" }] })).await;
    let mock = "x-gateway-provider: mock\r\n";
    assert_eq!(spelled(&gateway, "/v1/%63hat/completions", mock, &body).await, 200, "served as what it is");
    assert_eq!(spelled(&gateway, "/v1/chat/completions/", mock, &body).await, 200);
    for path in [
        "/v1/chat/completions",
        "/v1/%63hat/completions",
        "/v1/chat/completions/",
        "/v1/proxy/chat/completions",
        "/v1/proxy/%63hat/completions",
    ] {
        assert_eq!(spelled(&gateway, path, mock, &body).await, 429, "{path}");
    }
    for path in ["/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/x/%2e%2E/chat/completions", "/v1//chat"] {
        assert_eq!(spelled(&gateway, path, mock, &body).await, 400, "{path}");
    }
    // Bounds of fields hold on the route that is meant, and not where a call goes up untouched.
    let other = gateway.admin().workspace_key("another", json!({})).await.1;
    let hot = with(hello(), json!({ "temperature": 9 }));
    let call = |path: &str| gateway.post(path).key(&other).provider("mock").json(&hot).send();
    call("/v1/chat/completions/").await.expect(400);
}

#[tokio::test]
async fn dots_never_lead_out_of_a_providers_base_path() {
    let (up, gateway) = (families().await, Gateway::start().await);
    gateway.admin().provider("m", "openai", Some(&format!("{}/tenant-a/v1", bare(&up)))).await;
    let managed = "x-gateway-provider: @m\r\n";
    for path in [
        "/v1/proxy/../../secret",
        "/v1/proxy/%2e%2e/%2e%2e/secret",
        "/v1/../../tenant-b/x",
        "/v1/files/../../x",
        "/v1/responses/..",
        "/v1/proxy/a%2f..%2f..%2fsecret",
        "/v1/proxy/..%5c..%5csecret",
        "/v1/proxy//secret",
    ] {
        assert_eq!(spelled(&gateway, path, managed, "{}").await, 400, "{path}");
    }
    assert_eq!(up.seen().len(), 0, "none of them went up");
    assert_eq!(spelled(&gateway, "/v1/proxy/a..b/%7Ec/", managed, "{}").await, 200);
    assert_eq!(up.only().target, "/tenant-a/v1/a..b/~c/");
}
