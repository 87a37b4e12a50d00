//! The Terraform provider that exists for this API: what its client sends, and what it reads back after each write.
//! Terraform ends in "inconsistent result after apply" where the two differ, so each step says what it compares.

mod decoded;

use crate::harness::{House, list, text};
use decoded::{GoField, decodes};
use http::Method;
use serde_json::{Value, json};

/// Everything that `wanted` says stands in `read`; lists are compared whole.
fn holds(read: &Value, wanted: &Value, at: &str) {
    match wanted {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| holds(&read[name], value, &format!("{at}.{name}")))
        }
        _ => assert_eq!(read, wanted, "{at}"),
    }
}

/// One write, and the read that follows it.
struct Apply<'a> {
    method: Method,
    path: &'a str,
    sent: Value,
    /// Where the client reads, as what, and what it compares.
    read: &'a str,
    shape: &'static [GoField],
    wanted: Value,
}

async fn apply(house: &House, step: Apply<'_>) -> Value {
    let admin = house.as_admin();
    let made = admin.ask(step.method.clone(), step.path, Some(step.sent)).await.expect(200);
    let id = made["id"].as_str().unwrap_or_default();
    let read = admin.get(&step.read.replace("ID", id)).await.expect(200);
    decodes(&read, step.shape, step.path);
    holds(&read, &step.wanted, step.path);
    made
}

#[tokio::test]
async fn api_keys_read_back_as_they_were_written() {
    let house = House::new().await;
    let scopes = json!(["logs.view", "completions.write", "configs.list"]);
    let made = apply(
        &house,
        Apply {
            method: Method::POST,
            path: "/api-keys/workspace/service",
            sent: json!({"name": "app", "description": "d", "workspace_id": house.default_workspace(), "scopes": scopes,
            "rate_limits": [{"type": "requests", "unit": "rpm", "value": 10}],
            "usage_limits": {"type": "cost", "credit_limit": 100, "alert_threshold": 80, "periodic_reset": "monthly"},
            "defaults": {"metadata": {"_team": "a"}, "allow_config_override": false},
            "alert_emails": ["b@example.com", "a@example.com"]}),
            read: "/api-keys/ID",
            shape: decoded::KEY,
            wanted: json!({"name": "app", "type": "workspace-service", "scopes": scopes, "allow_config_override": 0,
            "rate_limits": [{"type": "requests", "unit": "rpm", "value": 10}],
            "usage_limits": {"type": "cost", "credit_limit": 100, "alert_threshold": 80, "periodic_reset": "monthly"},
            "alert_emails": ["b@example.com", "a@example.com"]}),
        },
    )
    .await;
    let path = format!("/api-keys/{}", text(&made["id"]));
    let scopes = json!(["providers.list", "logs.view", "configs.read", "completions.write"]);
    apply(&house, Apply {
        method: Method::PUT,
        path: &path,
        sent: json!({"name": "app", "scopes": scopes, "rate_limits": null, "usage_limits": null, "alert_emails": null,
            "expires_at": null, "defaults": {"config_id": null}}),
        read: &path,
        shape: decoded::KEY,
        wanted: json!({"scopes": scopes, "rate_limits": [], "usage_limits": null, "alert_emails": []}),
    })
    .await;
    house.as_admin().ask(Method::POST, &format!("{path}/rotate"), None).await.expect(200);
    house.as_admin().ask(Method::DELETE, &path, None).await.expect(200);
    house.as_admin().get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn workspaces_their_members_and_invites() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = apply(
        &house,
        Apply {
            method: Method::POST,
            path: "/admin/workspaces",
            sent: json!({"name": "Team", "icon": "🚪", "description": "d", "defaults": {"metadata": {"a": "b"}},
            "usage_limits": [{"type": "cost", "credit_limit": 5, "periodic_reset": "weekly"}]}),
            read: "/admin/workspaces/ID",
            shape: decoded::WORKSPACE,
            wanted: json!({"icon": "🚪", "description": "d", "defaults": {"metadata": {"a": "b"}}}),
        },
    )
    .await;
    let path = format!("/admin/workspaces/{}", text(&made["id"]));
    apply(
        &house,
        Apply {
            method: Method::PUT,
            path: &path,
            sent: json!({"name": "Team", "icon": "", "rate_limits": null, "usage_limits": null}),
            read: &path,
            shape: decoded::WORKSPACE,
            wanted: json!({"name": "Team", "icon": null, "rate_limits": [], "usage_limits": []}),
        },
    )
    .await;
    let invited = apply(
        &house,
        Apply {
            method: Method::POST,
            path: "/admin/users/invites",
            sent: json!({"email": "eve@example.com", "role": "member"}),
            read: "/admin/users/invites/ID",
            shape: decoded::INVITE,
            wanted: json!({"email": "eve@example.com", "role": "member", "status": "pending", "workspaces": []}),
        },
    )
    .await;
    // Somebody without a seat is a user, and gets one later.
    let body = json!({"token": crate::harness::token(&invited["invite_link"]), "first_name": "E", "last_name": "V"});
    let user = text(&house.nobody().post("/invites/accept", body).await.expect(200)["id"]);
    assert_eq!(admin.get("/admin/users?pageSize=100&role=member").await.expect(200)["data"][0]["id"], user.as_str());
    let seats = format!("{path}/users");
    let seat = format!("{seats}/{user}");
    let add = json!({"users": [{"id": user, "role": "member"}]});
    let wanted = json!({"user_id": user, "role": "member", "email": "eve@example.com"});
    apply(&house, Apply { method: Method::POST, path: &seats, sent: add, read: &seat, shape: decoded::MEMBER, wanted })
        .await;
    let (sent, wanted) = (json!({"role": "manager"}), json!({"role": "manager"}));
    apply(&house, Apply { method: Method::PUT, path: &seat, sent, read: &seat, shape: decoded::MEMBER, wanted }).await;
    admin.ask(Method::DELETE, &seat, None).await.expect(200);
    let gone = json!({"name": "Team", "force_delete": true});
    admin.ask(Method::DELETE, &path, Some(gone)).await.expect(200);
    admin.get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn integrations_with_their_models_workspaces_and_providers() {
    let house = House::new().await;
    let admin = house.as_admin();
    let team = house.workspace("team").await;
    apply(&house, Apply {
        method: Method::POST,
        path: "/integrations",
        sent: json!({"name": "OA", "slug": "oa", "ai_provider_id": "openai", "key": "sk-1", "description": "d",
            "configurations": {"openai_organization": "org-1"}, "secret_mappings": []}),
        read: "/integrations/oa",
        shape: decoded::INTEGRATION,
        wanted: json!({"name": "OA", "slug": "oa", "ai_provider_id": "openai", "description": "d", "status": "active",
            "configurations": {"openai_organization": "org-1"}, "secret_mappings": []}),
    })
    .await;
    let access = "/integrations/oa/workspaces";
    apply(
        &house,
        Apply {
            method: Method::PUT,
            path: access,
            sent: json!({"workspaces": [{"id": team, "enabled": true, "reset_usage": true,
            "usage_limits": [{"type": "cost", "credit_limit": 9, "alert_threshold": 5, "periodic_reset": "monthly"}],
            "rate_limits": [{"type": "requests", "unit": "rpm", "value": 3}]}]}),
            read: access,
            shape: decoded::SHARES,
            wanted: json!({"total": 1}),
        },
    )
    .await;
    let row = admin.get(access).await.expect(200)["workspaces"][0].clone();
    // The client finds it by the slug of the workspace.
    assert_eq!((&row["id"], &row["enabled"]), (&json!("team"), &json!(true)));
    assert_eq!(row["rate_limits"], json!([{"type": "requests", "unit": "rpm", "value": 3}]));
    holds(&row["usage_limits"][0], &json!({"type": "cost", "credit_limit": 9, "alert_threshold": 5}), access);
    // The spelling of the vendor's other clients does the same as this one's.
    for name in ["override_existing_workspace_access", "override_existing_workspaces_access"] {
        let body = json!({name: true, "global_workspace_access": {"enabled": true}});
        admin.put(access, body).await.expect(200);
        assert_eq!(admin.get(access).await.expect(200)["total"], 0, "{name}");
        let one = json!({"workspaces": [{"id": team, "enabled": false}]});
        admin.put(access, one).await.expect(200);
    }
    let models = "/integrations/oa/models";
    let price = json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0.5}}});
    apply(
        &house,
        Apply {
            method: Method::PUT,
            path: models,
            sent: json!({"allow_all_models": false, "models": [{"slug": "mine", "enabled": true, "is_custom": true,
            "is_finetune": false, "base_model_slug": "gpt-4o", "pricing_config": price}]}),
            read: models,
            shape: decoded::MODELS,
            wanted: json!({"allow_all_models": false}),
        },
    )
    .await;
    let read = admin.get(models).await.expect(200);
    let wanted = json!({"slug": "mine", "enabled": true, "base_model_slug": "gpt-4o", "pricing_config": price});
    holds(&read["models"][0], &wanted, models);
    admin.ask(Method::DELETE, models, Some(json!({"models": ["mine"]}))).await.expect(200);
    let workspace = house.default_workspace();
    let provider = format!("/providers/oa-two?workspace_id={workspace}");
    apply(&house, Apply {
        method: Method::POST,
        path: "/providers",
        sent: json!({"name": "Two", "slug": "oa-two", "integration_id": "oa", "workspace_id": workspace, "note": "n"}),
        read: &provider,
        shape: decoded::PROVIDER,
        wanted: json!({"name": "Two", "slug": "oa-two", "note": "n"}),
    })
    .await;
    admin.ask(Method::DELETE, &provider, None).await.expect(200);
    admin.ask(Method::DELETE, "/integrations/oa", None).await.expect(200);
}

/// What the client sends to make a thing, where it reads it back, and its steps from there on.
struct Life<'a> {
    house: &'a House,
    all: &'static str,
    one: String,
    shape: &'static [GoField],
    id: Value,
}

impl<'a> Life<'a> {
    async fn begin(house: &'a House, all: &'static str, shape: &'static [GoField], sent: Value, wanted: Value) -> Self {
        let read = format!("{all}/ID");
        let made = apply(house, Apply { method: Method::POST, path: all, sent, read: &read, shape, wanted }).await;
        Self { house, all, one: format!("{all}/{}", text(&made["id"])), shape, id: made["id"].clone() }
    }

    async fn change(&self, sent: Value, wanted: Value) {
        let (path, shape) = (&self.one, self.shape);
        apply(self.house, Apply { method: Method::PUT, path, sent, read: path, shape, wanted }).await;
    }

    /// Its data source lists everything, and finds it there.
    async fn is_listed(&self, query: &str) {
        let told = self.house.as_admin().get(&format!("{}{query}", self.all)).await.expect(200);
        let rows = told["data"].as_array().expect("rows");
        rows.iter().for_each(|row| decodes(row, self.shape, self.all));
        assert!(rows.iter().any(|row| row["id"] == self.id), "{told}");
    }

    async fn end(self) {
        let admin = self.house.as_admin();
        admin.ask(Method::DELETE, &self.one, None).await.expect(200);
        admin.get(&self.one).await.refused(404, "AB08");
    }
}

#[tokio::test]
async fn configs_and_guardrails() {
    let house = House::new().await;
    let config = json!({"strategy": {"mode": "single"}, "targets": [{"provider": "openai"}]});
    let sent = json!({"name": "c", "config": config, "workspace_id": house.default_workspace(), "isDefault": 0});
    let life = Life::begin(&house, "/configs", decoded::CONFIG, sent, json!({"name": "c", "is_default": 0})).await;
    life.change(json!({"name": "d", "config": config, "status": "active"}), json!({"name": "d", "status": "active"}))
        .await;
    life.is_listed(&format!("?workspace_id={}", house.default_workspace())).await;
    life.end().await;
    let checks = json!([{"id": "default.contains", "is_enabled": true, "parameters": {"words": ["x"]}}]);
    let sent =
        json!({"name": "g", "workspace_id": house.default_workspace(), "checks": checks, "actions": {"deny": true}});
    let wanted = json!({"name": "g", "checks": checks, "actions": {"deny": true}});
    let life = Life::begin(&house, "/guardrails", decoded::GUARDRAIL, sent, wanted).await;
    life.change(json!({"name": "h", "checks": checks, "actions": {"deny": false}}), json!({"name": "h"})).await;
    life.end().await;
}

#[tokio::test]
async fn prompts_partials_and_collections() {
    let house = House::new().await;
    let (admin, workspace) = (house.as_admin(), house.default_workspace());
    let integration = json!({"name": "oa", "slug": "oa", "ai_provider_id": "openai", "key": "sk-1"});
    admin.post("/integrations", integration).await.expect(200);
    let sent = json!({"name": "f", "workspace_id": workspace});
    let folder = Life::begin(&house, "/collections", decoded::COLLECTION, sent, json!({"name": "f"})).await;
    folder.change(json!({"name": "g"}), json!({"name": "g", "is_default": 0})).await;
    folder.is_listed(&format!("?workspace_id={workspace}")).await;

    let sent = json!({"name": "p", "collection_id": folder.id, "string": "Hi", "parameters": {"max_tokens": 5},
        "model": "gpt-4o", "virtual_key": "oa", "version_description": "first"});
    let wanted = json!({"name": "p", "string": "Hi", "parameters": {"max_tokens": 5}, "virtual_key": "oa",
        "is_raw_template": 0, "prompt_version": 1, "prompt_version_description": "first"});
    let prompt = Life::begin(&house, "/prompts", decoded::PROMPT, sent, wanted).await;
    // To change the name alone, the client sends null for the parameters: no new version, and nothing is forgotten.
    prompt
        .change(json!({"name": "q", "parameters": null}), json!({"name": "q", "parameters": {"max_tokens": 5}}))
        .await;
    let versions = format!("{}/versions", prompt.one);
    assert_eq!(admin.get(&versions).await.expect(200)["total"], 1);
    let sent = json!({"string": "Ho", "model": "gpt-4o", "parameters": {}, "virtual_key": "oa", "is_raw_template": 0});
    let changed = admin.put(&prompt.one, sent).await.expect(200);
    let listed = admin.get(&versions).await.expect(200);
    let found = listed["data"].as_array().expect("versions").iter().find(|v| v["id"] == changed["prompt_version_id"]);
    let number = found.expect("the new one")["prompt_version"].as_i64().expect("a number");
    admin.put(&format!("{}/makeDefault", prompt.one), json!({"version": number})).await.expect(200);
    let read = admin.get(&prompt.one).await.expect(200);
    holds(&read, &json!({"string": "Ho", "parameters": {}, "prompt_version": 2}), "the new default");
    prompt.is_listed(&format!("?workspace_id={workspace}&collection_id={}", text(&folder.id))).await;
    prompt.end().await;
    folder.end().await;

    let sent = json!({"name": "p", "string": "x", "workspace_id": workspace, "version_description": "first"});
    let wanted = json!({"name": "p", "string": "x", "version": 1, "version_description": "first"});
    let partial = Life::begin(&house, "/prompts/partials", decoded::PARTIAL, sent, wanted).await;
    partial.change(json!({"name": "q"}), json!({"name": "q", "version": 1})).await;
    let changed = admin.put(&partial.one, json!({"string": "y", "version_description": "second"})).await.expect(200);
    let listed = admin.get(&format!("{}/versions", partial.one)).await.expect(200);
    assert_eq!(listed["data"][0]["prompt_partial_version_id"], changed["prompt_partial_version_id"]);
    let number = listed["data"][0]["version"].as_i64().expect("a number");
    admin.put(&format!("{}/makeDefault", partial.one), json!({"version": number})).await.expect(200);
    holds(&admin.get(&partial.one).await.expect(200), &json!({"string": "y", "version": 2}), "the new default");
    partial.is_listed(&format!("?workspace_id={workspace}")).await;
    partial.end().await;
}

#[tokio::test]
async fn policies_of_both_kinds() {
    let house = House::new().await;
    let (org, workspace) = (house.org().id, house.default_workspace());
    let about = json!({"workspace_id": workspace, "organisation_id": org,
        "conditions": [{"key": "workspace_id", "value": workspace.to_string()}], "group_by": [{"key": "api_key"}]});
    let with = |more: Value| {
        let mut sent = about.clone();
        sent.as_object_mut().expect("fields").extend(more.as_object().cloned().expect("fields"));
        sent
    };
    let compared = json!({"conditions": about["conditions"], "group_by": about["group_by"]});
    let sent = with(json!({"name": "r", "type": "requests", "unit": "rpm", "value": 5.0}));
    let rate = Life::begin(&house, "/policies/rate-limits", decoded::POLICY, sent, compared.clone()).await;
    rate.change(json!({"name": "s", "unit": "rph", "value": 7.0}), json!({"name": "s", "unit": "rph", "value": 7}))
        .await;
    rate.is_listed(&format!("?workspace_id={workspace}")).await;
    let sent = with(
        json!({"name": "u", "type": "cost", "credit_limit": 12.5, "alert_threshold": 10.0, "periodic_reset": "monthly"}),
    );
    let usage = Life::begin(&house, "/policies/usage-limits", decoded::POLICY, sent, compared).await;
    usage.change(json!({"name": "v", "credit_limit": 20.25}), json!({"name": "v", "credit_limit": 20.25})).await;
    usage.is_listed(&format!("?workspace_id={workspace}")).await;
    for policy in [rate, usage] {
        // What is deleted is archived, and told so.
        house.as_admin().ask(Method::DELETE, &policy.one, None).await.expect(200);
        let read = house.as_admin().get(&policy.one).await;
        assert!(read.status == 404 || read.json()["status"] == "archived", "{}", read.text);
    }
}

#[tokio::test]
async fn mcp_integrations_and_secret_references() {
    let house = House::new().await;
    let admin = house.as_admin();
    let sent = json!({"name": "M", "slug": "m", "description": "d", "url": "https://mcp.example.com/mcp", "auth_type": "headers",
        "transport": "http", "configurations": {"custom_headers": {"authorization": "Bearer x"}}});
    let wanted = json!({"name": "M", "slug": "m", "url": "https://mcp.example.com/mcp", "auth_type": "headers"});
    let mcp = Life::begin(&house, "/mcp-integrations", decoded::MCP_INTEGRATION, sent, wanted).await;
    mcp.change(
        json!({"name": "N", "url": "https://mcp.example.com/two", "transport": "http", "auth_type": "headers"}),
        json!({"name": "N", "url": "https://mcp.example.com/two", "transport": "http"}),
    )
    .await;
    mcp.is_listed("").await;
    let path = format!("{}/capabilities", mcp.one);
    let sent = json!({"capabilities": [{"name": "send", "type": "tool", "enabled": false}]});
    let wanted = json!({});
    apply(
        &house,
        Apply {
            method: Method::PUT,
            path: &path,
            sent: sent.clone(),
            read: &path,
            shape: decoded::CAPABILITIES,
            wanted,
        },
    )
    .await;
    holds(&admin.get(&path).await.expect(200)["data"][0], &sent["capabilities"][0], "a capability");
    let path = format!("{}/workspaces", mcp.one);
    let sent = json!({"workspaces": [{"id": house.default_workspace(), "enabled": true}]});
    let wanted = json!({});
    apply(&house, Apply { method: Method::PUT, path: &path, sent, read: &path, shape: decoded::OPENED, wanted }).await;
    assert_eq!(list(&json!({"data": admin.get(&path).await.expect(200)["workspaces"]}), "id"), ["default"]);
    mcp.end().await;

    let sign_in = json!({"vault_auth_type": "token", "vault_addr": "https://vault.example.com", "vault_token": "t"});
    let sent = json!({"name": "S", "slug": "s", "description": "d", "manager_type": "hashicorp_vault", "auth_config": sign_in,
        "secret_path": "kv/a", "secret_key": "k", "allow_all_workspaces": true, "tags": {"a": "b"}, "organisation_id": house.org().id});
    let wanted = json!({"name": "S", "slug": "s", "manager_type": "hashicorp_vault", "secret_path": "kv/a", "secret_key": "k",
        "allow_all_workspaces": true, "tags": {"a": "b"}});
    let secret = Life::begin(&house, "/secret-references", decoded::SECRET_REFERENCE, sent, wanted).await;
    let sent = json!({"name": "T", "secret_path": "kv/b", "secret_key": null, "allow_all_workspaces": false,
        "allowed_workspaces": [house.default_workspace()]});
    let wanted = json!({"name": "T", "secret_path": "kv/b", "secret_key": null, "allow_all_workspaces": false,
        "allowed_workspaces": [house.default_workspace()]});
    secret.change(sent, wanted).await;
    secret.is_listed("?current_page=0&page_size=100").await;
    secret.end().await;
}

#[tokio::test]
async fn people_and_roles_of_groups() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (user, _) = house.user("ann@example.com", "member", json!([]), None).await;
    let path = format!("/admin/users/{user}");
    let wanted = json!({"email": "ann@example.com", "role": "admin"});
    let sent = json!({"role": "admin"});
    apply(
        &house,
        Apply {
            method: Method::PUT,
            path: &path,
            sent: sent.clone(),
            read: &path,
            shape: decoded::USER,
            wanted: wanted.clone(),
        },
    )
    .await;
    // The client reads the user from what a change answers.
    let told = admin.put(&path, sent).await.expect(200);
    decodes(&told, decoded::USER, "a changed user");
    holds(&told, &wanted, "a changed user");
    let group = json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Engineering"});
    admin.post("/scim/Groups", group).await.expect(201);
    let sent = json!({"workspace_id": house.default_workspace(), "role": "member", "scim_group_name": "Engineering"});
    let made = admin.post("/scim/workspaces", sent).await.expect(200);
    decodes(&made, decoded::SCIM_MAPPING, "a mapping");
    let told = admin.get("/scim/workspaces?page_size=100&page=0").await.expect(200);
    assert_eq!(told["total_count"], 1);
    decodes(&told["mappings"][0], decoded::SCIM_MAPPING, "a mapping");
    holds(&told["mappings"][0], &json!({"id": made["id"], "role": "member", "scim_group": "Engineering"}), "a mapping");
    admin.ask(Method::DELETE, &format!("/scim/workspaces/{}", text(&made["id"])), None).await.expect(200);
    admin.ask(Method::DELETE, &path, None).await.expect(200);
}
