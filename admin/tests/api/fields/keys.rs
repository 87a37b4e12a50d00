//! API keys of people and of services.

use super::{Story, budget, midnight, rates};
use crate::harness::text;
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>, user: &str, config: &str) {
    let rotation = |next: &str, ms: u64| json!({"rotation_period_days": 9, "next_rotation_at": next, "key_transition_period_ms": ms});
    let defaults = |config: &str, team: &str| json!({"metadata": {"_team": team}, "config_id": config, "allow_config_override": false});
    let route = "POST /api-keys/{type}/{sub_type}";
    let body = json!({"name": "One", "description": "d", "user_id": user, "scopes": ["completions.write"],
        "defaults": defaults(config, "a"), "expires_at": midnight(90), "rate_limits": rates(11),
        "rotation_policy": {"rotation_period_days": 9, "key_transition_period_ms": 3_600_000},
        "usage_limits": budget(1100), "alert_emails": ["a@example.com"], "max_parallel": 5, "workspace_id": "team",
        "mcp_access": {"allow": ["files"], "deny": ["files/delete_*"]}, "allowed_models": ["gpt-4o", "@own/*"]});
    let made = story.send(route, "/api-keys/workspace/user", body.clone()).await;
    let path = format!("/api-keys/{}", text(&made["id"]));
    let mut want = body;
    want.as_object_mut().expect("fields").remove("workspace_id");
    want["type"] = json!("workspace-user");
    story.shows(&path, want).await;
    story.holds_elsewhere().await;
    // A service key is held to no cadence.
    let body = json!({"name": "Two", "scopes": ["configs.list"], "workspace_id": "team",
        "rotation_policy": rotation(&midnight(3), 1_800_000)});
    let made = story.send(route, "/api-keys/workspace/service", body).await;
    let path = format!("/api-keys/{}", text(&made["id"]));
    story.shows(&path, json!({"rotation_policy": rotation(&midnight(3), 1_800_000)})).await;
    let body = json!({"name": "Deux", "description": "e", "scopes": ["configs.read", "completions.write"],
        "defaults": defaults(config, "b"), "expires_at": midnight(91), "rate_limits": rates(12),
        "rotation_policy": rotation(&midnight(4), 7_200_000), "usage_limits": budget(1200), "alert_emails": ["b@example.com", "c@example.com"],
        "max_parallel": 6, "reset_usage": true, "status": "active", "mcp_access": {"allow": []},
        "allowed_models": ["o3*"]});
    story.send("PUT /api-keys/{id}", &path, body.clone()).await;
    let mut want = body;
    (want["reset_usage"], want["scopes"]) = (json!(null), json!(["configs.read", "completions.write"]));
    story.shows(&path, want).await;
    story
        .send("POST /api-keys/{id}/rotate", &format!("{path}/rotate"), json!({"key_transition_period_ms": 1_900_000}))
        .await;
    let ends = story.house.as_admin().get(&path).await.expect(200)["key_transition_expires_at"].clone();
    assert!(ends.is_string());
    let next = midnight(9);
    story.shows(&path, json!({"key_transition_expires_at": ends, "rotation_policy": rotation(&next, 7_200_000)})).await;
}
