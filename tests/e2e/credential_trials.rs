//! Credentials that are tried before they are saved, and afterwards: with one cheap call, bounded, and without a word
//! of any secret in what is told.

use crate::harness::{Gateway, Seen, Upstream, eventually, hello, reply};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

const GOOD: &str = "sk-good-0123456789-0123456789";
const BAD: &str = "sk-bad-0123456789-0123456789";

/// Takes one key, quotes every other one, and lists two models.
async fn provider() -> Upstream {
    Upstream::replying(|seen| {
        let bearer = seen.header("authorization").unwrap_or_default();
        if bearer != format!("Bearer {GOOD}") {
            let message = format!("Incorrect API key provided: {bearer}");
            return reply::json(401, &json!({ "error": { "message": message, "type": "invalid_request_error" } }));
        }
        match seen.target.as_str() {
            "/v1/models" => {
                let models = json!([{ "id": "a", "object": "model" }, { "id": "b", "object": "model" }]);
                reply::json(200, &json!({ "object": "list", "data": models }))
            }
            _ => reply::chat("Hi"),
        }
    })
    .await
}

fn integration(upstream: &Upstream, key: &str) -> Value {
    json!({ "name": "Main", "slug": "main", "ai_provider_id": "openai", "key": key,
            "configurations": { "custom_host": upstream.url() } })
}

fn last(upstream: &Upstream) -> Seen {
    upstream.seen().pop().expect("it was asked")
}

#[tokio::test]
async fn a_credential_is_tried_before_it_is_saved_and_afterwards() {
    let (gateway, upstream) = (Gateway::start().await, provider().await);
    let admin = gateway.admin();
    let refused = admin.post("/integrations?test=true", &integration(&upstream, BAD)).await.expect(400);
    let said = refused.text();
    assert!(said.contains("key was tried at openai") && said.contains("401") && !said.contains(BAD), "{said}");
    admin.get("/integrations/main").await.expect(404);
    admin.get("/providers/main").await.expect(404);
    admin.post("/integrations?test_model=a", &integration(&upstream, GOOD)).await.expect(400);
    admin.post("/integrations?test=true", &integration(&upstream, GOOD)).await.expect(200);
    assert_eq!((last(&upstream).method.as_str(), last(&upstream).target.as_str()), ("GET", "/v1/models"));
    let refused = admin.put("/integrations/main?test=true", &json!({ "key": BAD })).await.expect(400);
    assert!(!refused.text().contains(BAD), "{}", refused.text());
    gateway.chat().provider("@main").json(&hello()).send().await.expect(200);

    let told = admin.post("/integrations/main/test", &json!({})).await.expect(200).json();
    let expected = json!({ "object": "credential-test", "success": true, "asked": "models", "status_code": 200,
                           "response_time_ms": told["response_time_ms"], "models": 2, "error": null });
    assert_eq!(told, expected);
    let told = admin.post("/providers/main/test", &json!({ "model": "cheap" })).await.expect(200).json();
    assert_eq!((&told["success"], &told["asked"], &told["models"]), (&json!(true), &json!("chat"), &Value::Null));
    let asked = last(&upstream).json();
    assert_eq!((&asked["model"], &asked["max_completion_tokens"]), (&json!("cheap"), &json!(16)), "{asked}");
    let off = json!({ "models": [{ "slug": "dear", "enabled": false }] });
    admin.put("/integrations/main/models", &off).await.expect(200);
    let before = upstream.seen().len();
    let refused = admin.post("/integrations/main/test", &json!({ "model": "dear" })).await.expect(400);
    assert!(refused.text().contains("model is not enabled"), "{}", refused.text());
    let scopes = json!({ "scopes": ["providers.update"], "allowed_models": ["cheap"] });
    let (_, held) = admin.workspace_key("held", scopes).await;
    let by = admin.with_key(&held);
    by.post("/providers/main/test", &json!({ "model": "other" })).await.expect(403);
    assert_eq!(upstream.seen().len(), before, "none of them went up");
    by.post("/providers/main/test", &json!({ "model": "cheap" })).await.expect(200);
    // Saved untried it is told for what it is.
    admin.put("/integrations/main", &json!({ "key": BAD })).await.expect(200);
    let told = admin.post("/integrations/main/test", &json!({})).await.expect(200).json();
    assert_eq!((&told["success"], &told["status_code"]), (&json!(false), &json!(401)), "{told}");
    let error = told["error"].as_str().expect("why");
    assert!(error.contains("Incorrect API key") && !error.contains(BAD), "{error}");
}

#[tokio::test]
async fn a_virtual_key_is_tried_where_it_brings_its_credential() {
    let (gateway, upstream) = (Gateway::start().await, provider().await);
    let admin = gateway.admin();
    let body = json!({ "name": "Own", "provider": "mock", "key": BAD });
    admin.post("/virtual-keys?test=maybe", &body).await.expect(400);
    admin.post("/virtual-keys?test=true", &body).await.expect(200);
    admin.put("/virtual-keys/own?test=true", &json!({ "key": GOOD })).await.expect(200);
    admin.post("/integrations", &integration(&upstream, GOOD)).await.expect(200);
    // A change that brings no credential has none to be tried.
    let before = upstream.seen().len();
    admin.put("/virtual-keys/main?test=true", &json!({ "note": "n" })).await.expect(200);
    assert_eq!(upstream.seen().len(), before);
    let refused = admin.put("/virtual-keys/main?test=true", &json!({ "key": BAD })).await.expect(400);
    assert!(refused.text().contains("belongs to the integration"), "{}", refused.text());
}

#[tokio::test]
async fn what_a_provider_sends_is_bounded_and_what_nobody_answers_is_told() {
    let huge = Upstream::replying(|_| reply::json(200, &json!({ "data": ["x".repeat(5 << 20)] }))).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let refused = admin.post("/integrations?test=true", &integration(&huge, GOOD)).await.expect(400);
    assert!(refused.text().contains("larger than"), "{}", refused.text());
    let nobody = crate::harness::ports::Port::reserve();
    let host = format!("http://{}/v1", nobody.address);
    let body = json!({ "name": "Gone", "slug": "gone", "ai_provider_id": "openai", "key": GOOD,
                       "configurations": { "custom_host": host } });
    admin.post("/integrations", &body).await.expect(200);
    let told = admin.post("/integrations/gone/test", &json!({})).await.expect(200).json();
    assert_eq!((&told["success"], &told["status_code"]), (&json!(false), &Value::Null), "{told}");
    assert!(told["error"].is_string(), "{told}");
    let listless = json!({ "name": "Jina", "slug": "jina", "ai_provider_id": "jina", "key": GOOD });
    let refused = admin.post("/integrations?test=true", &listless).await.expect(400);
    assert!(refused.text().contains("model is needed"), "{}", refused.text());
}

/// So many are tried at a time on a node: one more is told to wait, and there is room again when they have ended.
#[tokio::test]
async fn sixteen_are_tried_at_a_time() {
    const AT_ONCE: usize = 16;
    let (gateway, gate) = (Gateway::start().await, Arc::new(Semaphore::new(0)));
    let held = gate.clone();
    let upstream = Upstream::scripted(move |mut peer| {
        let gate = held.clone();
        async move {
            while peer.request().await.is_some() {
                let pass = gate.acquire().await.expect("open");
                pass.forget();
                if !peer.send(reply::json(200, &json!({ "object": "list", "data": [] }))).await {
                    return;
                }
            }
        }
    })
    .await;
    let admin = gateway.admin();
    admin.post("/integrations", &integration(&upstream, GOOD)).await.expect(200);
    let body = json!({});
    let tries = join_all((0..AT_ONCE).map(|_| admin.post("/integrations/main/test", &body)));
    let watch = async {
        let asked = "as many calls at the provider as there may be";
        eventually(asked, || async { (upstream.seen().len() == AT_ONCE).then_some(()) }).await;
        let refused = admin.post("/integrations/main/test", &body).await.expect(503);
        assert!(refused.text().contains("too many credentials"), "{}", refused.text());
        assert_eq!(upstream.seen().len(), AT_ONCE, "nobody was asked for it");
        gate.add_permits(2 * AT_ONCE);
    };
    let (answers, ()) = tokio::join!(tries, watch);
    for answer in answers {
        assert_eq!(answer.expect(200).json()["success"], true);
    }
    assert_eq!(admin.post("/integrations/main/test", &body).await.expect(200).json()["success"], true);
}

#[tokio::test]
async fn a_sign_in_that_fails_is_told_without_its_secret() {
    let secret = "very-secret-of-a-client-0001";
    let sign_in = Upstream::replying(move |_| {
        let why = format!("secret {secret} is wrong");
        reply::json(401, &json!({ "error": "invalid_client", "error_description": why }))
    })
    .await;
    let (gateway, upstream) = (Gateway::start().await, provider().await);
    let mut body = integration(&upstream, GOOD);
    body["key"] = Value::Null;
    body["configurations"]["oauth_token_endpoint"] = json!(sign_in.url());
    body["configurations"]["oauth_client_id"] = json!("client");
    body["configurations"]["oauth_client_secret"] = json!(secret);
    let refused = gateway.admin().post("/integrations?test=true", &body).await.expect(400);
    assert!(refused.text().contains("no token") && !refused.text().contains(secret), "{}", refused.text());
    assert!(upstream.seen().is_empty());
}
