//! A directory outside switches people on and off and says who belongs to which group: seen on the ports that they use.

use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply};
use serde_json::{Value, json};

const CORE: &str = "urn:ietf:params:scim:schemas:core:2.0";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

fn id(answer: &Answer) -> String {
    answer.json()["id"].as_str().expect("an id").to_owned()
}

async fn user(gateway: &Gateway, name: &str) -> String {
    let body = json!({ "schemas": [format!("{CORE}:User")], "userName": name,
        "emails": [{ "value": format!("{name}@example.com"), "primary": true }] });
    let made = gateway.admin().post("/scim/Users", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    id(&made)
}

async fn patch(gateway: &Gateway, path: &str, operation: Value) -> Answer {
    let body = json!({ "schemas": [PATCH], "Operations": [operation] });
    gateway.admin().call("PATCH", path).json(&body).send().await
}

async fn key(gateway: &Gateway, user: &str, workspace: &str) -> Answer {
    let body = json!({ "name": "k", "user_id": user, "scopes": ["completions.write"], "workspace_id": workspace });
    gateway.admin().post("/api-keys/workspace/user", &body).await
}

#[tokio::test]
async fn who_is_switched_off_is_cut_off_on_every_port() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "jwks_uris": issuer.uri() })).await.expect(200);
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let ann = user(&gateway, "ann").await;
    let seat = json!({ "users": [{ "id": ann, "role": "member" }] });
    admin.post("/admin/workspaces/default/users", &seat).await.expect(200);
    let key = key(&gateway, &ann, "default").await.expect(200).json()["key"].as_str().expect("a key").to_owned();
    // Tokens call her what the issuer does: by address, by the directory's name, by neither.
    let token = |claims: Value| {
        let mut all = json!({ "scope": "completions.write configs.list", "exp": in_seconds(3600) });
        all.as_object_mut().expect("an object").extend(claims.as_object().expect("an object").clone());
        FIRST.sign(&all)
    };
    let hers = [token(json!({ "sub": "7", "email_id": "Ann@example.com" })), token(json!({ "sub": "ann" }))];
    let bobs = token(json!({ "sub": "8", "email_id": "bob@example.com" }));
    let chat = async |key: &str| {
        let config = target(&upstream);
        gateway.chat().key(key).config(&config).json(&hello()).send().await.status
    };
    for one in [&key, &hers[0], &hers[1], &bobs] {
        assert_eq!(chat(one).await, 200);
    }
    let path = format!("/scim/Users/{ann}");
    let off = json!({ "op": "Replace", "path": "active", "value": "False" });
    patch(&gateway, &path, off).await.expect(200);
    assert_eq!(chat(&key).await, 401);
    for token in &hers {
        assert_eq!(chat(token).await, 403);
        assert_eq!(admin.with_key(token).get("/configs").await.status, 403);
    }
    assert_eq!(chat(&bobs).await, 200);
    let on = json!({ "op": "Replace", "path": "active", "value": true });
    patch(&gateway, &path, on).await.expect(200);
    for one in [&key, &hers[0], &hers[1]] {
        assert_eq!(chat(one).await, 200);
    }
    // What was said outlives the process.
    patch(&gateway, &path, json!({ "op": "replace", "path": "active", "value": false })).await.expect(200);
    let gateway = gateway.restart_with(&[]).await;
    let config = target(&upstream);
    assert_eq!(gateway.chat().key(&key).config(&config).json(&hello()).send().await.status, 401);
    eventually("the issuer's keys, which are fetched anew", || async {
        let answer = gateway.chat().key(&hers[0]).config(&config).json(&hello()).send().await;
        assert_ne!(answer.status, 200);
        (answer.status == 403).then_some(())
    })
    .await;
    // The proxy port serves the same.
    let read = gateway.get(&format!("/v1{path}")).key(crate::harness::ADMIN_KEY).send().await;
    assert_eq!(read.expect(200).json()["active"], false);
}

#[tokio::test]
async fn a_group_opens_a_workspace_and_closes_it() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let ann = user(&gateway, "ann").await;
    let body = json!({ "schemas": [format!("{CORE}:Group")], "displayName": "Team", "members": [{ "value": ann }] });
    let group = id(&admin.post("/scim/Groups", &body).await);
    key(&gateway, &ann, "default").await.expect(400);
    let mapping = json!({ "workspace_id": "default", "scim_group_id": group, "role": "member" });
    admin.post("/scim/workspaces", &mapping).await.expect(200);
    let key = key(&gateway, &ann, "default").await.expect(200).json()["key"].as_str().expect("a key").to_owned();
    let config = target(&upstream);
    let chat = async || gateway.chat().key(&key).config(&config).json(&hello()).send().await.status;
    assert_eq!(chat().await, 200);
    let leave = json!({ "op": "Remove", "path": "members", "value": [{ "value": ann }] });
    assert_eq!(patch(&gateway, &format!("/scim/Groups/{group}"), leave).await.status, 204);
    assert_eq!(chat().await, 401);
}
