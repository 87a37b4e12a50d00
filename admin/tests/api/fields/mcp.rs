//! MCP integrations, and the servers that are made of them.

use super::{Story, beside};
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let body = json!({"name": "M", "slug": "m-int", "description": "d", "url": "https://mcp.example.com/mcp/",
        "auth_type": "headers", "transport": "http", "organisation_id": org, "workspace_id": "team",
        "new_capabilities": "disabled", "pin_definitions": true,
        "configurations": {"custom_headers": {"authorization": "Bearer 0123456789abcdef"},
            "pricing": {"default_usd_per_call": 0.5, "tools": {"t": 1.25}},
            "user_identity_forwarding": {"method": "claims_header", "header_name": "x-who", "include_claims": ["sub"],
                "jwt_expiry_seconds": 60}}});
    story.send("POST /mcp-integrations", "/mcp-integrations", body.clone()).await;
    let mut want = beside(body, &["workspace_id", "configurations"]);
    want["configurations"] = json!({"custom_headers": {"authorization": "****cdef"},
        "pricing": {"default_usd_per_call": 0.5, "tools": {"t": 1.25}},
        "user_identity_forwarding": {"method": "claims_header", "header_name": "x-who", "include_claims": ["sub"],
            "jwt_expiry_seconds": 60}});
    story.shows("/mcp-integrations/m-int", want).await;
    let body = json!({"name": "N", "description": "e", "url": "https://mcp.example.com/", "auth_type": "none",
        "transport": "http", "configurations": {"custom_headers": {}, "pricing": {"tools": {"u": 2.0}}},
        "new_capabilities": "enabled", "pin_definitions": false, "workspace_id": "team"});
    story.send("PUT /mcp-integrations/{id}", "/mcp-integrations/m-int", body.clone()).await;
    let want = beside(body, &["workspace_id", "configurations"]);
    story.shows("/mcp-integrations/m-int", want).await;
    let client = json!({"token_url": "https://login.example.com/token", "client_id": "c", "scope": "s",
        "client_secret": "0123456789abcdef", "resource": "r", "audience": "a"});
    let body = json!({"name": "O", "slug": "o-int", "url": "https://mcp.example.com/", "transport": "http",
        "auth_type": "oauth_client_credentials", "organisation_id": org, "configurations": {"oauth": client}});
    story.send("POST /mcp-integrations", "/mcp-integrations", body.clone()).await;
    let mut want = beside(body, &[]);
    want["configurations"]["oauth"]["client_secret"] = "****cdef".into();
    story.shows("/mcp-integrations/o-int", want).await;
    let shared = json!({"name": "S", "slug": "s-int", "url": "https://mcp.example.com/", "auth_type": "none",
        "transport": "http", "organisation_id": org});
    story.send("POST /mcp-integrations", "/mcp-integrations", shared).await;
    let path = "/mcp-integrations/s-int/workspaces";
    let body = json!({"workspaces": [{"id": "team", "enabled": true}], "global_workspace_access": {"enabled": false},
        "override_existing_workspace_access": true});
    story.send("PUT /mcp-integrations/{id}/workspaces", path, body.clone()).await;
    story.shows(path, beside(body, &["override_existing_workspace_access"])).await;

    let body = json!({"name": "F", "slug": "files", "description": "d", "mcp_integration_id": "s-int", "workspace_id": "team"});
    story.send("POST /mcp-servers", "/mcp-servers", body.clone()).await;
    let path = "/mcp-servers/files?workspace_id=team";
    let mut want = beside(body, &["workspace_id", "mcp_integration_id"]);
    want["mcp_integration_slug"] = "s-int".into();
    story.shows(path, want).await;
    let body = json!({"name": "G", "description": "e", "workspace_id": "team"});
    story.send("PUT /mcp-servers/{id}", path, body.clone()).await;
    story.shows(path, beside(body, &["workspace_id"])).await;
    let member =
        |prefix: &str, optional: bool| json!({"mcp_server_id": "files", "prefix": prefix, "optional": optional});
    let body = json!({"name": "W", "slug": "whole", "workspace_id": "team", "members": [member("f", false)]});
    story.send("POST /mcp-servers", "/mcp-servers", body).await;
    let path = "/mcp-servers/whole?workspace_id=team";
    let shown = |prefix: &str, optional: bool| json!({"slug": "files", "prefix": prefix, "optional": optional});
    story.shows(path, json!({"members": [shown("f", false)]})).await;
    story.send("PUT /mcp-servers/{id}", path, json!({"members": [member("g", true)], "workspace_id": "team"})).await;
    story.shows(path, json!({"members": [shown("g", true)]})).await;
    let off = json!({"capabilities": [{"name": "t", "type": "tool", "enabled": false}]});
    for (route, path) in [
        ("PUT /mcp-integrations/{id}/capabilities", "/mcp-integrations/s-int/capabilities"),
        ("PUT /mcp-servers/{id}/capabilities", "/mcp-servers/files/capabilities?workspace_id=team"),
    ] {
        story.send(route, path, off.clone()).await;
    }
    let body = json!({"user_access": [], "default_user_access": "deny"});
    let path = "/mcp-servers/files/user-access?workspace_id=team";
    story.send("PUT /mcp-servers/{id}/user-access", path, body).await;
    story.shows(path, json!({"default_user_access": "deny"})).await;
}
