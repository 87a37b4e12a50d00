//! Exports of logs by the real program: whole after a kill, made once where there are several nodes, and fetched from
//! any.

use crate::harness::{Gateway, eventually};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// So many calls that went another way, as they are told of in one go.
fn external_logs(from: usize, count: usize) -> Value {
    let one = |n: usize| {
        json!({
            "request": {"url": "/v1/chat/completions", "body": {"model": "m", "messages": [{"role": "user", "content": "x".repeat(200)}]}},
            "response": {"status": 500, "body": {"error": "none"}},
            "metadata": {"trace_id": "bulk", "span_id": n.to_string()},
        })
    };
    (from..from + count).map(one).collect()
}

async fn filled(gateway: &Gateway, count: usize) {
    let scopes = json!({"scopes": ["completions.write", "logs.write"]});
    let (_, key) = gateway.admin().workspace_key("teller", scopes).await;
    for from in (0..count).step_by(100) {
        gateway.post("/v1/logs").key(&key).json(&external_logs(from, 100)).send().await.expect(200);
    }
    eventually("all are stored", || async {
        let list = gateway.admin().get("/logs?trace_id=bulk&page_size=1").await.expect(200).json();
        (list["total"] == count).then_some(())
    })
    .await;
}

async fn started(gateway: &Gateway, fields: &[&str]) -> String {
    let body = json!({"filters": {"trace_id": "bulk"}, "requested_data": fields});
    let made = gateway.admin().post("/logs/exports", &body).await.expect(200).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    gateway.admin().post(&format!("/logs/exports/{id}/start"), &json!({})).await.expect(200);
    id
}

async fn is_made(gateway: &Gateway, id: &str) -> bool {
    let told = gateway.admin().get(&format!("/logs/exports/{id}")).await.expect(200).json();
    assert_ne!(told["status"], "failed", "{told}");
    told["status"] == "success"
}

/// What a dead node held is free when its lease has run out: longer than one waits elsewhere.
async fn made(gateway: &Gateway, id: &str) {
    for _ in 0..5 {
        let began = Instant::now();
        let look = || async { (is_made(gateway, id).await || began.elapsed() > Duration::from_secs(15)).then_some(()) };
        eventually("it is made, or some time has passed", look).await;
    }
    assert!(is_made(gateway, id).await, "never made");
}

/// What stands in the file that one node links to.
async fn lines(gateway: &Gateway, id: &str) -> Vec<Value> {
    let told = gateway.admin().get(&format!("/logs/exports/{id}/download")).await.expect(200).json();
    let url = told["signed_url"].as_str().expect("a link");
    let file = gateway.client().get(url).send().await.expect("an answer");
    assert_eq!(file.status(), 200);
    let text = file.text().await.expect("the whole file");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn ids(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_kill_costs_an_export_nothing() {
    let gateway = Gateway::start().await;
    filled(&gateway, 1_500).await;
    let id = started(&gateway, &["id", "request"]).await;
    let path = format!("/logs/exports/{id}");
    eventually("some of it is written", || async {
        let told = gateway.admin().get(&path).await.expect(200).json();
        (told["exported_records"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let gateway = gateway.restart_after_kill(&[]).await;
    made(&gateway, &id).await;
    let lines = lines(&gateway, &id).await;
    assert_eq!((lines.len(), ids(&lines).len()), (1_500, 1_500));
    assert!(lines[0]["request"]["body"]["messages"][0]["content"].as_str().is_some_and(|text| text.len() == 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_the_work_and_each_serves_every_file() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("exports"))).await;
    let (_postgres, url) = database.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
    filled(&one, 300).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(started(&one, &["id", "trace_id"]).await);
    }
    for (id, node) in all.iter().zip([&two, &one, &two]) {
        made(&one, id).await;
        let lines = lines(node, id).await;
        assert_eq!((lines.len(), ids(&lines).len()), (300, 300));
    }
    let told = one.admin().get("/logs/exports").await.expect(200).json();
    assert!(told["data"].as_array().expect("a list").iter().all(|row| row["exported_records"] == 300), "{told}");
}

/// Through the proxy port as well, in more pieces than one.
#[tokio::test]
async fn the_proxy_port_streams_a_file_too() {
    let gateway = Gateway::start().await;
    filled(&gateway, 1_000).await;
    let id = started(&gateway, &["id", "request", "response", "metadata"]).await;
    made(&gateway, &id).await;
    let told = gateway.admin().get(&format!("/logs/exports/{id}/download")).await.expect(200).json();
    let link = told["signed_url"].as_str().expect("a link");
    let path = &link[link.find("/v1/").expect("a path")..];
    let file = gateway.client().get(gateway.url(path)).send().await.expect("an answer");
    assert_eq!(file.status(), 200);
    let bytes = file.bytes().await.expect("the whole file");
    let shown = gateway.admin().get(&format!("/logs/exports/{id}")).await.expect(200).json();
    assert!(bytes.len() as u64 == shown["bytes"].as_u64().expect("a size") && bytes.len() > 300_000, "{shown}");
    // Nobody needs a key for it, and nobody gets in without the link.
    let bare = path.split('?').next().expect("a path");
    let refused = gateway.client().get(gateway.url(bare)).send().await.expect("an answer");
    assert_eq!(refused.status(), 403);
}

#[tokio::test]
async fn columns_are_fetched_like_lines() {
    let gateway = Gateway::start().await;
    filled(&gateway, 300).await;
    let body = json!({"filters": {"trace_id": "bulk"}, "requested_data": ["id", "request"], "format": "parquet"});
    let told = gateway.admin().post("/logs/exports", &body).await.expect(200).json();
    let id = told["id"].as_str().expect("an id");
    gateway.admin().post(&format!("/logs/exports/{id}/start"), &json!({})).await.expect(200);
    made(&gateway, id).await;
    let told = gateway.admin().get(&format!("/logs/exports/{id}/download")).await.expect(200).json();
    let file = gateway.client().get(told["signed_url"].as_str().expect("a link")).send().await.expect("an answer");
    assert_eq!(file.headers()["content-type"], "application/vnd.apache.parquet");
    let bytes = file.bytes().await.expect("the whole file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let shown = gateway.admin().get(&format!("/logs/exports/{id}")).await.expect(200).json();
    assert_eq!((&shown["exported_records"], &shown["bytes"]), (&json!(300), &json!(bytes.len())));
}

#[tokio::test]
async fn denied_fields_are_kept_from_readers_and_exports() {
    let gateway = Gateway::start().await;
    filled(&gateway, 100).await;
    let admin = gateway.admin();
    let deny = |fields: Value| json!({"export_settings": {"denied_fields": fields}});
    admin.put("/admin/organisation", &deny(json!(["metadata"]))).await.expect(200);
    admin.put("/admin/workspaces/default", &deny(json!(["response_status_code"]))).await.expect(200);
    let (_, key) = admin.workspace_key("reader", json!({"scopes": ["logs.list", "logs.export"]})).await;
    let reader = admin.with_key(&key);
    let told = reader.get("/logs/exports/field-restrictions").await.expect(200).json();
    assert_eq!(told["denied_fields"], json!(["response_status_code", "metadata"]));
    let list = reader.get("/logs?page_size=1").await.expect(200).json();
    assert_eq!(list["data"][0]["metrics"]["response_status_code"], Value::Null);
    assert_eq!(
        admin.get("/logs?page_size=1").await.expect(200).json()["data"][0]["metrics"]["response_status_code"],
        500
    );
    reader.get("/logs?status_code=500").await.expect(400);
    for asked in [admin, reader] {
        let body = json!({"filters": {}, "requested_data": ["id", "metadata"]});
        asked.post("/logs/exports", &body).await.expect(400);
    }
}
