//! Fields of agent integrations and servers.

use super::{Story, beside};
use serde_json::json;

pub(super) async fn agents(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let card = json!({"name": "A", "url": "https://agent.example.com/a2a", "skills": [{"id": "s", "name": "S"}],
        "capabilities": {"streaming": true}});
    let body = json!({"name": "A", "slug": "a-int", "description": "d", "url": "https://agent.example.com/",
        "auth_type": "headers", "organisation_id": org, "workspace_id": "team", "agent_card": card,
        "configurations": {"custom_headers": {"authorization": "Bearer 0123456789abcdef"},
            "pricing": {"default_usd_per_call": 0.5}}});
    story.send("POST /agent-integrations", "/agent-integrations", body.clone()).await;
    let mut want = beside(body, &["workspace_id", "configurations"]);
    want["configurations"] = json!({"custom_headers": {"authorization": "****cdef"},
        "pricing": {"default_usd_per_call": 0.5}});
    story.shows("/agent-integrations/a-int", want).await;
    let body = json!({"name": "B", "description": "e", "url": "https://agent.example.com/b", "auth_type": "none",
        "configurations": {"custom_headers": {}}, "workspace_id": "team",
        "agent_card": {"name": "B", "url": "https://agent.example.com/b"}});
    story.send("PUT /agent-integrations/{id}", "/agent-integrations/a-int", body.clone()).await;
    story.shows("/agent-integrations/a-int", beside(body, &["workspace_id", "configurations"])).await;
    let shared = json!({"name": "S", "slug": "agent-int", "url": "https://agent.example.com/", "auth_type": "none",
        "organisation_id": org, "agent_card": card});
    story.send("POST /agent-integrations", "/agent-integrations", shared).await;
    let path = "/agent-integrations/agent-int/workspaces";
    let body = json!({"workspaces": [{"id": "team", "enabled": true}], "global_workspace_access": {"enabled": false},
        "override_existing_workspace_access": true});
    story.send("PUT /agent-integrations/{id}/workspaces", path, body.clone()).await;
    story.shows(path, beside(body, &["override_existing_workspace_access"])).await;

    let body = json!({"name": "F", "slug": "helper", "description": "d", "agent_integration_id": "agent-int",
        "workspace_id": "team"});
    story.send("POST /agent-servers", "/agent-servers", body.clone()).await;
    let path = "/agent-servers/helper?workspace_id=team";
    let mut want = beside(body, &["workspace_id", "agent_integration_id"]);
    want["agent_integration_slug"] = "agent-int".into();
    story.shows(path, want).await;
    let body = json!({"name": "G", "description": "e", "workspace_id": "team"});
    story.send("PUT /agent-servers/{id}", path, body.clone()).await;
    story.shows(path, beside(body, &["workspace_id"])).await;
    for (list, query) in [("/agent-integrations/agent-int", ""), ("/agent-servers/helper", "?workspace_id=team")] {
        let route = if query.is_empty() { "PUT /agent-integrations/{id}" } else { "PUT /agent-servers/{id}" };
        let path = format!("{list}/skills{query}");
        let body = json!({"skills": [{"id": "s", "enabled": false}]});
        story.send(&format!("{route}/skills"), &path, body).await;
        story.shows(&path, json!({"data": [{"id": "s", "name": "S", "enabled": false}]})).await;
        let path = format!("{list}/capabilities{query}");
        let body = json!({"capabilities": [{"name": "streaming", "enabled": false}]});
        story.send(&format!("{route}/capabilities"), &path, body).await;
        let rest = ["push_notifications", "extended_agent_card"].map(|name| json!({"name": name, "offered": false}));
        let [push, extended] = rest;
        let off = json!({"name": "streaming", "offered": true, "enabled": false});
        story.shows(&path, json!({"data": [off, push, extended]})).await;
    }
    let body = json!({"user_access": [], "default_user_access": "deny"});
    let path = "/agent-servers/helper/user-access?workspace_id=team";
    story.send("PUT /agent-servers/{id}/user-access", path, body).await;
    story.shows(path, json!({"default_user_access": "deny"})).await;
}
