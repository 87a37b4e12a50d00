//! Integrations, whom they are lent to, and the providers and virtual keys that stand on them.

use super::{Story, budget, midnight, rates};
use crate::harness::merge;
use serde_json::{Value, json};

pub(super) async fn integration(story: &mut Story<'_>) {
    let settings = |host: &str, tail: &str| {
        json!({"custom_host": format!("https://{host}/v1"), "custom_headers": {"x-team": format!("quite-a-long-secret-{tail}")},
            "openai_organization": "org-1", "openai_project": "proj-1", "isolate_objects": true, "direct_realtime": true,
            "oauth_token_endpoint": format!("https://{host}/token"), "oauth_client_id": "client",
            "oauth_client_secret": format!("very-secret-{tail}"), "oauth_scope": "all"})
    };
    let masked = |mut settings: Value, tail: &str| {
        settings["custom_headers"]["x-team"] = json!(format!("****{tail}"));
        settings["oauth_client_secret"] = json!(format!("****{tail}"));
        settings
    };
    let body = json!({"name": "Main", "slug": "main", "ai_provider_id": "openai", "key": "sk-quite-a-long-secret-1111",
        "description": "d", "configurations": settings("a.example.com", "1111"), "tags": {"env": "prod"},
        "pricing_adjustments": {"multiplier": {"default": 1.5, "response_token": 2.0}}, "workspace_id": "team",
        "create_default_provider": true, "default_provider_slug": "along"});
    story.send("POST /integrations", "/integrations", body.clone()).await;
    let mut want = body;
    let team = story.house.as_admin().get("/admin/workspaces/team").await.expect(200)["id"].clone();
    for (name, value) in [
        ("key", json!(null)),
        ("masked_key", json!("****1111")),
        ("configurations", masked(settings("a.example.com", "1111"), "1111")),
        ("create_default_provider", json!(null)),
        ("default_provider_slug", json!(null)),
        ("workspace_id", team.clone()),
    ] {
        want[name] = value;
    }
    story.shows("/integrations/main", want).await;
    story.shows("/providers/along?workspace_id=team", json!({"integration_slug": "main", "workspace_id": team})).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "Mine", "key": "sk-quite-a-long-secret-2222", "description": "e", "tags": {"env": "test"},
        "configurations": settings("b.example.com", "2222"), "pricing_adjustments": {"multiplier": {"default": 3.0}}});
    story.send("PUT /integrations/{id}", "/integrations/main", body.clone()).await;
    let mut want = body;
    (want["key"], want["masked_key"]) = (json!(null), json!("****2222"));
    want["configurations"] = masked(settings("b.example.com", "2222"), "2222");
    want["pricing_adjustments"] = json!({"multiplier": {"default": 3.0}});
    story.shows("/integrations/main", want).await;
    let model = json!({"slug": "ours", "enabled": true, "is_custom": true, "is_finetune": true,
        "base_model_slug": "gpt-4o", "configurations": {"custom_host": "https://m.example.com/v1",
        "custom_headers": {"x-model": "quite-a-long-secret-3333"}}, "pricing_config": {"type": "static", "pay_as_you_go": {
        "request_token": {"price": 0.1}, "response_token": {"price": 0.2}, "cache_read_input_token": {"price": 0.3},
        "cache_write_input_token": {"price": 0.4}, "request_audio_token": {"price": 0.5},
        "response_audio_token": {"price": 0.6}, "reasoning_token": {"price": 0.7}}}});
    let body = json!({"models": [model], "allow_all_models": false});
    let path = "/integrations/main/models";
    story.send("PUT /integrations/{id}/models", path, body.clone()).await;
    let mut want = body;
    want["models"][0]["configurations"]["custom_headers"]["x-model"] = json!("****3333");
    story.shows(path, want).await;
}

pub(super) async fn access(story: &mut Story<'_>) {
    let shared = json!({"name": "Shared", "slug": "shared", "ai_provider_id": "groq", "key": "k"});
    story.send("POST /integrations", "/integrations", shared).await;
    let path = "/integrations/shared/workspaces";
    let one = |value: u64| json!([{"type": "requests", "unit": "rph", "value": value}]);
    let seat = json!({"id": "team", "enabled": true, "rate_limits": one(4), "usage_limits": [budget(400)],
        "reset_usage": true, "create_default_provider": true, "default_provider_slug": "lent"});
    let global = json!({"enabled": false, "rate_limits": one(5), "usage_limits": [budget(900)], "reset_usage": true});
    let body = json!({"workspaces": [seat], "global_workspace_access": global,
        "override_existing_workspace_access": true, "create_default_provider": false, "default_provider_slug": "other"});
    story.send("PUT /integrations/{id}/workspaces", path, body).await;
    let shown = |enabled: bool, value: u64, limit: u64| json!({"enabled": enabled, "rate_limits": one(value), "usage_limits": [budget(limit)]});
    let mut seat = shown(true, 4, 400);
    seat["id"] = json!("team");
    story.shows(path, json!({"workspaces": [seat], "global_workspace_access": shown(false, 5, 900)})).await;
    story.shows("/providers/lent?workspace_id=team", json!({"integration_slug": "shared"})).await;
}

pub(super) async fn providers(story: &mut Story<'_>) {
    let path = "/providers/own?workspace_id=team";
    let body = json!({"name": "Own", "integration_id": "main", "slug": "own", "note": "n", "tags": {"a": "b"},
        "expires_at": midnight(30), "rate_limits": rates(7), "usage_limits": budget(700), "max_parallel": 3,
        "workspace_id": "team"});
    story.send("POST /providers", "/providers", body.clone()).await;
    let ids = json!({"integration_id": null, "workspace_id": null});
    let without = |mut body: Value, of: &Value| {
        of.as_object()
            .expect("fields")
            .keys()
            .for_each(|name| drop(body.as_object_mut().expect("fields").remove(name)));
        body
    };
    story.shows(path, without(body, &ids)).await;
    story.holds_elsewhere().await;
    let change = json!({"name": "Owned", "note": "m", "tags": {"c": "d"}, "expires_at": midnight(31),
        "rate_limits": rates(8), "usage_limits": budget(800), "max_parallel": 4, "reset_usage": true,
        "workspace_id": "team"});
    story.send("PUT /providers/{id}", "/providers/own", change.clone()).await;
    let quiet = json!({"reset_usage": null, "workspace_id": null, "key": null, "provider": null});
    story.shows(path, without(change, &quiet)).await;

    let path = "/virtual-keys/older?workspace_id=team";
    let azure = |res: &str, day: &str| {
        let each = json!([{"deploymentName": "four", "apiVersion": day, "alias": "gpt-4", "is_default": true}]);
        json!({"resourceName": res, "apiVersion": day, "deploymentName": "gpt-4o", "deploymentConfig": each})
    };
    let mut body = json!({"name": "Older", "provider": "azure-openai", "key": "sk-quite-a-long-secret-4444",
        "note": "n", "expires_at": midnight(30), "rate_limits": rates(9), "usage_limits": budget(900),
        "workspace_id": "team"});
    let mut want = without(body.clone(), &quiet);
    want["ai_provider_id"] = json!("azure-openai");
    want["model_config"] = azure("res-one", "2024-10-21");
    merge(&mut body, azure("res-one", "2024-10-21"));
    story.send("POST /virtual-keys", "/virtual-keys", body).await;
    story.shows(path, want).await;
    story.shows("/integrations/older", json!({"masked_key": "****4444"})).await;
    story.holds_elsewhere().await;
    let mut change = json!({"name": "Oldest", "key": "sk-quite-a-long-secret-5555", "note": "m",
        "expires_at": midnight(31), "rate_limits": rates(10), "usage_limits": budget(1000), "reset_usage": true,
        "workspace_id": "team"});
    let mut want = without(change.clone(), &quiet);
    want["model_config"] = azure("res-two", "2025-01-01");
    merge(&mut change, azure("res-two", "2025-01-01"));
    story.send("PUT /virtual-keys/{id}", "/virtual-keys/older", change).await;
    story.shows(path, want).await;
    story.shows("/integrations/older", json!({"masked_key": "****5555"})).await;
}
