//! Every field that a body may hold, set and changed once: it comes back on a node that knows nothing but what the
//! database tells it, now and after everybody was started anew. A field that the description of the API tells and
//! this story does not send fails the test. And what a newer node wrote into the same rows stays, wherever it stands.

mod agents;
mod deployments;
mod exports;
mod oauth_clients;
mod people;
mod secret_references;
mod sharing;
mod taken_back;

use crate::access::is_of_workspaces;
use crate::harness::{House, in_seconds, merge, text};
use axum::body::Body;
use gateway_domain::resource::Stored;
use http::{Method, Request};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What was sent so far, and what has to come back.
struct Story<'h> {
    house: &'h House,
    sent: BTreeMap<String, BTreeSet<String>>,
    told: BTreeMap<String, Value>,
}

/// Two families of paths stand for one resource.
fn plain(route: &str) -> String {
    route.replace("/admin/workspaces", "/workspaces").replace("/integration-models", "/models")
}

impl<'h> Story<'h> {
    fn of(house: &'h House) -> Self {
        Self { house, sent: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// `route` as the description has it; `path` with its variables filled in.
    async fn send(&mut self, route: &str, path: &str, body: Value) -> Value {
        let fields = body.as_object().expect("an object").keys().cloned();
        self.sent.entry(plain(route)).or_default().extend(fields);
        let method: Method = route.split_once(' ').expect("a method").0.parse().expect("a method");
        let answer = self.house.as_admin().ask(method, path, Some(body.clone())).await;
        let done = [200, 201, 204].contains(&answer.status.as_u16());
        assert!(done, "{route} {body}: {} {}", answer.status, answer.text);
        if answer.text.is_empty() { Value::Null } else { answer.json() }
    }

    async fn shows(&mut self, path: &str, want: Value) {
        same(path, &want, &self.house.as_admin().get(path).await.expect(200));
        self.told.insert(path.to_owned(), want);
    }

    /// Every path once more, on a node with a connection of its own.
    async fn holds_elsewhere(&self) {
        let other = self.house.elsewhere().await;
        for (path, want) in &self.told {
            let here = self.house.as_admin().get(path).await.expect(200);
            assert_eq!(other.as_admin().get(path).await.expect(200), here, "{path} differs by node");
            same(path, want, &here);
        }
    }
}

/// Each field that is wanted is there; what is beyond them does not matter.
fn same(at: &str, want: &Value, got: &Value) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            want.iter()
                .for_each(|(name, want)| same(&format!("{at} {name}"), want, got.get(name).unwrap_or(&json!(null))));
        }
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
            want.iter().zip(got).enumerate().for_each(|(i, (want, got))| same(&format!("{at} [{i}]"), want, got));
        }
        (Value::Number(want), Value::Number(got)) => assert_eq!(want.as_f64(), got.as_f64(), "{at}"),
        _ => assert_eq!(want, got, "{at}"),
    }
}

fn rates(value: u64) -> Value {
    json!([{"type": "requests", "unit": "rpm", "value": value}, {"type": "tokens", "unit": "rpd", "value": value + 1}])
}

fn budget(limit: u64) -> Value {
    json!({"type": "tokens", "credit_limit": limit, "alert_threshold": limit - 1, "periodic_reset": "weekly",
        "next_usage_reset_at": midnight(20)})
}

/// In so many days.
fn midnight(days: i64) -> String {
    format!("{}T00:00:00.000Z", &in_seconds(days * 86_400)[..10])
}

const ORG: &str = "/admin/organisation";

async fn organisation(story: &mut Story<'_>) {
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

async fn workspace(story: &mut Story<'_>, user: &str) {
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

const CHECKS: &str = r#"[{"id": "default.contains", "parameters": {"words": ["x"], "operator": "none"}, "name": "n",
    "is_enabled": true}, {"id": "patronus.isPolite", "parameters": {}, "is_enabled": false}]"#;

async fn guardrails(story: &mut Story<'_>) {
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

/// What is shown of a body beside these fields.
fn beside(mut body: Value, names: &[&str]) -> Value {
    names.iter().for_each(|name| drop(body.as_object_mut().expect("an object").remove(*name)));
    body
}

async fn mcp(story: &mut Story<'_>) {
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

async fn people(story: &mut Story<'_>) {
    let body = json!({"email": "Bo@example.com", "role": "admin", "workspaces": [{"id": "team", "role": "manager"}],
        "workspace_api_key_details": {"scopes": ["completions.write"]}});
    let made = story.send("POST /admin/users/invites", "/admin/users/invites", body).await;
    let path = format!("/admin/users/invites/{}", text(&made["id"]));
    let team = story.house.as_admin().get("/admin/workspaces/team").await.expect(200)["id"].clone();
    let want = json!({"email": "bo@example.com", "role": "admin", "status": "pending",
        "workspaces": [{"id": team, "role": "manager"}]});
    story.shows(&path, want).await;
    let token = text(&made["invite_link"]).split_once('#').expect("a token").1.to_owned();
    let body = json!({"token": token, "first_name": "Bo", "last_name": "Ek"});
    let user = story.send("POST /invites/accept", "/invites/accept", body).await;
    story.told.insert(path, json!({"status": "accepted"}));
    let key = text(&user["api_keys"][0]["id"]);
    story.shows(&format!("/api-keys/{key}"), json!({"scopes": ["completions.write"], "user_id": user["id"]})).await;
    let user = text(&user["id"]);
    let path = format!("/admin/users/{user}");
    let want = json!({"first_name": "Bo", "last_name": "Ek", "email": "bo@example.com", "role": "admin"});
    story.shows(&path, want).await;
    story.send("PUT /admin/users/{id}", &path, json!({"role": "member"})).await;
    story.shows(&path, json!({"role": "member"})).await;
    let seat = json!({"users": [{"id": user, "role": "admin"}]});
    story.send("POST /workspaces/{id}/users", "/workspaces/default/users", seat).await;
    let path = format!("/workspaces/default/users/{user}");
    story.shows(&path, json!({"role": "admin", "org_role": "member"})).await;
    story.send("PUT /workspaces/{id}/users/{user_id}", &path, json!({"role": "manager"})).await;
    story.shows(&path, json!({"role": "manager"})).await;
}

async fn integration(story: &mut Story<'_>) {
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

async fn access(story: &mut Story<'_>) {
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

async fn providers(story: &mut Story<'_>) {
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

async fn configs(story: &mut Story<'_>) -> String {
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@own"}, {"provider": "openai",
        "api_key": "sk-quite-a-long-secret-6666", "override_params": {"user": "u"}}]});
    let body = json!({"name": "Routes", "config": config, "isDefault": 1, "workspace_id": "team"});
    let slug = text(&story.send("POST /configs", "/configs", body).await["slug"]);
    let path = format!("/configs/{slug}?workspace_id=team");
    let mut shown = config;
    shown["targets"][1]["api_key"] = json!("****6666");
    story.shows(&path, json!({"name": "Routes", "config": shown, "is_default": 1})).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "Paths", "config": {"provider": "@own"}, "isDefault": 0, "status": "active",
        "workspace_id": "team"});
    story.send("PUT /configs/{id}", &format!("/configs/{slug}"), body).await;
    story.shows(&path, json!({"name": "Paths", "config": {"provider": "@own"}, "is_default": 0})).await;
    story.holds_elsewhere().await;
    let back = json!({"version": 1, "workspace_id": "team"});
    story.send("POST /configs/{id}/rollback", &format!("/configs/{slug}/rollback"), back).await;
    story.shows(&path, json!({"config": shown})).await;
    slug
}

async fn keys(story: &mut Story<'_>, user: &str, config: &str) {
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

async fn policies(story: &mut Story<'_>, key: &str) {
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
    // Of a group that was counted: only then there is something to forget, see `usage_limits`.
    story.sent.entry("PUT /policies/usage-limits/{id}".into()).or_default().insert("reset_usage_for_value".into());
}

async fn prompts(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let body = json!({"name": "folder", "workspace_id": "team", "organisation_id": org});
    let folder = text(&story.send("POST /collections", "/collections", body).await["id"]);
    let body = json!({"name": "inner", "workspace_id": "team", "parent_collection_id": folder});
    let inner = text(&story.send("POST /collections", "/collections", body).await["id"]);
    story.shows(&format!("/collections/{inner}"), json!({"name": "inner", "parent_collection_id": folder})).await;
    let body = json!({"name": "place", "workspace_id": "team"});
    story.send("PUT /collections/{id}", &format!("/collections/{folder}"), body).await;
    let inside = json!([{"id": inner, "name": "inner"}]);
    story.shows(&format!("/collections/{folder}"), json!({"name": "place", "child_collections": inside})).await;

    let body = json!({"name": "canary", "description": "d", "color_code": "#123456", "workspace_id": "team",
        "organisation_id": org});
    let label = text(&story.send("POST /labels", "/labels", body).await["id"]);
    let body = json!({"name": "canary-2", "description": "e", "color_code": "#654321", "workspace_id": "team",
        "organisation_id": org});
    story.send("PUT /labels/{id}", &format!("/labels/{label}"), body).await;
    let want = json!({"name": "canary-2", "description": "e", "color_code": "#654321", "is_universal": false});
    story.shows(&format!("/labels/{label}"), want).await;

    let body = json!({"name": "greeting", "string": "Hi {{name}}", "version_description": "first",
        "workspace_id": "team", "organisation_id": org});
    let made = story.send("POST /prompts/partials", "/prompts/partials", body).await;
    let path = format!("/prompts/partials/{}", text(&made["slug"]));
    let want = json!({"name": "greeting", "string": "Hi {{name}}", "version_description": "first", "version": 1});
    story.shows(&path, want).await;
    let body = json!({"name": "hello", "string": "Hello {{name}}", "description": "second", "status": "active",
        "workspace_id": "team"});
    story.send("PUT /prompts/partials/{id}", &path, body).await;
    story
        .send(
            "PUT /prompts/partials/{id}/makeDefault",
            &format!("{path}/makeDefault"),
            json!({"version": 2, "workspace_id": "team"}),
        )
        .await;
    let want = json!({"name": "hello", "string": "Hello {{name}}", "version_description": "second", "version": 2});
    story.shows(&path, want).await;

    let tool = json!({"type": "function", "function": {"name": "f"}});
    let body = json!({"name": "p", "collection_id": folder, "string": "{{#a}}x{{/a}}", "parameters": {"seed": 1},
        "functions": [{"name": "f"}], "tools": [tool], "tool_choice": "auto", "model": "gpt-4o", "virtual_key": "own",
        "version_description": "first", "template_metadata": {"a": 1}, "is_raw_template": 0,
        "workspace_id": "team", "organisation_id": org});
    let made = story.send("POST /prompts", "/prompts", body.clone()).await;
    let path = format!("/prompts/{}", text(&made["slug"]));
    let shown = |body: &Value, version: u64, description: &str| {
        let mut want = body.clone();
        let fields = want.as_object_mut().expect("fields");
        for name in ["version_description", "organisation_id", "workspace_id", "patch"] {
            fields.remove(name);
        }
        fields.insert("prompt_version".into(), version.into());
        fields.insert("prompt_version_description".into(), description.into());
        want
    };
    story.shows(&path, shown(&body, 1, "first")).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "q", "collection_id": inner, "string": "[{\"role\": \"user\", \"content\": {{j}}}]",
        "parameters": {"seed": 2}, "functions": [], "tools": [], "tool_choice": {"type": "none"}, "model": "m",
        "virtual_key": "@own", "version_description": "second", "template_metadata": {"b": 2}, "is_raw_template": 1,
        "patch": false, "workspace_id": "team"});
    story.send("PUT /prompts/{id}", &path, body.clone()).await;
    let notes = json!({"prompt_metadata": {"c": 3}});
    story.send("PUT /prompts/{id}", &path, notes).await;
    let newest = story.house.as_admin().get(&format!("{path}?version=3")).await.expect(200);
    assert_eq!(newest["template_metadata"], json!({"c": 3}), "another name of the same");
    story
        .send(
            "PUT /prompts/{id}/versions/{version}",
            &format!("{path}/versions/2"),
            json!({"label_id": label, "workspace_id": "team"}),
        )
        .await;
    story
        .send(
            "PUT /prompts/{id}/makeDefault",
            &format!("{path}/makeDefault"),
            json!({"version": 2, "workspace_id": "team"}),
        )
        .await;
    let mut want = shown(&body, 2, "second");
    want["prompt_version_label_id"] = json!(label);
    story.shows(&path, want).await;
}

async fn alerts(story: &mut Story<'_>) {
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

/// All of it as a document says the same.
async fn configuration(story: &mut Story<'_>) {
    let document = story.house.as_admin().get("/configuration").await.expect(200)["document"].clone();
    let body = json!({"document": document, "secrets": {"GATEWAY_SECRET_NOBODYS": "x"}, "dry_run": false});
    let done = story.send("POST /configuration/import", "/configuration/import", body.clone()).await;
    assert_eq!(done["changes"], json!([]), "{document}");
    let body = json!({"document": document, "secrets": {}});
    let done = story.send("POST /configuration/diff", "/configuration/diff", body).await;
    assert_eq!(done["changes"], json!([]), "{document}");
    let body = json!({"document": document, "dry_run": true});
    let done = story.send("POST /configuration/prune", "/configuration/prune", body).await;
    assert_eq!(done["deleted"], 0, "{document}");
}

/// Everything, each field at least once.
async fn whole(house: &House) -> Story<'_> {
    let mut story = Story::of(house);
    organisation(&mut story).await;
    let (user, _) = house.user("ann@example.com", "member", json!([]), None).await;
    workspace(&mut story, &user).await;
    people(&mut story).await;
    integration(&mut story).await;
    access(&mut story).await;
    providers(&mut story).await;
    secret_references::tell(&mut story).await;
    deployments::tell(&mut story).await;
    oauth_clients::tell(&mut story).await;
    guardrails(&mut story).await;
    mcp(&mut story).await;
    agents::agents(&mut story).await;
    let config = configs(&mut story).await;
    keys(&mut story, &user, &config).await;
    let key = house.as_admin().get("/api-keys?workspace_id=team").await.expect(200)["data"][0]["id"].clone();
    exports::tell(&mut story).await;
    policies(&mut story, &text(&key)).await;
    alerts(&mut story).await;
    prompts(&mut story).await;
    sharing::tell(&mut story).await;
    people::directory(&mut story).await;
    people::sign_on(&mut story).await;
    people::organisations(&mut story).await;
    taken_back::taken_back(&mut story).await;
    configuration(&mut story).await;
    story
}

#[tokio::test]
async fn every_field_comes_back_elsewhere_and_after_a_restart() {
    let house = House::new().await;
    let story = whole(&house).await;
    story.holds_elsewhere().await;
    let request = Request::get("/openapi.json").body(Body::empty()).expect("a request");
    let document = house.send(request).await.expect(200);
    let mut bodies = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, told) in methods.as_object().expect("methods") {
            let Some(schema) = told["requestBody"]["content"]["application/json"]["schema"].as_object() else {
                continue;
            };
            // What is judged is not kept.
            if method == "delete"
                || is_of_workspaces(path)
                || ["/test", "/explain", "/fetch-agent-card"].iter().any(|judged| path.ends_with(judged))
            {
                continue;
            }
            bodies += 1;
            let route = plain(&format!("{} {}", method.to_uppercase(), path.trim_start_matches("/v1")));
            let sent = story.sent.get(&route).cloned().unwrap_or_default();
            let known = schema["properties"].as_object().expect("fields").keys().cloned().collect::<BTreeSet<_>>();
            let unsent: Vec<&String> = known.difference(&sent).collect();
            assert!(unsent.is_empty(), "{route}: nobody shows that {unsent:?} comes back");
        }
    }
    assert!(bodies >= 28, "bodies are read by {bodies} routes");
    // The story's first node is forgotten; who starts now has the database only.
    let again = house.elsewhere().await;
    for (path, want) in &story.told {
        same(path, want, &again.as_admin().get(path).await.expect(200));
    }
}

/// Where a newer node may have put something: in every object that is not a table of the admin's own.
const NEWER: &[(&str, &[&str])] = &[
    ("organisation", &["", "/security_settings", "/default_guardrails"]),
    (
        "workspace",
        &[
            "",
            "/defaults",
            "/defaults/guardrails",
            "/exclusions",
            "/limits",
            "/limits/rate_limits/0",
            "/limits/usage_limits/0",
            "/security_settings",
        ],
    ),
    ("api_key", &["", "/defaults", "/rotation_policy", "/limits", "/limits/rate_limits/1", "/limits/usage_limits/0"]),
    // What is inside a config is compiled: a node keeps what it had in force rather than skip a rule.
    ("config", &[""]),
    ("guardrail", &[""]),
    ("plugin", &[""]),
    ("secret_reference", &[""]),
    ("deployment", &["", "/config"]),
    ("oauth_client", &[""]),
    ("alert", &["", "/filters", "/channels/0"]),
    ("mcp_integration", &["", "/access", "/sync", "/secret_mappings/0"]),
    ("mcp_server", &["", "/user_access"]),
    ("agent_integration", &["", "/access", "/sync"]),
    ("agent_server", &["", "/user_access"]),
    (
        "integration",
        &[
            "",
            "/configurations",
            "/models",
            "/models/list/ours",
            "/models/list/ours/rates",
            "/price_factors",
            "/access",
            "/secret_mappings/0",
        ],
    ),
    ("provider", &["", "/limits", "/limits/usage_limits/0"]),
    ("rate_limit_policy", &["", "/conditions/0", "/group_by/0"]),
    ("usage_limit_policy", &["", "/conditions/0", "/group_by/0"]),
    ("prompt", &["", "/editions"]),
    ("prompt_partial", &["", "/editions"]),
    ("collection", &[""]),
    ("label", &[""]),
    ("user", &["", "/directory"]),
    ("directory_group", &[""]),
    ("group_mapping", &[""]),
    ("sign_on", &[""]),
    ("member", &[""]),
    ("invite", &["", "/workspaces/0"]),
];

const MARK: &str = "from_the_future";

/// Marks what is there of these places, and returns which.
fn mark(row: &mut Stored) -> Vec<&'static str> {
    let Some((_, places)) = NEWER.iter().find(|(kind, _)| row.kind == *kind) else {
        panic!("{} is not listed", row.kind)
    };
    let mut doc: Value = serde_json::from_str(&row.doc).expect("JSON");
    let mut marked = Vec::new();
    for place in *places {
        let Some(Value::Object(fields)) = doc.pointer_mut(place) else { continue };
        fields.insert(MARK.into(), json!(true));
        marked.push(*place);
    }
    (row.doc, row.version) = (doc.to_string(), row.version + 1);
    marked
}

fn method_of(kind: &str) -> Method {
    if kind == "directory_group" { Method::PATCH } else { Method::PUT }
}

#[tokio::test]
async fn what_a_newer_node_wrote_stays_wherever_it_stands() {
    let house = House::new().await;
    drop(whole(&house).await);
    let pending =
        json!({"email": "cy@example.com", "role": "member", "workspaces": [{"id": "team", "role": "member"}]});
    house.as_admin().post("/admin/users/invites", pending).await.expect(200);
    let mut rows = house.app.store.load().await.expect("readable").rows;
    let first = house.org().id.0;
    rows.retain(|r| r.deleted_at.is_none() && r.org == first);
    let mut marked: BTreeMap<String, usize> = BTreeMap::new();
    let mut there: BTreeSet<(String, &str)> = BTreeSet::new();
    for row in &mut rows {
        let places = mark(row);
        marked.insert(row.id.to_string(), places.len());
        there.extend(places.into_iter().map(|place| (row.kind.clone(), place)));
    }
    for (kind, places) in NEWER {
        let lost: Vec<&&str> = places.iter().filter(|p| !there.contains(&((*kind).to_owned(), **p))).collect();
        assert!(lost.is_empty(), "{kind}: {lost:?} is in no document");
    }
    let seats: BTreeMap<String, String> = rows
        .iter()
        .filter(|r| r.kind == "member")
        .map(|r| {
            let doc: Value = serde_json::from_str(&r.doc).expect("JSON");
            let workspace = r.workspace.expect("a member of a workspace");
            (r.id.to_string(), format!("/workspaces/{workspace}/users/{}", text(&doc["user_id"])))
        })
        .collect();
    let kinds: Vec<(String, String)> = rows.iter().map(|r| (r.kind.clone(), r.id.to_string())).collect();
    house.store(rows).await;
    let (mut changed, mut resent) = (0, 0);
    for (kind, id) in &kinds {
        let (path, body) = match kind.as_str() {
            "organisation" => ("/admin/organisation".to_owned(), json!({"name": "renamed"})),
            "workspace" => (format!("/workspaces/{id}"), json!({"name": "renamed"})),
            "api_key" => (format!("/api-keys/{id}"), json!({"name": "renamed"})),
            "config" => (format!("/configs/{id}"), json!({"name": "renamed"})),
            "guardrail" => (format!("/guardrails/{id}"), json!({"name": "renamed"})),
            "alert" => (format!("/alerts/{id}"), json!({"threshold": 77})),
            "plugin" => (format!("/plugins/{id}"), json!({"credentials": {}})),
            "deployment" => (format!("/deployments/{id}"), json!({"name": "renamed"})),
            "oauth_client" => (format!("/oauth-clients/{id}"), json!({"name": "renamed"})),
            "secret_reference" => (format!("/secret-references/{id}"), json!({"name": "renamed"})),
            "mcp_integration" => (format!("/mcp-integrations/{id}"), json!({"name": "renamed"})),
            "mcp_server" => (format!("/mcp-servers/{id}"), json!({"name": "renamed"})),
            "agent_integration" => (format!("/agent-integrations/{id}"), json!({"name": "renamed"})),
            "agent_server" => (format!("/agent-servers/{id}"), json!({"name": "renamed"})),
            "integration" => (format!("/integrations/{id}"), json!({"name": "renamed"})),
            "provider" => (format!("/providers/{id}"), json!({"name": "renamed"})),
            "rate_limit_policy" => (format!("/policies/rate-limits/{id}"), json!({"value": 99})),
            "usage_limit_policy" => (format!("/policies/usage-limits/{id}"), json!({"name": "renamed"})),
            "prompt" => (format!("/prompts/{id}"), json!({"name": "renamed"})),
            "prompt_partial" => (format!("/prompts/partials/{id}"), json!({"name": "renamed"})),
            "collection" => (format!("/collections/{id}"), json!({"name": "renamed"})),
            "label" => (format!("/labels/{id}"), json!({"description": "changed"})),
            "user" => (format!("/admin/users/{id}"), json!({"role": "member"})),
            "member" => (seats[id].clone(), json!({"role": "member"})),
            "sign_on" => ("/admin/organisation/sign-on".to_owned(), json!({"session_seconds": 1000})),
            "directory_group" => {
                let name = json!([{"op": "add", "path": "externalId", "value": "renamed"}]);
                (format!("/scim/Groups/{id}"), json!({"schemas": [crate::scim::PATCH], "Operations": name}))
            }
            // It is made and deleted, and never changed.
            "group_mapping" => continue,
            "invite" => {
                let again = house.as_admin().post(&format!("/admin/users/invites/{id}/resend"), json!({})).await;
                resent += usize::from(again.status == 200);
                continue;
            }
            other => panic!("{other} is not listed"),
        };
        let answer = house.as_admin().ask(method_of(kind), &path, Some(body)).await;
        assert!([200, 204].contains(&answer.status.as_u16()), "{path}: {}", answer.text);
        changed += 1;
    }
    assert!(changed > 10 && resent == 1, "{changed} changed, {resent} invites sent again");
    for row in house.app.store.load().await.expect("readable").rows {
        let Some(marks) = marked.get(&row.id.to_string()) else { continue };
        assert_eq!(row.doc.matches(MARK).count(), *marks, "{} {}", row.kind, row.doc);
    }
}
