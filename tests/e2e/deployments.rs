//! Deployments: two nodes of two deployments on one database, each serving the workspaces of its own.

use crate::area_forms::{FORM, form};
use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::sync::Arc;

/// Nodes of `eu` and `us`, and one of none.
struct House {
    eu: Gateway,
    us: Gateway,
    all: Gateway,
    _postgres: Arc<Postgres>,
}

async fn house() -> House {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("deployments"))).await;
    let (postgres, url) = database.expect("no panic");
    let all = Gateway::with(&["--database-url", &url]).await;
    let key = all.folder().join("data/master.key").display().to_string();
    let flags = |slug| ["--database-url", &*url, "--master-key-file", &*key, "--deployment", slug].map(str::to_owned);
    let (eu, us) = (flags("eu"), flags("us"));
    let eu = Gateway::with(&eu.each_ref().map(String::as_str)).await;
    let us = Gateway::with(&us.each_ref().map(String::as_str)).await;
    House { eu, us, all, _postgres: postgres }
}

async fn status(gateway: &Gateway, key: &str) -> u16 {
    gateway.chat().key(key).provider("mock").json(&hello()).send().await.status
}

/// Waits until the node has heard of it.
async fn becomes(gateway: &Gateway, key: &str, want: u16) {
    let what = format!("the status {want}");
    eventually(&what, async || (status(gateway, key).await == want).then_some(())).await;
}

fn deployment(slug: &str, workspaces: &[&str]) -> Value {
    json!({ "name": slug, "slug": slug, "type": "production", "allowed_workspaces": workspaces })
}

/// The values are a text that the answer to POST holds, and no later answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_started_by_the_values_of_its_deployment_is_of_it() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("values"))).await;
    let (_postgres, url) = database.expect("no panic");
    let all = Gateway::with(&["--database-url", &url]).await;
    let made = all.admin().post("/deployments", &deployment("eu-1", &["default"])).await.expect(200).json();
    let values = made["values"].as_str().expect("a text").to_owned();
    assert!(!values.contains(&url) && values.contains("existingSecret: "), "{values}");
    assert!(all.admin().get("/deployments/eu-1").await.expect(200).json().get("values").is_none());
    let settings = values.lines().skip_while(|line| *line != "settings:").skip(1);
    let settings: Vec<(&str, &str)> = settings.filter_map(|line| line.trim().split_once(": ")).collect();
    let key = all.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &*url, "--master-key-file", &*key];
    let node = Gateway::in_environment_with(&settings, &flags).await;
    becomes(&node, WORKSPACE_KEY, 200).await;
    eventually("it is heard of", || async {
        let told = all.admin().get("/deployments/eu-1").await.expect(200).json();
        (told["nodes"] == 1 && told["status"] == "active").then_some(())
    })
    .await;
    let nodes = all.admin().get("/nodes").await.expect(200).json();
    assert!(nodes.to_string().contains("\"eu-1\""), "{nodes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_serve_the_workspaces_of_their_deployment_and_no_other() {
    let House { eu, us, all, _postgres } = house().await;
    let admin = all.admin();
    admin.post("/admin/workspaces", &json!({ "name": "Team", "slug": "team" })).await.expect(200);
    let (_, team) = admin.workspace_key("t", json!({ "workspace_id": "team" })).await;
    // Nobody is served by a deployment that nobody has made; the Admin API of the node is there to make it.
    becomes(&all, &team, 200).await;
    becomes(&eu, &team, 403).await;
    assert_eq!(status(&eu, WORKSPACE_KEY).await, 403);
    eu.admin().post("/deployments", &deployment("eu", &["team"])).await.expect(200);
    let refused = eu.chat().provider("mock").json(&hello()).send().await.expect(403);
    assert!(refused.text().contains("does not serve the workspace"), "{}", refused.text());
    assert_eq!(status(&eu, &team).await, 200);
    us.admin().post("/deployments", &deployment("us", &["default"])).await.expect(200);
    becomes(&us, WORKSPACE_KEY, 200).await;
    assert_eq!(status(&us, &team).await, 403);
    // A node of no deployment serves everybody.
    assert_eq!((status(&all, WORKSPACE_KEY).await, status(&all, &team).await), (200, 200));
    // No route is a way around.
    for path in ["/v1/models", "/v1/files", "/v1/batches", "/v1/proxy/x", "/nowhere/mcp"] {
        let answer = eu.get(path).key(WORKSPACE_KEY).send().await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
    }
    // What opens and shuts is in force when it is answered.
    eu.admin().put("/deployments/eu", &json!({ "allow_all_workspaces": true })).await.expect(200);
    assert_eq!(status(&eu, WORKSPACE_KEY).await, 200);
    eu.admin().put("/deployments/eu", &json!({ "allowed_workspaces": ["default"] })).await.expect(200);
    assert_eq!((status(&eu, WORKSPACE_KEY).await, status(&eu, &team).await), (200, 403));
    // Nodes tell which they are of.
    let shown = eventually("both are heard of", async || {
        let all = admin.get("/deployments").await.expect(200).json();
        let live = all["data"].as_array().expect("a list").iter().all(|d| d["status"] == "active" && d["nodes"] == 1);
        (live && all["total"] == 2).then_some(all)
    });
    let shown = shown.await;
    assert!(shown["data"][0]["last_synced_at"].is_string(), "{shown}");
    let nodes = admin.get("/nodes").await.expect(200).json();
    let mut of: Vec<&str> =
        nodes["data"].as_array().expect("a list").iter().filter_map(|n| n["deployment"].as_str()).collect();
    of.sort_unstable();
    assert_eq!(of, ["eu", "us"]);
    eu.admin().delete("/deployments/eu").await.expect(200);
    assert_eq!(status(&eu, WORKSPACE_KEY).await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_names_no_workspace_is_for_the_first_of_the_deployment() {
    let (issuer, House { eu, all, _postgres, .. }) = (Issuer::publishing(&[&FIRST]).await, house().await);
    let admin = eu.admin();
    admin.put("/admin/organisation", &json!({ "jwks_uris": issuer.uri() })).await.expect(200);
    for name in ["one", "two"] {
        admin.post("/admin/workspaces", &json!({ "name": name, "slug": name })).await.expect(200);
    }
    admin.post("/deployments", &deployment("eu", &["two", "one"])).await.expect(200);
    let token = |more: Value| {
        let claims = json!({ "scope": "completions.write logs.list logs.view", "sub": "ann", "exp": in_seconds(3600) });
        FIRST.sign(&crate::harness::with(claims, more))
    };
    let plain = token(json!({}));
    becomes(&eu, &plain, 200).await;
    becomes(&all, &plain, 200).await;
    let workspaces = eventually("two records", async || {
        let of = async |slug: &str| {
            let path = format!("/logs?workspace_slug={slug}");
            admin.get(&path).await.expect(200).json()["total"].as_u64().unwrap_or_default()
        };
        let (two, default) = (of("two").await, of("default").await);
        (two > 0 && default > 0).then_some((two, default))
    });
    workspaces.await;
    // A claim is heard where it names one that is served here.
    assert_eq!(status(&eu, &token(json!({ "gateway_workspace": "one" }))).await, 200);
    assert_eq!(status(&eu, &token(json!({ "gateway_workspace": "default" }))).await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_do_what_the_config_of_their_deployment_says() {
    let up = Upstream::replying(|_| reply::chat("hi")).await;
    let House { eu, all, _postgres, .. } = house().await;
    let config = json!({ "block_inline_config": true, "metadata": { "region": "eu", "team": "deployment" } });
    let made = json!({ "name": "eu", "slug": "eu", "type": "production", "config": config });
    eu.admin().post("/deployments", &made).await.expect(200);
    let inline = async |gateway: &Gateway| gateway.chat().config(&target(&up)).json(&hello()).send().await;
    let refused = inline(&eu).await.expect(400);
    assert!(refused.text().contains("inline_config_blocked"), "{}", refused.text());
    inline(&all).await.expect(200);
    let config = json!({ "config": { "block_inline_config": false } });
    eu.admin().put("/deployments/eu", &config).await.expect(200);
    let metadata = json!({ "team": "request", "own": "x" }).to_string();
    let call =
        eu.chat().config(&target(&up)).header("x-gateway-trace-id", "here").header("x-gateway-metadata", &metadata);
    call.json(&hello()).send().await.expect(200);
    let record = eventually("the record", async || {
        let list = eu.admin().get("/logs?trace_id=here").await.expect(200).json();
        list["data"].as_array().filter(|list| !list.is_empty()).map(|list| list[0].clone())
    });
    let record = record.await;
    let told = |key: &str| {
        let keys = record["metrics"]["metadata.key"].as_array().expect("keys");
        let at = keys.iter().position(|known| known == key).unwrap_or_else(|| panic!("{key}: {record}"));
        record["metrics"]["metadata.value"][at].clone()
    };
    assert_eq!((told("region"), told("team"), told("own")), (json!("eu"), json!("deployment"), json!("x")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_run_by_the_nodes_of_the_deployment_that_took_it() {
    let House { eu, us, all, _postgres } = house().await;
    eu.admin().post("/deployments", &deployment("eu", &["default"])).await.expect(200);
    // Only a node that would be refused every line is left beside.
    all.process.signal("TERM");
    assert_eq!(status(&us, WORKSPACE_KEY).await, 403);
    let line = |n: usize| {
        let body = json!({ "model": "mock-model", "messages": [{ "role": "user", "content": "hi" }] });
        json!({ "custom_id": n.to_string(), "method": "POST", "url": "/v1/chat/completions", "body": body }).to_string()
    };
    for _ in 0..3 {
        let lines = (0..3).map(line).collect::<Vec<_>>().join("\n");
        let file = form(&[("purpose", None, b"batch"), ("file", Some("l.jsonl"), lines.as_bytes())]);
        let file = eu.post("/v1/files").body(FORM, file).send().await.expect(200).json()["id"].clone();
        let body =
            json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "immediate" });
        let made = eu.post("/v1/batches").provider("mock").json(&body).send().await.expect(200).json();
        let path = format!("/v1/batches/{}", made["id"].as_str().expect("an id"));
        let done = eventually("the batch ends", async || {
            let batch = eu.get(&path).send().await.expect(200).json();
            (batch["status"] == "completed").then_some(batch)
        });
        assert_eq!(done.await["request_counts"]["completed"], 3);
    }
}
