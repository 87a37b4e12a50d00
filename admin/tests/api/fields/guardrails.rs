//! Credentials of partners, guardrails, and where they hold by default.

use super::Story;
use crate::harness::text;
use serde_json::{Value, json};

const CHECKS: &str = r#"[{"id": "default.contains", "parameters": {"words": ["x"], "operator": "none"}, "name": "n",
    "is_enabled": true}, {"id": "patronus.isPolite", "parameters": {}, "is_enabled": false}]"#;

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let body = json!({"partner": "patronus", "credentials": {"apiKey": "k-0123456789abcdef"}, "organisation_id": org});
    story.send("POST /plugins", "/plugins", body).await;
    let want = json!({"partner": "patronus", "credentials": {"apiKey": "****cdef"}});
    story.shows("/plugins/patronus", want).await;
    story.holds_elsewhere().await;
    let body = json!({"credentials": {"apiKey": "k-0123456789abcxyz"}});
    story.send("PUT /plugins/{id}", "/plugins/patronus", body).await;
    story.shows("/plugins/patronus", json!({"credentials": {"apiKey": "****cxyz"}})).await;

    let checks: Value = serde_json::from_str(CHECKS).expect("JSON");
    let feedback = json!({"feedback": {"value": 1, "weight": 0.5, "metadata": {"a": "b"}}});
    let actions = json!({"deny": true, "async": false, "sequential": true, "soft_deny_200": true, "on_success": feedback,
        "on_fail": feedback, "stream": {"mode": "hold", "window": 600, "overlap": 100, "max_wait_ms": 500}});
    let body =
        json!({"name": "G", "checks": checks, "actions": actions, "workspace_id": "team", "organisation_id": org});
    let own = story.send("POST /guardrails", "/guardrails", body).await;
    let path = format!("/guardrails/{}", text(&own["slug"]));
    let want = json!({"name": "G", "status": "active", "checks": checks, "actions": actions, "organisation_id": org});
    story.shows(&path, want).await;
    story.holds_elsewhere().await;
    let (checks, actions) = (json!([checks[0]]), json!({"deny": false, "async": true}));
    let body = json!({"name": "H", "checks": checks, "actions": actions, "status": "active", "workspace_id": "team"});
    story.send("PUT /guardrails/{id}", &path, body).await;
    story.shows(&path, json!({"name": "H", "status": "active", "checks": checks, "actions": actions})).await;
    let shared = json!({"name": "S", "checks": checks, "organisation_id": org});
    let shared = story.send("POST /guardrails", "/guardrails", shared).await;

    let both =
        json!({"input_guardrails": [shared["slug"]], "output_guardrails": [shared["id"]], "organisation_id": org});
    story.send("PUT /admin/organisation/defaults", "/admin/organisation/defaults", both).await;
    let told = json!([{"id": shared["id"], "slug": shared["slug"]}]);
    let want = json!({"input_guardrails": told, "output_guardrails": told});
    story.shows("/admin/organisation/defaults", want).await;
    let defaults = json!({"input_guardrails": [own["id"]], "output_guardrails": [own["slug"], shared["slug"]]});
    story.send("PUT /admin/workspaces/{id}", "/admin/workspaces/team", json!({"defaults": defaults})).await;
    let want = json!({"input_guardrails": [own["slug"]], "output_guardrails": [own["slug"], shared["slug"]]});
    story.shows("/workspaces/team", json!({"defaults": want})).await;
    for side in ["input", "output"] {
        let path = format!("/workspace-exclusions/{side}-guardrails");
        let body = json!({"organisation_id": org, "workspaces": [{"workspace_id": "team", "excluded": true}],
            "override_existing": true});
        story.send(&format!("PUT {path}"), &path, body).await;
        story.shows(&path, json!({"total": 1, "data": [{"slug": "team", "excluded": true}]})).await;
    }
}
