//! What would become of a request, told without it being made: by the very plan that a request has.

use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, gateway::target, hello, process::program, reply, with};
use serde_json::{Value, json};
use std::process::{Command, Output};

async fn saying(text: &'static str) -> Upstream {
    Upstream::replying(move |_| reply::chat(text)).await
}

fn chat(key: &str, config: &str) -> Value {
    json!({"key": key, "path": "/v1/chat/completions", "headers": {"x-gateway-config": config}, "body": hello()})
}

async fn explained(gateway: &Gateway, supposed: &Value) -> Answer {
    gateway.admin().post("/configs/explain", supposed).await
}

fn target_at<'t>(told: &'t Value, path: &str) -> &'t Value {
    let all = told["targets"].as_array().unwrap_or_else(|| panic!("no targets: {told}"));
    all.iter().find(|target| target["path"] == path).unwrap_or_else(|| panic!("no {path}: {told}"))
}

#[tokio::test]
async fn every_target_is_told_with_its_chance_and_nothing_is_sent() {
    let gateway = Gateway::start().await;
    let (one, two, three) = (saying("1").await, saying("2").await, saying("3").await);
    let config = json!({
        "strategy": {"mode": "loadbalance"},
        "targets": [
            with(target(&one), json!({"weight": 3, "override_params": {"model": "gpt-4o-mini", "max_tokens": 100}})),
            {"weight": 1, "strategy": {"mode": "fallback"}, "targets": [target(&two), target(&three)]},
        ],
    });
    let slug = gateway.admin().config("shared", &config).await;
    let (id, secret) = gateway.admin().workspace_key("app", json!({})).await;
    let told = explained(&gateway, &chat(&secret, &slug)).await.expect(200);
    assert!(!told.text().contains("sk-upstream") && !told.text().contains(&secret), "{}", told.text());
    let told = told.json();
    assert_eq!((&told["object"], &told["key"]["id"]), (&json!("explanation"), &json!(id)));
    assert_eq!((&told["config"]["slug"], &told["config"]["chosen_by"]), (&json!(slug), &json!("request")));
    assert_eq!(told["request"]["model"], hello()["model"]);
    let first = target_at(&told, "config.targets[0]");
    assert_eq!((&first["chance"], &first["after_failure"]), (&json!(0.75), &json!(false)), "{first}");
    assert_eq!((&first["provider"], &first["model"]), (&json!("openai"), &json!("gpt-4o-mini")), "{first}");
    assert_eq!(first["estimate"]["output_tokens_at_most"], 100, "{first}");
    assert!(first["estimate"]["cost_at_most"].as_f64().is_some_and(|cents| cents > 0.0), "{first}");
    let second = target_at(&told, "config.targets[1].targets[0]");
    assert_eq!((&second["chance"], &second["after_failure"]), (&json!(0.25), &json!(false)), "{second}");
    let third = target_at(&told, "config.targets[1].targets[1]");
    assert_eq!((&third["chance"], &third["after_failure"]), (&json!(0.0), &json!(true)), "{third}");
    // The key is named by its id here, and was by its secret before.
    assert_eq!(explained(&gateway, &chat(&id, &slug)).await.expect(200).json()["targets"], told["targets"]);
    assert_eq!((one.connections(), two.connections(), three.connections()), (0, 0, 0));
    let logs = gateway.admin().get("/logs").await.expect(200).json();
    assert_eq!(logs["total"], 0, "no request, no record: {logs}");
    gateway.chat().key(&secret).header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
}

/// Who may not see a key cannot ask about it either, unless it holds its secret.
#[tokio::test]
async fn keys_that_may_not_be_seen_are_explained_to_whoever_holds_them() {
    let gateway = Gateway::start().await;
    let upstream = saying("1").await;
    let slug = gateway.admin().config("shared", &target(&upstream)).await;
    let (id, secret) = gateway.admin().workspace_key("app", json!({})).await;
    let reads = json!({ "scopes": ["configs.read", "completions.write"] });
    let (own_id, reader) = gateway.admin().workspace_key("reader", reads).await;
    let sees = json!({ "scopes": ["configs.read", "workspace_service_api_keys.read"] });
    let (_, seer) = gateway.admin().workspace_key("seer", sees).await;
    let ask = async |key: &str, about: &str| {
        gateway.admin().with_key(key).post("/configs/explain", &chat(about, &slug)).await.status
    };
    for (about, by_reader) in
        [(&*id, 404), ("app", 404), (&*secret, 200), (&*own_id, 200), ("reader", 200), ("none", 404)]
    {
        assert_eq!(ask(&reader, about).await, by_reader, "{about}");
    }
    assert_eq!((ask(&seer, &id).await, ask(&seer, "app").await), (200, 200));
}

#[tokio::test]
async fn the_condition_that_decides_is_named() {
    let gateway = Gateway::start().await;
    let (paid, free) = (saying("paid").await, saying("free").await);
    let config = json!({
        "strategy": {
            "mode": "conditional",
            "conditions": [{"query": {"metadata.tier": {"$eq": "paid"}}, "then": "paid"}],
            "default": "free",
        },
        "targets": [with(target(&paid), json!({"name": "paid"})), with(target(&free), json!({"name": "free"}))],
    });
    let slug = gateway.admin().config("tiers", &config).await;
    let (id, _) = gateway.admin().workspace_key("app", json!({})).await;
    for (tier, chances) in [("paid", [1.0, 0.0]), ("other", [0.0, 1.0])] {
        let mut supposed = chat(&id, &slug);
        supposed["headers"]["x-gateway-metadata"] = json!({"tier": tier}).to_string().into();
        let told = explained(&gateway, &supposed).await.expect(200).json();
        let found = [0, 1].map(|at| target_at(&told, &format!("config.targets[{at}]"))["chance"].as_f64());
        assert_eq!(found, chances.map(Some), "{told}");
        let why = told["targets"].to_string();
        let decides = if tier == "paid" { "conditions[0] is the first that matches" } else { "this is the default" };
        assert!(why.contains(decides), "{why}");
    }
}

#[tokio::test]
async fn limits_are_told_with_what_is_left_and_nothing_is_taken() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hello")).await;
    let slug = gateway.admin().config("one", &target(&upstream)).await;
    let policy = json!({
        "name": "Five a minute", "type": "requests", "unit": "rpm", "value": 5,
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}],
    });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let (_, secret) = gateway.admin().workspace_key("app", json!({})).await;
    let left = async || {
        let told = explained(&gateway, &chat(&secret, &slug)).await.expect(200).json();
        let limits = told["limits"].as_array().cloned().unwrap_or_default();
        let mine = limits.iter().find(|limit| limit["limit"] == 5).unwrap_or_else(|| panic!("no limit: {told}"));
        assert!(mine["of"].as_str().is_some_and(|of| of.contains("Five a minute")), "{mine}");
        mine["left"].as_u64().unwrap_or_else(|| panic!("unknown: {mine}"))
    };
    for _ in 0..3 {
        assert_eq!(left().await, 5, "to ask takes nothing");
    }
    gateway.chat().key(&secret).header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
    assert_eq!((left().await, upstream.seen().len()), (4, 1));
}

#[tokio::test]
async fn what_would_be_refused_is_told_as_its_refusal() {
    let gateway = Gateway::start().await;
    let (id, _) = gateway.admin().workspace_key("app", json!({})).await;
    let told = explained(&gateway, &chat(&id, "pc-nobody")).await.expect(200).json();
    let live = gateway.chat().header("x-gateway-config", "pc-nobody").json(&hello()).send().await;
    assert_eq!(told["refused"]["status"], live.status, "{told}");
    assert!(told["refused"]["message"].as_str().is_some_and(|message| live.text().contains(message)), "{told}");
    let broken =
        json!({"key": id, "path": "/v1/chat/completions", "headers": {"x-gateway-provider": "mock"}, "body": {}});
    assert_eq!(explained(&gateway, &broken).await.expect(200).json()["refused"]["status"], 400);
}

#[tokio::test]
async fn what_cannot_be_supposed_is_refused_by_name() {
    let gateway = Gateway::start().await;
    let (id, _) = gateway.admin().workspace_key("app", json!({})).await;
    let cases = [
        (json!({"path": "/v1/models"}), 400, "key"),
        (json!({"key": id, "path": "/admin"}), 400, "path"),
        (json!({"key": id, "path": "/v1/models", "method": "BREW"}), 400, "method"),
        (json!({"key": id, "path": "/v1/models", "headers": {"Host": "x"}}), 400, "headers.Host"),
        (
            json!({"key": id, "path": "/v1/models", "headers": {"x-gateway-api-key": "x"}}),
            400,
            "headers.x-gateway-api-key",
        ),
        (json!({"key": id, "path": "/v1/models", "headers": {"x": 1}}), 400, "headers.x"),
        (json!({"key": id, "path": "/v1/models", "other": 1}), 400, "other"),
        (json!({"key": "nobody", "path": "/v1/models"}), 404, "key"),
    ];
    for (body, status, field) in cases {
        let answer = explained(&gateway, &body).await.expect(status);
        assert!(answer.text().contains(field), "{body}: {}", answer.text());
    }
    // Who may not read configs, and who is of another workspace.
    let (_, narrow) = gateway.admin().workspace_key("narrow", json!({})).await;
    let supposed = json!({"key": id, "path": "/v1/models"});
    gateway.admin().with_key(&narrow).post("/configs/explain", &supposed).await.expect(403);
}

#[tokio::test]
async fn the_command_asks_a_running_gateway() {
    let gateway = Gateway::start().await;
    let upstream = saying("1").await;
    let slug = gateway.admin().config("one", &target(&upstream)).await;
    let (id, _) = gateway.admin().workspace_key("app", json!({})).await;
    let file = gateway.folder().join("request.json");
    std::fs::write(&file, chat(&id, &slug).to_string()).expect("a file");
    let url = gateway.admin_url("");
    let run = |key: &str| -> Output {
        let mut command: Command = program();
        command.args(["explain", &file.display().to_string(), "--url", &url, "--admin-key", key]);
        command.output().expect("it runs")
    };
    let output = run(ADMIN_KEY);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert!(output.status.success() && target_at(&told, "config")["chance"] == 1.0, "{told}");
    let refused = run("nobodys-key-0123456789-0123456789");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("401"), "{refused:?}");
    assert_eq!(upstream.connections(), 0);
}
