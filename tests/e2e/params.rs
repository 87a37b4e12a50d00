//! What a config changes in a body, seen byte for byte by the provider.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};

const BODY: &str = r#"{ "model":"m", "temperature": 1.00,"messages" : [ {"role":"user","content":"h\u00e9"} ], "tools":[{"type":"function","function":{"name":"f","strict":true}},{"type":"function","function":{"name":"g","strict":false}}], "x": null }"#;

/// The body that goes up.
async fn sent(gateway: &Gateway, config: Value) -> String {
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let config = with(target(&upstream), config);
    gateway.chat().config(&config).bytes(BODY).send().await.expect(200);
    upstream.only().text()
}

#[tokio::test]
async fn defaults_then_overrides_then_drops_in_place() {
    let gateway = Gateway::start().await;
    let cut = |from: &str, to: &str| BODY.replacen(from, to, 1);
    for (config, expected) in [
        (json!({ "default_params": { "temperature": 0, "x": 1, "model": "d" } }), BODY.to_owned()),
        (json!({ "default_params": { "n": 2 } }), cut(r#""x": null }"#, r#""x": null,"n":2 }"#)),
        (json!({ "override_params": { "temperature": 0.5 } }), cut("1.00", "0.5")),
        (
            json!({ "default_params": { "n": 2, "seed": 7 }, "override_params": { "n": 3 } }),
            cut(r#""x": null }"#, r#""x": null,"n":3,"seed":7 }"#),
        ),
        (json!({ "drop_params": ["temperature", "none", "messages[9].x"] }), cut(r#""temperature": 1.00,"#, "")),
        (
            json!({ "drop_params": ["tools[*].function.strict"] }),
            BODY.replace(r#","strict":true"#, "").replace(r#","strict":false"#, ""),
        ),
        (
            json!({ "drop_params": ["tools[1].function.strict", "x"] }),
            cut(r#","strict":false"#, "").replace(r#", "x": null"#, ""),
        ),
        (
            json!({ "default_params": { "n": 2 }, "override_params": { "user": "u" }, "drop_params": ["n", "user", "x"] }),
            cut(r#", "x": null"#, ""),
        ),
    ] {
        assert_eq!(sent(&gateway, config.clone()).await, expected, "{config}");
    }
}

#[tokio::test]
async fn parents_give_and_children_win() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let child = with(target(&upstream), json!({ "default_params": { "n": 2 }, "drop_params": ["x"] }));
    let config = json!({
        "strategy": { "mode": "single" }, "targets": [child],
        "default_params": { "n": 1, "seed": 1 }, "drop_params": ["tools"],
    });
    gateway.chat().config(&config).bytes(BODY).send().await.expect(200);
    let seen = upstream.only().json();
    assert_eq!((&seen["n"], &seen["seed"], seen.get("tools"), seen.get("x")), (&json!(2), &json!(1), None, None));
}

#[tokio::test]
async fn a_default_model_names_provider_and_model_where_the_body_names_none() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let config = json!({ "default_params": { "model": "@main/usual" } });
    let bare = json!({ "messages": [{ "role": "user", "content": "x" }] });
    gateway.chat().config(&config).json(&bare).send().await.expect(200);
    gateway.chat().config(&config).json(&with(bare, json!({ "model": "@main/own" }))).send().await.expect(200);
    let models: Vec<Value> = upstream.seen().iter().map(|s| s.json()["model"].clone()).collect();
    assert_eq!(models, ["usual", "own"]);
}

#[tokio::test]
async fn what_the_config_makes_of_a_body_is_held_to_its_bounds() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for (config, field) in [
        (json!({ "override_params": { "temperature": 9 } }), "temperature"),
        (json!({ "drop_params": ["messages"] }), "messages"),
    ] {
        let config = with(target(&upstream), config);
        let answer = gateway.chat().config(&config).bytes(BODY).send().await.expect(400);
        assert_eq!(answer.json()["error"]["param"], field);
        assert!(answer.error().contains("parameters of the config"), "{}", answer.text());
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn provider_settings_of_a_config_are_sent_and_a_request_beats_them() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let settings =
        json!({ "openai_organization": "org-c", "openaiProject": "proj-c", "anthropic_beta": "not for this one" });
    let call = gateway.chat().config(&with(target(&upstream), settings)).header("openai-project", "proj-r");
    call.bytes(BODY).send().await.expect(200);
    let seen = upstream.only();
    assert_eq!((seen.header("openai-organization"), seen.header("openai-project")), (Some("org-c"), Some("proj-r")));
    assert_eq!(seen.header("anthropic-beta"), None);
}

#[tokio::test]
async fn metadata_forwarded_headers_and_compliance_of_a_config_are_in_force_and_inherited() {
    let gateway = Gateway::start().await;
    let thought = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{ "type": "thinking", "thinking": "Hm.", "signature": "s" }, { "type": "text", "text": "Hi" }],
        "usage": { "input_tokens": 9, "output_tokens": 7 },
    });
    let upstream = Upstream::replying(move |_| reply::json(200, &thought)).await;
    let claude = with(target(&upstream), json!({ "provider": "anthropic" }));
    let special =
        json!({ "_user": "ann", "_prompt": "p1", "_organisation": "acme", "_environment": "test", "team": "a" });
    let config = json!({
        "strategy": { "mode": "fallback" }, "metadata": special,
        "forward_headers": ["x-one", "x-two"], "strict_open_ai_compliance": false,
        "targets": [claude, with(claude.clone(), json!({ "forward_headers": ["x-two"], "strict_open_ai_compliance": true }))],
    });
    let ask = async |config: &Value, trace: &str| {
        let call = gateway.chat().config(config).header("x-gateway-trace-id", trace);
        let call = call.header("x-gateway-metadata", r#"{"_user":"bob"}"#);
        call.header("x-one", "1").header("x-two", "2").json(&hello()).send().await.expect(200)
    };
    let lenient = ask(&config, "lenient").await;
    assert!(lenient.json()["choices"][0]["message"]["content_blocks"].is_array(), "{}", lenient.text());
    let seen = upstream.seen().pop().expect("it went up");
    assert_eq!((seen.header("x-one"), seen.header("x-two")), (Some("1"), Some("2")));
    let mut other = config.clone();
    other["targets"].as_array_mut().expect("targets").reverse();
    let strict = ask(&other, "strict").await;
    assert!(strict.json()["choices"][0]["message"]["content_blocks"].is_null(), "{}", strict.text());
    let seen = upstream.seen().pop().expect("it went up");
    assert_eq!((seen.header("x-one"), seen.header("x-two")), (None, Some("2")), "a child's list replaces");
    let row = eventually("the record", || async {
        let list = gateway.admin().get("/logs?trace_id=lenient").await.expect(200).json();
        list["data"].as_array().and_then(|rows| rows.first().cloned())
    })
    .await;
    let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
    let detail = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).text();
    for told in ["_prompt", "p1", "_organisation", "acme", "_environment", "bob", "team"] {
        assert!(detail.contains(told), "{told}: {detail}");
    }
    assert!(!detail.contains("\"ann\""), "the request's metadata beats the config's: {detail}");
}
