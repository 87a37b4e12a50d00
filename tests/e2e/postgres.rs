//! The same gateway on Postgres: several nodes, one configuration, and a database that goes away.

use crate::harness::{Answer, Gateway, Upstream, eventually, hello, reply, with};
use gateway_testing::Postgres;
use serde_json::json;
use std::time::{Duration, Instant};

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

async fn ask(gateway: &Gateway, config: &str) -> Answer {
    gateway.chat().header("x-gateway-config", config).json(&hello()).send().await
}

/// Servers start and stop by blocking calls.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smoke_is_the_same() {
    let url = blocking(|| (Postgres::shared(), Postgres::shared().create("smoke"))).await;
    let (_postgres, url) = url;
    let gateway = Gateway::with(&["--database-url", &url]).await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = gateway.admin().config("main", &json!({ "provider": "@main" })).await;
    let (id, key) = gateway.admin().workspace_key("k", json!({})).await;
    assert_eq!(ask(&gateway, &slug).await.expect(200).said(), "hi");
    let stream = with(hello(), json!({ "stream": true }));
    let answer = gateway.chat().key(&key).provider("mock").json(&stream).send().await.expect(200);
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    let policy = json!({
        "name": "once", "type": "requests", "unit": "rph", "value": 1, "conditions": [{ "key": "api_key", "value": id }],
    });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let call = || gateway.chat().key(&key).provider("mock").header("x-gateway-trace-id", "pg").json(&hello()).send();
    call().await.expect(200);
    call().await.expect(429);
    eventually("two records", || async {
        let list = gateway.admin().get("/logs?trace_id=pg").await.expect(200).json();
        (list["data"].as_array().map(Vec::len) == Some(2)).then_some(())
    })
    .await;
    let gateway = gateway.restart_with(&["--database-url", &url]).await;
    assert_eq!(ask(&gateway, &slug).await.expect(200).said(), "hi");
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_one_node_is_in_force_on_the_other() {
    let (_postgres, url) = blocking(|| (Postgres::shared(), Postgres::shared().create("two_nodes"))).await;
    let one = Gateway::with(&["--database-url", &url]).await;
    // Both need the same key to open what the other has sealed.
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key, "--config-poll", "60s"]).await;
    let (old, new) = (upstream().await, upstream().await);
    one.admin().provider("main", "openai", Some(&old.url())).await;
    let slug = one.admin().config("main", &json!({ "provider": "@main" })).await;
    eventually("the config on the other node", || async { (ask(&two, &slug).await.status == 200).then_some(()) }).await;
    let mut slowest = Duration::ZERO;
    for i in 0..10 {
        let to = if i % 2 == 0 { &new } else { &old };
        let change = json!({ "configurations": { "custom_host": to.url() } });
        one.admin().put("/integrations/main-integration", &change).await.expect(200);
        let (answered, before) = (Instant::now(), to.seen().len());
        while to.seen().len() == before {
            ask(&two, &slug).await.expect(200);
        }
        slowest = slowest.max(answered.elapsed());
    }
    // Only the notice can have carried it so soon.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(two.admin().get("/configs").await.json()["data"][0]["slug"], json!(slug));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_plane_lives_without_its_database() {
    let (mut postgres, url) = blocking(|| {
        let postgres = Postgres::start();
        let url = postgres.url();
        (postgres, url)
    })
    .await;
    let gateway = Gateway::with(&["--database-url", &url]).await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = gateway.admin().config("main", &json!({ "provider": "@main" })).await;
    ask(&gateway, &slug).await.expect(200);
    postgres = blocking(move || {
        postgres.stop();
        postgres
    })
    .await;
    for _ in 0..20 {
        let answer = ask(&gateway, &slug).await.expect(200);
        assert!(answer.took < Duration::from_secs(1), "the data plane waits for the database: {:?}", answer.took);
    }
    let refused = gateway.admin().post("/configs", &json!({ "name": "c", "config": { "provider": "mock" } })).await;
    assert!(refused.status >= 500, "{}", refused.text());
    // A node that starts now has the last good state on its disk.
    let gateway = gateway.restart_with(&["--database-url", &url]).await;
    ask(&gateway, &slug).await.expect(200);
    drop(postgres);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_halves_run_apart() {
    let (_postgres, url) = blocking(|| (Postgres::shared(), Postgres::shared().create("halves"))).await;
    let admin = Gateway::with(&["--database-url", &url, "--role", "admin"]).await;
    let key = admin.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &url, "--master-key-file", &key, "--role", "proxy"];
    let proxy = Gateway::with(&flags).await;
    let upstream = upstream().await;
    admin.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = admin.admin().config("main", &json!({ "provider": "@main" })).await;
    eventually("the config on the proxy", || async { (ask(&proxy, &slug).await.status == 200).then_some(()) }).await;
    // The node that has no control plane does not take its routes for models' either.
    proxy.get("/v1/configs").key(crate::harness::ADMIN_KEY).send().await.expect(404);
    let nobody = tokio::net::TcpStream::connect(admin.proxy).await;
    assert!(nobody.is_err(), "an admin node has no proxy port");
}
