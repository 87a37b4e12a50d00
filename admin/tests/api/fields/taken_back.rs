//! Bodies that bring back what was: each names a version, and where it is.

use super::Story;
use crate::harness::text;
use serde_json::json;

pub(super) async fn taken_back(story: &mut Story<'_>) {
    let conditions = json!([{"key": "api_key", "value": "*"}]);
    let made = [
        (
            "/integrations",
            "/integrations",
            json!({"name": "Undone", "slug": "undone", "ai_provider_id": "openai", "workspace_id": "team"}),
        ),
        (
            "/api-keys",
            "/api-keys/workspace/service",
            json!({"name": "Undone", "scopes": ["configs.list"], "workspace_id": "team"}),
        ),
        (
            "/policies/rate-limits",
            "/policies/rate-limits",
            json!({"name": "Undone", "type": "requests", "unit": "rpm", "value": 5, "conditions": conditions,
                "group_by": [{"key": "api_key"}], "workspace_id": "team"}),
        ),
        (
            "/policies/usage-limits",
            "/policies/usage-limits",
            json!({"name": "Undone", "type": "cost", "credit_limit": 5, "conditions": conditions,
                "group_by": [{"key": "api_key"}], "workspace_id": "team"}),
        ),
    ];
    for (at, maker, body) in made {
        let admin = story.house.as_admin();
        let id = text(&admin.post(maker, body).await.expect(200)["id"]);
        let path = format!("{at}/{id}");
        admin.put(&path, json!({"name": "Done"})).await.expect(200);
        let back = json!({"version": 1, "workspace_id": "team"});
        story.send(&format!("POST {at}/{{id}}/rollback"), &format!("{path}/rollback"), back).await;
        story.shows(&path, json!({"name": "Undone"})).await;
    }
}
