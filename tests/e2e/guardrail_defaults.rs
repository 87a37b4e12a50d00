//! Saved guardrails in force: by slug in configs, as defaults of a workspace and of the organisation, changed and
//! excluded.

use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::{Value, json};

const DEFAULTS: &str = "/admin/organisation/defaults";

fn forbids(word: &str) -> Value {
    json!([{ "id": "default.contains", "parameters": { "words": [word], "operator": "none" } }])
}

/// What the Admin API answers for a new guardrail that denies.
pub(crate) async fn save(gateway: &Gateway, word: &str, fields: Value) -> Value {
    let body = with(json!({ "name": word, "checks": forbids(word), "actions": { "deny": true } }), fields);
    let made = gateway.admin().post("/guardrails", &body).await.expect(200).json();
    if made["data"].is_object() { made["data"].clone() } else { made }
}

pub(crate) fn slug(guardrail: &Value) -> &str {
    guardrail["slug"].as_str().unwrap_or_else(|| panic!("no slug: {guardrail}"))
}

async fn organisation(gateway: &Gateway) -> Value {
    let probe = save(gateway, "probe", json!({})).await;
    let read = gateway.admin().get(&format!("/guardrails/{}", slug(&probe))).await.expect(200).json();
    let read = if read["data"].is_object() { read["data"].clone() } else { read };
    assert!(read["organisation_id"].is_string(), "{read}");
    read["organisation_id"].clone()
}

fn asking(text: &str) -> Value {
    json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": text }] })
}

async fn ask(gateway: &Gateway, config: &Value, text: &str) -> Answer {
    gateway.chat().config(config).json(&asking(text)).send().await
}

#[tokio::test]
async fn a_saved_guardrail_is_named_by_slug_and_an_update_is_in_force_at_once() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let saved = save(&gateway, "secret", json!({})).await;
    let config = with(target(&upstream), json!({ "input_guardrails": [slug(&saved)] }));
    let denied = ask(&gateway, &config, "a secret").await.expect(446).json();
    assert_eq!(denied["hook_results"]["before_request_hooks"][0]["id"], saved["slug"]);
    ask(&gateway, &config, "a mystery").await.expect(200);
    let path = format!("/guardrails/{}", slug(&saved));
    gateway.admin().put(&path, &json!({ "checks": forbids("mystery") })).await.expect(200);
    ask(&gateway, &config, "a secret").await.expect(200);
    ask(&gateway, &config, "a mystery").await.expect(446);
    let mixed = json!({ "input_guardrails": [slug(&saved), { "default.wordCount": { "maxWords": 2 }, "deny": true }] });
    ask(&gateway, &with(target(&upstream), mixed), "one two three").await.expect(446);
    let by_config = gateway.admin().config("guarded", &config).await;
    let call = gateway.chat().header("x-gateway-config", &by_config).json(&asking("a mystery"));
    call.send().await.expect(446);
}

#[tokio::test]
async fn defaults_stay_whatever_a_config_sets_and_exclusion_frees_of_the_organisations() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = Upstream::replying(|_| reply::chat("fine and open")).await;
    let org = organisation(&gateway).await;
    let own = save(&gateway, "own", json!({})).await;
    let shared = save(&gateway, "shared", json!({ "organisation_id": org })).await;
    let answers = save(&gateway, "open", json!({ "organisation_id": org })).await;
    admin.put("/workspaces/default", &json!({ "defaults": { "input_guardrails": [slug(&own)] } })).await.expect(200);
    admin.put(DEFAULTS, &json!({ "input_guardrails": [slug(&shared)] })).await.expect(200);
    let plain = target(&upstream);
    let set = with(plain.clone(), json!({ "input_guardrails": [], "output_guardrails": [] }));
    let (_, key) = admin.workspace_key("k", json!({})).await;
    for config in [&plain, &set] {
        for (text, status) in [("of my own", 446), ("shared", 446), ("neither", 200)] {
            let call = gateway.chat().key(&key).config(config).json(&asking(text));
            call.send().await.expect(status);
        }
    }
    assert_eq!(upstream.seen().len(), 2);
    let streamed = with(asking("shared"), json!({ "stream": true }));
    gateway.chat().config(&plain).json(&streamed).send().await.expect(446);
    gateway.post("/v1/proxy/chat/completions").config(&plain).json(&asking("shared")).send().await.expect(446);
    admin.put(DEFAULTS, &json!({ "output_guardrails": [slug(&answers)] })).await.expect(200);
    gateway.chat().config(&plain).json(&hello()).send().await.expect(446);

    for side in ["input", "output"] {
        let path = format!("/workspace-exclusions/{side}-guardrails");
        admin.put(&path, &json!({ "workspaces": [{ "workspace_id": "default" }] })).await.expect(200);
    }
    ask(&gateway, &plain, "shared").await.expect(200);
    ask(&gateway, &plain, "of my own").await.expect(446);
}

#[tokio::test]
async fn a_guardrail_can_be_tried_without_a_call() {
    let gateway = Gateway::start().await;
    let saved = save(&gateway, "secret", json!({})).await;
    let path = format!("/guardrails/{}/invoke", slug(&saved));
    let (_, key) = gateway.admin().workspace_key("tries", json!({ "scopes": ["guardrails.invoke"] })).await;
    let trier = gateway.admin().with_key(&key);
    let body = json!({ "hook": "input", "text": "a secret" });
    let said = trier.post(&path, &body).await.expect(200).json();
    assert_eq!((&said["verdict"], &said["checks"][0]["id"]), (&json!(false), &json!("default.contains")), "{said}");
    let body = json!({ "hook": "output", "response": reply::completion("fine") });
    let said = trier.post(&path, &body).await.expect(200).json();
    assert_eq!(said["verdict"], true, "{said}");
}
