//! The configuration as one document: everything in it, back from it, compared with it, and nothing by halves.

use crate::harness::{ADMIN, House, SERVICE, in_seconds, text};
use axum::body::Body;
use futures_util::StreamExt;
use gateway_admin::{
    Conversion, ExportedConfiguration, ForeignFile, ManifestAct, convert_configuration, export_configuration,
    use_configuration,
};
use http::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tower::ServiceExt;

const KEY: &str = "sk-canary-of-the-integration-0001";
const TOKEN: &str = "Bearer canary-of-a-guardrail-0002";
const INLINE: &str = "sk-canary-of-a-config-0003";
const HEADER: &str = "canary-of-a-header-0004";
const PARTNER: &str = "canary-of-a-partner-0005";
const HOOK: &str = "https://hooks.example.com/canary-of-a-hook-0006";
const SECRETS: [&str; 6] = [KEY, TOKEN, INLINE, HEADER, PARTNER, HOOK];

pub(crate) const IMPORT: ManifestAct = ManifestAct::Import { dry_run: false };

/// What the names in a document stand for, found by what they are named after.
pub(crate) fn secrets(names: &[String]) -> BTreeMap<String, String> {
    let plain = |name: &String| match name.as_str() {
        n if n.contains("GUARDRAIL") => TOKEN,
        n if n.contains("API_KEY") && n.contains("CONFIG_") => INLINE,
        n if n.contains("CUSTOM_HEADERS") => HEADER,
        n if n.contains("PLUGIN") => PARTNER,
        n if n.contains("ALERT") && n.contains("HEADERS") => HEADER,
        n if n.contains("ALERT") => HOOK,
        _ => KEY,
    };
    names.iter().map(|name| (name.clone(), plain(name).to_owned())).collect()
}

/// One of each kind, with everything set that names something else.
pub(crate) async fn furnished() -> House {
    let house = House::new().await;
    let admin = house.as_admin();
    let team = json!({"name": "Team", "slug": "team", "icon": "🚀", "description": "d", "defaults": {"metadata": {"a": "b"}},
        "rate_limits": [{"type": "requests", "unit": "rpm", "value": 60}],
        "usage_limits": [{"type": "cost", "credit_limit": 5.5, "periodic_reset": "monthly"}]});
    admin.post("/admin/workspaces", team).await.expect(200);
    let seats = json!([{"id": "team", "role": "manager"}]);
    let (user, _) = house.user("ann@example.com", "member", seats, None).await;
    let integration = json!({"name": "OpenAI", "slug": "openai", "ai_provider_id": "openai", "key": KEY, "tags": {"t": "1"},
        "configurations": {"custom_headers": {"x-team": HEADER}, "openai_project": "p"},
        "pricing_adjustments": {"multiplier": {"default": 1.5}}});
    admin.post("/integrations", integration).await.expect(200);
    let price = json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0.25}}});
    let models = json!([{"slug": "gpt-4o", "enabled": true, "pricing_config": price,
        "configurations": {"custom_headers": {"x-model": HEADER}}}, {"slug": "o1", "enabled": false}]);
    admin.put("/integrations/openai/models", json!({"models": models, "allow_all_models": false})).await.expect(200);
    let seats = json!([{"id": "team", "enabled": true, "usage_limits": [{"type": "tokens", "credit_limit": 100}]}]);
    admin.put("/integrations/openai/workspaces", json!({"workspaces": seats})).await.expect(200);
    let azure = json!({"partner": "patronus", "credentials": {"apiKey": PARTNER}});
    admin.post("/plugins", azure).await.expect(200);
    let vault = json!({"name": "Vault", "slug": "vault", "manager_type": "hashicorp_vault", "secret_path": "kv/a",
        "secret_key": "k", "tags": {"a": "b"}, "allowed_workspaces": ["team"], "auth_config": {"vault_auth_type": "token",
        "vault_addr": "https://vault.example.com", "vault_token": KEY}});
    admin.post("/secret-references", vault).await.expect(200);
    let eu = json!({"name": "EU", "slug": "eu", "type": "production", "source_type": "helm", "tags": {"a": "b"},
        "config": {"metadata": {"region": "eu"}}, "allowed_workspaces": ["team", "default"]});
    admin.post("/deployments", eu).await.expect(200);
    for (slug, kind) in [("app", "public"), ("web", "confidential")] {
        let client = json!({"name": slug, "slug": slug, "type": kind, "description": "d", "scope": "mcp:read",
            "redirect_uris": ["https://app.example.com/cb"]});
        admin.post("/oauth-clients", client).await.expect(200);
    }
    let filled = json!({"name": "Filled", "slug": "filled", "ai_provider_id": "openai", "create_default_provider": false,
        "secret_mappings": [{"target_field": "key", "secret_reference_id": "vault", "value_format": "string"}]});
    admin.post("/integrations", filled).await.expect(200);
    let checks = json!([{"id": "default.webhook", "parameters": {"webhookURL": "https://hooks.example.com/x",
        "headers": {"Authorization": TOKEN}}}]);
    let guardrail = admin.post("/guardrails", json!({"name": "g", "checks": checks, "actions": {"deny": true}})).await;
    let guardrail = text(&guardrail.expect(200)["slug"]);
    let config = json!({"strategy": {"mode": "fallback"}, "input_guardrails": [guardrail],
        "targets": [{"provider": "openai", "api_key": INLINE}, {"provider": "@openai"}]});
    let config = admin.post("/configs", json!({"name": "c", "config": config, "isDefault": 1})).await.expect(200);
    let defaults = json!({"user_api_key_config": config["slug"], "input_guardrails": [guardrail]});
    admin.put("/admin/workspaces/default", json!({"defaults": defaults})).await.expect(200);
    let mcp = json!({"name": "M", "slug": "m-int", "url": "https://mcp.example.com/", "auth_type": "headers",
        "transport": "http", "new_capabilities": "disabled", "pin_definitions": true,
        "configurations": {"custom_headers": {"authorization": HEADER}, "pricing": {"tools": {"send": 0.5}},
            "user_identity_forwarding": {"method": "claims_header", "jwt_expiry_seconds": 60}}});
    admin.post("/mcp-integrations", mcp).await.expect(200);
    let off = json!({"capabilities": [{"name": "send", "type": "tool", "enabled": false}]});
    admin.put("/mcp-integrations/m-int/capabilities", off.clone()).await.expect(200);
    admin.post("/mcp-servers", json!({"name": "S", "slug": "m-srv", "mcp_integration_id": "m-int"})).await.expect(200);
    let members = json!([{"mcp_server_id": "m-srv", "prefix": "m", "optional": false}]);
    admin.post("/mcp-servers", json!({"name": "All", "slug": "all-srv", "members": members})).await.expect(200);
    let people = json!({"user_access": [{"user_id": user, "enabled": true}], "default_user_access": "deny"});
    admin.put("/mcp-servers/m-srv/user-access", people).await.expect(200);
    furnish_agents(&house, &user).await;
    furnish_shelf(&house).await;
    furnish_keys(&house, &user, &text(&config["id"])).await;
    house
}

async fn furnish_agents(house: &House, user: &str) {
    let admin = house.as_admin();
    let card = json!({"name": "A", "url": "https://agent.example.com/a", "skills": [{"id": "s"}]});
    let agent = json!({"name": "A", "slug": "a-int", "description": "d", "url": "https://agent.example.com/",
        "auth_type": "headers", "agent_card": card, "configurations": {"custom_headers": {"authorization": HEADER}, "pricing": {"default_usd_per_call": 0.5}}});
    admin.post("/agent-integrations", agent).await.expect(200);
    let filled = json!({"name": "B", "slug": "b-int", "url": "https://agent.example.com/b", "auth_type": "headers",
        "agent_card": card, "secret_mappings": [{"target_field": "configurations.custom_headers.x-team", "secret_reference_id": "vault"}]});
    admin.post("/agent-integrations", filled).await.expect(200);
    let seats = json!({"workspaces": [{"id": "team", "enabled": false}], "global_workspace_access": {"enabled": true}});
    admin.put("/agent-integrations/a-int/workspaces", seats).await.expect(200);
    admin
        .post("/agent-servers", json!({"name": "S", "slug": "a-srv", "agent_integration_id": "a-int"}))
        .await
        .expect(200);
    for at in ["/agent-integrations/a-int", "/agent-servers/a-srv"] {
        let off = json!({"skills": [{"id": "s", "enabled": false}]});
        admin.put(&format!("{at}/skills"), off).await.expect(200);
        let on = json!({"capabilities": [{"name": "push_notifications", "enabled": true}]});
        admin.put(&format!("{at}/capabilities"), on).await.expect(200);
    }
    let people = json!({"user_access": [{"user_id": user, "enabled": true}], "default_user_access": "deny"});
    admin.put("/agent-servers/a-srv/user-access", people).await.expect(200);
}

async fn furnish_shelf(house: &House) {
    let admin = house.as_admin();
    admin.post("/labels", json!({"name": "canary", "color_code": "#fff"})).await.expect(200);
    let outer = admin.post("/collections", json!({"name": "outer"})).await.expect(200);
    let inner = json!({"name": "inner", "parent_collection_id": outer["id"]});
    let inner = admin.post("/collections", inner).await.expect(200);
    let partial = json!({"name": "p", "string": "Be brief.\n\nVery."});
    let partial = text(&admin.post("/prompts/partials", partial).await.expect(200)["slug"]);
    let prompt = json!({"name": "hello", "string": format!("{{{{>{partial}}}}} Hi {{{{name}}}}"), "parameters": {"n": 1},
        "collection_id": inner["id"], "virtual_key": "openai"});
    let prompt = text(&admin.post("/prompts", prompt).await.expect(200)["slug"]);
    let path = format!("/prompts/{prompt}");
    let second = json!({"string": "yes", "version_description": "shorter"});
    let second = admin.put(&path, second).await.expect(200);
    let labels = json!({"label_id": admin.get("/labels/canary").await.expect(200)["id"]});
    let version = format!("{path}/versions/{}", text(&second["prompt_version_id"]));
    admin.put(&version, labels).await.expect(200);
    admin.put(&format!("{path}/share"), json!({"workspaces": ["team"]})).await.expect(200);
    admin.put(&format!("/prompts/partials/{partial}/share"), json!({"access": "organisation"})).await.expect(200);
}

async fn furnish_keys(house: &House, user: &str, config: &str) {
    let admin = house.as_admin();
    let key = json!({"name": "app", "scopes": ["completions.write"], "defaults": {"config_id": config, "metadata": {"k": "v"}},
        "rate_limits": [{"type": "requests", "unit": "rpm", "value": 5}], "max_parallel": 3,
        "mcp_access": {"allow": ["files/read_*"], "deny": ["mail"]}, "allowed_models": ["gpt-*", "@openai/o3"],
        "usage_limits": {"type": "cost", "credit_limit": 10, "alert_threshold": 8}, "alert_emails": ["a@example.com"]});
    let (id, _) = house.key("workspace/service", key).await;
    for _ in 0..2 {
        house.key("workspace/service", json!({"name": "twin", "scopes": ["logs.list"]})).await;
    }
    house.key("workspace/user", json!({"name": "ann's", "user_id": user, "workspace_id": "team", "scopes": []})).await;
    let rotating =
        json!({"name": "rotating", "scopes": ["configs.list"], "rotation_policy": {"rotation_period": "monthly"}});
    let (rotating, _) = house.key("workspace/service", rotating).await;
    admin.post(&format!("/api-keys/{rotating}/rotate"), json!({})).await.expect(200);
    let conditions = json!([{"key": "api_key", "value": [id, "*"]}, {"key": "workspace_id", "excludes": "team"}]);
    let rate = json!({"name": "per model", "type": "tokens", "unit": "tpd", "value": 1000, "conditions": conditions,
        "group_by": [{"key": "model"}], "enforcement": "check"});
    admin.post("/policies/rate-limits", rate).await.expect(200);
    let usage = json!({"type": "cost", "credit_limit": 100.25, "periodic_reset": "weekly",
        "conditions": [{"key": "api_key", "value": id}]});
    let usage = admin.post("/policies/usage-limits", usage).await.expect(200);
    admin
        .put(&format!("/policies/usage-limits/{}", text(&usage["id"])), json!({"status": "archived"}))
        .await
        .expect(200);
    let alert = json!({"name": "Slow", "type": "latency", "threshold": 1500, "statistic": "p99", "window_minutes": 90,
        "minimum_count": 10, "filters": {"ai_model": ["gpt-4o"]}, "channels": [{"type": "slack", "url": HOOK},
            {"type": "webhook", "url": "https://hooks.example.com/w", "headers": {"x-token": HEADER}}]});
    let made = admin.post("/alerts", alert).await.expect(200);
    admin.put(&format!("/alerts/{}", text(&made["slug"])), json!({"status": "archived"})).await.expect(200);
    let alert = json!({"name": "Budgets", "type": "budget", "threshold": 80, "organisation_id": house.org().id.to_string(),
        "channels": [{"type": "slack", "url": HOOK}]});
    admin.post("/alerts", alert).await.expect(200);
    let organisation = json!({"name": "Acme", "known_routes_only": true, "cache_max_age": 600, "debug_log": false,
        "security_settings": {"members_view_logs": false}, "overridable_sections": ["logs"],
        "model_prices": {"openai/gpt-4o": {"type": "static", "pay_as_you_go": {"request_token": {"price": 0.1}}}}});
    admin.put("/admin/organisation", organisation).await.expect(200);
}

pub(crate) async fn exported(house: &House) -> (String, Vec<String>) {
    let told = house.as_admin().get("/configuration").await.expect(200);
    let secrets = told["secrets"].as_array().expect("a list").iter().map(text).collect();
    (text(&told["document"]), secrets)
}

#[tokio::test]
async fn a_document_makes_an_empty_gateway_the_same() {
    let house = furnished().await;
    let (document, names) = exported(&house).await;
    for secret in SECRETS {
        assert!(!document.contains(secret), "{secret} in\n{document}");
    }
    assert!(names.iter().all(|name| document.contains(&format!("${{{name}}}"))), "{names:?}\n{document}");
    let empty = House::empty().await;
    let report = use_configuration(&empty.app, &document, secrets(&names), IMPORT).await.expect("imported");
    assert_eq!(report.changes.iter().filter(|c| c.action != "create").count(), 0, "{report}");
    let (again, told) = whole_export(&empty).await;
    assert_eq!(again, document);
    assert_eq!(told.secrets, names);
    // Keys, and what they lead to, work as they did.
    assert!(empty.in_force(ADMIN) && empty.in_force(SERVICE));
    let (snapshot, there) = (empty.app.live.snapshot(), house.app.live.snapshot());
    let opened = |s: &gateway_domain::snapshot::Snapshot| {
        let upstream = s.upstreams().find(|u| &*u.slug == "openai").expect("in force").clone();
        upstream.credential.as_ref().map(|key| key.expose().clone())
    };
    assert_eq!((opened(&snapshot).as_deref(), opened(&there).as_deref()), (Some(KEY), Some(KEY)));
    let prompt = empty.as_admin().get("/prompts").await.expect(200)["data"][0]["slug"].clone();
    let labelled = empty.as_admin().get(&format!("/prompts/{}?version=2", text(&prompt))).await.expect(200);
    assert_eq!(labelled["string"], "yes", "the history came along");
    let same = use_configuration(&empty.app, &document, BTreeMap::new(), IMPORT).await.expect("imported");
    assert!(same.is_clean(), "{same}");
}

#[tokio::test]
async fn over_the_api_as_on_the_command_line() {
    let house = furnished().await;
    let admin = house.as_admin();
    let (document, names) = exported(&house).await;
    let send = |document: &str| json!({"document": document});
    let same = admin.post("/configuration/import", send(&document)).await.expect(200);
    assert_eq!((&same["created"], &same["updated"]), (&json!(0), &json!(0)), "{same}");
    assert_eq!(admin.post("/configuration/diff", send(&document)).await.expect(200)["changes"], json!([]));
    // Where no secret is given for a name, the stored one stays; a secret that is given counts.
    let changed = document.replace("name: OpenAI", "name: Other").replace("value: 60", "value: 61");
    let told = admin.post("/configuration/diff", send(&changed)).await.expect(200);
    let paths: Vec<&Value> =
        told["changes"].as_array().expect("a list").iter().map(|c| &c["fields"][0]["path"]).collect();
    assert_eq!(paths, ["rate_limits.0.value", "name", "name", "name"], "{told}");
    let mut body = send(&changed);
    body["dry_run"] = true.into();
    let before = house.app.live.snapshot().revision;
    assert_eq!(admin.post("/configuration/import", body).await.expect(200)["updated"], 4);
    assert_eq!(house.app.live.snapshot().revision, before, "a dry run writes nothing");
    let key = names.iter().find(|name| name.ends_with("OPENAI_KEY")).expect("a name");
    let body = json!({"document": changed, "secrets": {key: "sk-another-secret-0123456789"}});
    let done = admin.post("/configuration/import", body).await.expect(200);
    assert_eq!(done["updated"], 4, "{done}");
    assert!(!done.to_string().contains("sk-another"), "{done}");
    let snapshot = house.app.live.snapshot();
    let upstream = snapshot.upstreams().find(|u| &*u.slug == "openai").expect("in force");
    assert_eq!(upstream.credential.as_ref().map(|k| k.expose().as_str()), Some("sk-another-secret-0123456789"));
    let (org, from, to) = (house.org().id, in_seconds(-3600), in_seconds(3600));
    let trail = admin.get(&format!("/audit-logs?organisation_id={org}&start_time={from}&end_time={to}")).await;
    assert!(!trail.text.contains("sk-another") && trail.text.contains("\"update\""), "{}", trail.text);
    house.as_service().get("/configuration").await.refused(403, "AB03");
}

#[tokio::test]
async fn what_cannot_hold_is_refused_by_name_and_nothing_is_written() {
    let house = furnished().await;
    let admin = house.as_admin();
    let before = house.app.live.snapshot().revision;
    let config =
        |fields: &str| format!("version: 1\nconfigs:\n- workspace: default\n  slug: pc-new\n  name: n\n{fields}");
    for (document, says) in [
        (config("  config: {}\n  colour: red\n"), "configs default/pc-new: colour is not a known field"),
        (config("  config: {provider: nobody}\n"), "configs default/pc-new: it cannot be put in force"),
        (config("  config: {virtual_key: gone}\n"), "configs default/pc-new: config is invalid"),
        (config("  config: {provider: openai, api_key: '${GATEWAY_SECRET_X}'}\n"), "GATEWAY_SECRET_X"),
        ("version: 1\nconfigs:\n- {slug: a, name: a, config: {}}".to_owned(), "workspace is required"),
        ("version: 1\nconfigs:\n- {workspace: none, slug: a, name: a, config: {}}".to_owned(), "names `none`"),
        ("version: 1\nworkspaces:\n- {slug: a, name: a}\n- {slug: a, name: b}".to_owned(), "declared twice"),
        (
            "version: 1\nworkspaces:\n- {slug: new, name: a}\nlabels:\n- {workspace: new, name: '12'}".to_owned(),
            "labels new/12",
        ),
        (
            "version: 1\napi_keys:\n- {type: workspace-service, name: k, scopes: []}".to_owned(),
            "workspace must be given",
        ),
        (
            "version: 1\napi_keys:\n- {type: workspace-service, workspace: team, name: k, scopes: [], sha256: x}"
                .to_owned(),
            "sha256",
        ),
        ("version: 1\nusers:\n- {email: o@example.com, role: owner}".to_owned(), "role owner"),
    ] {
        let refused = admin.post("/configuration/import", json!({"document": document})).await;
        let message = refused.refused(refused.status.as_u16(), if refused.status == 403 { "AB03" } else { "AB01" });
        assert!(message.contains(says), "{document}: {message}");
    }
    // A guardrail that calls another address does not take its stored secret along.
    let (document, _) = exported(&house).await;
    let moved = document.replace("https://hooks.example.com/x", "https://thief.example.com/x");
    let message = admin.post("/configuration/import", json!({"document": moved})).await.refused(400, "AB01");
    assert!(message.contains("GATEWAY_SECRET_GUARDRAIL"), "{message}");
    // A door that another organisation's key opens stays theirs.
    let foreign = house.organisation("elsewhere").await;
    let hash = gateway_domain::keys::KeyHash::of(&foreign);
    let document = format!(
        "version: 1\napi_keys:\n- {{type: workspace-service, workspace: team, name: k, scopes: [], sha256: {hash}}}"
    );
    admin.post("/configuration/import", json!({"document": document})).await.refused(409, "AB07");
    let twice = document.replace("name: k", "name: one")
        + "\n- {type: workspace-service, workspace: team, name: two, scopes: [], sha256: ";
    let twice = format!("{twice}{}}}", "ab".repeat(32)).replace(&hash.to_string(), &"ab".repeat(32));
    admin.post("/configuration/import", json!({"document": twice})).await.refused(409, "AB07");
    house.catch_up().await;
    assert_eq!(house.app.live.snapshot().revision, before + 1, "only the other organisation was written");
}

#[tokio::test]
async fn versions_of_prompts_are_added_and_never_changed() {
    let house = furnished().await;
    let admin = house.as_admin();
    let (document, _) = exported(&house).await;
    let changed = document.replace("string: 'yes'", "string: no more").replace("string: \"yes\"", "string: no more");
    assert_ne!(changed, document);
    let message = admin.post("/configuration/import", json!({"document": changed})).await.refused(409, "AB07");
    assert!(message.contains("add version 3"), "{message}");
    let at = document.find("prompts:\n").expect("a list");
    let (before, prompts) = document.split_at(at);
    let prompts = prompts.replacen("default_version: 1", "default_version: 3", 1);
    let prompts = prompts.replacen("versions:\n", "versions:\n  - version: 3\n    string: third\n", 1);
    let added = format!("{before}{prompts}");
    let done = admin.post("/configuration/import", json!({"document": added})).await.expect(200);
    assert_eq!(done["updated"], 1, "{done}");
    let slug = text(&admin.get("/prompts").await.expect(200)["data"][0]["slug"]);
    assert_eq!(admin.get(&format!("/prompts/{slug}")).await.expect(200)["string"], "third");
    assert_eq!(admin.get(&format!("/prompts/{slug}/versions")).await.expect(200)["total"], 3);
}

#[tokio::test]
async fn a_key_without_a_hash_gets_a_secret_that_is_told_once() {
    let house = House::new().await;
    let admin = house.as_admin();
    let document =
        "version: 1\napi_keys:\n- {type: workspace-service, workspace: default, name: fresh, scopes: [configs.list]}";
    let done = admin.post("/configuration/import", json!({"document": document})).await.expect(200);
    let key = text(&done["keys"][0]["key"]);
    house.with(&key).get("/configs").await.expect(200);
    let again = admin.post("/configuration/import", json!({"document": document})).await.expect(200);
    assert_eq!((&again["keys"], &again["unchanged"]), (&json!([]), &json!(1)), "{again}");
    house.with(&key).get("/configs").await.expect(200);
    let named = document.replace("name: fresh", "name: fresh, key: '${GATEWAY_SECRET_FRESH}'");
    let secret = "a-secret-that-somebody-has-chosen-0001";
    let body = json!({"document": named, "secrets": {"GATEWAY_SECRET_FRESH": secret}});
    admin.post("/configuration/import", body).await.expect(200);
    house.with(secret).get("/configs").await.expect(200);
    house.with(&key).get("/configs").await.refused(401, "AB05");
}

#[tokio::test]
async fn what_the_lists_do_not_hold_is_pruned_with_what_lives_in_it() {
    let house = furnished().await;
    let admin = house.as_admin();
    let (document, _) = exported(&house).await;
    let prune = |document: &str, dry_run: bool| json!({"document": document, "dry_run": dry_run});
    let none = admin.post("/configuration/prune", prune(&document, false)).await.expect(200);
    assert_eq!(none["deleted"], 0, "{none}");
    admin.post("/labels", json!({"name": "extra"})).await.expect(200);
    let told = admin.post("/configuration/diff", json!({"document": document})).await.expect(200);
    assert_eq!((&told["unmentioned"], &told["changes"][0]["name"]), (&json!(1), &json!("extra")), "{told}");
    assert_eq!(admin.post("/configuration/prune", prune(&document, true)).await.expect(200)["deleted"], 1);
    assert_eq!(admin.post("/configuration/prune", prune(&document, false)).await.expect(200)["deleted"], 1);
    // A list that a document does not have is left alone; one that is empty holds nothing.
    let only = "version: 1\nlabels: []\n";
    let refused = admin.post("/configuration/prune", prune(only, false)).await.refused(409, "AB07");
    assert!(refused.contains("labels default/canary: the label is on versions"), "{refused}");
    let keys = admin.post("/configuration/prune", prune("version: 1\napi_keys: []", false)).await.refused(409, "AB07");
    assert!(keys.contains("the key that asks"), "{keys}");
    let spaces = "version: 1\nworkspaces:\n- {slug: default, name: Default}\n";
    let done = admin.post("/configuration/prune", prune(spaces, false)).await.expect(200);
    let names: Vec<&str> =
        done["changes"].as_array().expect("a list").iter().filter_map(|c| c["section"].as_str()).collect();
    assert_eq!(names, ["workspaces", "members", "providers", "api_keys"], "{done}");
    let spaces =
        admin.post("/configuration/prune", prune("version: 1\nworkspaces: []", false)).await.refused(409, "AB07");
    assert!(spaces.contains("default workspace"), "{spaces}");
}

#[tokio::test]
async fn what_is_made_of_another_gateways_file_can_be_imported() {
    let house = House::new().await;
    let file = r#"
model_list:
- model_name: gpt-4o
  litellm_params: {model: azure/gpt-4o-eu, api_base: "https://acme-eu.openai.azure.com/", api_key: os.environ/A, rpm: 6, weight: 2}
- model_name: gpt-4o
  litellm_params: {model: openai/gpt-4o, api_key: os.environ/B, timeout: 30, temperature: 0.2}
- model_name: claude
  litellm_params: {model: anthropic/claude-sonnet-4-5, api_key: os.environ/C}
  model_info: {input_cost_per_token: 0.000003}
- model_name: titan
  litellm_params: {model: bedrock/amazon.titan, aws_access_key_id: os.environ/D, aws_secret_access_key: os.environ/E, aws_region_name: eu-west-1}
router_settings: {num_retries: 2, fallbacks: [{gpt-4o: [claude]}], model_group_alias: {gpt-4: gpt-4o}}
general_settings: {master_key: os.environ/M}
"#;
    let with = Conversion { catalog: house.app.catalog, trusted: &house.app.trusted, workspace: "default" };
    let made = convert_configuration(file, ForeignFile::LiteLlm, &with).expect("converted");
    let names = ["A", "B", "C", "D", "E", "M"].map(|name| format!("GATEWAY_SECRET_{name}"));
    let given = names.into_iter().map(|name| (name, "a-secret-of-somebody-else-0123456789".to_owned())).collect();
    let report = use_configuration(&house.app, &made.document, given, IMPORT).await;
    let report = report.unwrap_or_else(|problem| panic!("{} in\n{}", problem.message, made.document));
    assert_eq!(report.changes.len(), 4 + 4 + 1 + 1, "{report}");
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("a workspace");
    assert_eq!(workspace.default_config().map(|config| config.slug.to_string()).as_deref(), Some("pc-litellm"));
    assert_eq!(workspace.providers().count(), 4);
    assert!(house.in_force("a-secret-of-somebody-else-0123456789"));
}

/// Many, to and fro; `make scale` asks for ten thousand.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "make scale says how many")]
async fn many_resources_come_back_byte_for_byte() {
    let many: usize = std::env::var("SCALE_RESOURCES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut document =
        String::from("version: 1\norganisation: {name: Acme, default_workspace: default}\nworkspaces:\n");
    document.push_str("- {slug: default, name: Default}\n");
    for n in 0..many / 100 {
        document.push_str(&format!("- {{slug: team-{n:05}, name: Team {n}}}\n"));
    }
    let place = |n: usize| if many < 100 { "default".to_owned() } else { format!("team-{:05}", n % (many / 100)) };
    document.push_str("integrations:\n- {slug: openai, name: O, ai_provider_id: openai, key: '${GATEWAY_SECRET_K}'}\n");
    for (list, item) in [
        ("providers", "integration_id: openai"),
        (
            "configs",
            "config: {strategy: {mode: fallback}, targets: [{provider: openai, api_key: '${GATEWAY_SECRET_K}'}]}",
        ),
        ("prompts", "versions: [{version: 1, string: 'Hi {{name}}'}]"),
        ("api_keys", "type: workspace-service, scopes: [completions.write]"),
    ] {
        document.push_str(&format!("{list}:\n"));
        for n in 0..many / 4 {
            let own = if list == "api_keys" { format!("sha256: '{n:064x}'") } else { format!("slug: a-{n:05}") };
            document.push_str(&format!("- {{workspace: {}, {own}, name: n{n}, {item}}}\n", place(n)));
        }
    }
    let given = BTreeMap::from([("GATEWAY_SECRET_K".to_owned(), KEY.to_owned())]);
    let (first, second) = (House::empty().await, House::empty().await);
    let report = use_configuration(&first.app, &document, given, IMPORT).await.expect("imported");
    assert!(report.changes.len() >= many, "{}", report.changes.len());
    let (out, told) = whole_export(&first).await;
    use_configuration(&second.app, &out, secrets_of(&told.secrets), IMPORT).await.expect("imported");
    let (back, told) = whole_export(&second).await;
    assert_eq!(back, out);
    assert_eq!(told.resources, report.changes.len());
}

/// The answer is made while it is sent: no piece of it is much larger than the largest declaration, however much there
/// is.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "make scale says how many")]
async fn the_configuration_is_answered_in_pieces_that_do_not_grow_with_it() {
    let many: usize = std::env::var("SCALE_RESOURCES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let house = House::new().await;
    let mut document = String::from("version: 1\napi_keys:\n");
    for n in 0..many {
        document.push_str(&format!(
            "- {{workspace: default, name: n{n}, type: workspace-service, scopes: [completions.write], sha256: '{n:064x}'}}\n"
        ));
    }
    use_configuration(&house.app, &document, BTreeMap::new(), IMPORT).await.expect("imported");
    let request = Request::get("/v1/configuration").header("x-gateway-api-key", ADMIN).body(Body::empty());
    let response = house.router.clone().oneshot(request.expect("a request")).await.expect("infallible");
    assert_eq!((response.status().as_u16(), response.headers().get("content-length")), (200, None));
    let mut body = response.into_body().into_data_stream();
    let (mut whole, mut pieces, mut largest) = (Vec::new(), 0, 0);
    while let Some(piece) = body.next().await {
        let piece = piece.expect("no error");
        (pieces, largest) = (pieces + 1, largest.max(piece.len()));
        whole.extend_from_slice(&piece);
    }
    assert!(largest < 20 * 1024, "{largest} bytes in one piece");
    assert!(pieces > whole.len() / (20 * 1024), "{pieces} pieces");
    let told: Value = serde_json::from_slice(&whole).expect("JSON");
    let (document, exported) = whole_export(&house).await;
    assert_eq!((&told["document"], &told["resources"]), (&json!(document), &json!(exported.resources)));
    assert_eq!(told["secrets"], json!(exported.secrets));
}

/// Exports as the operator does, with the pieces of the document put together.
async fn whole_export(house: &House) -> (String, ExportedConfiguration) {
    let mut document = String::new();
    let told = export_configuration(&house.app, &mut |text| document.push_str(text)).await.expect("exported");
    (document, told)
}

fn secrets_of(names: &[String]) -> BTreeMap<String, String> {
    names.iter().map(|name| (name.clone(), KEY.to_owned())).collect()
}
