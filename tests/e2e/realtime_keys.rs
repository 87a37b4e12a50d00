//! Keys of the gateway's own for browsers: what they open, what they stand for, and when they end.

use crate::guardrail_defaults::{save, slug};
use crate::harness::{Gateway, LiveProvider, Said, Socket, Upstream, WORKSPACE_KEY, eventually, hello, reply};
use serde_json::{Value, json};

/// Says what it heard first, and answers each `response.create`.
async fn provider() -> LiveProvider {
    LiveProvider::scripted(|mut socket| async move {
        while let Said::Event(event) = socket.next().await {
            socket.say(&json!({ "type": "heard", "event": event })).await;
            if event["type"] == "response.create" {
                let usage = json!({ "total_tokens": 30, "input_tokens": 10, "output_tokens": 20 });
                socket.say(&json!({ "type": "response.created", "response": { "id": "r" } })).await;
                let response = json!({ "id": "r", "status": "completed", "usage": usage });
                socket.say(&json!({ "type": "response.done", "response": response })).await;
            }
        }
    })
    .await
}

async fn house() -> (Gateway, LiveProvider, String, String) {
    let gateway = Gateway::start().await;
    let provider = provider().await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/integration-models", &models).await.expect(200);
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 10_000 } });
    let (id, key) = gateway.admin().workspace_key("server", limits).await;
    (gateway, provider, id, key)
}

async fn mint(gateway: &Gateway, key: &str, body: &Value) -> Value {
    let call = gateway.post("/v1/realtime/client_secrets").key(key).provider("@main");
    call.json(body).send().await.expect(200).json()
}

async fn open(gateway: &Gateway, path: &str, secret: &str) -> Result<Socket, u16> {
    let offered = format!("realtime, openai-insecure-api-key.{secret}");
    let opened = Socket::open(gateway.proxy, path, &[("sec-websocket-protocol", offered.as_str())]).await;
    opened.map_err(|refused| refused.status)
}

#[tokio::test]
async fn a_browser_gets_a_key_of_the_gateways_own() {
    let (gateway, provider, id, key) = house().await;
    let session = json!({ "type": "realtime", "model": "gpt-realtime", "instructions": "Be kind.", "audio": { "output": { "voice": "marin" } } });
    let minted = mint(&gateway, &key, &json!({ "session": session })).await;
    let secret = minted["value"].as_str().expect("a key").to_owned();
    assert!(secret.starts_with("ek_gw_"), "{minted}");
    assert_eq!((&minted["session"]["model"], &minted["session"]["type"]), (&json!("gpt-realtime"), &json!("realtime")));
    assert!(minted["expires_at"].is_i64() && !minted.to_string().contains("sk-managed"), "{minted}");
    assert!(provider.seen().is_empty(), "nobody else was asked");

    let mut page = open(&gateway, "/v1/realtime", &secret).await.expect("it opens");
    let seen = provider.seen().pop().expect("it went up");
    assert_eq!(
        (seen.target.as_str(), seen.header("authorization")),
        ("/v1/realtime?model=gpt-realtime", Some("Bearer sk-managed"))
    );
    assert!(!format!("{seen:?}").contains("ek_gw_"));
    let first = page.event("heard").await["event"].clone();
    assert_eq!((&first["type"], &first["session"]["instructions"]), (&json!("session.update"), &json!("Be kind.")));
    page.say(&json!({ "type": "response.create" })).await;
    page.event("response.done").await;
    page.close(1000, "").await;
    eventually("the caller's key is charged", || async {
        let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
        (shown["usage_limits"]["current_usage"] == 30).then_some(())
    })
    .await;

    // It opens sessions of its model, and nothing else.
    assert_eq!(open(&gateway, "/v1/realtime?model=gpt-realtime", &secret).await.map(drop), Ok(()));
    assert_eq!(open(&gateway, "/v1/realtime?model=gpt-dear", &secret).await.map(drop), Err(400));
    gateway.chat().key(&secret).provider("@main").json(&hello()).send().await.expect(401);
    gateway.get("/v1/models").key(&secret).send().await.expect(401);
    gateway
        .post("/v1/realtime/client_secrets")
        .key(&secret)
        .provider("@main")
        .json(&json!({}))
        .send()
        .await
        .expect(401);
    let mut changed = secret.clone();
    let last = if changed.pop() == Some('A') { 'B' } else { 'A' };
    changed.insert(changed.len() - 5, last);
    assert_eq!(open(&gateway, "/v1/realtime", &changed).await.map(drop), Err(401));
    // It ends with the key that asked for it, too.
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!(open(&gateway, "/v1/realtime", &secret).await.map(drop), Err(401));
}

#[tokio::test]
async fn a_key_for_a_browser_ends_by_itself() {
    let (gateway, _provider, _, key) = house().await;
    let after = json!({ "anchor": "created_at", "seconds": 10 });
    let minted = mint(&gateway, &key, &json!({ "expires_after": after, "session": { "model": "gpt-realtime" } })).await;
    let secret = minted["value"].as_str().expect("a key");
    open(&gateway, "/v1/realtime", secret).await.expect("it opens");
    eventually("its end", || async { (open(&gateway, "/v1/realtime", secret).await.err() == Some(401)).then_some(()) })
        .await;
}

#[tokio::test]
async fn the_older_path_answers_with_a_session() {
    let (gateway, _provider, _, key) = house().await;
    let call = gateway.post("/v1/realtime/sessions").key(&key).provider("@main");
    let made = call.json(&json!({ "model": "gpt-realtime", "voice": "marin" })).send().await.expect(200).json();
    assert_eq!((&made["object"], &made["voice"]), (&json!("realtime.session"), &json!("marin")));
    let secret = made["client_secret"]["value"].as_str().expect("a key");
    assert!(made["client_secret"]["expires_at"].is_i64());
    open(&gateway, "/v1/realtime", secret).await.expect("it opens");
}

#[tokio::test]
async fn what_a_key_cannot_hold_is_refused_by_name() {
    let (gateway, _provider, _, key) = house().await;
    let large = "x".repeat(9_000);
    for (body, field) in [
        (json!({ "session": { "model": "gpt-dear" } }), "model"),
        (
            json!({ "session": { "model": "gpt-realtime", "audio": { "input": { "transcription": { "model": "dear" } } } } }),
            "session.audio.input.transcription.model",
        ),
        (json!({ "session": { "model": "gpt-realtime", "instructions": large } }), "session"),
        (json!({ "expires_after": { "seconds": 9 } }), "expires_after.seconds"),
        (json!({ "expires_after": { "anchor": "noon" } }), "expires_after.anchor"),
        (json!({ "expires_after": { "anchor": 5 } }), "expires_after.anchor"),
        (json!({ "expires_after": { "seconds": "60" } }), "expires_after.seconds"),
        (json!({ "expires_after": { "days": 1 } }), "expires_after.days"),
        (json!({ "expires_after": ["created_at", 60] }), "expires_after"),
        (json!({ "session": [] }), "session"),
        (json!({ "session": { "model": 5 } }), "session.model"),
        (json!({ "model": "gpt-realtime" }), "model"),
        (json!({ "session": { "model": "gpt-realtime", "audio": 5 } }), "session"),
    ] {
        let call = gateway.post("/v1/realtime/client_secrets").key(&key).provider("@main");
        let refused = call.json(&body).send().await.expect(400).json();
        assert_eq!(refused["error"]["param"], field, "{refused}");
        assert!(!refused.to_string().contains("struct"), "{refused}");
    }
    let call = gateway
        .post("/v1/realtime/client_secrets")
        .key(&key)
        .provider("@main")
        .header("x-gateway-request-timeout", "5");
    let refused = call.json(&json!({ "session": { "model": "gpt-realtime" } })).send().await.expect(400).json();
    assert_eq!(refused["error"]["param"], "x-gateway-request-timeout", "{refused}");
}

#[tokio::test]
async fn nothing_goes_round_the_gateway() {
    let (gateway, provider, _, _) = house().await;
    for path in [
        "/v1/openai/v1/realtime/calls",
        "/v1/proxy/realtime/calls",
        "/v1/proxy/realtime/calls/rtc_1/accept",
        "/v1/proxy/realtime/client_secrets",
        "/v1/proxy/realtime/sessions",
        "/v1/openai/v1/realtime/client_secrets",
        "/v1/openai/realtimeapi/sessions",
    ] {
        let call = gateway.post(path).key(WORKSPACE_KEY).provider("@main");
        let refused = call.json(&json!({ "model": "gpt-realtime" })).send().await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
    assert!(provider.seen().is_empty());
}

#[tokio::test]
async fn a_providers_own_key_is_given_only_where_its_integration_says_so() {
    let gateway = Gateway::with(&["--log-bodies", "all"]).await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "debug_log": true })).await.expect(200);
    let upstream = Upstream::replying(|_| {
        let session = json!({ "type": "realtime", "model": "gpt-realtime" });
        reply::json(200, &json!({ "value": "ek_of-the-provider", "expires_at": 1_900_000_000, "session": session }))
    })
    .await;
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    admin.put("/integrations/main-integration/integration-models", &models).await.expect(200);
    let asked = |model: &str| json!({ "session": { "type": "realtime", "model": model, "instructions": "Be kind." } });
    let call = |body: Value| {
        gateway.post("/v1/realtime/client_secrets").provider("@main").header("x-gateway-trace-id", "direct").json(&body)
    };
    let own = call(asked("gpt-realtime")).send().await.expect(200).json();
    assert!(own["value"].as_str().is_some_and(|value| value.starts_with("ek_gw_")) && upstream.seen().is_empty());
    let direct = json!({ "configurations": { "direct_realtime": true } });
    admin.put("/integrations/main-integration", &direct).await.expect(200);
    let given = call(asked("gpt-realtime")).send().await.expect(200).json();
    assert_eq!(given["value"], "ek_of-the-provider");
    let seen = upstream.only();
    assert_eq!((seen.target.as_str(), seen.json()), ("/v1/realtime/client_secrets", asked("gpt-realtime")));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"));
    // A model that is not enabled is refused here, and one that names its provider could not be understood there.
    call(asked("gpt-4o-realtime")).send().await.expect(400);
    let told = call(asked("@main/gpt-realtime")).send().await.expect(400).error();
    assert!(told.contains("session.model"), "{told}");
    assert_eq!(upstream.seen().len(), 1);
    let rows = eventually("records", || async {
        let list = admin.get("/logs?trace_id=direct").await.expect(200).json();
        (list["total"] == 4).then(|| list["data"].as_array().cloned().unwrap_or_default())
    });
    for row in rows.await {
        let told = admin.get(&format!("/logs/{}", row["id"].as_str().expect("an id"))).await.expect(200).text();
        assert!(!told.contains("ek_of-the-provider"), "{told}");
    }
}

#[tokio::test]
async fn what_a_key_sets_is_judged_as_what_a_client_writes() {
    let (gateway, provider, _, key) = house().await;
    let saved = save(&gateway, "secret", json!({})).await;
    let defaults = json!({ "defaults": { "input_guardrails": [slug(&saved)] } });
    gateway.admin().put("/workspaces/default", &defaults).await.expect(200);
    for (instructions, code) in [("Be kind.", None), ("Keep the secret.", Some(1008))] {
        let session = json!({ "type": "realtime", "model": "gpt-realtime", "instructions": instructions });
        let minted = mint(&gateway, &key, &json!({ "session": session })).await;
        let secret = minted["value"].as_str().expect("a key");
        let mut page = open(&gateway, "/v1/realtime", secret).await.expect("it opens");
        match code {
            None => assert_eq!(page.event("heard").await["event"]["session"]["instructions"], instructions),
            Some(_) => assert_eq!(page.end().await.code(), code),
        }
    }
    assert_eq!(provider.seen().len(), 2);
}
