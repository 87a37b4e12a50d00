//! Saved prompts in force: rendered, sent as the chat requests that they stand for, and held to all that holds for
//! those.

use crate::harness::{Gateway, Upstream, eventually, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};

/// A gateway with a provider `up` of the default workspace.
async fn house() -> (Gateway, Upstream) {
    let gateway = Gateway::start().await;
    let up = Upstream::replying(|seen| {
        if seen.json()["stream"] == true { reply::stream(&["str", "eamed"]) } else { reply::chat("said") }
    })
    .await;
    gateway.admin().provider("up", "openai", Some(&up.url())).await;
    (gateway, up)
}

async fn prompt(gateway: &Gateway, fields: Value) -> String {
    let body = with(json!({"name": "p", "model": "gpt-4o", "virtual_key": "up", "parameters": {}}), fields);
    let made = gateway.admin().post("/prompts", &body).await.expect(200).json();
    made["slug"].as_str().expect("a slug").to_owned()
}

fn call(slug: &str, verb: &str) -> String {
    format!("/v1/prompts/{slug}/{verb}")
}

#[tokio::test]
async fn a_prompt_becomes_the_chat_request_that_it_stands_for() {
    let (gateway, up) = house().await;
    let partial = json!({"name": "tone", "string": "Be {{tone}}."});
    let partial = gateway.admin().post("/prompts/partials", &partial).await.expect(200).json()["slug"].clone();
    let messages = json!([
        {"role": "system", "content": format!("{{{{>{}}}}}", partial.as_str().expect("a slug"))},
        {"role": "user", "content": [{"type": "text", "text": "Tell {{#people}}{{name}}, {{/people}}of \"{{thing}}\""}]},
    ]);
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let fields = json!({"string": messages.to_string(), "parameters": {"temperature": 0.5, "max_tokens": 7},
        "tools": [tool], "tool_choice": "auto"});
    let slug = prompt(&gateway, fields).await;
    let variables = json!({"tone": "brief", "people": [{"name": "Ann"}, {"name": "Bo"}], "thing": "x\", \"y"});
    let body = json!({"variables": variables, "max_tokens": 9, "top_k": null, "promptID": slug});
    let answer = gateway.post(&call(&slug, "completions")).json(&body).send().await.expect(200);
    assert_eq!(answer.said(), "said");
    let sent = up.only();
    assert_eq!(sent.target, "/v1/chat/completions");
    let want = json!({
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Tell Ann, Bo, of \"x\", \"y\""}]},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
        "tools": [tool],
        "tool_choice": "auto",
    });
    assert_eq!(sent.json(), want);
    let shown = gateway.post(&call(&slug, "render")).json(&body).send().await.expect(200).json();
    assert_eq!((&shown["success"], &shown["data"]), (&json!(true), &want), "what is shown is what is sent");
    assert_eq!(up.seen().len(), 1, "to show it asks nobody");
    let streamed = with(body, json!({"stream": true}));
    let streamed = gateway.post(&call(&slug, "completions")).json(&streamed).send().await.expect(200);
    assert_eq!(streamed.said(), "streamed");
}

#[tokio::test]
async fn each_name_means_one_version() {
    let (gateway, up) = house().await;
    let slug = prompt(&gateway, json!({"string": "one"})).await;
    let admin = gateway.admin();
    let change = |text: &'static str| json!({ "string": text });
    admin.put(&format!("/prompts/{slug}"), &change("two")).await.expect(200);
    admin.put(&format!("/prompts/{slug}"), &change("three")).await.expect(200);
    let labels = admin.get("/labels").await.expect(200).json();
    let own = admin.post("/labels", &json!({"name": "canary"})).await.expect(200).json();
    for label in [&labels["data"][0]["id"], &own["id"]] {
        admin.put(&format!("/prompts/{slug}/versions/2"), &json!({ "label_id": label })).await.expect(200);
    }
    let ask = async |name: String, status: u16| {
        gateway.post(&call(&name, "completions")).json(&json!({})).send().await.expect(status);
        up.seen().last().map(|seen| seen.json()["messages"][0]["content"].clone()).unwrap_or_default()
    };
    assert_eq!(ask(slug.clone(), 200).await, "one");
    assert_eq!(ask(format!("{slug}@latest"), 200).await, "three");
    assert_eq!(ask(format!("{slug}@2"), 200).await, "two");
    assert_eq!(ask(format!("{slug}%401"), 200).await, "one");
    assert_eq!(ask(format!("{slug}@production"), 200).await, "two");
    assert_eq!(ask(format!("{slug}@canary"), 200).await, "two");
    ask(format!("{slug}@staging"), 404).await;
    ask(format!("{slug}@9"), 404).await;
    admin.put(&format!("/prompts/{slug}/makeDefault"), &json!({"version": 3})).await.expect(200);
    assert_eq!(ask(slug.clone(), 200).await, "three", "in force when it is answered");
    admin.delete(&format!("/prompts/{slug}")).await.expect(200);
    ask(slug, 404).await;
}

#[tokio::test]
async fn raw_templates_give_messages_whatever_their_values_hold() {
    let (gateway, up) = house().await;
    let string = r#"[{"role": "system", "content": "{{rule}}"}{{#turns}}, {"role": "user", "content": "{{.}}"}{{/turns}}, {{more}}]"#;
    let slug = prompt(&gateway, json!({"string": string, "is_raw_template": 1, "functions": [{"name": "f"}]})).await;
    let variables =
        json!({"rule": "say \"no\"\n", "turns": ["a\\", "b"], "more": "{\"role\": \"user\", \"content\": \"c\"}"});
    let body = json!({ "variables": variables });
    gateway.post(&call(&slug, "completions")).json(&body).send().await.expect(200);
    let said: Vec<Value> = up.only().json()["messages"].as_array().expect("messages").clone();
    assert_eq!(up.only().json()["functions"], json!([{"name": "f"}]));
    let told: Vec<&str> = said.iter().map(|m| m["content"].as_str().expect("a text")).collect();
    assert_eq!(told, ["say \"no\"\n", "a\\", "b", "c"]);
    let broken = gateway.post(&call(&slug, "completions")).json(&json!({"variables": {"more": "{"}})).send().await;
    assert!(broken.expect(400).error().contains("does not render to JSON"));
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_and_nobody_is_asked() {
    let (gateway, up) = house().await;
    let slug = prompt(&gateway, json!({"string": "{{#l}}{{#l}}{{#l}}{{#l}}{{.}}{{/l}}{{/l}}{{/l}}{{/l}}"})).await;
    for (body, status, word) in [
        (json!({"messages": []}), 400, "messages"),
        (json!({"variables": []}), 400, "variables"),
        (json!({"promptID": "another"}), 400, "promptID"),
        (json!({"temperature": 9}), 400, "temperature"),
        (json!({"variables": {"l": vec!["x"; 100]}}), 400, "render"),
        (json!([]), 400, "object"),
    ] {
        for verb in ["completions", "render"] {
            if verb == "render" && word == "temperature" {
                // It is shown as it would be sent; whether that is taken is told when it is sent.
                continue;
            }
            let answer = gateway.post(&call(&slug, verb)).json(&body).send().await.expect(status);
            assert!(answer.error().contains(word), "{verb} {body}: {}", answer.text());
        }
    }
    let missing = gateway.post(&call("pp-nowhere", "completions")).json(&json!({})).send().await.expect(404);
    assert!(missing.error().contains("does not exist"), "{}", missing.text());
    assert_eq!(up.seen().len(), 0);
}

#[tokio::test]
async fn keys_need_the_scope_of_the_verb_and_see_their_own_workspace() {
    let (gateway, _up) = house().await;
    let slug = prompt(&gateway, json!({"string": "x"})).await;
    let ask =
        async |key: &str, verb: &str| gateway.post(&call(&slug, verb)).key(key).json(&json!({})).send().await.status;
    let (_, calls) = gateway.admin().workspace_key("calls", json!({"scopes": ["completions.write"]})).await;
    assert_eq!((ask(&calls, "completions").await, ask(&calls, "render").await), (200, 403));
    let (_, renders) = gateway.admin().workspace_key("renders", json!({"scopes": ["prompts.render"]})).await;
    assert_eq!((ask(&renders, "completions").await, ask(&renders, "render").await), (403, 200));
    gateway.admin().post("/admin/workspaces", &json!({"name": "Team", "slug": "team"})).await.expect(200);
    let elsewhere = json!({"workspace_id": "team", "scopes": ["completions.write", "prompts.render"]});
    let (_, foreign) = gateway.admin().workspace_key("foreign", elsewhere).await;
    assert_eq!((ask(&foreign, "completions").await, ask(&foreign, "render").await), (404, 404));
    let on_admin = gateway.admin().post(&format!("/prompts/{slug}/completions"), &json!({})).await.expect(404);
    assert!(on_admin.text().contains("proxy port"), "{}", on_admin.text());
}

#[tokio::test]
async fn guardrails_policies_and_records_hold_for_prompts() {
    stand_at_noon();
    let (gateway, up) = house().await;
    let admin = gateway.admin();
    let slug = prompt(&gateway, json!({"string": "say {{word}}"})).await;
    let other = prompt(&gateway, json!({"string": "other"})).await;
    let ask = |slug: &str, word: &str| {
        gateway.post(&call(slug, "completions")).json(&json!({"variables": {"word": word}})).send()
    };
    let check = json!({"id": "default.contains", "parameters": {"words": ["secret"], "operator": "none"}});
    let guardrail = json!({"name": "g", "checks": [check], "actions": {"deny": true}});
    let guardrail = admin.post("/guardrails", &guardrail).await.expect(200).json()["slug"].clone();
    let defaults = json!({"defaults": {"input_guardrails": [guardrail]}});
    admin.put("/admin/workspaces/default", &defaults).await.expect(200);
    ask(&slug, "secret").await.expect(446);
    assert_eq!(up.seen().len(), 0, "what is denied goes nowhere");
    ask(&slug, "hello").await.expect(200);
    let policy = json!({"type": "requests", "unit": "rpd", "value": 1,
        "conditions": [{"key": "prompt", "value": slug}]});
    admin.post("/policies/rate-limits", &policy).await.expect(200);
    ask(&slug, "a").await.expect(200);
    ask(&slug, "b").await.expect(429);
    ask(&other, "c").await.expect(200);
    gateway.chat().provider("@up").json(&hello()).send().await.expect(200);
    let named = eventually("the record of the prompt", || async {
        let logs = admin.get("/logs?page_size=50").await.expect(200).json();
        let all = logs["data"].as_array().expect("records").clone();
        all.into_iter().find(|log| log["metrics"]["prompt_slug"] == json!(slug))
    });
    let log = named.await;
    let read = admin.get(&format!("/prompts/{slug}")).await.expect(200).json();
    assert_eq!(log["metrics"]["prompt_id"], read["id"], "{log}");
    assert_eq!(log["metrics"]["prompt_version_id"], read["prompt_version_id"]);
}

#[tokio::test]
async fn the_requests_own_provider_and_config_count_as_for_any_request() {
    let (gateway, up) = house().await;
    let own = Upstream::replying(|_| reply::chat("own")).await;
    gateway.admin().provider("own", "openai", Some(&own.url())).await;
    let slug = prompt(&gateway, json!({"string": "x"})).await;
    let ask = || gateway.post(&call(&slug, "completions")).json(&json!({}));
    assert_eq!(ask().send().await.expect(200).said(), "said");
    assert_eq!(ask().provider("@own").send().await.expect(200).said(), "own");
    assert_eq!(ask().config(&json!({"provider": "@own"})).send().await.expect(200).said(), "own");
    assert_eq!(
        ask()
            .config(&json!({"retry": {"attempts": 1}, "override_params": {"seed": 7}}))
            .send()
            .await
            .expect(200)
            .said(),
        "said"
    );
    assert_eq!(up.seen().last().expect("a call").json()["seed"], 7);
    let config = gateway.admin().config("fixed", &json!({"provider": "@own"})).await;
    let held = json!({"defaults": {"config_id": config, "allow_config_override": false}});
    let (_, key) = gateway.admin().workspace_key("held", held).await;
    assert_eq!(ask().key(&key).send().await.expect(200).said(), "own", "a key that is held to its config");
}
