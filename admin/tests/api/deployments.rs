//! Deployments on the Admin API: what is refused, and how their nodes are told of. Whom nodes serve is tested with the
//! whole program.

use crate::harness::{House, now};
use gateway_domain::node::Node;
use gateway_domain::ports::NodeRegistry;
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test]
async fn what_is_no_deployment_is_refused_by_field_and_rule() {
    let house = House::new().await;
    let admin = house.as_admin();
    let good = json!({"name": "Europe", "slug": "eu", "type": "production"});
    let wrong = [
        ("type", json!("staging"), "type must be one of production, non-production"),
        ("type", Value::Null, "type"),
        ("name", json!(""), "name must not be empty"),
        ("slug", json!("e u"), "slug may hold"),
        ("tags", json!({"a": "x".repeat(256)}), "tags.a must be at most 255"),
        ("source_type", json!(""), "source_type must not be empty"),
        ("config", json!({"other": 1}), "config.other is not a known field"),
        ("config", json!({"metadata": {"a": "x".repeat(200)}}), "config.metadata value of `a`"),
        ("allow_all_workspaces", json!(false), "allowed_workspaces is required"),
        ("allowed_workspaces", json!([]), "allowed_workspaces must name 1..1000"),
        ("allowed_workspaces", json!(["default", "default"]), "allowed_workspaces[1] is named again"),
        ("allowed_workspaces", json!(["nowhere"]), "allowed_workspaces[0] names no workspace"),
        ("region", json!("eu"), "region is not a known field"),
    ];
    for (field, value, rule) in wrong {
        let mut body = good.clone();
        body[field] = value;
        let answer = admin.post("/deployments", body).await;
        assert!(answer.status == 400 && answer.text.contains(rule), "{field}: {}", answer.text);
    }
    let mut both = good.clone();
    (both["allow_all_workspaces"], both["allowed_workspaces"]) = (json!(true), json!(["default"]));
    admin.post("/deployments", both).await.expect(400);
    admin.post("/deployments", good.clone()).await.expect(200);
    admin.post("/deployments", good).await.expect(409);
    for body in [json!({"type": null}), json!({"name": null}), json!({"allowed_workspaces": null})] {
        admin.put("/deployments/eu", body).await.expect(400);
    }
}

#[tokio::test]
async fn a_deployment_is_active_while_a_node_of_it_is_heard_of() {
    let house = House::new().await;
    let admin = house.as_admin();
    for (slug, kind) in [("eu", "production"), ("us", "non-production")] {
        let body = json!({"name": slug, "slug": slug, "type": kind});
        admin.post("/deployments", body).await.expect(200);
    }
    let revision = house.app.live.snapshot().revision;
    let node = |deployment: &str, revision| Node {
        id: Uuid::now_v7(),
        role: "proxy".into(),
        deployment: deployment.into(),
        version: "9.9.9".into(),
        revision,
        started_at: now(),
    };
    for node in [node("eu", revision), node("eu", 0), node("", revision)] {
        house.database.beat(&node).await.expect("written");
    }
    let eu = admin.get("/deployments/eu").await.expect(200);
    assert_eq!((&eu["status"], &eu["nodes"]), (&json!("active"), &json!(2)), "{eu}");
    assert!(eu["last_synced_at"].is_string(), "{eu}");
    let us = admin.get("/deployments/us").await.expect(200);
    assert_eq!((&us["status"], &us["nodes"], &us["last_synced_at"]), (&json!("inactive"), &json!(0), &Value::Null));
    for (query, count) in [("", 2), ("?type=production", 1), ("?search=us", 1), ("?type=production&search=us", 0)] {
        assert_eq!(admin.get(&format!("/deployments{query}")).await.expect(200)["total"], count, "{query}");
    }
    let second = admin.get("/deployments?page_size=1&current_page=1").await.expect(200);
    assert_eq!((&second["total"], second["data"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    admin.get("/deployments?type=staging").await.expect(400);
    admin.delete("/deployments/us").await.expect(200);
    admin.get("/deployments/us").await.expect(404);
}
