//! The organisation, and a workspace of it.

use super::{Story, budget, rates};
use serde_json::json;

const ORG: &str = "/admin/organisation";

pub(super) async fn organisation(story: &mut Story<'_>) {
    let keys =
        json!({"keys": [{"kty": "RSA", "kid": "a", "n": "gA".to_owned() + &"AB".repeat(170) + "A", "e": "AQAB"}]});
    let body = json!({"name": "Us", "block_inline_config": true, "user_api_key_rotation_period": "monthly",
        "jwks_uris": ["https://login.example.com/keys"], "jwks": keys, "security_settings": {"members_view_logs": false},
        "overridable_sections": ["logs"], "debug_log": false, "enforce_debug_log_setting": true,
        "cache_max_age": 86_400, "managers_set_limits": true, "known_routes_only": true, "analytics_metadata_keys": ["team"],
        "export_settings": {"denied_fields": ["request_url"]},
        "token_rules": [{"jwks_uri": "https://login.example.com/keys", "iss": "login", "aud": ["gateway"]}],
        "model_prices": {"openai/gpt-4o": {"type": "static", "pay_as_you_go": {
            "request_token": {"price": 0.1}, "cache_read_audio_input_token": {"price": 0.2},
            "image": {"high": {"1024x1024": {"price": 3.0}}, "default": {"default": {"price": 2.0}}},
            "additional_units": {"web_search": {"price": 1.0}, "request": {"price": 0.5}}}}}});
    story.send("PUT /admin/organisation", ORG, body.clone()).await;
    let mut want = body;
    want["user_api_key_rotation_period"] = json!(30);
    story.shows(ORG, want).await;
}

pub(super) async fn workspace(story: &mut Story<'_>, user: &str) {
    let path = "/admin/workspaces/team";
    let body = json!({"name": "Team", "slug": "team", "description": "d", "icon": "🚀", "users": [user],
        "defaults": {"metadata": {"_team": "a"}}, "user_api_key_rotation_period": "weekly",
        "rate_limits": rates(5), "usage_limits": [budget(500)]});
    story.send("POST /admin/workspaces", "/admin/workspaces", body.clone()).await;
    let mut want = body;
    (want["name"], want["user_api_key_rotation_period"]) = (json!("🚀 Team"), json!(7));
    want["users"] = json!([{"id": user, "role": "member"}]);
    story.shows(path, want).await;
    story.holds_elsewhere().await;
    let config = json!({"name": "for users", "config": {"provider": "openai"}, "workspace_id": "team"});
    let config = story.send("POST /configs", "/configs", config).await["slug"].clone();
    let mut security = story.house.as_admin().get(ORG).await.expect(200)["security_settings"].clone();
    security["members_view_logs"] = json!(true);
    let body = json!({"name": "Crew", "description": "e", "icon": "🛟", "security_settings": security,
        "export_settings": {"denied_fields": ["response", "config"]},
        "defaults": {"metadata": {"_team": "b"}, "user_api_key_config": config}, "user_api_key_rotation_period": 9,
        "rate_limits": rates(6), "usage_limits": [budget(600)], "reset_usage": true});
    story.send("PUT /admin/workspaces/{id}", path, body.clone()).await;
    let mut want = body;
    (want["name"], want["reset_usage"]) = (json!("🛟 Crew"), json!(null));
    story.shows(path, want).await;
}
