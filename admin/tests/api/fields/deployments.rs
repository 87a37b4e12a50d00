//! Deployments.

use super::Story;
use serde_json::{Value, json};

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let team = story.house.as_admin().get("/admin/workspaces/team").await.expect(200)["id"].clone();
    let home = json!(story.house.default_workspace());
    let config = json!({"block_inline_config": true, "metadata": {"region": "eu"}});
    let body = json!({"name": "Europe", "slug": "eu", "type": "production", "config": config, "tags": {"a": "b"},
        "source_type": "helm", "allow_all_workspaces": false, "allowed_workspaces": ["team", "default"], "organisation_id": org});
    story.send("POST /deployments", "/deployments", body.clone()).await;
    let mut want = body;
    want["allowed_workspaces"] = json!([team, home]);
    story.shows("/deployments/eu", want).await;
    story.holds_elsewhere().await;
    let config = json!({"block_inline_config": null, "metadata": {"region": "us"}});
    let body = json!({"name": "Elsewhere", "type": "non-production", "config": config, "tags": {}, "source_type": null,
        "allow_all_workspaces": true});
    story.send("PUT /deployments/{id}", "/deployments/eu", body.clone()).await;
    let mut want = body;
    want["config"]["block_inline_config"] = json!(false);
    want["allowed_workspaces"] = json!([]);
    story.shows("/deployments/eu", want.clone()).await;
    story.send("PUT /deployments/{id}", "/deployments/eu", json!({"allowed_workspaces": ["default"]})).await;
    (want["allow_all_workspaces"], want["allowed_workspaces"]) = (json!(false), Value::Array(vec![home]));
    story.shows("/deployments/eu", want).await;
}
