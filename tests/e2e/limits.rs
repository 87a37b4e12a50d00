//! Rate-limit policies on the proxy port: who they hold, how many they let through, and what the rest hear.

use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};

async fn policy(gateway: &Gateway, fields: Value) -> String {
    let base =
        json!({ "name": "A Few Per Hour", "type": "requests", "unit": "rph", "group_by": [{ "key": "api_key" }] });
    let answer = gateway.admin().post("/policies/rate-limits", &with(base, fields)).await.expect(200).json();
    let id = answer["id"].as_str().or_else(|| answer["data"]["id"].as_str());
    id.unwrap_or_else(|| panic!("no id: {answer}")).to_owned()
}

fn everyone() -> Value {
    json!([{ "key": "api_key", "value": "*" }])
}

async fn ask(gateway: &Gateway) -> Answer {
    gateway.chat().provider("mock").json(&hello()).send().await
}

#[tokio::test]
async fn as_many_as_allowed_pass_and_the_rest_hear_why() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    policy(&gateway, json!({ "value": 3, "conditions": everyone() })).await;
    for _ in 0..3 {
        ask(&gateway).await.expect(200);
    }
    let refused = ask(&gateway).await.expect(429);
    assert!(refused.error().contains("A Few Per Hour"), "the policy is named: {}", refused.error());
    let seconds: u64 = refused.header("retry-after").expect("a retry-after").parse().expect("seconds");
    assert!((1..=3600).contains(&seconds), "{seconds}");
    let (_, key) = gateway.admin().workspace_key("another", json!({})).await;
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(200);
}

#[tokio::test]
async fn admitted_equals_allowed_under_concurrency() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    policy(&gateway, json!({ "value": 25, "conditions": everyone() })).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        calls.spawn(gateway.chat().provider("mock").json(&hello()).send());
    }
    let mut passed = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no client failed");
        assert!(matches!(answer.status, 200 | 429), "{}", answer.text());
        passed += usize::from(answer.status == 200);
    }
    assert_eq!(passed, 25);
}

#[tokio::test]
async fn policies_are_made_listed_read_changed_and_archived() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let id = policy(&gateway, json!({ "value": 1, "conditions": everyone() })).await;
    let path = format!("/policies/rate-limits/{id}");
    let read = admin.get(&path).await.expect(200).json();
    let read = if read["data"].is_object() { read["data"].clone() } else { read };
    for (field, value) in
        [("target", json!("llm")), ("value", json!(1)), ("unit", json!("rph")), ("status", json!("active"))]
    {
        assert_eq!(read[field], value, "{field} in {read}");
    }
    let list = admin.get("/policies/rate-limits?target=llm").await.expect(200).json();
    assert_eq!(list["data"].as_array().map(Vec::len), Some(1), "{list}");
    let none = admin.get("/policies/rate-limits?target=mcp_tools").await.expect(200).json();
    assert_eq!(none["data"].as_array().map(Vec::len), Some(0), "{none}");

    ask(&gateway).await.expect(200);
    ask(&gateway).await.expect(429);
    admin.put(&path, &json!({ "value": 2 })).await.expect(200);
    ask(&gateway).await.expect(200);
    ask(&gateway).await.expect(429);
    // The path has another spelling, as the contract writes it.
    let v2 = crate::harness::call::Call::new(gateway.client(), "PUT", &gateway.admin_url(&format!("/v2{path}")));
    let conditions = json!({ "conditions": [{ "key": "metadata._user", "value": "ann" }] });
    v2.key(crate::harness::ADMIN_KEY).json(&conditions).send().await.expect(200);
    ask(&gateway).await.expect(200);
    let refused = admin.put(&path, &json!({ "target": "mcp_tools" })).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    admin.put(&path, &json!({ "conditions": everyone() })).await.expect(200);
    ask(&gateway).await.expect(429);
    admin.delete(&path).await.expect(200);
    ask(&gateway).await.expect(200);
}

#[tokio::test]
async fn conditions_and_groups_choose_whom_they_hold() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let conditions = json!([{ "key": "metadata._user", "value": "*", "excludes": ["boss"] }]);
    policy(&gateway, json!({ "value": 1, "conditions": conditions, "group_by": [{ "key": "metadata._user" }] })).await;
    let ask = async |user: &str| {
        let call = gateway.chat().provider("mock").header("x-gateway-metadata", &json!({ "_user": user }).to_string());
        call.json(&hello()).send().await.status
    };
    assert_eq!((ask("ann").await, ask("ann").await, ask("bob").await, ask("bob").await), (200, 429, 200, 429));
    assert_eq!((ask("boss").await, ask("boss").await), (200, 200));
    for _ in 0..2 {
        gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    }
}

#[tokio::test]
async fn a_limit_of_one_target_falls_back_to_the_next() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (one, two) =
        (Upstream::replying(|_| reply::chat("one")).await, Upstream::replying(|_| reply::chat("two")).await);
    gateway.admin().provider("one", "openai", Some(&one.url())).await;
    gateway.admin().provider("two", "openai", Some(&two.url())).await;
    let held = json!([{ "key": "virtual_key", "value": "one" }]);
    policy(&gateway, json!({ "value": 2, "conditions": held, "group_by": [{ "key": "virtual_key" }] })).await;
    let config = json!({
        "strategy": { "mode": "fallback", "on_status_codes": [429] },
        "targets": [{ "provider": "@one" }, { "provider": "@two" }],
    });
    let mut said = Vec::new();
    for _ in 0..4 {
        said.push(gateway.chat().config(&config).json(&hello()).send().await.expect(200).said());
    }
    assert_eq!(said, ["one", "one", "two", "two"]);
}

#[tokio::test]
async fn no_route_is_a_way_around() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    policy(&gateway, json!({ "value": 1, "conditions": everyone() })).await;
    ask(&gateway).await.expect(200);
    let config = target(&upstream);
    for call in [
        gateway.chat().config(&config).json(&hello()),
        gateway.post("/v1/proxy/chat/completions").config(&config).json(&hello()),
        gateway.post("/v1/brand/new").config(&config).json(&hello()),
        gateway.post("/v1/embeddings").config(&config).json(&json!({ "model": "m", "input": "a" })),
        gateway.post("/v1/files").config(&config).body("multipart/form-data; boundary=b", "--b--"),
    ] {
        call.send().await.expect(429);
    }
    let mut socket = crate::harness::Raw::connect(gateway.proxy).await;
    socket
        .send(format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             x-gateway-api-key: {}\r\nx-gateway-config: {config}\r\n\r\n",
            crate::harness::WORKSPACE_KEY
        ))
        .await;
    assert_eq!(socket.head().await.status, 429);
    assert_eq!(upstream.connections(), 0);
}

/// A call that a target failed gives back what that target's limit counted for it, however often it failed: both where
/// bodies are read and where they are only passed on.
#[tokio::test]
async fn a_target_that_failed_gives_its_request_back() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let turn = || vec![reply::error(500, &[]), reply::error(503, &[]), reply::chat("hi"), reply::chat("hi")];
    let upload = |slug| gateway.post("/v1/files").provider(slug).body("multipart/form-data; boundary=b", "--b--");
    let chat = |slug| gateway.chat().provider(slug).json(&hello());
    type Ask<'a> = &'a dyn Fn(&'static str) -> crate::harness::call::Call;
    for (slug, ask) in [("@told", &chat as Ask<'_>), ("@relayed", &upload)] {
        let upstream = Upstream::in_turn(turn()).await;
        gateway.admin().provider(&slug[1..], "openai", Some(&upstream.url())).await;
        let only = json!([{ "key": "virtual_key", "value": &slug[1..] }]);
        policy(&gateway, json!({ "name": slug, "value": 1, "conditions": only, "group_by": [] })).await;
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(ask(slug).send().await.status);
        }
        assert_eq!(statuses, [500, 503, 200, 429], "{slug}");
    }
}
