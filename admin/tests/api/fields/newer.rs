//! What a newer node wrote into rows of the story stays, wherever it stands: a node that does not know it changes the
//! rest, and leaves it as it is.

use super::whole;
use crate::harness::{House, text};
use gateway_domain::resource::Stored;
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

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
