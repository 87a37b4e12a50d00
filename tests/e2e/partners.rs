//! Checks of partners run by what an admin saved for the organisation, and not without it.

use crate::harness::{Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::json;

const SECRET: &str = "lk-partner-canary-0123456789";

#[tokio::test]
async fn a_partner_is_asked_with_the_credential_of_the_organisation() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let check = json!({ "lakera.guard": { "failOnError": true }, "deny": true });
    let config = with(target(&upstream), json!({ "input_guardrails": [check] }));
    let refused = gateway.chat().config(&config).json(&hello()).send().await.expect(400).text();
    assert!(refused.contains("lakera.guard") && refused.contains("apiKey"), "{refused}");

    // Partners are called over TLS only; nobody listens there.
    let credentials = json!({ "apiKey": SECRET, "apiBase": "https://127.0.0.1:1" });
    let saved = json!({ "partner": "lakera", "credentials": credentials });
    gateway.admin().post("/plugins", &saved).await.expect(200);
    let read = gateway.admin().get("/plugins/lakera").await.expect(200);
    assert!(!read.text().contains(SECRET), "{}", read.text());
    let denied = gateway.chat().config(&config).json(&hello()).send().await.expect(446);
    let body = denied.json();
    let told = &body["hook_results"]["before_request_hooks"][0]["checks"][0];
    assert_eq!((&told["id"], told["error"].is_object()), (&json!("lakera.guard"), true), "{told}");
    assert!(!denied.text().contains(SECRET));
    assert!(upstream.seen().is_empty());
}
