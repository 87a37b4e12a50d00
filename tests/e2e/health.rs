//! What the admin port says of the process: alive, ready, and how each part does. None of it asks the database.

use crate::harness::{Gateway, eventually, hello};
use crate::journal::blocking;
use gateway_testing::Postgres;
use serde_json::{Value, json};

async fn status(gateway: &Gateway) -> Value {
    let told = gateway.client().get(gateway.admin_url("/health/status")).send().await.expect("an answer");
    assert_eq!(told.status(), 200);
    told.json().await.expect("JSON")
}

async fn ready(gateway: &Gateway) -> bool {
    let told = gateway.client().get(gateway.admin_url("/health/ready")).send().await;
    told.expect("an answer").status() == 200
}

/// Waits until the status page says that the part is in this state, and gives the whole page.
async fn comes_to(gateway: &Gateway, part: &str, state: &str) -> Value {
    eventually(&format!("{part} {state}"), || async {
        let told = status(gateway).await;
        (told["components"][part]["status"] == state).then_some(told)
    })
    .await
}

async fn one_is_stored(gateway: &Gateway) -> Value {
    eventually("a stored record", || async {
        let told = status(gateway).await;
        (told["components"]["log_store"]["stored"] == 1).then_some(told)
    })
    .await
}

#[tokio::test]
async fn each_part_is_told_without_a_key_and_on_the_admin_port_alone() {
    let gateway = Gateway::start().await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    gateway.admin().config("c", &json!({ "provider": "mock" })).await;
    let told = one_is_stored(&gateway).await;
    let parts = &told["components"];
    assert_eq!((&told["status"], &told["ready"], &told["reason"]), (&json!("ok"), &json!(true), &Value::Null));
    assert_eq!(parts["configuration"], json!({ "status": "ok", "revision": 2 }));
    assert_eq!(parts["counters"], json!({ "status": "ok", "mode": "process", "nodes": 1, "counters": 0 }));
    assert_eq!(told["limits"], "exact");
    assert_eq!((&parts["journal"]["status"], &parts["journal"]["max_bytes"]), (&json!("ok"), &json!(1 << 30)));
    let lost = json!({ "disk": 0, "journal": 0, "queue": 0, "store": 0 });
    assert_eq!(parts["journal"]["dropped"], lost);
    assert!(parts["proxy"]["requests_in_flight"].is_u64() && parts.get("redis").is_none(), "{told}");
    gateway.get("/health/status").send().await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_is_told_and_takes_no_readiness_with_it() {
    let (server, url) = blocking(|| {
        let server = Postgres::start();
        let url = server.url();
        (server, url)
    })
    .await;
    let flags = ["--database-url", &*url];
    let gateway = Gateway::with(&flags).await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    one_is_stored(&gateway).await;
    let server = blocking(move || {
        let mut server = server;
        server.stop();
        server
    })
    .await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    comes_to(&gateway, "configuration", "degraded").await;
    let told = comes_to(&gateway, "log_store", "degraded").await;
    assert_eq!((&told["status"], &told["ready"]), (&json!("degraded"), &json!(true)));
    assert_eq!(told["components"]["journal"]["records"], 1);
    assert!(told["components"]["log_store"]["lag_seconds"].as_f64().is_some_and(|s| s > 0.0), "{told}");
    assert!(ready(&gateway).await, "a node with a snapshot serves");
    let gateway = gateway.restart_with(&flags).await;
    assert!(ready(&gateway).await, "also one that starts from what it read last");
    comes_to(&gateway, "configuration", "degraded").await;
    let server = blocking(move || {
        let mut server = server;
        server.resume();
        server
    })
    .await;
    comes_to(&gateway, "configuration", "ok").await;
    let told = comes_to(&gateway, "log_store", "ok").await;
    assert_eq!(told["status"], "ok", "{told}");
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_several_nodes_without_redis_are_told_to_be_approximate() {
    let (_postgres, url) = blocking(|| (Postgres::shared(), Postgres::shared().create("health_of_two"))).await;
    let one = Gateway::with(&["--database-url", &url]).await;
    assert_eq!(status(&one).await["limits"], "exact");
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
    for node in [&one, &two] {
        eventually("two nodes", || async { (status(node).await["limits"] == "approximate").then_some(()) }).await;
        assert_eq!(status(node).await["components"]["counters"]["nodes"], 2);
    }
}

/// The disk of the configuration is full for a while: changes are refused with words, and taken again after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_changes_no_longer_than_it_is_full() {
    let gateway = Gateway::on_small_disk(48 << 20, &["--log-store-url", "null:"]).await;
    let config = |n: u32| {
        json!({ "name": format!("config {n}"), "config": { "provider": "mock", "override_params": {
        "user": "u".repeat(60_000) } } })
    };
    gateway.admin().post("/configs", &config(0)).await.expect(200);
    let filler = gateway.small_disk().join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    for size in [1 << 20, 1 << 12, 1] {
        while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
    }
    for n in 1..4 {
        let said = gateway.admin().post("/configs", &config(n)).await.expect(503).json();
        assert!(said["data"]["message"].is_string(), "{said}");
    }
    let told = status(&gateway).await;
    assert_eq!(told["components"]["database"]["status"], "degraded", "{told}");
    gateway.admin().get("/configs").await.expect(200);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    drop(file);
    std::fs::remove_file(&filler).expect("room again");
    for n in 4..6 {
        gateway.admin().post("/configs", &config(n)).await.expect(200);
    }
    comes_to(&gateway, "database", "ok").await;
    let listed = gateway.admin().get("/configs").await.expect(200).json();
    assert_eq!(listed["total"], 3, "what was refused is not there");
}
