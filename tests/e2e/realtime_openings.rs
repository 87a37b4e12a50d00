//! What opens a realtime session, and what it may be led to: keys among the protocols of browsers, paths of Azure's
//! clients, models that may be used, and handshakes that are none.

use crate::harness::{Gateway, LiveProvider, Socket, WORKSPACE_KEY, with};
use crate::realtime::{PATH, answering, config, create, created, records};
use serde_json::json;

#[tokio::test]
async fn models_that_may_not_be_used_do_not_go_up() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/integration-models", &models).await.expect(200);
    let key = ("x-gateway-api-key", WORKSPACE_KEY);
    let refused =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-dear", &[key]).await.expect_err("not this one");
    assert_eq!(refused.status, 400, "{}", refused.body);
    let mut client =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-realtime", &[key]).await.expect("this one");
    assert_eq!(provider.seen()[0].target, "/v1/realtime?model=gpt-realtime", "the slug is for the gateway");
    for (id, update) in [
        ("a", json!({ "type": "session.update", "session": { "model": "gpt-dear" } })),
        (
            "b",
            json!({ "type": "session.update", "session": { "audio": { "input": { "transcription": { "model": "dear" } } } } }),
        ),
        ("c", json!({ "type": "response.create", "response": { "model": "gpt-dear" } })),
        (
            "d",
            json!({ "type": "transcription_session.update", "session": { "input_audio_transcription": { "model": "dear" } } }),
        ),
    ] {
        client.say(&with(update, json!({ "event_id": id }))).await;
        let error = client.event("error").await;
        assert_eq!((&error["error"]["event_id"], &error["error"]["code"]), (&json!(id), &json!("model_not_permitted")));
    }
    client.say(&json!({ "type": "session.update", "session": { "model": "gpt-realtime" } })).await;
    client.say(&create()).await;
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["session.update", "response.create"]);
    client.close(1000, "").await;
}

#[tokio::test]
async fn a_session_is_led_to_no_model_that_its_key_may_not_call() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let (id, key) = gateway.admin().workspace_key("held", json!({ "allowed_models": ["gpt-realtime"] })).await;
    let key = ("x-gateway-api-key", key.as_str());
    let refused =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-dear", &[key]).await.expect_err("not this one");
    assert_eq!(refused.status, 403, "{}", refused.body);
    let mut client =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-realtime", &[key]).await.expect("this one");
    let led = json!({ "type": "session.update", "event_id": "a", "session": { "model": "gpt-dear" } });
    client.say(&led).await;
    let error = client.event("error").await;
    assert_eq!((&error["error"]["event_id"], &error["error"]["code"]), (&json!("a"), &json!("model_not_permitted")));
    client.say(&create()).await;
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["response.create"]);
    // A change is in force in the session that is open.
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "allowed_models": ["other"] })).await.expect(200);
    client.say(&create()).await;
    client.event("error").await;
    assert_eq!(heard.kinds(), ["response.create"]);
}

#[tokio::test]
async fn a_browser_brings_its_key_among_its_protocols() {
    let gateway = Gateway::start().await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        socket.say(&created()).await;
        socket.end().await;
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let (_, key) = gateway.admin().workspace_key("page", json!({})).await;
    let offered = format!("realtime, openai-insecure-api-key.{key}, openai-beta.realtime-v1");
    let headers = [("sec-websocket-protocol", offered.as_str()), ("openai-beta", "realtime=v1")];
    let headers = [&headers[..], &[("sec-websocket-extensions", "permessage-deflate")]].concat();
    let opened = Socket::opened(gateway.proxy, "/v1/realtime?model=%40main%2Fgpt-realtime", &headers).await;
    let (mut client, chosen) = opened.expect("it opens");
    assert_eq!(chosen.as_deref(), Some("realtime"));
    client.event("session.created").await;
    let seen = provider.seen().pop().expect("it went up");
    assert_eq!(seen.header("sec-websocket-protocol"), Some("realtime, openai-beta.realtime-v1"));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"));
    assert_eq!((seen.header("openai-beta"), seen.header("sec-websocket-extensions")), (Some("realtime=v1"), None));
    assert!(!format!("{seen:?}").contains(&key), "the key stays here");
    client.close(1000, "").await;
    for protocol in ["realtime, openai-insecure-api-key.gw_nobody", "realtime"] {
        let headers = [("sec-websocket-protocol", protocol)];
        let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("nobody's");
        assert_eq!((refused.status, refused.body["error"]["message"].is_string()), (401, true), "{}", refused.body);
    }
}

#[tokio::test]
async fn clients_of_azure_open_sessions_by_their_own_paths() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(30).await;
    let integration = json!({
        "name": "azure", "slug": "azure-integration", "ai_provider_id": "azure-openai", "key": "azure-key",
        "create_default_provider": false,
        "configurations": { "custom_host": format!("{}/openai", provider.root()), "azure_api_version": "2025-04-01-preview" },
    });
    gateway.admin().post("/integrations", &integration).await.expect(200);
    let named = json!({ "name": "azure", "slug": "azure", "integration_id": "azure-integration" });
    gateway.admin().post("/providers", &named).await.expect(200);
    for (path, seen_path) in [
        ("/v1/openai/realtime?api-version=2025-04-01-preview&deployment=gpt-realtime", "/openai/realtime?"),
        ("/v1/realtime?model=gpt-realtime", "/openai/realtime?"),
        ("/v1/openai/v1/realtime?model=gpt-realtime", "/openai/v1/realtime?"),
    ] {
        let headers = [("api-key", WORKSPACE_KEY), ("x-gateway-provider", "@azure")];
        let trace = format!("azure-{}", path.len());
        let headers = [&headers[..], &[("x-gateway-trace-id", trace.as_str())]].concat();
        let mut client = Socket::open(gateway.proxy, path, &headers).await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        client.say(&create()).await;
        client.event("response.done").await;
        client.close(1000, "").await;
        client.end().await;
        let seen = provider.seen().pop().expect("it went up");
        assert!(seen.target.starts_with(seen_path), "{path}: {}", seen.target);
        assert_eq!(seen.header("api-key"), Some("azure-key"), "{path}");
        let (_, parts) = records(&gateway, &trace, 2).await;
        assert_eq!(parts[0]["metrics"]["total_units"], 30, "{path}: {}", parts[0]);
    }
}

#[tokio::test]
async fn an_extension_that_nobody_asked_for_is_no_session() {
    let gateway = Gateway::start().await;
    let headers = &[("sec-websocket-extensions", "permessage-deflate")];
    let provider = LiveProvider::answering(headers, |mut socket| async move {
        socket.end().await;
    })
    .await;
    let config = config(&provider);
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-config", config.as_str())];
    let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("frames that nobody could read");
    assert_eq!(refused.status, 502, "{}", refused.body);
}
