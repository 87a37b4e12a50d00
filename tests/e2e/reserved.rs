//! The control plane's own paths never reach a provider, built or not, by any method and in any spelling.

use crate::harness::{ADMIN_KEY, Gateway, Upstream, gateway::target, reply};
use serde_json::{Value, json};

#[tokio::test]
async fn what_belongs_to_the_control_plane_never_goes_to_a_provider() {
    let gateway = Gateway::start().await;
    let up = Upstream::replying(|_| reply::json(200, &json!({ "taken": true }))).await;
    let config = gateway.admin().config("all to one", &target(&up)).await;
    let defaults = json!({ "defaults": { "config_id": config }, "scopes": ["completions.write", "logs.view"] });
    let (_, key) = gateway.admin().workspace_key("app", defaults).await;
    let call = |method: &str, path: &str| gateway.call(method, path).key(&key).json(&json!({ "a": "secret" })).send();
    for (method, path, status) in [
        ("POST", "/v1/logs", 403),
        ("PATCH", "/v1/logs", 405),
        ("PUT", "/v1/prompts/p/completions", 405),
        ("GET", "/v1/prompts/p/render", 405),
        ("POST", "/v1/agent-integrations", 403),
        ("POST", "/v1/dp/metrics", 501),
        ("GET", "/v1/labels", 403),
        ("GET", "/v1/collections", 403),
        ("GET", "/v1/v2/prompts", 403),
        ("GET", "/v2/prompts", 403),
        ("POST", "/v1/prompts/p/fork", 403),
        ("PATCH", "/v1/prompts/p", 405),
        ("POST", "/v1/analytics/graphs/cost", 405),
        ("GET", "/v1/%64p/metrics/", 501),
        ("PATCH", "/v1/configs", 405),
        ("POST", "/v1/prompts/p/anything", 404),
        ("POST", "/v1/analytics/own", 404),
        ("POST", "/v1/logs/x/y/z", 404),
    ] {
        let answer = call(method, path).await.expect(status);
        assert_eq!(answer.json()["success"], false, "{method} {path}: {}", answer.text());
    }
    assert_eq!(up.seen().len(), 0, "none of them went up");
    for (path, target) in [
        ("/v1/deployments/d/chat/completions", "/v1/deployments/d/chat/completions"),
        ("/v1/collections/c/points/search", "/v1/collections/c/points/search"),
        ("/v1/proxy/logs", "/v1/logs"),
        ("/v1/proxy/analytics/graphs/cost", "/v1/analytics/graphs/cost"),
        ("/v1/batches/b", "/v1/batches/b"),
        ("/v1/brand/new", "/v1/brand/new"),
    ] {
        call("POST", path).await.expect(200);
        assert_eq!(up.seen().pop().expect("it went up").target, target);
    }
}

/// Both ports say so, before it matters whose key it is.
#[tokio::test]
async fn an_admin_key_hears_what_is_missing_and_not_that_it_cannot_call_models() {
    let gateway = Gateway::start().await;
    let path = "/v1/dp/metrics";
    let on_proxy = gateway.get(path).key(ADMIN_KEY).send().await.expect(501);
    let on_admin = gateway.admin().get("/dp/metrics").await.expect(501);
    let told = |body: &Value| body["data"]["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(told(&on_proxy.json()), told(&on_admin.json()));
    assert!(told(&on_proxy.json()).contains("not in this version"), "{}", on_proxy.text());
}
