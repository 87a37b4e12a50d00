//! What tells of people: invites and seats, a directory outside, and how they sign in.

use super::Story;
use crate::harness::{merge, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

pub(super) async fn members(story: &mut Story<'_>) {
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

pub(super) async fn directory(story: &mut Story<'_>) {
    let user = crate::scim::full_user();
    let made = story.send("POST /scim/Users", "/scim/Users", with_lists(&user)).await;
    let path = format!("/scim/Users/{}", text(&made["id"]));
    let mut want = user.clone();
    want.as_object_mut().expect("an object").remove("password");
    story.shows(&path, want.clone()).await;
    want["nickName"] = json!("Barb");
    let mut changed = with_lists(&user);
    changed["nickName"] = json!("Barb");
    story.send("PUT /scim/Users/{id}", &path, changed).await;
    let patch = |operation: Value| json!({"schemas": [crate::scim::PATCH], "Operations": [operation]});
    let title = patch(json!({"op": "replace", "path": "title", "value": "Chief"}));
    story.send("PATCH /scim/Users/{id}", &path, title).await;
    want["title"] = json!("Chief");
    story.shows(&path, want).await;
    let group = json!({"schemas": [crate::scim::GROUP], "displayName": "Guides", "externalId": "g-1",
        "members": [{"value": made["id"]}]});
    let group_id = text(&story.send("POST /scim/Groups", "/scim/Groups", group.clone()).await["id"]);
    let path = format!("/scim/Groups/{group_id}");
    story.send("PUT /scim/Groups/{id}", &path, group.clone()).await;
    let name = patch(json!({"op": "replace", "path": "displayName", "value": "Tour Guides"}));
    story.send("PATCH /scim/Groups/{id}", &path, name).await;
    let mut want = group;
    want["displayName"] = json!("Tour Guides");
    story.shows(&path, want).await;
    for named in [json!({"scim_group_id": group_id}), json!({"scim_group_name": "tour guides"})] {
        let workspace = if named.get("scim_group_id").is_some() { "team" } else { "default" };
        let mut body = json!({"workspace_id": workspace, "role": "member"});
        merge(&mut body, named);
        story.send("POST /scim/workspaces", "/scim/workspaces", body).await;
    }
    story.shows("/scim/workspaces", json!({"total_count": 2})).await;
}

/// Adds the lists to a user that are taken only when they are empty.
fn with_lists(user: &Value) -> Value {
    let mut user = user.clone();
    merge(&mut user, json!({"roles": [], "entitlements": []}));
    user
}

pub(super) async fn sign_on(story: &mut Story<'_>) {
    let path = "/admin/organisation/sign-on";
    let body = json!({"issuer": "https://login.example.com", "client_id": "c", "client_secret": "client-secret-0123456789",
        "role_claim": "groups", "roles": {"admins": "admin"}, "makes_users": true, "new_user_role": "member",
        "workspace_roles": [{"value": "team", "workspace_id": "default", "role": "manager"}],
        "email_domains": ["example.com"], "trusts_unverified_emails": true, "session_seconds": 900});
    story.send("PUT /admin/organisation/sign-on", path, body.clone()).await;
    let mut want = body;
    want["client_secret"] = json!("****6789");
    want["workspace_roles"][0]["workspace_id"] = json!(story.house.default_workspace());
    story.shows(path, want.clone()).await;
    // A key in place of the secret; a read shows only that there is one.
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("a key");
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", STANDARD.encode(made.as_ref()));
    let certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----";
    let body = json!({"client_secret": null, "client_private_key": key, "client_key_id": "k1", "client_certificate": certificate});
    story.send("PUT /admin/organisation/sign-on", path, body).await;
    (want["client_secret"], want["client_private_key"]) = (json!(null), json!("****"));
    (want["client_key_id"], want["client_certificate"]) = (json!("k1"), json!(certificate));
    story.shows(path, want).await;
}

pub(super) async fn organisations(story: &mut Story<'_>) {
    let body = json!({"name": "Second", "slug": "second", "owners": ["ann@example.org"]});
    let made = story.send("POST /admin/organisations", "/admin/organisations", body.clone()).await;
    let path = format!("/admin/organisations/{}", text(&made["id"]));
    story.shows(&path, body).await;
    let body = json!({"name": "Another", "owners": ["bob@example.org", "cy@example.org"]});
    story.send("PUT /admin/organisations/{id}", &path, body.clone()).await;
    story.shows(&path, body).await;
    let body = json!({"name": "k"});
    let to = format!("{path}/admin-keys");
    story.send("POST /admin/organisations/{id}/admin-keys", &to, body).await;
}
