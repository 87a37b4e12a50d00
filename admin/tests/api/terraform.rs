//! The Terraform provider that exists for this API: what its client sends, and what it reads back after each write.
//! Terraform ends in "inconsistent result after apply" where the two differ, so each step says what it compares.

use crate::harness::{House, text};
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
    /// Where the client reads, and what it compares.
    read: &'a str,
    wanted: Value,
}

async fn apply(house: &House, step: Apply<'_>) -> Value {
    let admin = house.as_admin();
    let made = admin.ask(step.method.clone(), step.path, Some(step.sent)).await.expect(200);
    let id = made["id"].as_str().unwrap_or_default();
    let read = admin.get(&step.read.replace("ID", id)).await.expect(200);
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
    apply(&house, Apply { method: Method::POST, path: &seats, sent: add, read: &seat, wanted }).await;
    let (sent, wanted) = (json!({"role": "manager"}), json!({"role": "manager"}));
    apply(&house, Apply { method: Method::PUT, path: &seat, sent, read: &seat, wanted }).await;
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
        wanted: json!({"name": "Two", "slug": "oa-two", "note": "n"}),
    })
    .await;
    admin.ask(Method::DELETE, &provider, None).await.expect(200);
    admin.ask(Method::DELETE, "/integrations/oa", None).await.expect(200);
}
