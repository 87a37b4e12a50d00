//! Rules of the config object that other tests come past: what is refused and in which words, spellings, settings of
//! clouds in targets, and keys that few use.

use crate::clouds::bare;
use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::{Value, json};

async fn answering(status: u16) -> Upstream {
    Upstream::replying(move |_| if status == 200 { reply::chat("hi") } else { reply::error(status, &[]) }).await
}

fn index(answer: &Answer) -> &str {
    answer.header("x-gateway-last-used-option-index").unwrap_or_default()
}

#[tokio::test]
async fn every_refusal_says_what_and_why() {
    let gateway = Gateway::start().await;
    let t = json!({ "provider": "mock" });
    let single = |more: Value| with(json!({ "strategy": { "mode": "single" }, "targets": [t] }), more);
    let conditional = |then: &str, default: Value| {
        json!({ "strategy": { "mode": "conditional", "default": default,
                              "conditions": [{ "query": { "metadata.a": "b" }, "then": then }] },
                "targets": [with(t.clone(), json!({ "name": "x" }))] })
    };
    for (config, told) in [
        (json!({}), "holds nothing to go by"),
        (json!({ "metadata": { "a": "b" } }), "The config names no provider"),
        (json!({ "provider": "nobody" }), "path: provider, message: `nobody` is not a known provider"),
        (json!({ "api_key": "k" }), "path: provider, message: is required with api_key"),
        (json!({ "targets": [t] }), "path: strategy, message: is required with targets"),
        (single(json!({ "targets": [] })), "path: targets, message: must be an array of at least 1"),
        (single(json!({ "strategy": { "mode": "roundrobin" } })), "must be one of single, fallback, loadbalance, cond"),
        (
            single(json!({ "strategy": { "mode": "loadbalance" }, "targets": [{ "provider": "mock", "weight": 0 }] })),
            "path: targets, message: must have a weight above 0",
        ),
        (json!({ "provider": "mock", "options": [] }), "this version of the config format is not supported"),
        (json!({ "provider": "mock", "retries": 3 }), "path: retries, message: is not a known key"),
        (json!({ "provider": "mock", "forward_headers": ["x-gateway-forward-headers"] }), "path: forward_headers"),
        (json!({ "provider": "openai", "custom_host": "http://169.254.169.254" }), "path: custom_host"),
        (json!({ "provider": "vertex-ai", "api_key": "k" }), "vertex_region"),
        (
            json!({ "provider": "mock", "retry": { "attempts": 6 } }),
            "path: retry,attempts, message: must be an integer of 0..5",
        ),
        (json!({ "provider": "mock", "cache": { "mode": "simple", "max_age": 1 } }), "path: cache,max_age"),
        (
            json!({ "provider": "mock", "request_timeout": 0 }),
            "path: request_timeout, message: must be an integer of at least 1",
        ),
        (
            json!({ "provider": "mock", "cb_config": { "failure_threshold": 1, "cooldown_interval": 1 } }),
            "path: cb_config,cooldown_interval, message: must be an integer of 30000..",
        ),
        (
            single(json!({ "strategy": { "mode": "loadbalance", "sticky": { "enabled": true } } })),
            "must name 1..16 fields",
        ),
        (json!({ "provider": "mock", "drop_params": ["a["] }), "`a[` is not a path"),
        (json!({ "passthrough": true, "provider": "mock" }), "must not stand beside passthrough"),
        (conditional("y", json!("x")), "target name `y` is invalid"),
        (conditional("x", json!("y")), "target name `y` is invalid"),
        (conditional("x", Value::Null), "no condition of config matches the request"),
    ] {
        let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(400);
        assert!(answer.text().contains(told), "{told} in {}", answer.text());
        assert_eq!(answer.json()["status"], "failure", "{}", answer.text());
    }
    for (call, told) in [
        (gateway.chat(), "Either x-gateway-config or x-gateway-provider header is required"),
        (gateway.chat().provider("nobody"), "Invalid provider passed"),
        (gateway.chat().header("x-gateway-config", "{"), "You need to pass a valid json"),
        (gateway.chat().header("x-gateway-config", "pc-none"), "no saved config"),
        (gateway.chat().provider("openai").header("x-gateway-custom-host", "ftp://x"), "Invalid custom host"),
    ] {
        let answer = call.json(&hello()).send().await.expect(400);
        assert!(answer.text().contains(told), "{told} in {}", answer.text());
    }
}

#[tokio::test]
async fn what_waits_for_its_feature_is_refused_by_name() {
    let gateway = Gateway::start().await;
    for (key, value, feature) in
        [("cache", json!("semantic"), "semantic"), ("cache", json!({ "mode": "semantic", "max_age": 60 }), "semantic")]
    {
        let leaf = with(json!({ "provider": "mock" }), json!({ key: value }));
        let nested = json!({ "strategy": { "mode": "single" }, "targets": [leaf] });
        for config in [leaf, nested] {
            let inline = gateway.chat().config(&config).json(&hello()).send().await.expect(400).text();
            let saved = gateway.admin().post("/configs", &json!({ "name": "c", "config": config })).await;
            for text in [inline, saved.expect(400).text()] {
                assert!(text.contains("not available in this version") && text.contains(feature), "{key}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn keys_in_camel_case_mean_the_same() {
    let gateway = Gateway::start().await;
    let (busy, good) = (answering(429).await, answering(200).await);
    let leaf = |upstream: &Upstream| json!({ "provider": "openai", "apiKey": "k", "customHost": upstream.url() });
    let config = json!({
        "strategy": { "mode": "fallback", "onStatusCodes": [429], "cbConfig": { "failureThreshold": 9 } },
        "requestTimeout": 5000, "overrideParams": { "maxTokens": 1, "temperature": 0 }, "dropParams": ["user"],
        "strictOpenAiCompliance": true, "forwardHeaders": ["x-one"], "defaultParams": { "seed": 7 },
        "targets": [leaf(&busy), leaf(&good)],
    });
    let body = with(hello(), json!({ "user": "u" }));
    let answer = gateway.chat().config(&config).header("x-one", "1").json(&body).send().await.expect(200);
    assert_eq!(index(&answer), "config.targets[1]");
    let seen = good.only();
    let sent = seen.json();
    assert_eq!((&sent["maxTokens"], &sent["seed"], sent.get("user")), (&json!(1), &json!(7), None), "contents stay");
    assert_eq!(seen.header("x-one"), Some("1"));
}

#[tokio::test]
async fn a_target_of_a_fallback_may_bring_its_own_statuses() {
    let gateway = Gateway::start().await;
    let (busy, broken, good) = (answering(429).await, answering(500).await, answering(200).await);
    for (first, status) in [(&busy, 200), (&broken, 500)] {
        let first = with(target(first), json!({ "on_status_codes": [429] }));
        let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
        gateway.chat().config(&config).json(&hello()).send().await.expect(status);
    }
}

#[tokio::test]
async fn a_share_of_failures_opens_a_breaker_once_enough_was_seen() {
    let gateway = Gateway::start().await;
    let (broken, good) = (answering(503).await, answering(200).await);
    let rules = json!({ "failure_threshold_percentage": 50, "minimum_requests": 4, "cooldown_interval": 30_000 });
    // The rules stand at the target itself, which is the other place for them.
    let config = json!({ "strategy": { "mode": "fallback" },
                         "targets": [with(target(&broken), json!({ "cb_config": rules })), target(&good)] });
    for _ in 0..8 {
        gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    }
    assert_eq!((broken.seen().len(), good.seen().len()), (4, 8));
}

#[tokio::test]
async fn conditional_does_not_look_at_breakers() {
    let gateway = Gateway::start().await;
    let broken = answering(503).await;
    let named = with(target(&broken), json!({ "name": "x" }));
    let config = json!({
        "strategy": { "mode": "conditional", "default": "x", "cb_config": { "failure_threshold": 1 },
                      "conditions": [{ "query": { "metadata.a": "b" }, "then": "x" }] },
        "targets": [named],
    });
    for _ in 0..3 {
        gateway.chat().config(&config).json(&hello()).send().await.expect(503);
    }
    assert_eq!(broken.seen().len(), 3);
}

#[tokio::test]
async fn managed_providers_are_named_in_each_way_and_narrow_the_catalogue() {
    let gateway = Gateway::start().await;
    let (one, two) = (answering(200).await, answering(200).await);
    gateway.admin().provider("one", "openai", Some(&one.url())).await;
    gateway.admin().provider("two", "openai", Some(&two.url())).await;
    for config in [
        json!({ "provider": "@one" }),
        json!({ "virtual_key": "one" }),
        json!({ "virtualKey": "@one", "provider": "@two" }),
        json!({ "override_params": { "model": "@one/m" } }),
    ] {
        let before = one.seen().len();
        gateway.chat().config(&config).json(&hello()).send().await.expect(200);
        assert_eq!((one.seen().len(), two.seen().len()), (before + 1, 0), "{config}");
    }
    let list = async |config: &Value| {
        let answer = gateway.get("/v1/models").config(config).send().await.expect(200);
        let models = answer.json()["data"].as_array().cloned().unwrap_or_default();
        models.iter().filter_map(|m| m["id"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let catalogue = list(&json!({ "provider": "@one", "fetch_integrated_models": true })).await;
    assert!(!catalogue.is_empty() && catalogue.iter().all(|id| id.starts_with("@one/")), "{catalogue:?}");
    let calls = one.seen().len();
    assert!(list(&json!({ "provider": "@one" })).await.is_empty(), "the provider's own answer has no list");
    assert_eq!(one.seen().len(), calls + 1);
}

fn gemini() -> Vec<u8> {
    let content = json!({ "role": "model", "parts": [{ "text": "hi" }] });
    let usage = json!({ "promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6 });
    let candidate = json!({ "content": content, "index": 0, "finishReason": "STOP" });
    reply::json(
        200,
        &json!({ "candidates": [candidate], "modelVersion": "g", "responseId": "r", "usageMetadata": usage }),
    )
}

fn converse() -> Vec<u8> {
    let message = json!({ "role": "assistant", "content": [{ "text": "hi" }] });
    let usage = json!({ "inputTokens": 4, "outputTokens": 2, "totalTokens": 6 });
    reply::json(
        200,
        &json!({ "output": { "message": message }, "stopReason": "end_turn", "usage": usage, "metrics": { "latencyMs": 1 } }),
    )
}

/// A target of each cloud with its settings and key, behind one strategy that a condition leads through.
#[tokio::test]
async fn settings_of_clouds_stand_in_targets() {
    let gateway = Gateway::start().await;
    let azure = Upstream::replying(|_| reply::chat("hi")).await;
    let vertex = Upstream::replying(|_| gemini()).await;
    let bedrock = Upstream::replying(|_| converse()).await;
    // The older spelling of Azure's deployments.
    let deployments = json!([
        { "deployment_id": "small-eu", "alias": "fast", "api_version": "2025-04-01-preview", "is_default": false },
        { "deployment_id": "big-eu", "alias": "big", "api_version": "2024-10-21", "is_default": true },
    ]);
    let config = json!({
        "strategy": { "mode": "conditional", "default": "azure", "conditions": [
            { "query": { "metadata.cloud": "vertex" }, "then": "vertex" },
            { "query": { "metadata.cloud": "bedrock" }, "then": "bedrock" },
        ] },
        "targets": [
            { "name": "azure", "provider": "azure-openai", "api_key": "azure-secret-1", "deployments": deployments,
              "custom_host": format!("{}/openai", bare(&azure)) },
            { "name": "vertex", "provider": "vertex-ai", "api_key": "ya29.secret-2", "vertex_project_id": "p-7",
              "vertexRegion": "europe-west4", "custom_host": bare(&vertex) },
            { "name": "bedrock", "provider": "bedrock", "aws_region": "us-west-2", "aws_access_key_id": "AKIAMINE",
              "aws_secret_access_key": "secret-3", "aws_session_token": "session==", "custom_host": bare(&bedrock) },
        ],
    });
    let slug = gateway.admin().config("clouds", &config).await;
    let shown = gateway.admin().get(&format!("/configs/{slug}")).await.expect(200).text();
    for secret in ["azure-secret-1", "ya29.secret-2", "secret-3", "session=="] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    for source in [config.to_string(), slug] {
        let ask = async |cloud: &str, model: &str| {
            let call = gateway.chat().header("x-gateway-config", &source);
            let call = call.header("x-gateway-metadata", &json!({ "cloud": cloud }).to_string());
            call.json(&with(hello(), json!({ "model": model }))).send().await.expect(200)
        };
        for (model, path) in [
            ("fast", "/openai/deployments/small-eu/chat/completions?api-version=2025-04-01-preview"),
            ("other", "/openai/deployments/big-eu/chat/completions?api-version=2024-10-21"),
        ] {
            assert_eq!(index(&ask("azure", model).await), "config.targets[0]");
            let seen = azure.seen().pop().expect("it went up");
            assert_eq!((seen.target.as_str(), seen.header("api-key")), (path, Some("azure-secret-1")));
        }
        assert_eq!(ask("vertex", "gemini-2.5-flash").await.said(), "hi");
        let seen = vertex.seen().pop().expect("it went up");
        assert!(seen.target.starts_with("/v1/projects/p-7/locations/europe-west4/"), "{}", seen.target);
        assert_eq!(seen.header("authorization"), Some("Bearer ya29.secret-2"));
        assert_eq!(ask("bedrock", "us.amazon.nova-lite-v1:0").await.said(), "hi");
        let seen = bedrock.seen().pop().expect("it went up");
        let signed = seen.header("authorization").expect("signed");
        assert!(signed.contains("Credential=AKIAMINE/") && signed.contains("/us-west-2/bedrock/"), "{signed}");
        assert_eq!(seen.header("x-amz-security-token"), Some("session=="));
    }
}
