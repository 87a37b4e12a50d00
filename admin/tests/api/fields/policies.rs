//! Policies of rates and of spending.

use super::{Story, midnight};
use crate::harness::text;
use serde_json::{Value, json};

pub(super) async fn round_trip(story: &mut Story<'_>, key: &str) {
    let conditions =
        json!([{"key": "api_key", "value": [key]}, {"key": "model", "value": "*", "excludes": ["gpt-3*"]}]);
    let body = json!({"name": "Rates", "description": "d", "target": "llm", "type": "tokens", "unit": "rpw",
        "value": 5, "fail_mode": "open", "enforcement": "reserve", "assume_output": 50, "conditions": conditions, "group_by": [{"key": "metadata._user"}], "workspace_id": "team"});
    let made = story.send("POST /policies/rate-limits", "/policies/rate-limits", body.clone()).await;
    let path = format!("/policies/rate-limits/{}", text(&made["id"]));
    let without = |mut body: Value, names: &[&str]| {
        names.iter().for_each(|name| drop(body.as_object_mut().expect("fields").remove(*name)));
        body
    };
    story.shows(&path, without(body, &["workspace_id"])).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "Rated", "description": "e", "unit": "rph", "value": 6, "status": "active",
        "target": "llm", "type": "tokens", "fail_mode": "local", "enforcement": "check", "assume_output": null, "group_by": [{"key": "metadata._user"}],
        "conditions": [{"key": "provider", "value": "own"}]});
    story.send("PUT /policies/rate-limits/{id}", &path, body.clone()).await;
    story.shows(&path, body).await;

    let body = json!({"name": "Spend", "description": "d", "target": "llm", "type": "cost", "credit_limit": 50.5,
        "alert_threshold": 40, "periodic_reset": "monthly", "next_usage_reset_at": midnight(5),
        "conditions": conditions, "group_by": [{"key": "api_key"}], "workspace_id": "team",
        "fail_mode": "open", "enforcement": "reserve", "assume_output": 60});
    let made = story.send("POST /policies/usage-limits", "/policies/usage-limits", body.clone()).await;
    let path = format!("/policies/usage-limits/{}", text(&made["id"]));
    story.shows(&path, without(body, &["workspace_id"])).await;
    story.holds_elsewhere().await;
    let twin = json!({"type": "tokens", "credit_limit": 1000, "periodic_reset_days": 3, "conditions": conditions,
        "workspace_id": "team"});
    let twin = story.send("POST /policies/usage-limits", "/policies/usage-limits", twin).await;
    story.shows(&format!("/policies/usage-limits/{}", text(&twin["id"])), json!({"periodic_reset_days": 3})).await;
    let body = json!({"name": "Spent", "description": "e", "credit_limit": 60, "alert_threshold": 45,
        "periodic_reset": null, "periodic_reset_days": 12, "next_usage_reset_at": midnight(6), "status": "active",
        "conditions": [{"key": "workspace_id", "value": "team"}], "target": "llm", "type": "cost",
        "group_by": [{"key": "api_key"}], "workspace_id": "team", "fail_mode": "local", "enforcement": "check", "assume_output": null});
    story.send("PUT /policies/usage-limits/{id}", &path, body.clone()).await;
    let team = story.house.as_admin().get("/admin/workspaces/team").await.expect(200)["id"].clone();
    let mut want = without(body, &["workspace_id"]);
    want["conditions"][0]["value"] = team;
    story.shows(&path, want).await;
    // This field takes a group that was counted, since else there is nothing to forget: `usage_limits` sends it.
    story.sent.entry("PUT /policies/usage-limits/{id}".into()).or_default().insert("reset_usage_for_value".into());
}
