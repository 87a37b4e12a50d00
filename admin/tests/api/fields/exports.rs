//! Exports of logs.

use super::{Story, text};
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let body = json!({"filters": {"status_code": "200,429", "ai_model": ["a", "b"], "cost_min": 0.5},
        "requested_data": ["id", "cost"], "description": "d", "format": "jsonl", "workspace_id": "team"});
    let made = story.send("POST /logs/exports", "/logs/exports?workspace_id=team", body.clone()).await;
    let path = format!("/logs/exports/{}", text(&made["id"]));
    let mut want = body;
    want.as_object_mut().expect("fields").remove("workspace_id");
    story.shows(&path, want.clone()).await;
    story.holds_elsewhere().await;
    want["filters"] = json!({"trace_id": "t"});
    want["requested_data"] = json!(["metadata"]);
    want["description"] = json!("e");
    story.send("PUT /logs/exports/{id}", &path, want.clone()).await;
    story.send("PUT /logs/exports/{id}", &path, json!({"filters": {"trace_id": "t"}, "workspace_id": "team"})).await;
    story.shows(&path, want).await;
}
