//! Who comes in by sign-on, and as what: people are linked, made, given seats by their claims, taken along to another
//! provider, and signed out on every node when they are switched off.

use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider};
use crate::harness::{Gateway, eventually, with};
use crate::sso::{Browser, PUBLIC, ann, as_session, back, gateway, state};
use gateway_testing::Postgres;
use serde_json::{Value, json};

#[tokio::test]
async fn people_are_linked_and_made_as_the_settings_say() {
    let provider = OidcProvider::start().await;
    let roles = json!({ "role_claim": "groups", "roles": { "gw-admins": "admin", "gw-users": "member" },
        "email_domains": ["example.com"] });
    let gateway = gateway(&provider, roles).await;
    let admin = gateway.admin();
    let sign_in = async |claims: Value| {
        provider.says(claims);
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        (page.status, browser.session())
    };
    // An address that nobody vouches for, and one of elsewhere.
    assert_eq!(sign_in(ann(json!({ "email_verified": false }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "email_verified": null }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "email": "ann@evil.example" }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "groups": ["gw-admins", "other"] }))).await.0, 303);
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!((&user["role"], &user["first_name"]), (&json!("admin"), &json!("Ann")));
    // Known by the provider's name from now on: a changed address is the same person, whoever has the old one is not.
    assert_eq!(sign_in(ann(json!({ "email": "lee@example.com", "groups": ["gw-users"] }))).await.0, 303);
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!(
        (&user["role"], admin.get("/admin/users").await.expect(200).json()["total"].clone()),
        (&json!("member"), json!(1))
    );
    assert_eq!(sign_in(ann(json!({ "sub": "subject-2" }))).await.0, 403);
    // Switched off by a directory: no session begins, and those that were there open nothing.
    let (_, session) = sign_in(ann(json!({}))).await;
    let session = session.expect("a session");
    as_session(&gateway, &session, "GET", "/configs").await.expect(200);
    let off = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    let path = format!("/scim/Users/{}", user["id"].as_str().expect("an id"));
    admin.call("PATCH", &path).json(&off).send().await.expect(200);
    as_session(&gateway, &session, "GET", "/configs").await.expect(401);
    assert_eq!(sign_in(ann(json!({}))).await.0, 403);
    // Where nobody is made, only those who are there come in.
    admin.put("/admin/organisation/sign-on", &json!({ "makes_users": false, "new_user_role": null })).await.expect(200);
    let bob = json!({ "sub": "subject-3", "email": "bob@example.com", "email_verified": true });
    assert_eq!(sign_in(bob).await.0, 403);
    assert_eq!(admin.get("/admin/users").await.expect(200).json()["total"], 1);
}

#[tokio::test]
async fn seats_follow_the_claims() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({ "new_user_role": null })).await;
    let admin = gateway.admin();
    for name in ["Red", "Blue", "Green"] {
        admin.post("/admin/workspaces", &json!({ "name": name, "slug": name.to_lowercase() })).await.expect(200);
    }
    let seats = json!([
        { "value": "reds", "workspace_id": "red", "role": "member" },
        { "value": "leads", "workspace_id": "red", "role": "manager" },
        { "value": "blues", "workspace_id": "blue", "role": "member" },
    ]);
    let sign_on = "/admin/organisation/sign-on";
    let wrong = json!({ "role_claim": "groups", "workspace_roles": [{ "value": "x", "workspace_id": "none", "role": "member" }] });
    let told = admin.put(sign_on, &wrong).await.expect(400).text();
    assert!(told.contains("workspace_roles[0].workspace_id"), "{told}");
    let told = admin.put(sign_on, &json!({ "workspace_roles": seats })).await.expect(400).text();
    assert!(told.contains("role_claim"), "{told}");
    admin.put(sign_on, &json!({ "role_claim": "groups", "workspace_roles": seats })).await.expect(200);
    let enter = async |groups: Value| {
        provider.says(ann(json!({ "groups": groups })));
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        (page.status, browser.session())
    };
    let seat = async |workspace: &str| {
        let all = admin.get(&format!("/admin/workspaces/{workspace}/users")).await.expect(200).json();
        all["data"].as_array().expect("seats").first().map_or(Value::Null, |seat| seat["role"].clone())
    };
    assert_eq!(enter(json!([])).await.0, 403, "no seat anywhere");
    let (status, session) = enter(json!(["reds", "leads", "blues"])).await;
    assert_eq!((status, seat("red").await, seat("blue").await), (303, json!("manager"), json!("member")));
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!(user["role"], "member", "claims say nothing of the organisation");
    let user = user["id"].as_str().expect("an id").to_owned();
    let body = json!({ "name": "k", "scopes": ["configs.list"], "workspace_id": "red", "user_id": user });
    let made = admin.post("/api-keys/workspace/user", &body).await.expect(200).json();
    let key = made["key"].as_str().expect("a key").to_owned();
    admin.with_key(&key).get("/configs").await.expect(200);
    // Less is said the next time: role, seat and what hung on it follow.
    assert_eq!(enter(json!(["reds", "blues"])).await.0, 303);
    assert_eq!(seat("red").await, "member");
    assert_eq!(enter(json!(["blues"])).await.0, 303);
    assert_eq!((seat("red").await, seat("blue").await), (Value::Null, json!("member")));
    admin.with_key(&key).get("/configs").await.expect(401);
    let _ = session;
    // What somebody gave by hand is theirs.
    let by_hand = json!({ "users": [{ "id": user, "role": "admin" }] });
    admin.post("/admin/workspaces/green/users", &by_hand).await.expect(200);
    admin.put(&format!("/admin/workspaces/blue/users/{user}"), &json!({ "role": "admin" })).await.expect(200);
    assert_eq!(enter(json!(["reds"])).await.0, 303);
    assert_eq!((seat("green").await, seat("blue").await), (json!("admin"), json!("admin")));
    // A group gives what the claims give no more.
    let group = json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Reds",
        "members": [{ "value": user }] });
    admin.post("/scim/Groups", &group).await.expect(201);
    let mapping = json!({ "workspace_id": "red", "scim_group_name": "reds", "role": "manager" });
    admin.post("/scim/workspaces", &mapping).await.expect(200);
    assert_eq!(seat("red").await, "member", "it was there already");
    assert_eq!(enter(json!([])).await.0, 303);
    assert_eq!(seat("red").await, "manager");
}

#[tokio::test]
async fn an_organisation_moves_to_another_provider() {
    let (old, new) = (OidcProvider::start().await, OidcProvider::start().await);
    let gateway = gateway(&old, json!({})).await;
    let admin = gateway.admin();
    old.says(ann(json!({})));
    assert_eq!(Browser::of(&gateway).sign_in(&old, "").await.status, 303);
    let mut late = Browser::of(&gateway);
    let asked = late.leave("").await;
    // The secret is for the one whom it was given for, and goes to nobody else.
    let issuer = json!({ "issuer": new.server.url() });
    let sign_on = "/admin/organisation/sign-on";
    for masked in [json!({}), json!({ "client_secret": "****0001" })] {
        let told = admin.put(sign_on, &with(issuer.clone(), masked)).await.expect(400).text();
        assert!(told.contains("client_secret"), "{told}");
    }
    admin.put(sign_on, &with(issuer, json!({ "client_secret": CLIENT_SECRET }))).await.expect(200);
    assert_eq!(late.open(&back(&old.grant(&asked), &state(&asked))).await.status, 401);
    // Her address tells who she is under another name; whoever else brings that address is refused.
    new.says(ann(json!({ "sub": "another-name" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 303);
    assert_eq!(admin.get("/admin/users").await.expect(200).json()["total"], 1);
    new.says(ann(json!({ "sub": "somebody-else" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 403);
    // Domains hold those who are known too.
    admin.put(sign_on, &json!({ "email_domains": ["example.org"] })).await.expect(200);
    new.says(ann(json!({ "sub": "another-name" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_switched_off_is_signed_out_on_every_node() {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("signed_out"))).await;
    let (_postgres, url) = made.expect("no panic");
    let provider = OidcProvider::start().await;
    let one = Gateway::with(&["--database-url", &url, "--public-url", PUBLIC]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key, "--public-url", PUBLIC]).await;
    let body = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "makes_users": true, "new_user_role": "member" });
    one.admin().put("/admin/organisation/sign-on", &body).await.expect(200);
    eventually("the settings", || async {
        let status = Browser::of(&two).open("/sso/default/start").await.status;
        (status == 303).then_some(())
    })
    .await;
    provider.says(ann(json!({})));
    // Begun on one node, ended on the other.
    let mut browser = Browser::of(&one);
    let asked = browser.leave("").await;
    let (code, state) = (provider.grant(&asked), state(&asked));
    let mut there = Browser::of(&two);
    there.cookies.clone_from(&browser.cookies);
    assert_eq!(there.open(&back(&code, &state)).await.status, 303);
    let session = there.session().expect("a session");
    as_session(&two, &session, "GET", "/configs").await.expect(200);
    let status = async |node: &Gateway| as_session(node, &session, "GET", "/configs").await.status;
    eventually("the session", || async { (status(&one).await == 200).then_some(()) }).await;
    // An answer that one node took is taken nowhere else.
    assert_eq!(browser.open(&back(&provider.grant(&asked), &state)).await.status, 401);
    let user = one.admin().get("/admin/users/ann@example.com").await.expect(200).json();
    let off = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    let path = format!("/scim/Users/{}", user["id"].as_str().expect("an id"));
    one.admin().call("PATCH", &path).json(&off).send().await.expect(200);
    assert_eq!(status(&one).await, 401);
    eventually("the other node", || async { (status(&two).await == 401).then_some(()) }).await;
}
