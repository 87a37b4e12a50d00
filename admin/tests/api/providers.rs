//! Managed providers: what they borrow, where they live, when they end.

use crate::harness::{House, in_seconds, list, pass_seconds, text};
use serde_json::{Value, json};

async fn integration(house: &House, slug: &str) -> Value {
    let body =
        json!({"name": slug, "slug": slug, "ai_provider_id": "openai", "key": "k", "create_default_provider": false});
    house.as_admin().post("/integrations", body).await.expect(200)
}

#[tokio::test]
async fn a_provider_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let of = integration(&house, "oa").await;
    let made =
        admin.post("/providers", json!({"name": "Main Line", "integration_id": "oa", "note": "n"})).await.expect(200);
    assert_eq!(made["slug"], "main-line");
    let read = admin.get("/providers/main-line").await.expect(200);
    for (field, value) in [
        ("object", json!("provider")),
        ("status", json!("active")),
        ("integration_id", of["id"].clone()),
        ("ai_provider_id", json!("openai")),
        ("note", json!("n")),
        ("usage_limits", Value::Null),
        ("expires_at", Value::Null),
        ("id", made["id"].clone()),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert_eq!(list(&admin.get("/providers").await.expect(200), "slug"), ["main-line"]);
    let changed = admin.put("/providers/main-line", json!({"name": "Other", "note": null})).await.expect(200);
    assert_eq!(changed, json!({"id": made["id"], "slug": "main-line"}));
    let read = admin.get("/providers/main-line").await.expect(200);
    assert_eq!((&read["name"], &read["note"]), (&json!("Other"), &Value::Null));
    let said = admin.delete("/integrations/oa").await.refused(409, "AB07");
    assert!(said.contains("main-line"), "{said}");
    admin.delete("/providers/main-line").await.expect(200);
    admin.get("/providers/main-line").await.refused(404, "AB08");
    admin.delete("/integrations/oa").await.expect(200);
}

#[tokio::test]
async fn slugs_are_given_or_derived() {
    let house = House::new().await;
    integration(&house, "oa").await;
    let post = async |body: Value| house.as_admin().post("/providers", body).await;
    post(json!({"name": "a", "slug": "main", "integration_id": "oa"})).await.expect(200);
    let said = post(json!({"name": "b", "slug": "main", "integration_id": "oa"})).await.refused(409, "AB07");
    assert!(said.contains("`main`"), "{said}");
    let derived = post(json!({"name": "Main", "integration_id": "oa"})).await.expect(200);
    assert!(text(&derived["slug"]).starts_with("main-"), "{derived}");
    let nameless = post(json!({"name": "…", "integration_id": "oa"})).await.expect(200);
    assert_eq!(nameless["slug"], "provider");
    house.as_admin().delete("/providers/main").await.expect(200);
    post(json!({"name": "b", "slug": "main", "integration_id": "oa"})).await.expect(200);
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    integration(&house, "oa").await;
    for (body, says) in [
        (json!({"name": "x"}), "integration_id is required"),
        (json!({"name": "x", "integration_id": "nope"}), "integration_id names `nope`"),
        (json!({"name": "x", "integration_id": "0194f1f2-0000-7000-8000-000000000000"}), "integration_id names"),
        (json!({"name": "x", "integration_id": "oa", "slug": "a/b"}), "slug may hold letters"),
        (json!({"name": "x", "integration_id": "oa", "expires_at": "soon"}), "expires_at must be an RFC 3339"),
        (
            json!({"name": "x", "integration_id": "oa", "expires_at": in_seconds(-5)}),
            "expires_at must be in the future",
        ),
        (
            json!({"name": "x", "integration_id": "oa", "usage_limits": {"credit_limit": 0}}),
            "usage_limits.credit_limit must be at least 1",
        ),
        (
            json!({"name": "x", "integration_id": "oa", "rate_limits": [{"type": "requests"}]}),
            "rate_limits[0].unit is required",
        ),
        (json!({"name": "x", "integration_id": "oa", "tags": {"a": 1}}), "tags.a must be a string"),
    ] {
        let said = house.as_admin().post("/providers", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let spare = json!({"name": "x", "integration_id": "oa", "usage_limits": null, "rate_limits": [], "note": null});
    house.as_admin().post("/providers", spare).await.expect(200);
    house.as_admin().put("/providers/x", json!({"reset_usage": "x"})).await.refused(400, "AB01");
    house
        .as_admin()
        .put("/providers/x", json!({"reset_usage": false, "integration_id": "oa"}))
        .await
        .refused(400, "AB01");
}

#[tokio::test]
async fn expiry_shows_and_can_be_lifted() {
    let house = House::new().await;
    integration(&house, "oa").await;
    let body = json!({"name": "x", "integration_id": "oa", "expires_at": in_seconds(60)});
    house.as_admin().post("/providers", body).await.expect(200);
    assert_eq!(house.as_admin().get("/providers/x").await.expect(200)["status"], "active");
    pass_seconds(61);
    assert_eq!(house.as_admin().get("/providers/x").await.expect(200)["status"], "expired");
    house.as_admin().put("/providers/x", json!({"expires_at": null})).await.expect(200);
    assert_eq!(house.as_admin().get("/providers/x").await.expect(200)["status"], "active");
}

#[tokio::test]
async fn the_integration_of_another_workspace_cannot_be_borrowed() {
    let house = House::new().await;
    let other = house.workspace("other").await;
    let theirs = json!({"name": "t", "slug": "theirs", "ai_provider_id": "openai", "key": "k", "workspace_id": "other",
        "create_default_provider": false});
    let theirs = house.as_admin().post("/integrations", theirs).await.expect(200);
    for named in [&theirs["slug"], &theirs["id"]] {
        let body = json!({"name": "p", "integration_id": named});
        let said = house.as_admin().post("/providers", body).await.refused(400, "AB01");
        assert!(said.starts_with("integration_id names"), "{said}");
    }
    let body = json!({"name": "p", "integration_id": "theirs", "workspace_id": other});
    house.as_admin().post("/providers", body).await.expect(200);
    assert_eq!(list(&house.as_admin().get("/providers?workspace_id=other").await.expect(200), "slug"), ["p"]);
    assert_eq!(house.as_admin().get("/providers").await.expect(200)["total"], 0);
    // A bare slug finds the only one; the workspace may also stand in the body of an update.
    house.as_admin().get("/providers/p").await.expect(200);
    house.as_admin().put("/providers/p", json!({"name": "q", "workspace_id": "other"})).await.expect(200);
    house.as_admin().delete("/providers/p?workspace_id=default").await.refused(404, "AB08");
    house.as_admin().delete("/providers/p?workspace_id=other").await.expect(200);
}
