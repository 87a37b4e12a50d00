//! Configs, and a version of one that is brought back.

use super::Story;
use crate::harness::text;
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>) -> String {
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@own"}, {"provider": "openai",
        "api_key": "sk-quite-a-long-secret-6666", "override_params": {"user": "u"}}]});
    let body = json!({"name": "Routes", "config": config, "isDefault": 1, "workspace_id": "team"});
    let slug = text(&story.send("POST /configs", "/configs", body).await["slug"]);
    let path = format!("/configs/{slug}?workspace_id=team");
    let mut shown = config;
    shown["targets"][1]["api_key"] = json!("****6666");
    story.shows(&path, json!({"name": "Routes", "config": shown, "is_default": 1})).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "Paths", "config": {"provider": "@own"}, "isDefault": 0, "status": "active",
        "workspace_id": "team"});
    story.send("PUT /configs/{id}", &format!("/configs/{slug}"), body).await;
    story.shows(&path, json!({"name": "Paths", "config": {"provider": "@own"}, "is_default": 0})).await;
    story.holds_elsewhere().await;
    let back = json!({"version": 1, "workspace_id": "team"});
    story.send("POST /configs/{id}/rollback", &format!("/configs/{slug}/rollback"), back).await;
    story.shows(&path, json!({"config": shown})).await;
    slug
}
