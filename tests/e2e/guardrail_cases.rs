//! Guardrails at the edges of their rules: who is judged by what, what is told to whom, and what happens when much
//! happens at once.

use crate::guardrails::record;
use crate::harness::issuer::{FIRST, Issuer, SECOND, in_seconds};
use crate::harness::{Answer, Gateway, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply, with};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) fn forbids(word: &str) -> Value {
    json!({ "default.contains": { "words": [word], "operator": "none" }, "deny": true })
}

fn asking(text: &str) -> Value {
    json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": text }] })
}

async fn ask(gateway: &Gateway, config: &Value, body: &Value) -> Answer {
    gateway.chat().config(config).json(body).send().await
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics().await;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split(' ').nth(1).and_then(|value| value.parse::<f64>().ok()).expect("a number") as u64
}

/// Answers once it is told to.
async fn held_verdict(verdict: bool) -> (Upstream, tokio::sync::broadcast::Sender<()>) {
    let (go, _) = tokio::sync::broadcast::channel::<()>(8);
    let release = go.clone();
    let upstream = Upstream::scripted(move |mut peer| {
        let mut go = go.subscribe();
        async move {
            if peer.request().await.is_some() {
                let _ = go.recv().await;
                peer.send(reply::json(200, &json!({ "verdict": verdict }))).await;
                peer.gone().await;
            }
        }
    })
    .await;
    (upstream, release)
}

#[tokio::test]
async fn a_denial_has_its_fields_in_their_order() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let config = with(target(&upstream), json!({ "input_guardrails": [forbids("secret")] }));
    let denied = ask(&gateway, &config, &asking("a secret")).await.expect(446).text();
    let start = "{\"error\":{\"message\":\"The guardrail checks defined in the config failed. You can find more information in \
                 the `hook_results` object.\",\"type\":\"hooks_failed\",\"param\":null,\"code\":null},\"hook_results\":{\
                 \"before_request_hooks\":[{\"verdict\":false,\"id\":\"input_guardrail_";
    assert!(denied.starts_with(start), "{denied}");
    let mut from = 0;
    for field in [
        "verdict",
        "id",
        "transformed",
        "checks",
        "data",
        "verdict",
        "id",
        "execution_time",
        "transformed",
        "created_at",
        "log",
        "fail_on_error",
        "feedback",
        "execution_time",
        "async",
        "type",
        "created_at",
        "deny",
        "after_request_hooks",
    ] {
        let hooks = &denied[start.find("before_request_hooks").expect("there") + from..];
        let at = hooks.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} is not next: {hooks}"));
        from += at + 1;
    }
    assert!(!denied.contains("\"error\":null"), "an error is told only where there is one: {denied}");
}

#[tokio::test]
async fn what_a_target_sets_takes_the_place_of_what_it_would_inherit() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let config = |own: Value| {
        json!({ "strategy": { "mode": "single" }, "input_guardrails": [forbids("parent")],
                "targets": [with(target(&upstream), own)] })
    };
    let own = json!({ "input_guardrails": [forbids("child")] });
    for (own, text, status) in [
        (json!({}), "of the parent", 446),
        (own.clone(), "of the parent", 200),
        (own, "of the child", 446),
        (json!({ "input_guardrails": [] }), "of the parent", 200),
        (json!({ "output_guardrails": [forbids("x")] }), "of the parent", 446),
    ] {
        ask(&gateway, &config(own), &asking(text)).await.expect(status);
    }
}

#[tokio::test]
async fn a_request_under_way_keeps_the_guardrail_that_it_began_with() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let (hook, go) = held_verdict(true).await;
    let check = json!([{ "id": "default.webhook", "parameters": { "webhookURL": hook.url(), "timeout": 20_000 } }]);
    let body = json!({ "name": "slow", "checks": check, "actions": { "deny": true } });
    let saved = gateway.admin().post("/guardrails", &body).await.expect(200).json();
    let slug = saved["slug"].as_str().or_else(|| saved["data"]["slug"].as_str()).expect("a slug").to_owned();
    let config = with(target(&upstream), json!({ "input_guardrails": [slug] }));
    let call = gateway.chat().config(&config).json(&hello());
    let mut under_way = tokio::task::JoinSet::new();
    under_way.spawn(async move { call.send().await });
    eventually("the webhook was asked", || async { (hook.seen().len() == 1).then_some(()) }).await;
    let words = json!([{ "id": "default.contains", "parameters": { "words": ["hello"], "operator": "none" } }]);
    gateway.admin().put(&format!("/guardrails/{slug}"), &json!({ "checks": words })).await.expect(200);
    ask(&gateway, &config, &hello()).await.expect(446);
    let _ = go.send(());
    let answer = under_way.join_next().await.expect("one call").expect("no panic").expect(200);
    let told = &answer.json()["hook_results"]["before_request_hooks"][0]["checks"][0];
    assert_eq!((&told["id"], &told["verdict"]), (&json!("default.webhook"), &json!(true)), "{told}");
    assert_eq!(hook.seen().len(), 1);
}

#[tokio::test]
async fn defaults_judge_callers_by_token_like_callers_by_key() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "jwks_uris": issuer.uri() })).await.expect(200);
    let org = admin.get("/admin/organisation").await.expect(200).json()["id"].clone();
    let token = FIRST.sign(&json!({ "gateway_oid": org, "gateway_workspace": "default", "sub": "ann",
        "scope": "completions.write", "exp": in_seconds(3600) }));
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let save = async |word: &str, fields: Value| {
        let checks = json!([{ "id": "default.contains", "parameters": { "words": [word], "operator": "none" } }]);
        let body = with(json!({ "name": word, "checks": checks, "actions": { "deny": true } }), fields);
        let made = admin.post("/guardrails", &body).await.expect(200).json();
        made["slug"].as_str().or_else(|| made["data"]["slug"].as_str()).expect("a slug").to_owned()
    };
    let own = save("own", json!({})).await;
    let shared = save("shared", json!({ "organisation_id": org })).await;
    admin.put("/workspaces/default", &json!({ "defaults": { "input_guardrails": [own] } })).await.expect(200);
    admin.put("/admin/organisation/defaults", &json!({ "input_guardrails": [shared] })).await.expect(200);
    let tried = async |text: &str, status: u16| {
        for key in [token.as_str(), WORKSPACE_KEY] {
            let call = gateway.chat().key(key).config(&target(&upstream)).json(&asking(text));
            let answer = call.send().await;
            assert_eq!(answer.status, status, "{text}: {}", answer.text());
        }
    };
    for (text, status) in [("of my own", 446), ("shared", 446), ("neither", 200)] {
        tried(text, status).await;
    }
    let path = "/workspace-exclusions/input-guardrails";
    admin.put(path, &json!({ "workspaces": [{ "workspace_id": "default" }] })).await.expect(200);
    for (text, status) in [("of my own", 446), ("shared", 200)] {
        tried(text, status).await;
    }
}

#[tokio::test]
async fn webhook_and_log_are_told_nothing_of_the_client_but_what_they_name() {
    const CANARY: &str = "canary-8f1d22";
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let hook = Upstream::replying(|_| reply::json(200, &json!({ "verdict": true }))).await;
    let list = json!([
        { "default.webhook": { "webhookURL": hook.url(), "headers": { "x-own": "mine" }, "forwardHeaders": ["x-team"] } },
        { "default.log": { "logURL": hook.url() } },
    ]);
    let keys = json!({ "input_guardrails": list, "output_guardrails": list, "api_key": format!("sk-{CANARY}") });
    let call = gateway.chat().config(&with(target(&upstream), keys)).header("x-team", "red");
    let call = call.header("cookie", CANARY).header("x-other", CANARY).header("proxy-authorization", CANARY);
    call.json(&hello()).send().await.expect(200);
    let told = hook.seen();
    assert_eq!(told.len(), 3, "a log is told of answers only");
    for seen in &told {
        let all = format!("{}{:?}", seen.text(), seen.headers);
        assert!(!all.contains(CANARY) && !all.contains(WORKSPACE_KEY), "{all}");
        let is_webhook = seen.header("x-own").is_some();
        assert_eq!(seen.header("x-team").is_some(), is_webhook, "{all}");
    }
    assert!(
        upstream.only().header("authorization").is_some_and(|v| v.contains(CANARY)),
        "the key was there to be told"
    );
}

#[tokio::test]
async fn each_choice_and_each_call_of_an_answer_is_judged() {
    let gateway = Gateway::start().await;
    let two = json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        { "index": 0, "message": { "role": "assistant", "content": "fine" }, "finish_reason": "stop" },
        { "index": 1, "message": { "role": "assistant", "content": "a secret" }, "finish_reason": "stop" }] });
    let call = json!({ "id": "t", "type": "function", "function": { "name": "f", "arguments": "{\"to\":[\"a s\\u0065cret\"]}" } });
    let calls = json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        { "index": 0, "message": { "role": "assistant", "content": null, "tool_calls": [call] },
          "finish_reason": "tool_calls" }] });
    for body in [two, calls] {
        let upstream = Upstream::replying(move |_| reply::json(200, &body)).await;
        let config = with(target(&upstream), json!({ "output_guardrails": [forbids("secret")] }));
        ask(&gateway, &config, &with(hello(), json!({ "n": 2 }))).await.expect(446);
        let config = with(target(&upstream), json!({ "output_guardrails": [forbids("mystery")] }));
        ask(&gateway, &config, &with(hello(), json!({ "n": 2 }))).await.expect(200);
    }
}

#[tokio::test]
async fn a_token_that_is_not_sound_does_not_pass() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let claims = json!({ "sub": "ann", "iat": in_seconds(-10), "exp": in_seconds(600) });
    let by_public = {
        let secret = FIRST.public()["n"].as_str().expect("a modulus").to_owned();
        let header = Header { alg: Algorithm::HS256, kid: FIRST.header().kid, ..Header::default() };
        encode(&header, &claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
    };
    // {"alg":"none"} and the same claims.
    let good = FIRST.sign(&claims);
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", good.split('.').nth(1).expect("claims"));
    let config = |uri: &str| {
        let check = json!({ "default.jwt": { "jwksUri": uri, "headerKey": "X-User-Token" }, "deny": true });
        with(target(&upstream), json!({ "input_guardrails": [check] }))
    };
    let tried = async |config: &Value, token: &str| {
        gateway.chat().config(config).header("x-user-token", token).json(&hello()).send().await
    };
    let known = config(&issuer.uri());
    tried(&known, &good).await.expect(200);
    tried(&known, &format!("Bearer {good}")).await.expect(200);
    for token in ["garbage", "a.b.c", &by_public, &unsigned, &SECOND.sign(&claims)] {
        tried(&known, token).await.expect(446);
    }
    ask(&gateway, &known, &hello()).await.expect(446);
    let down = Issuer::publishing(&[&FIRST]).await;
    down.fail();
    let denied = tried(&config(&down.uri()), &good).await.expect(446);
    assert!(denied.text().contains("KeySetUnavailable"), "{}", denied.text());
}

#[tokio::test]
async fn patterns_that_would_take_forever_end_at_once() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let text = asking(&"a".repeat(60));
    let config = |rule: &str| {
        let check = json!({ "default.regexMatch": { "rule": rule, "not": true }, "deny": true });
        with(target(&upstream), json!({ "input_guardrails": [check] }))
    };
    // Compiled before the clock runs.
    for rule in ["(a+)+$", "(a*)*\\1b"] {
        ask(&gateway, &config(rule), &asking("x")).await;
    }
    let began = Instant::now();
    ask(&gateway, &config("(a+)+$"), &text).await.expect(446);
    let denied = ask(&gateway, &config("(a*)*\\1b"), &text).await.expect(446).json();
    let told = &denied["hook_results"]["before_request_hooks"][0]["checks"][0];
    assert_eq!((&told["error"]["name"], &told["verdict"]), (&json!("RegexLimit"), &json!(false)), "{told}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_is_rewritten_keeps_its_shape() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let keys = json!({ "input_guardrails": [{ "default.regexReplace": { "rule": "ann", "redactText": "A" } }] });
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,QUFB" } });
    let parts = json!([{ "type": "text", "text": "ann is" }, image, { "type": "text", "text": "here, ann" }]);
    let chat = json!({ "model": "m", "messages": [{ "role": "user", "content": parts }] });
    ask(&gateway, &with(target(&upstream), keys.clone()), &chat).await.expect(200);
    let seen = upstream.only().json();
    let expected = json!([{ "type": "text", "text": "A is" }, image, { "type": "text", "text": "here, A" }]);
    assert_eq!(seen["messages"][0]["content"], expected);
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "fine" }], "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let claude = Upstream::replying(move |_| reply::json(200, &message)).await;
    let config = json!({ "provider": "anthropic", "api_key": "sk-ant", "custom_host": claude.url() });
    let blocks = json!([{ "type": "text", "text": "ann", "cache_control": { "type": "ephemeral" } },
        { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "QUFB" } }]);
    let body = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": blocks }] });
    gateway.post("/v1/messages").config(&with(config, keys)).json(&body).send().await.expect(200);
    let mut expected = blocks;
    expected[0]["text"] = "A".into();
    assert_eq!(claude.only().json()["messages"][0]["content"], expected);
}

#[tokio::test]
async fn guardrails_that_nobody_uses_are_not_even_compiled() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let admin = gateway.admin();
    for n in 0..50 {
        let config = with(target(&upstream), json!({ "input_guardrails": [forbids(&format!("word{n}"))] }));
        admin.config(&format!("guarded {n}"), &config).await;
    }
    let plain = admin.config("plain", &target(&upstream)).await;
    for _ in 0..5 {
        let call = gateway.chat().header("x-gateway-config", &plain).json(&asking("word1"));
        assert_eq!(call.send().await.expect(200).header("x-gateway-guardrails"), None);
    }
    assert_eq!(metric(&gateway, "gateway_guardrail_compilations").await, 0);
    assert_eq!(metric(&gateway, "gateway_guardrails").await, 0);
    assert_eq!(metric(&gateway, "gateway_guardrail_bytes").await, 0);
}

/// Hosts that take a connection and say nothing: each is asked at most 256 times at once.
async fn silent_hosts(count: usize) -> Vec<tokio::net::TcpListener> {
    let mut hosts = Vec::new();
    for _ in 0..count {
        hosts.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener"));
    }
    hosts
}

#[tokio::test]
async fn more_asynchronous_guardrails_than_may_run_are_shed_and_counted() {
    const ASKED: usize = 1_200;
    let gateway = Gateway::start().await;
    let hosts = silent_hosts(5).await;
    let config = |n: usize| {
        let url = format!("http://{}/", hosts[n % hosts.len()].local_addr().expect("bound"));
        let check = json!({ "default.webhook": { "webhookURL": url, "timeout": 60_000 }, "async": true });
        json!({ "provider": "mock", "input_guardrails": [check] })
    };
    let began = Instant::now();
    for batch in 0..ASKED / 100 {
        let asks = (0..100).map(|n| gateway.chat().config(&config(batch * 100 + n)).json(&hello()).send());
        for answer in futures_util::future::join_all(asks).await {
            answer.expect(200);
        }
    }
    assert!(began.elapsed() < Duration::from_secs(30), "no request waits for them: {:?}", began.elapsed());
    assert_eq!(metric(&gateway, "gateway_guardrails_beside").await, 1_000);
    assert_eq!(metric(&gateway, "gateway_shed_guardrails").await, ASKED as u64 - 1_000);
    drop(hosts);
}

#[tokio::test]
async fn what_is_judged_beside_is_waited_for_when_the_process_leaves() {
    let mut gateway = Gateway::start().await;
    let (hook, go) = held_verdict(false).await;
    let check = json!({ "default.webhook": { "webhookURL": hook.url(), "timeout": 30_000 }, "async": true });
    let config = json!({ "provider": "mock", "input_guardrails": [check] });
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "waited").json(&hello());
    call.send().await.expect(200);
    gateway.process.signal("TERM");
    eventually("the listener closes", || async {
        tokio::net::TcpStream::connect(gateway.proxy).await.is_err().then_some(())
    })
    .await;
    assert!(gateway.process.exited().is_none(), "left with a judgement under way");
    let _ = go.send(());
    assert!(gateway.process.exit(Duration::from_secs(5)).await.success());
    let mut next = gateway.succeed(&[]);
    next.ready_as_successor(&gateway).await;
    let record = record(&next, "waited").await;
    assert!(record["hook_results"].to_string().contains("\"verdict\":false"), "{record}");
}

#[tokio::test]
async fn what_is_not_said_in_time_when_the_process_leaves_is_lost_and_counted() {
    let mut gateway = Gateway::with(&["--drain-timeout", "500ms"]).await;
    let hosts = silent_hosts(1).await;
    let url = format!("http://{}/", hosts[0].local_addr().expect("bound"));
    let list = json!([{ "default.webhook": { "webhookURL": url, "timeout": 60_000 }, "async": true }]);
    let config = json!({ "provider": "mock", "input_guardrails": list, "output_guardrails": list });
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "lost").json(&hello());
    call.send().await.expect(200);
    let told = Instant::now();
    gateway.process.signal("TERM");
    assert!(gateway.process.exit(Duration::from_secs(10)).await.success());
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    let output = gateway.process.output();
    let line = output.lines().find(|line| line.contains("asynchronous guardrails were not waited for"));
    assert!(line.is_some_and(|line| line.contains("lost") && line.contains('2')), "{output}");
    let mut next = gateway.succeed(&[]);
    next.ready_as_successor(&gateway).await;
    let record = record(&next, "lost").await;
    assert_eq!(record["metrics"]["response_status_code"], 200, "the record is there all the same: {record}");
}

#[tokio::test]
async fn what_is_tried_counts_as_a_request_of_its_key() {
    let gateway = Gateway::start().await;
    let body = json!({ "name": "g", "checks": [{ "id": "default.wordCount", "parameters": {} }] });
    let saved = gateway.admin().post("/guardrails", &body).await.expect(200).json();
    let slug = saved["slug"].as_str().or_else(|| saved["data"]["slug"].as_str()).expect("a slug").to_owned();
    let limits = json!({ "rate_limits": [{ "type": "requests", "unit": "rpw", "value": 3 }],
                         "scopes": ["guardrails.invoke", "completions.write"] });
    let (_, key) = gateway.admin().workspace_key("tries", limits).await;
    let trier = gateway.admin().with_key(&key);
    let path = format!("/guardrails/{slug}/invoke");
    let tried = async |body: Value| trier.post(&path, &body).await;
    let text = json!({ "hook": "input", "text": "one two" });
    tried(text.clone()).await.expect(200);
    tried(json!({ "hook": "sideways" })).await.expect(400);
    tried(text.clone()).await.expect(200);
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(200);
    let refused = tried(text).await.expect(429).text();
    assert!(refused.contains("tries"), "{refused}");
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(429);
}
