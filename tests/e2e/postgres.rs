//! The gateway on Postgres: several nodes, one configuration, and a database that goes away.

use crate::harness::{Answer, Gateway, Upstream, WORKSPACE_KEY, call::Call, eventually, hello, reply, with};
use gateway_testing::Postgres;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

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
        "name": "once", "type": "requests", "unit": "rpw", "value": 1, "conditions": [{ "key": "api_key", "value": id }],
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

/// Requests that go on while something happens to the database.
struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<usize>,
}

impl Load {
    fn on(gateway: &Gateway, config: &str) -> Self {
        let (stop, mut clients) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..4 {
            let (stop, client, config) = (stop.clone(), gateway.client().clone(), config.to_owned());
            let url = gateway.url("/v1/chat/completions");
            clients.spawn(async move {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let call = Call::new(&client, "POST", &url).key(WORKSPACE_KEY).header("x-gateway-config", &config);
                    let answer = call.json(&hello()).send().await.expect(200);
                    assert!(
                        answer.took < Duration::from_secs(2),
                        "a request waits for the database: {:?}",
                        answer.took
                    );
                    answered += 1;
                }
                answered
            });
        }
        Self { stop, clients }
    }

    /// How many were answered, all of them without an error.
    async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut answered = 0;
        while let Some(count) = self.clients.join_next().await {
            answered += count.expect("no request failed");
        }
        answered
    }
}

async fn save(gateway: &Gateway, name: &str) -> Answer {
    gateway.admin().post("/configs", &json!({ "name": name, "config": { "provider": "mock" } })).await
}

/// Nothing was written, and the client may try again.
fn assert_away(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.json()["data"]["errorCode"], "AB04", "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
}

async fn is_stale(gateway: &Gateway) -> bool {
    gateway.metrics().await.contains("\ngateway_config_stale 1\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_plane_lives_without_its_database() {
    let mut postgres = blocking(Postgres::start).await;
    let url = postgres.url();
    let admin = Gateway::with(&["--database-url", &url]).await;
    let key = admin.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &url, "--master-key-file", &key, "--role", "proxy"];
    let proxy = Gateway::with(&flags).await;
    let upstream = upstream().await;
    admin.admin().provider("main", "openai", Some(&upstream.url())).await;
    let slug = admin.admin().config("main", &json!({ "provider": "@main" })).await;
    eventually("the config on the proxy", || async { (ask(&proxy, &slug).await.status == 200).then_some(()) }).await;
    let loads = [Load::on(&admin, &slug), Load::on(&proxy, &slug)];

    // Connections are cut, over and over: a write is done or was not, and says which.
    let mut saved = BTreeSet::new();
    for i in 0..10 {
        postgres = blocking(move || (postgres.cut("postgres"), postgres).1).await;
        let (name, answer) = (format!("cut-{i}"), save(&admin, &format!("cut-{i}")).await);
        if answer.status == 200 {
            saved.insert(name);
        } else {
            assert_away(&answer);
        }
    }
    // The server is gone.
    postgres = blocking(move || (postgres.stop(), postgres).1).await;
    for _ in 0..3 {
        assert_away(&save(&admin, "stopped").await);
    }
    assert_away(&admin.admin().get("/configs").await);
    for node in [&admin, &proxy] {
        eventually("the node says that it is behind", || async { is_stale(node).await.then_some(()) }).await;
    }
    // It is back, and everybody follows again.
    postgres = blocking(move || (postgres.resume(), postgres).1).await;
    eventually("a write", || async { (save(&admin, "back").await.status == 200).then_some(()) }).await;
    for node in [&admin, &proxy] {
        eventually("the node has caught up", || async { (!is_stale(node).await).then_some(()) }).await;
    }
    let (_, key) = admin.admin().workspace_key("new", json!({})).await;
    let with_key = || proxy.chat().key(&key).provider("mock").json(&hello()).send();
    eventually("the new key on the proxy", || async { (with_key().await.status == 200).then_some(()) }).await;
    let names = admin.admin().get("/configs?page_size=1000").await.expect(200).json();
    let names: Vec<&str> =
        names["data"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(saved.iter().all(|name| names.contains(&name.as_str())), "{saved:?} were told to be saved: {names:?}");
    assert!(!names.contains(&"stopped"));
    for load in loads {
        assert!(load.end().await > 20, "there was load");
    }
    // A node that starts while the server is away has the last good state on its disk.
    postgres = blocking(move || (postgres.stop(), postgres).1).await;
    let proxy = proxy.restart_with(&flags).await;
    ask(&proxy, &slug).await.expect(200);
    proxy.chat().key(&key).provider("mock").json(&hello()).send().await.expect(200);
    assert!(is_stale(&proxy).await);
    let admin = admin.restart_with(&["--database-url", &url]).await;
    ask(&admin, &slug).await.expect(200);
    assert_away(&save(&admin, "away").await);
    postgres = blocking(move || (postgres.resume(), postgres).1).await;
    eventually("a write", || async { (save(&admin, "joined").await.status == 200).then_some(()) }).await;
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
