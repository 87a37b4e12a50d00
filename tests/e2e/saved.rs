//! Saved configs in force: the default of a workspace, and the way back to a version.

use crate::harness::{Gateway, Upstream, gateway::target, hello, reply};
use serde_json::json;

async fn saying(text: &'static str) -> Upstream {
    Upstream::replying(move |_| reply::chat(text)).await
}

#[tokio::test]
async fn the_default_of_a_workspace_serves_who_brings_none() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (default, own, keys) = (saying("default").await, saying("own").await, saying("key's").await);
    let slug = admin.config("default", &target(&default)).await;
    let ask = || gateway.chat().json(&hello());
    ask().send().await.expect(400);
    admin.put(&format!("/configs/{slug}"), &json!({ "isDefault": 1 })).await.expect(200);
    assert_eq!(ask().send().await.expect(200).said(), "default");
    assert_eq!(ask().config(&target(&own)).send().await.expect(200).said(), "own");
    let of_key = admin.config("of the key", &target(&keys)).await;
    let (_, key) = admin.workspace_key("k", json!({ "defaults": { "config_id": of_key } })).await;
    assert_eq!(ask().key(&key).send().await.expect(200).said(), "key's");
    admin.put(&format!("/configs/{slug}"), &json!({ "isDefault": 0 })).await.expect(200);
    ask().send().await.expect(400);
}

#[tokio::test]
async fn an_old_version_is_in_force_again_when_it_is_answered() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (old, new) = (saying("old").await, saying("new").await);
    let slug = admin.config("main", &target(&old)).await;
    let ask = || gateway.chat().header("x-gateway-config", &slug).json(&hello()).send();
    admin.put(&format!("/configs/{slug}"), &json!({ "config": target(&new) })).await.expect(200);
    assert_eq!(ask().await.expect(200).said(), "new");
    admin.post(&format!("/configs/{slug}/rollback"), &json!({ "version": 1 })).await.expect(200);
    assert_eq!(ask().await.expect(200).said(), "old");
}
