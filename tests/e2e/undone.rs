//! Changes of keys, policies and integrations that are taken back, seen by requests: in force when it is answered.

use crate::harness::{Gateway, Upstream, hello, reply, stand_at_noon, with};
use serde_json::json;

#[tokio::test]
async fn what_is_taken_back_is_in_force_when_it_is_answered() {
    stand_at_noon();
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let (id, key) = admin.workspace_key("app", json!({})).await;
    let ask = async || gateway.chat().key(&key).provider("@main").json(&hello()).send().await;
    let back = async |path: &str| admin.post(&format!("{path}/rollback"), &json!({ "version": 1 })).await.expect(200);
    ask().await.expect(200);

    let path = format!("/api-keys/{id}");
    admin.put(&path, &json!({ "allowed_models": ["other"] })).await.expect(200);
    ask().await.expect(403);
    back(&path).await;
    ask().await.expect(200);

    admin.put("/integrations/main-integration", &json!({ "key": "sk-another-0001" })).await.expect(200);
    ask().await.expect(200);
    let seen = || upstream.seen().pop().and_then(|seen| seen.header("authorization").map(str::to_owned));
    assert_eq!(seen().as_deref(), Some("Bearer sk-another-0001"));
    back("/integrations/main-integration").await;
    ask().await.expect(200);
    assert_eq!(seen().as_deref(), Some("Bearer sk-managed"));

    let many = json!({ "name": "Many", "conditions": [{ "key": "api_key", "value": id }],
                       "group_by": [{ "key": "api_key" }] });
    let rate = with(many.clone(), json!({ "type": "requests", "unit": "rph", "value": 1000 }));
    let rate = admin.post("/policies/rate-limits", &rate).await.expect(200).json();
    let path = format!("/policies/rate-limits/{}", rate["id"].as_str().expect("an id"));
    ask().await.expect(200);
    admin.put(&path, &json!({ "value": 1 })).await.expect(200);
    ask().await.expect(429);
    back(&path).await;
    ask().await.expect(200);

    let usage = with(many, json!({ "type": "tokens", "credit_limit": 100_000 }));
    let usage = admin.post("/policies/usage-limits", &usage).await.expect(200).json();
    let path = format!("/policies/usage-limits/{}", usage["id"].as_str().expect("an id"));
    ask().await.expect(200);
    admin
        .put(&path, &json!({ "conditions": [{ "key": "api_key", "value": "*" }], "credit_limit": 100 }))
        .await
        .expect(200);
    back(&path).await;
    ask().await.expect(200);
}
