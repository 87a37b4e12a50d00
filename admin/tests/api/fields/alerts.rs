//! Rules of alerts, and whom they tell.

use super::Story;
use crate::harness::text;
use serde_json::{Value, json};

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let channels = |token: &str| {
        json!([{"type": "webhook", "url": "https://hooks.example.com/a?b=c", "headers": {"x-token": token}},
            {"type": "slack", "url": "https://hooks.slack.com/services/0123456789"}])
    };
    let body = json!({"name": "A", "description": "d", "type": "latency", "threshold": 900.5, "statistic": "p90",
        "window_minutes": 30, "minimum_count": 7, "cool_down_minutes": 45, "filters": {"ai_org": ["openai"],
        "ai_model": ["gpt-4o"], "virtual_keys": ["own"]}, "channels": channels("token-0123456789abcd"),
        "workspace_id": "team", "organisation_id": org});
    let made = story.send("POST /alerts", "/alerts", body.clone()).await;
    let path = format!("/alerts/{}", text(&made["id"]));
    let shown = |body: &Value, tail: &str| {
        let mut want = body.clone();
        want["workspace_id"] = json!(null);
        want["organisation_id"] = json!(null);
        let fields = want.as_object_mut().expect("an object");
        fields.retain(|_, value| !value.is_null());
        want["channels"] = json!([{"type": "webhook", "url": "https://hooks.example.com/a?b=c",
            "headers": {"x-token": format!("****{tail}")}}, {"type": "slack", "url": "****6789"}]);
        want
    };
    story.shows(&path, shown(&body, "abcd")).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "B", "description": "e", "type": "latency", "threshold": 800, "statistic": "avg",
        "window_minutes": 120, "minimum_count": 0, "cool_down_minutes": 60, "filters": {"ai_org": ["anthropic"]},
        "channels": channels("token-0123456789efgh"), "status": "archived", "workspace_id": "team"});
    story.send("PUT /alerts/{id}", &path, body.clone()).await;
    story.shows(&path, shown(&body, "efgh")).await;
}
