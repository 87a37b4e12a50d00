//! Which models a key or a token may call (`allowed_models`), wherever a model is named and wherever models are listed.
//! That it holds for every kind of body is shown in `matrix.rs`.

use crate::area_forms::{FORM, form};
use crate::clouds::{bare, integration};
use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::harness::{Gateway, Upstream, eventually, hello, reply, with};
use crate::record_fields::record_of;
use serde_json::{Value, json};

async fn saying() -> Upstream {
    Upstream::replying(|seen| match seen.target.as_str() {
        "/v1/models" => reply::json(200, &json!({ "object": "list", "data": [{ "id": "theirs" }] })),
        _ => reply::chat("hi"),
    })
    .await
}

async fn house() -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::start().await, saying().await);
    for slug in ["main", "other"] {
        gateway.admin().provider(slug, "openai", Some(&upstream.url())).await;
    }
    (gateway, upstream)
}

async fn held(gateway: &Gateway, models: Value) -> (String, String) {
    gateway.admin().workspace_key("held", json!({ "allowed_models": models })).await
}

fn chat(model: &str) -> Value {
    with(hello(), json!({ "model": model }))
}

#[tokio::test]
async fn names_and_providers_decide_and_a_change_holds_at_once() {
    let (gateway, upstream) = house().await;
    let (id, key) = held(&gateway, json!(["gpt-4o", "@main/o3*"])).await;
    let ask = async |model: &str, status: u16| gateway.chat().key(&key).json(&chat(model)).send().await.expect(status);
    for model in ["@main/gpt-4o", "@other/gpt-4o", "@main/o3-mini"] {
        ask(model, 200).await;
    }
    let before = upstream.seen().len();
    for model in ["@main/gpt-4o-mini", "@other/o3-mini", "@main/GPT-4O"] {
        let refused = ask(model, 403).await;
        let error = &refused.json()["error"];
        assert_eq!((&error["code"], &error["param"]), (&json!("model_not_permitted"), &json!("model")), "{error}");
    }
    assert_eq!(upstream.seen().len(), before, "none of them went up");
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "allowed_models": ["o1"] })).await.expect(200);
    ask("@main/gpt-4o", 403).await;
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "allowed_models": null })).await.expect(200);
    ask("@main/gpt-4o-mini", 200).await;
}

/// The provider's own list would tell what else there is.
#[tokio::test]
async fn lists_that_pass_through_are_shut_to_held_keys() {
    let (gateway, upstream) = house().await;
    let (_, key) = held(&gateway, json!(["gpt-4o"])).await;
    let (_, free) = gateway.admin().workspace_key("free", json!({})).await;
    let list = async |key: &str, path: &str| gateway.get(path).key(key).provider("@main").send().await;
    for path in ["/v1/proxy/models", "/v1/proxy/models/", "/v1/proxy/v1/models?limit=5", "/v1/proxy/openai/deployments"]
    {
        let before = upstream.seen().len();
        let refused = list(&key, path).await.expect(403);
        assert_eq!(refused.json()["error"]["code"], "model_not_permitted", "{path}");
        assert_eq!(upstream.seen().len(), before, "{path}");
        list(&free, path).await.expect(200);
    }
    // Its own list is the catalogue.
    let told = list(&key, "/v1/models").await.expect(200).json();
    assert!(told["data"].as_array().is_some_and(|all| all.iter().all(|m| m["slug"] == "gpt-4o")), "{told}");
    list(&key, "/v1/proxy/files").await.expect(200);
}

#[tokio::test]
async fn what_a_config_sets_is_what_counts_and_a_fallback_finds_what_may_be_called() {
    let (gateway, upstream) = house().await;
    let (_, key) = held(&gateway, json!(["cheap"])).await;
    let to = |model: &str| json!({ "provider": "@main", "override_params": { "model": model } });
    let call = async |config: &Value, trace: &str, status: u16| {
        let call = gateway.chat().key(&key).config(config).header("x-gateway-trace-id", trace);
        call.json(&chat("cheap")).send().await.expect(status)
    };
    call(&to("dear"), "t1", 403).await;
    let both = json!({ "strategy": { "mode": "fallback" }, "targets": [to("dear"), to("cheap")] });
    call(&both, "t2", 200).await;
    assert_eq!(upstream.only().json()["model"], "cheap");
    assert_eq!(record_of(&gateway, "t1").await["metrics"]["response_status_code"], 403, "a refusal leaves its record");
}

#[tokio::test]
async fn a_model_in_a_path_counts_by_all_its_names() {
    let up = Upstream::replying(|_| {
        let told = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] }, "index": 0,
                                            "finishReason": "STOP" }],
                           "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 } });
        reply::json(200, &told)
    })
    .await;
    let gateway = Gateway::start().await;
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    let (_, key) = held(&gateway, json!(["gemini-2.5-flash"])).await;
    let native = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hi" }] }] });
    let call =
        async |path: &str, body: &Value| gateway.post(path).key(&key).provider("@cloud").json(body).send().await.status;
    for (path, body, status) in [
        ("/v1/proxy/v1beta/models/gemini-2.5-pro:generateContent", native.clone(), 403),
        (
            "/v1/proxy/v1beta/models/gemini-2.5-pro:generateContent",
            with(native.clone(), json!({ "model": "gemini-2.5-flash" })),
            403,
        ),
        ("/v1/proxy/v1beta/models/gemini-2.5-flash:generateContent", native.clone(), 200),
        ("/v1/chat/completions", chat("models/gemini-2.5-flash"), 200),
        ("/v1/chat/completions", with(chat("gemini-2.5-flash"), json!({ "Model": "gemini-2.5-pro" })), 403),
        ("/v1/chat/completions", chat("gemini-2.5-pro"), 403),
    ] {
        assert_eq!(call(path, &body).await, status, "{path} {body}");
    }
}

#[tokio::test]
async fn lists_show_what_the_key_may_call_and_nothing_else() {
    let (gateway, upstream) = house().await;
    let (_, key) = held(&gateway, json!(["gpt-4o", "@main/o3*"])).await;
    let list = async |provider: Option<&str>| {
        let call = gateway.get("/v1/models").key(&key);
        let call = match provider {
            Some(slug) => call.provider(slug),
            None => call,
        };
        let told = call.send().await.expect(200).json();
        let ids = told["data"].as_array().expect("a list").iter().map(|m| m["id"].as_str().expect("an id").to_owned());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    };
    let all = list(None).await;
    let fits = |id: &String| id == "@main/gpt-4o" || id == "@other/gpt-4o" || id.starts_with("@main/o3");
    assert!(all.iter().all(fits) && all.len() > 3, "{all:?}");
    assert_eq!(list(Some("@other")).await, ["@other/gpt-4o"], "a provider that is named is not asked");
    assert!(upstream.seen().is_empty());
    let one = async |id: &str, provider: &str, status: u16| {
        gateway.get(&format!("/v1/models/{id}")).key(&key).provider(provider).send().await.expect(status).json()
    };
    assert_eq!(one("@main/gpt-4o", "@main", 200).await["slug"], "gpt-4o");
    assert_eq!(one("gpt-4o", "@other", 200).await["id"], "@other/gpt-4o");
    one("gpt-4o-mini", "@other", 404).await;
    one("@other/o3-mini", "@other", 404).await;
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn lines_of_a_batch_are_held_to_it_before_one_is_sent_and_when_each_is() {
    let (gateway, upstream) = house().await;
    let (id, key) = held(&gateway, json!(["cheap"])).await;
    let line = |id: &str, model: &str| {
        let body = chat(model);
        json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body }).to_string() + "\n"
    };
    let run = async |models: &[&str], status: &'static str| {
        let lines: String = models.iter().enumerate().map(|(n, model)| line(&n.to_string(), model)).collect();
        let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
        let file = gateway.post("/v1/files").key(&key).body(FORM, body).send().await.expect(200).json();
        let asked = json!({ "input_file_id": file["id"], "endpoint": "/v1/chat/completions",
                            "completion_window": "immediate" });
        let made = gateway.post("/v1/batches").key(&key).json(&asked).send().await.expect(200).json();
        let path = format!("/v1/batches/{}", made["id"].as_str().expect("an id"));
        eventually("the end of the batch", || async {
            let batch = gateway.get(&path).key(&key).send().await.expect(200).json();
            (batch["status"] == status).then_some(batch)
        })
        .await
    };
    let failed = run(&["@main/cheap", "@main/dear"], "failed").await;
    let told = &failed["errors"]["data"][0];
    assert_eq!((&told["code"], &told["line"]), (&json!("model_not_permitted"), &json!(2)), "{failed}");
    assert!(upstream.seen().is_empty());
    let batch = run(&["@main/cheap"], "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 1, "completed": 1, "failed": 0 }));
    assert_eq!(upstream.only().json()["model"], "cheap");
    // A thousand models are looked up before: what is beyond is refused when it is asked.
    let lines = 1_001;
    let names: Vec<String> = (0..lines).map(|n| format!("@main/cheap{n}")).collect();
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "allowed_models": ["cheap*"] })).await.expect(200);
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["@main/dear"]).collect();
    let batch = run(&names, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 1_002, "completed": 1_001, "failed": 1 }));
    let content = format!("/v1/files/{}/content", batch["error_file_id"].as_str().expect("a file"));
    let failed: Value = gateway.get(&content).key(&key).send().await.expect(200).json();
    assert_eq!(
        failed["response"]["status_code"], 403,
        "what was not looked up before is seen when it is asked: {failed}"
    );
}

#[tokio::test]
async fn a_token_says_which_models_it_is_for() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let (gateway, _upstream) = house().await;
    gateway.admin().put("/admin/organisation", &json!({ "jwks_uris": issuer.uri() })).await.expect(200);
    let token = |models: Value| {
        let claims = json!({ "scope": "completions.write", "sub": "ann", "exp": in_seconds(3600),
                             "allowed_models": models });
        FIRST.sign(&claims)
    };
    let some = token(json!(["@main/cheap"]));
    for (model, status) in [("@main/cheap", 200), ("@other/cheap", 403), ("@main/dear", 403)] {
        gateway.chat().key(&some).json(&chat(model)).send().await.expect(status);
    }
    for bad in [json!([]), json!("cheap"), json!(["@"])] {
        let refused = gateway.chat().key(&token(bad)).json(&chat("@main/cheap")).send().await.expect(401);
        assert!(refused.text().contains("allowed_models"), "{}", refused.text());
    }
}

#[tokio::test]
async fn nobody_gives_models_that_he_may_not_call_himself() {
    let (gateway, _upstream) = house().await;
    let admin = gateway.admin();
    let made = |models: Value| json!({ "name": "k", "scopes": ["completions.write"], "allowed_models": models });
    for (models, field) in [
        (json!(["ok", "@"]), "allowed_models[1]"),
        (json!([]), "allowed_models"),
        (json!(vec!["m"; 201]), "allowed_models"),
        (json!("m"), "allowed_models"),
    ] {
        let answer = admin.post("/api-keys/workspace/service", &made(models)).await.expect(400);
        assert!(answer.text().contains(field), "{field}: {}", answer.text());
    }
    let of_organisation = json!({ "name": "k", "scopes": ["logs.list"], "allowed_models": ["m"] });
    admin.post("/api-keys/organisation/service", &of_organisation).await.expect(400);
    let actions = ["create", "read", "update", "rotate"].map(|does| format!("workspace_service_api_keys.{does}"));
    let scopes: Vec<String> = actions.into_iter().chain(["completions.write".to_owned()]).collect();
    let (id, key) = admin.workspace_key("held", json!({ "scopes": scopes, "allowed_models": ["m"] })).await;
    let (free, _) = admin.workspace_key("free", json!({})).await;
    let by = admin.with_key(&key);
    by.post("/api-keys/workspace/service", &made(json!(["m", "n"]))).await.expect(403);
    let child = json!({ "name": "child", "scopes": ["completions.write"] });
    let child = by.post("/api-keys/workspace/service", &child).await.expect(200).json();
    let child = child["id"].as_str().expect("an id").to_owned();
    let shown = admin.get(&format!("/api-keys/{child}")).await.expect(200).json();
    assert_eq!(shown["allowed_models"], json!(["m"]), "a key that it makes is held to the same");
    for target in [&id, &child] {
        by.put(&format!("/api-keys/{target}"), &json!({ "allowed_models": null })).await.expect(403);
    }
    by.post(&format!("/api-keys/{free}/rotate"), &json!({})).await.expect(403);
}
