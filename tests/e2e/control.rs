//! The Admin API as the proxy port feels it: each change is in force when it is answered.

use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, WORKSPACE_KEY, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

/// Asks until the answer has this status, and says how long that took.
async fn until(status: u16, ask: impl AsyncFn() -> Answer) -> Duration {
    let started = Instant::now();
    loop {
        let answer = ask().await;
        if answer.status == status {
            return started.elapsed();
        }
        assert!(started.elapsed() < Duration::from_secs(5), "still {}: {}", answer.status, answer.text());
    }
}

fn ids(list: &Value, field: &str) -> Vec<String> {
    let rows = list["data"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    rows.iter().map(|r| r[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn configs_are_made_listed_read_changed_and_deleted() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (one, two) = (upstream().await, upstream().await);
    let made = admin.post("/configs", &json!({ "name": "My Config", "config": target(&one) })).await.expect(200).json();
    assert_eq!(made["success"], true);
    assert!(made["data"]["id"].is_string() && made["data"]["version_id"].is_string(), "{made}");
    let list = admin.get("/configs").await.expect(200).json();
    let row = &list["data"][0];
    assert_eq!((&row["name"], &row["id"]), (&json!("My Config"), &made["data"]["id"]));
    for field in ["slug", "organisation_id", "workspace_id", "status", "created_at", "last_updated_at"] {
        assert!(row[field].is_string(), "{field} in {row}");
    }
    let slug = row["slug"].as_str().expect("a slug").to_owned();
    let read = admin.get(&format!("/configs/{slug}")).await.expect(200).json();
    assert_eq!(read["data"]["config"]["provider"], "openai");
    assert!(!read.to_string().contains("sk-upstream"), "the credential is shown: {read}");

    let ask = async || gateway.chat().header("x-gateway-config", &slug).json(&hello()).send().await;
    ask().await.expect(200);
    let path = format!("/configs/{slug}");
    let changed = admin.put(&path, &json!({ "name": "Renamed", "config": target(&two) })).await.expect(200).json();
    assert_ne!(changed["data"]["version_id"], made["data"]["version_id"]);
    ask().await.expect(200);
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
    let versions = admin.get(&format!("{path}/versions")).await.expect(200).json();
    assert_eq!((&versions["object"], &versions["total"]), (&json!("list"), &json!(2)), "{versions}");

    admin.delete(&path).await.expect(200);
    assert!(until(400, ask).await < Duration::from_millis(100));
    admin.get(&path).await.expect(404);
    assert!(ids(&admin.get("/configs").await.json(), "slug").is_empty());
}

#[tokio::test]
async fn integrations_and_providers_are_made_listed_read_changed_and_deleted() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (one, two) = (upstream().await, upstream().await);
    admin.provider("main", "openai", Some(&one.url())).await;
    let list = admin.get("/integrations").await.expect(200).json();
    assert_eq!((&list["total"], ids(&list, "slug")), (&json!(1), vec!["main-integration".to_owned()]));
    let read = admin.get("/integrations/main-integration").await.expect(200).json();
    assert_eq!((&read["object"], &read["ai_provider_id"]), (&json!("integration"), &json!("openai")));
    assert!(read["masked_key"].is_string() && !read.to_string().contains("sk-managed"), "{read}");
    let list = admin.get("/providers").await.expect(200).json();
    assert_eq!(ids(&list, "slug"), ["main"]);
    let read = admin.get("/providers/main").await.expect(200).json();
    assert_eq!(
        (&read["object"], &read["status"], &read["name"]),
        (&json!("provider"), &json!("active"), &json!("main"))
    );

    let ask = async || gateway.chat().provider("@main").json(&hello()).send().await;
    ask().await.expect(200);
    let moved = json!({ "key": "sk-rotated", "configurations": { "custom_host": two.url() } });
    admin.put("/integrations/main-integration", &moved).await.expect(200);
    ask().await.expect(200);
    assert_eq!(two.only().header("authorization"), Some("Bearer sk-rotated"));
    admin.put("/providers/main", &json!({ "name": "Renamed", "note": "a note" })).await.expect(200);
    assert_eq!(admin.get("/providers/main").await.json()["name"], "Renamed");

    let refused = admin.delete("/integrations/main-integration").await;
    assert!((400..500).contains(&refused.status), "in use: {}", refused.text());
    ask().await.expect(200);
    admin.delete("/providers/main").await.expect(200);
    assert!(until(400, ask).await < Duration::from_millis(100));
    admin.delete("/integrations/main-integration").await.expect(200);
    admin.get("/integrations/main-integration").await.expect(404);
}

#[tokio::test]
async fn api_keys_are_made_listed_read_changed_and_deleted() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (id, key) = admin.workspace_key("service", json!({ "description": "d" })).await;
    let ask = async |key: &str| gateway.chat().key(key).provider("mock").json(&hello()).send().await;
    ask(&key).await.expect(200);
    let list = admin.get("/api-keys").await.expect(200).json();
    assert!(ids(&list, "id").contains(&id), "{list}");
    assert!(!list.to_string().contains(&key), "the secret is shown again");
    let read = admin.get(&format!("/api-keys/{id}")).await.expect(200).json();
    assert_eq!((&read["object"], &read["type"]), (&json!("api-key"), &json!("workspace-service")));
    assert_eq!((&read["status"], &read["scopes"]), (&json!("active"), &json!(["completions.write"])));
    assert!(!read.to_string().contains(&key), "the secret is shown again");

    let path = format!("/api-keys/{id}");
    admin.put(&path, &json!({ "name": "renamed", "scopes": ["logs.view"] })).await.expect(200);
    let refused = ask(&key).await.expect(403);
    assert_eq!(refused.json()["data"]["errorCode"], "AB03");
    admin.put(&path, &json!({ "scopes": ["completions.write"] })).await.expect(200);
    ask(&key).await.expect(200);

    let started = Instant::now();
    admin.delete(&path).await.expect(200);
    ask(&key).await.expect(401);
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    admin.get(&path).await.expect(404);
}

#[tokio::test]
async fn keys_that_expire_are_refused() {
    let gateway = Gateway::start().await;
    let past = json!({ "expires_at": "2020-01-01T00:00:00Z" });
    let body = with(json!({ "name": "old", "scopes": ["completions.write"] }), past);
    let made = gateway.admin().post("/api-keys/workspace/service", &body).await;
    if made.status == 200 {
        let key = made.json()["key"].as_str().expect("a secret").to_owned();
        gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(401);
    } else {
        made.expect(400);
    }
}

#[tokio::test]
async fn changes_are_in_force_under_load_and_no_request_fails() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (one, two) = (upstream().await, upstream().await);
    let slug = admin.config("main", &target(&one)).await;
    let mut load = tokio::task::JoinSet::new();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..8 {
        let (stop, client, url) = (stop.clone(), gateway.client().clone(), gateway.url("/v1/chat/completions"));
        let slug = slug.clone();
        load.spawn(async move {
            let mut answered = 0u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let call = crate::harness::call::Call::new(&client, "POST", &url).key(WORKSPACE_KEY);
                call.header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
                answered += 1;
            }
            answered
        });
    }
    for i in 0..20 {
        let to = if i % 2 == 0 { &two } else { &one };
        let answered = Instant::now();
        admin.put(&format!("/configs/{slug}"), &json!({ "config": target(to) })).await.expect(200);
        let before = to.seen().len();
        gateway.chat().header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
        assert!(to.seen().len() > before, "change {i} is not in force {:?} after its answer", answered.elapsed());
        let (id, key) = admin.workspace_key(&format!("k{i}"), json!({})).await;
        gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(200);
        admin.delete(&format!("/api-keys/{id}")).await.expect(200);
        gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(401);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut answered = 0;
    while let Some(count) = load.join_next().await {
        answered += count.expect("no request failed");
    }
    assert!(answered >= 8, "only {answered} requests of load");
}

#[tokio::test]
async fn what_is_wrong_in_a_document_is_a_400_that_names_it() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let long = "x".repeat(256);
    let policy = |fields: Value| {
        let base = json!({
            "name": "p", "type": "requests", "unit": "rpm", "value": 1, "conditions": [{ "key": "api_key", "value": "*" }],
        });
        with(base, fields)
    };
    for (path, body, said) in [
        ("/configs", json!({ "config": {} }), "name"),
        ("/configs", json!({ "name": "c" }), "config"),
        ("/configs", json!({ "name": "c", "config": { "strategy": { "mode": "odd" } } }), "mode"),
        ("/configs", json!({ "name": "c", "config": { "provider": "@no-such" } }), "no-such"),
        ("/configs", json!({ "name": long, "config": { "provider": "openai", "api_key": "k" } }), "name"),
        ("/integrations", json!({ "name": "i" }), "ai_provider_id"),
        ("/integrations", json!({ "name": "i", "ai_provider_id": "nobody" }), "ai_provider_id"),
        ("/integrations", json!({ "name": "i", "slug": "a b", "ai_provider_id": "openai" }), "slug"),
        ("/providers", json!({ "name": "p", "integration_id": "no-such" }), "integration_id"),
        ("/api-keys/workspace/service", json!({ "name": "k" }), "scopes"),
        ("/api-keys/workspace/service", json!({ "name": "k", "scopes": ["no.such"] }), "scopes"),
        ("/policies/rate-limits", policy(json!({ "value": 0 })), "value"),
        ("/policies/rate-limits", policy(json!({ "unit": "rpc" })), "unit"),
        ("/policies/rate-limits", policy(json!({ "type": "money" })), "type"),
        ("/policies/rate-limits", policy(json!({ "conditions": [] })), "conditions"),
        ("/policies/rate-limits", policy(json!({ "conditions": [{ "key": "colour", "value": "x" }] })), "key"),
    ] {
        let answer = admin.post(path, &body).await;
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
        assert_eq!(answer.json()["data"]["errorCode"], "AB01", "{path} {body}: {}", answer.text());
        assert!(answer.text().contains(said), "{path} {body}: {}", answer.text());
    }
    let broken = admin.call("POST", "/configs").bytes("{\"name\":").send().await;
    assert_eq!(broken.status, 400, "{}", broken.text());
    admin.provider("taken", "openai", None).await;
    let again = json!({ "name": "x", "slug": "taken", "integration_id": "taken-integration" });
    let answer = admin.post("/providers", &again).await.expect(409);
    assert_eq!(answer.json()["data"]["errorCode"], "AB07");
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let answer = admin.with_key("unknown").get("/configs").await.expect(401);
    assert_eq!((&answer.json()["success"], &answer.json()["data"]["errorCode"]), (&json!(false), &json!("AB05")));
    let (_, key) = admin.workspace_key("narrow", json!({ "scopes": ["configs.list"] })).await;
    let narrow = admin.with_key(&key);
    narrow.get("/configs").await.expect(200);
    for answer in [
        narrow.post("/configs", &json!({ "name": "c", "config": { "provider": "mock" } })).await,
        narrow.get("/api-keys").await,
        narrow.get("/logs").await,
        narrow.delete("/providers/any").await,
    ] {
        let answer = answer.expect(403);
        assert_eq!(answer.json()["data"]["errorCode"], "AB03");
    }
    // A key makes no key that may do more than itself.
    let (_, maker) = admin.workspace_key("maker", json!({ "scopes": ["workspace_service_api_keys.create"] })).await;
    let more = json!({ "name": "k", "scopes": ["configs.create"] });
    admin.with_key(&maker).post("/api-keys/workspace/service", &more).await.expect(403);
}

#[tokio::test]
async fn one_base_url_serves_both_planes() {
    let gateway = Gateway::start().await;
    let on_proxy = |path: &str| gateway.get(path).key(ADMIN_KEY).send();
    for path in
        ["/v1/configs", "/v2/configs", "/v1/v2/configs", "/v1/api-keys", "/v1/providers", "/v1/policies/rate-limits"]
    {
        let answer = on_proxy(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.json()["data"].is_array(), "{path}");
    }
    let made = gateway.post("/v1/configs").key(ADMIN_KEY);
    let body = json!({ "name": "by the proxy port", "config": { "provider": "mock" } });
    made.json(&body).send().await.expect(200);
    assert_eq!(gateway.admin().get("/configs").await.json()["data"][0]["name"], "by the proxy port");
    // The prefix always goes upstream, whatever stands behind it.
    let upstream = upstream().await;
    gateway.get("/v1/proxy/configs").config(&target(&upstream)).send().await.expect(200);
    assert_eq!(upstream.only().target, "/v1/configs");
}

#[tokio::test]
async fn pages_are_cut_as_asked() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    for i in 0..5 {
        admin.provider(&format!("p{i}"), "openai", None).await;
    }
    let mut all = Vec::new();
    for page in 0..3 {
        let list = admin.get(&format!("/providers?page_size=2&current_page={page}")).await.expect(200).json();
        assert_eq!(list["total"], 5);
        all.extend(ids(&list, "slug"));
    }
    all.sort();
    assert_eq!(all, ["p0", "p1", "p2", "p3", "p4"]);
    for query in ["page_size=-1", "page_size=x", "current_page=-1", "page_size=100000"] {
        let answer = admin.get(&format!("/providers?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
}

#[tokio::test]
async fn data_survives_a_restart() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = gateway.admin().config("main", &json!({ "provider": "@main" })).await;
    let (_, key) = gateway.admin().workspace_key("k", json!({})).await;
    let gateway = gateway.restart_with(&[]).await;
    let call = gateway.chat().key(&key).header("x-gateway-config", &slug);
    call.json(&hello()).send().await.expect(200);
    assert_eq!(upstream.only().header("authorization"), Some("Bearer sk-managed"));
}
