//! When keys were last used (`last_used_at`): on whichever node, over a kill, and without a change of the key.

use crate::harness::{Gateway, eventually, hello};
use gateway_testing::Postgres;
use serde_json::{Value, json};

async fn last_use(gateway: &Gateway, id: &str) -> Option<String> {
    let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
    shown["last_used_at"].as_str().map(str::to_owned)
}

/// The part of its tag that `if-match` compares.
async fn state(gateway: &Gateway, id: &str) -> Option<String> {
    let answer = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200);
    Some(answer.header("etag")?.split('-').next()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_use_is_told_by_every_node_and_outlives_them() {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("uses"))).await;
    let (_postgres, url) = made.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let master = one.folder().join("data/master.key").display().to_string();
    let shared = ["--database-url", &url, "--master-key-file", &master];
    let two = Gateway::with(&[&shared[..], &["--role", "proxy"]].concat()).await;
    let (id, key) = one.admin().workspace_key("used", json!({})).await;
    let (idle, _) = one.admin().workspace_key("idle", json!({})).await;
    assert_eq!(last_use(&one, &id).await, None);
    let before = state(&one, &id).await;
    assert!(before.is_some());
    eventually("the key on the other node", || async {
        let answer = two.chat().key(&key).provider("mock").json(&hello()).send().await;
        (answer.status == 200).then_some(())
    })
    .await;
    let at = eventually("the use of the key", || async { last_use(&one, &id).await }).await;
    assert_eq!(state(&one, &id).await, before, "it is the key that it was");
    let list = one.admin().get("/api-keys").await.expect(200).json();
    let listed = |id: &str| {
        let mut rows = list["data"].as_array().expect("a list").iter();
        rows.find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}: {list}"))["last_used_at"].clone()
    };
    assert_eq!((listed(&id), listed(&idle)), (json!(at), Value::Null));
    let org = one.admin().get("/admin/organisation").await.expect(200).json()["id"].clone();
    let org = org.as_str().expect("an id").to_owned();
    let trail = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01&action=update");
    let trail = one.admin().get(&trail).await.expect(200).json();
    assert!(!trail.to_string().contains(&id), "{trail}");
    drop(two);
    let one = one.restart_after_kill(&["--database-url", &url]).await;
    assert_eq!(last_use(&one, &id).await, Some(at));
}

#[tokio::test]
async fn keys_are_used_on_the_admin_port_too_and_what_is_explained_is_no_use() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (id, key) = admin.workspace_key("used", json!({ "scopes": ["configs.list", "completions.write"] })).await;
    let asked = json!({ "key": key, "path": "/v1/chat/completions", "body": hello(),
                        "headers": { "x-gateway-provider": "mock" } });
    let told = admin.post("/configs/explain", &asked).await.expect(200).json();
    assert_eq!(told["targets"][0]["provider"], "mock", "{told}");
    assert_eq!(last_use(&gateway, &id).await, None);
    admin.put(&format!("/api-keys/{id}"), &json!({ "status": "blocked" })).await.expect(200);
    admin.with_key(&key).get("/configs").await.expect(401);
    assert_eq!(last_use(&gateway, &id).await, None, "it opened nothing");
    admin.put(&format!("/api-keys/{id}"), &json!({ "status": "active" })).await.expect(200);
    admin.with_key(&key).get("/configs").await.expect(200);
    assert!(last_use(&gateway, &id).await.is_some());
    let own = admin.with_key(&key).get("/api-keys/self/details").await.expect(200).json();
    assert!(own["last_used_at"].is_string(), "{own}");
}
