//! Writes of several nodes: what one has not read yet, another may have changed.

use crate::harness::{House, text};
use http::StatusCode;
use serde_json::json;

#[tokio::test]
async fn a_write_builds_on_what_other_nodes_wrote() {
    let one = House::new().await;
    let two = one.beside().await;
    let made =
        one.as_admin().post("/configs", json!({"name": "a", "config": {"provider": "openai"}})).await.expect(200);
    let path = format!("/configs/{}", text(&made["slug"]));
    one.as_admin().put(&path, json!({"name": "b"})).await.expect(200);
    // The second node has not polled since; its write must not undo the first one's.
    let answer = two.as_admin().put(&path, json!({"config": {"provider": "groq"}})).await;
    assert_eq!(answer.headers["x-config-revision"], "4");
    answer.expect(200);
    let read = two.as_admin().get(&path).await.expect(200);
    assert_eq!((&read["name"], &read["config"]["provider"]), (&json!("b"), &json!("groq")));
    one.catch_up().await;
    assert_eq!(one.app.live.snapshot().revision, two.app.live.snapshot().revision);
}

#[tokio::test]
async fn references_are_checked_against_what_is_committed() {
    let one = House::new().await;
    let integration = json!({"name": "oa", "ai_provider_id": "openai", "key": "k"});
    one.as_admin().post("/integrations", integration).await.expect(200);
    let two = one.beside().await;
    one.as_admin().post("/configs", json!({"name": "c", "config": {"provider": "@oa"}})).await.expect(200);
    // The config is news to the second node, and stands in its way all the same.
    two.as_admin().delete("/providers/oa").await.refused(409, "AB07");
    let (id, key) = one.key("workspace/service", json!({"scopes": ["configs.list"]})).await;
    two.catch_up().await;
    one.as_admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    two.as_admin().put(&format!("/api-keys/{id}"), json!({"name": "back"})).await.refused(404, "AB08");
    two.catch_up().await;
    assert!(!two.in_force(&key));
}

#[tokio::test]
async fn of_many_that_want_one_slug_one_gets_it() {
    let one = House::new().await;
    let two = one.beside().await;
    let body = |i: usize| json!({"name": format!("n{i}"), "slug": "same", "ai_provider_id": "openai", "key": "k"});
    let mut won = 0;
    for i in 0..5 {
        let (a, b) = (one.as_admin(), two.as_admin());
        let (a, b) = tokio::join!(a.post("/integrations", body(i)), b.post("/integrations", body(i + 100)));
        for answer in [a, b] {
            match answer.status {
                StatusCode::OK => won += 1,
                _ => drop(answer.refused(409, "AB07")),
            }
        }
    }
    assert_eq!(won, 1);
    one.catch_up().await;
    assert_eq!(one.as_admin().get("/integrations").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn derived_slugs_never_collide() {
    let one = House::new().await;
    let two = one.beside().await;
    let body = || json!({"name": "Same Name", "ai_provider_id": "openai", "key": "k"});
    for _ in 0..3 {
        let (a, b) = (one.as_admin(), two.as_admin());
        let (a, b) = tokio::join!(a.post("/integrations", body()), b.post("/integrations", body()));
        a.expect(200);
        b.expect(200);
    }
    one.catch_up().await;
    let listed = one.as_admin().get("/integrations").await.expect(200);
    let mut slugs = crate::harness::list(&listed, "slug");
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 6);
}

#[tokio::test]
async fn own_writes_are_in_force_when_answered() {
    let house = House::new().await;
    let home = house.default_workspace();
    let integration = json!({"name": "oa", "ai_provider_id": "openai", "key": "first-first-first-1"});
    let answer = house.as_admin().post("/integrations", integration).await;
    assert_eq!(
        answer.headers["x-config-revision"].to_str().ok(),
        Some(house.app.live.snapshot().revision.to_string().as_str())
    );
    let credential = || {
        let snapshot = house.app.live.snapshot();
        let provider = snapshot.workspace(home).and_then(|w| w.provider("oa").cloned()).expect("in force");
        let upstream = snapshot.upstream(provider.integration).expect("in force");
        upstream.credential.as_ref().map(|c| c.expose().clone())
    };
    assert_eq!(credential().as_deref(), Some("first-first-first-1"));
    house.as_admin().put("/integrations/oa", json!({"key": "second-second-second-2"})).await.expect(200);
    assert_eq!(credential().as_deref(), Some("second-second-second-2"));
}

#[tokio::test]
async fn fields_that_a_newer_node_wrote_survive_an_update() {
    let house = House::new().await;
    let (id, _) = house.key("workspace/service", json!({"scopes": ["configs.list"]})).await;
    let found = house.app.store.load().await.expect("readable").rows;
    let mut row = found.into_iter().find(|r| r.id.to_string() == id).expect("stored");
    let mut doc: serde_json::Value = serde_json::from_str(&row.doc).expect("JSON");
    doc["from_the_future"] = json!({"kept": true});
    (row.doc, row.version) = (doc.to_string(), row.version + 1);
    house.store(vec![row]).await;
    house.as_admin().put(&format!("/api-keys/{id}"), json!({"name": "renamed"})).await.expect(200);
    let found = house.app.store.load().await.expect("readable").rows;
    let row = found.into_iter().find(|r| r.id.to_string() == id).expect("stored");
    assert!(row.doc.contains("from_the_future") && row.name == "renamed", "{}", row.doc);
}
