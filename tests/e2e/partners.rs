//! Checks of partners, signed in to by what an admin saved for the organisation.

use crate::harness::{Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::json;

const SECRET: &str = "lk-partner-canary-0123456789";

#[tokio::test]
async fn a_partner_is_asked_with_the_credential_of_the_organisation() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let partner = Upstream::replying(|asked| {
        let flagged = asked.text().contains("bad");
        reply::json(200, &json!({ "flagged": flagged, "breakdown": [] }))
    })
    .await;
    let credentials = json!({ "apiKey": SECRET, "apiBase": partner.url() });
    let saved = json!({ "partner": "lakera", "credentials": credentials });
    let shown = gateway.admin().post("/plugins", &saved).await.expect(200);
    assert!(!shown.text().contains(SECRET), "{}", shown.text());
    let config = with(target(&upstream), json!({ "input_guardrails": [{ "lakera.guard": {}, "deny": true }] }));
    let asking = |text: &str| json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": text }] });
    gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    let denied = gateway.chat().config(&config).json(&asking("something bad")).send().await.expect(446);
    assert!(!denied.text().contains(SECRET));
    let seen = partner.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].target, "/v1/v2/guard");
    assert_eq!(seen[1].header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    assert_eq!(upstream.seen().len(), 1, "what the partner flags goes no further");
}
