//! Saved configs on the proxy port: by slug, by id, by the key's default.

use crate::harness::{Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::json;

async fn saying(text: &'static str) -> Upstream {
    Upstream::replying(move |_| reply::chat(text)).await
}

#[tokio::test]
async fn a_saved_config_is_used_by_slug_and_by_id() {
    let gateway = Gateway::start().await;
    let upstream = saying("saved").await;
    let slug = gateway.admin().config("main", &target(&upstream)).await;
    let all = gateway.admin().get("/configs").await.expect(200).json();
    let id = all["data"][0]["id"].as_str().expect("an id").to_owned();
    for name in [&slug, &id] {
        let answer = gateway.chat().header("x-gateway-config", name).json(&hello()).send().await.expect(200);
        assert_eq!(answer.said(), "saved", "{name}");
    }
    assert!(slug.starts_with("pc-"), "{slug}");
}

#[tokio::test]
async fn an_update_is_in_force_when_it_is_answered() {
    let gateway = Gateway::start().await;
    let (old, new) = (saying("old").await, saying("new").await);
    let slug = gateway.admin().config("main", &target(&old)).await;
    let ask = || gateway.chat().header("x-gateway-config", &slug).json(&hello()).send();
    assert_eq!(ask().await.expect(200).said(), "old");
    for i in 0..10 {
        let (upstream, text) = if i % 2 == 0 { (&new, "new") } else { (&old, "old") };
        let update = json!({ "name": "main", "config": target(upstream) });
        gateway.admin().put(&format!("/configs/{slug}"), &update).await.expect(200);
        assert_eq!(ask().await.expect(200).said(), text, "update {i}");
    }
    gateway.admin().delete(&format!("/configs/{slug}")).await.expect(200);
    ask().await.expect(400);
}

#[tokio::test]
async fn the_default_of_a_key_is_used_unless_the_request_brings_its_own() {
    let gateway = Gateway::start().await;
    let (default, own) = (saying("default").await, saying("own").await);
    let slug = gateway.admin().config("default", &target(&default)).await;
    let (_, key) = gateway.admin().workspace_key("k", json!({ "defaults": { "config_id": slug } })).await;
    assert_eq!(gateway.chat().key(&key).json(&hello()).send().await.expect(200).said(), "default");
    let answer = gateway.chat().key(&key).config(&target(&own)).json(&hello()).send().await.expect(200);
    assert_eq!(answer.said(), "own");

    let defaults = json!({ "defaults": { "config_id": slug, "allow_config_override": false } });
    let (_, bound) = gateway.admin().workspace_key("bound", defaults).await;
    assert_eq!(gateway.chat().key(&bound).json(&hello()).send().await.expect(200).said(), "default");
    gateway.chat().key(&bound).config(&target(&own)).json(&hello()).send().await.expect(400);
}

#[tokio::test]
async fn a_saved_config_may_send_a_managed_provider_to_its_host() {
    let gateway = Gateway::start().await;
    let (home, other) = (saying("home").await, saying("other").await);
    gateway.admin().provider("main", "openai", Some(&home.url())).await;
    let config = json!({ "provider": "@main", "custom_host": other.url() });
    let slug = gateway.admin().config("elsewhere", &config).await;
    let answer = gateway.chat().header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
    assert_eq!(answer.said(), "other");
    assert_eq!(other.only().header("authorization"), Some("Bearer sk-managed"));
}

#[tokio::test]
async fn saved_only_mode_refuses_what_is_inline() {
    let gateway = Gateway::with(&["--block-inline-config", "true"]).await;
    let upstream = saying("saved").await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = gateway.admin().config("main", &json!({ "provider": "@main" })).await;
    let own = || gateway.chat().header("authorization", "Bearer sk-own").json(&hello());
    let refused = [
        ("inline_config_blocked", "x-gateway-config", own().config(&target(&upstream))),
        ("inline_provider_blocked", "x-gateway-provider", own().provider("openai")),
        ("inline_custom_host_blocked", "x-gateway-custom-host", own().header("x-gateway-custom-host", &upstream.url())),
        (
            "inline_forward_headers_blocked",
            "x-gateway-forward-headers",
            own().provider("@main").header("x-gateway-forward-headers", "x-a"),
        ),
    ];
    for (code, field, call) in refused {
        let answer = call.send().await.expect(400);
        assert_eq!((&answer.json()["error"]["code"], &answer.json()["error"]["field"]), (&json!(code), &json!(field)));
    }
    assert_eq!(upstream.connections(), 0);
    for call in [
        gateway.chat().header("x-gateway-config", &slug).json(&hello()),
        gateway.chat().provider("@main").json(&hello()),
        gateway.chat().header("x-gateway-virtual-key", "main").json(&hello()),
        gateway.chat().json(&with(hello(), json!({ "model": "@main/m" }))),
    ] {
        call.send().await.expect(200);
    }
}
