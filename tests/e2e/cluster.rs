//! Several nodes on one Postgres: who is there, and what they promise together.

use crate::harness::{Gateway, eventually};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::time::Duration;

async fn database(name: &'static str) -> (std::sync::Arc<Postgres>, String) {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create(name))).await;
    made.expect("no panic")
}

async fn nodes(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/nodes").await.expect(200).json();
    list["data"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_node_alone_knows_itself() {
    let gateway = Gateway::start().await;
    let seen = eventually("itself", || async { Some(nodes(&gateway).await).filter(|n| !n.is_empty()) }).await;
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["role"], &seen[0]["status"]), (&json!("all"), &json!("live")));
    assert_eq!(seen[0]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_know_each_other_until_they_leave() {
    let (_postgres, url) = database("nodes").await;
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let shared = ["--database-url", &url, "--master-key-file", &key];
    let mut two = Gateway::with(&[&shared[..], &["--role", "proxy"]].concat()).await;
    let serving = async |count: &str| {
        let metrics = one.client().get(one.admin_url("/metrics")).send().await.expect("metrics");
        metrics.text().await.expect("text").contains(&format!("gateway_nodes {count}\n"))
    };
    let seen = eventually("both", || async { Some(nodes(&one).await).filter(|n| n.len() == 2) }).await;
    let roles: Vec<&Value> = seen.iter().map(|n| &n["role"]).collect();
    assert_eq!(roles, ["all", "proxy"]);
    eventually("no lag", || async { nodes(&one).await.iter().all(|n| n["lag"] == 0).then_some(()) }).await;
    eventually("two that serve", || async { serving("2").await.then_some(()) }).await;
    two.process.signal("TERM");
    two.process.exit(Duration::from_secs(20)).await;
    assert_eq!(nodes(&one).await.len(), 1, "it said goodbye");
    eventually("one that serves", || async { serving("1").await.then_some(()) }).await;
}
