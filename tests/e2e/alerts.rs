//! Alerts by the real program: what applies is told by hooks and by mail, once among several nodes, and though the node
//! that was about to tell it dies.

use crate::forbidden::hosts;
use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, installed, reply, stand_at_noon, with};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const OFTEN: &[&str] = &["--alert-interval", "1s"];

async fn hook() -> Upstream {
    Upstream::replying(|_| reply::whole(204, &[], String::new())).await
}

/// Three calls, of which the middle one fails; each of the others costs three cents.
async fn called(gateway: &Gateway) {
    let upstream = Upstream::replying(|seen| {
        let asked: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        if asked["max_tokens"] == 1 {
            return reply::whole(500, &[("content-type", "application/json")], json!({"error": {}}).to_string());
        }
        let mut body = reply::completion("hi");
        body["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": 3_000, "total_tokens": 3_000 });
        reply::whole(200, &[("content-type", "application/json")], body.to_string())
    });
    let upstream = upstream.await;
    let config = target(&upstream);
    for (most, status) in [(3_000, 200), (1, 500), (3_000, 200)] {
        let body = with(hello(), json!({ "model": "gpt-4o", "max_tokens": most }));
        gateway.chat().config(&config).json(&body).send().await.expect(status);
    }
    eventually("all are recorded", || async {
        let list = gateway.admin().get("/logs?page_size=1").await.expect(200).json();
        (list["total"] == 3).then_some(())
    })
    .await;
}

/// Returns its path.
async fn rule(gateway: &Gateway, kind: &str, threshold: f64, more: Value) -> String {
    let body = with(json!({ "name": kind, "type": kind, "threshold": threshold }), more);
    let made = gateway.admin().post("/alerts", &body).await.expect(200).json();
    format!("/alerts/{}", made["id"].as_str().expect("an id"))
}

fn to(hook: &Upstream) -> Value {
    json!([{ "type": "webhook", "url": hook.url(), "headers": { "x-token": "sesame-0123456789" } }])
}

async fn state(gateway: &Gateway, path: &str) -> Value {
    gateway.admin().get(path).await.expect(200).json()["state"].clone()
}

#[tokio::test]
async fn each_kind_is_told_with_what_was_found() {
    let gateway = Gateway::with(OFTEN).await;
    called(&gateway).await;
    let hook = hook().await;
    let fields = |more: Value| with(json!({ "channels": to(&hook) }), more);
    let failing = json!({ "window_minutes": 10, "minimum_count": 3, "cool_down_minutes": 600, "description": "d" });
    rule(&gateway, "error_rate", 30.0, fields(failing)).await;
    rule(&gateway, "spend", 0.05, fields(json!({ "filters": { "ai_org": ["openai"], "ai_model": ["gpt-4o"] } }))).await;
    rule(&gateway, "latency", 0.001, fields(json!({ "statistic": "p90" }))).await;
    let heard = eventually("three messages", || async { Some(hook.seen()).filter(|seen| seen.len() >= 3) }).await;
    let told = |kind: &str| heard.iter().map(crate::harness::Seen::json).find(|m| m["rule"]["type"] == kind);
    let (errors, spend, slow) = (told("error_rate"), told("spend"), told("latency"));
    let errors = errors.expect("told");
    assert_eq!(
        (&errors["event"], &errors["calls"], &errors["unit"]),
        (&json!("alert.fired"), &json!(3), &json!("percent"))
    );
    assert!((errors["value"].as_f64().expect("a number") - 100.0 / 3.0).abs() < 0.01, "{errors}");
    let spend = spend.expect("told");
    assert!((spend["value"].as_f64().expect("a number") - 0.06).abs() < 1e-9, "{spend}");
    assert!(slow.expect("told")["value"].as_f64() > Some(0.0));
    assert_eq!(heard[0].header("x-token"), Some("sesame-0123456789"));
    assert!(heard[0].header("x-gateway-alert-id").is_some_and(|id| id.len() == 36));
    eventually("they are counted", || async {
        let metrics = gateway.metrics().await;
        let sent = metrics.contains(r#"gateway_alert_deliveries_total{channel="webhook",outcome="sent"} 3"#);
        (sent
            && metrics.contains(r#"gateway_alerts_total{type="spend"} 1"#)
            && metrics.contains("gateway_alert_rules 3"))
        .then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_rule_asks_for_keeps_it_silent() {
    let gateway = Gateway::with(OFTEN).await;
    called(&gateway).await;
    let hook = hook().await;
    let fields = |more: Value| with(json!({ "channels": to(&hook) }), more);
    let few = rule(&gateway, "error_rate", 1.0, fields(json!({ "minimum_count": 4 }))).await;
    let other = rule(&gateway, "error_rate", 1.0, fields(json!({ "filters": { "ai_model": ["none"] } }))).await;
    let elsewhere = rule(&gateway, "error_rate", 1.0, fields(json!({ "filters": { "virtual_keys": ["none"] } }))).await;
    let dear = rule(&gateway, "spend", 0.07, fields(json!({}))).await;
    let off = rule(&gateway, "spend", 0.01, fields(json!({}))).await;
    gateway.admin().put(&off, &json!({ "status": "archived" })).await.expect(200);
    for (path, value) in [(&few, json!(null)), (&other, json!(null)), (&elsewhere, json!(null)), (&dear, json!(0.06))] {
        let looked =
            eventually("a look", || async { Some(state(&gateway, path).await).filter(|s| !s.is_null()) }).await;
        // A look that another has followed has told what it found.
        let found = eventually("another look", || async {
            let found = state(&gateway, path).await;
            (found["last_checked_at"] != looked["last_checked_at"]).then_some(found)
        })
        .await;
        let near = found["last_value"].as_f64().zip(value.as_f64()).is_some_and(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near || found["last_value"] == value, "{path}: {found}");
        assert_eq!(found["last_fired_at"], json!(null), "{path}");
    }
}

#[tokio::test]
async fn budgets_are_told_by_their_share() {
    stand_at_noon();
    let gateway = Gateway::with(OFTEN).await;
    let policy = json!({ "name": "Spend", "type": "tokens", "credit_limit": 10_000, "enforcement": "check",
        "conditions": [{ "key": "api_key", "value": "*" }] });
    gateway.admin().post("/policies/usage-limits", &policy).await.expect(200);
    called(&gateway).await;
    let hook = hook().await;
    rule(&gateway, "budget", 50.0, json!({ "channels": to(&hook) })).await;
    let heard = eventually("a message", || async { hook.seen().first().map(crate::harness::Seen::json) }).await;
    assert_eq!(heard["value"], json!(60.0), "{heard}");
    let holder = heard["budgets"][0]["holder"].as_str().expect("a holder");
    assert!(holder.starts_with("policy:"), "{heard}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_tell_an_alert_once() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("alerts"))).await;
    let (_postgres, url) = database.expect("no panic");
    let one = Gateway::with(&["--database-url", &url, "--alert-interval", "1s"]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &url, "--master-key-file", &key, "--alert-interval", "1s"];
    let two = Gateway::with(&flags).await;
    called(&one).await;
    let hook = hook().await;
    let path = rule(&one, "spend", 0.01, json!({ "channels": to(&hook) })).await;
    eventually("a message", || async { hook.seen().first().cloned() }).await;
    // Both go on looking: what is told is told.
    let told = state(&two, &path).await;
    looked_at(&one, &path).await;
    assert_eq!(state(&two, &path).await["last_fired_at"], told["last_fired_at"]);
    let sent =
        |metrics: String| metrics.contains(r#"gateway_alert_deliveries_total{channel="webhook",outcome="sent"} 1"#);
    let (by_one, by_two) = (sent(one.metrics().await), sent(two.metrics().await));
    assert!(by_one != by_two, "one of them sent it");
    assert_eq!(hook.seen().len(), 1);
    // The end of it is told once, too.
    assert_eq!(state(&two, &path).await["last_recovered_at"], json!(null));
    one.admin().put(&path, &json!({ "threshold": 100 })).await.expect(200);
    let over = eventually("a second message", || async { hook.seen().get(1).map(crate::harness::Seen::json) }).await;
    assert_eq!((&over["event"], &over["threshold"]), (&json!("alert.recovered"), &json!(100.0)), "{over}");
    let first = hook.seen()[0].json();
    assert!(over["fired_at"].is_string() && over["id"] != first["id"] && first["fired_at"].is_null(), "{over}");
    assert!(over["text"].as_str().is_some_and(|text| text.contains("it is over: 0.06 USD")), "{over}");
    eventually("it is noted", || async { state(&two, &path).await["last_recovered_at"].is_string().then_some(()) })
        .await;
    looked_at(&two, &path).await;
    assert_eq!(hook.seen().len(), 2);
}

/// Three times more, by whichever node.
async fn looked_at(gateway: &Gateway, path: &str) {
    for _ in 0..3 {
        let before = state(gateway, path).await["last_checked_at"].clone();
        let look = || async { (state(gateway, path).await["last_checked_at"] != before).then_some(()) };
        eventually("another look", look).await;
    }
}

#[tokio::test]
async fn a_kill_between_claim_and_answer_costs_no_alert() {
    let gateway = Gateway::with(OFTEN).await;
    called(&gateway).await;
    // The first is heard and never answered.
    let hook = Upstream::scripted(async |mut peer| {
        if peer.request().await.is_none() {
            return;
        }
        if peer.connection() == 0 {
            return peer.gone().await;
        }
        peer.send(reply::whole(204, &[], String::new())).await;
    })
    .await;
    let path = rule(&gateway, "spend", 0.01, json!({ "channels": to(&hook) })).await;
    let first = eventually("the first try", || async { hook.seen().first().cloned() }).await;
    let gateway = gateway.restart_after_kill(OFTEN).await;
    // What the dead node held is free when its lease has run out: longer than one waits elsewhere.
    let (began, again) = (Instant::now(), || async { hook.seen().get(1).cloned() });
    while again().await.is_none() && began.elapsed() < Duration::from_secs(60) {
        let pause = Instant::now();
        let look = || async { (again().await.is_some() || pause.elapsed() > Duration::from_secs(10)).then_some(()) };
        eventually("the second try, or some time has passed", look).await;
    }
    let second = again().await.expect("the second try");
    assert_eq!(first.header("x-gateway-alert-id"), second.header("x-gateway-alert-id"), "it is the same message");
    eventually("it is done", || async {
        let sent =
            gateway.metrics().await.contains(r#"gateway_alert_deliveries_total{channel="webhook",outcome="sent"} 1"#);
        sent.then_some(())
    })
    .await;
    assert!(state(&gateway, &path).await["last_fired_at"].is_string());
    assert_eq!(hook.seen().len(), 2);
}

/// A mail server of somebody else's making: what it is sent comes as lines of JSON.
struct MailServer {
    _process: Child,
    port: u16,
    mails: Lines<BufReader<ChildStdout>>,
}

impl MailServer {
    async fn start(user: &str, password: &str) -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let tls = tests.join("harness/tls");
        let mut command = Command::new(installed("python/bin/python"));
        command.env("PYTHONPATH", installed("tools")).arg("-B").arg(tests.join("sdk/python/mail_server.py"));
        command.arg(tls.join("cert.pem")).arg(tls.join("key.pem")).args([user, password]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
        let mut mails = BufReader::new(process.stdout.take().expect("its output")).lines();
        let port = mails.next_line().await.expect("readable").expect("a port").parse().expect("a number");
        Self { _process: process, port, mails }
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(30), self.mails.next_line()).await.expect("a mail in time");
        serde_json::from_str(&line.expect("readable").expect("a mail")).expect("JSON")
    }
}

#[tokio::test]
async fn mail_leaves_over_tls_with_a_password() {
    let mut server = MailServer::start("gateway", "sesame").await;
    let url = format!("smtp://gateway:sesame@localhost:{}?tls=required", server.port);
    let roots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/tls/cert.pem").display().to_string();
    let gateway = Gateway::in_environment(&[
        ("SSL_CERT_FILE", &roots),
        ("GATEWAY_SMTP_URL", &url),
        ("GATEWAY_SMTP_FROM", "Gateway <gateway@example.com>"),
        ("GATEWAY_ALERT_INTERVAL", "1s"),
    ])
    .await;
    called(&gateway).await;
    let channels = json!([{ "type": "email", "to": ["ann@example.com", "Bo@example.com"] }]);
    let path = rule(&gateway, "spend", 0.05, json!({ "channels": channels, "name": "Übermaß" })).await;
    let mail = server.next().await;
    assert_eq!((&mail["tls"], &mail["signed_in"]), (&json!(true), &json!(true)), "{mail}");
    assert_eq!(
        (&mail["from"], &mail["to"]),
        (&json!("gateway@example.com"), &json!(["ann@example.com", "bo@example.com"]))
    );
    let text = mail["text"].as_str().expect("text").to_lowercase();
    assert!(text.contains("message-id: <") && text.contains("subject: "), "{text}");
    let tried = gateway.admin().post(&format!("{path}/test"), &json!({})).await.expect(200).json();
    assert_eq!(tried["channels"], json!([{ "type": "email", "status": "sent", "error": null }]));
    let mail = server.next().await;
    assert_eq!(mail["tls"], json!(true));
    let settings = gateway.admin().get("/nodes/settings").await.expect(200).text();
    assert!(settings.contains("smtp") && !settings.contains("sesame"), "{settings}");
}

/// Whom a key names hears of its budget from the gateway itself, once for each level.
#[tokio::test]
async fn whom_a_key_names_is_mailed_when_its_budget_is_reached() {
    let mut server = MailServer::start("gateway", "sesame").await;
    let url = format!("smtp://gateway:sesame@localhost:{}?tls=required", server.port);
    let roots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/tls/cert.pem").display().to_string();
    let variables =
        [("SSL_CERT_FILE", &*roots), ("GATEWAY_SMTP_URL", &url), ("GATEWAY_SMTP_FROM", "gateway@example.com")];
    let gateway = Gateway::in_environment(&variables).await;
    let budget = json!({ "type": "tokens", "credit_limit": 10_000, "alert_threshold": 2_500 });
    let fields = json!({ "usage_limits": budget, "alert_emails": ["Ann@example.com", "bo@example.com"] });
    let (id, key) = gateway.admin().workspace_key("spender", fields).await;
    let upstream = Upstream::replying(|_| {
        let mut body = reply::completion("hi");
        body["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": 3_000, "total_tokens": 3_000 });
        reply::whole(200, &[("content-type", "application/json")], body.to_string())
    });
    let upstream = upstream.await;
    let config = target(&upstream);
    // Little is set aside for a call, so that the budget is used to its end.
    let small = with(hello(), json!({ "max_tokens": 10 }));
    let call = async || gateway.chat().key(&key).config(&config).json(&small).send().await.status;
    assert_eq!(call().await, 200);
    let mail = server.next().await;
    assert_eq!(mail["to"], json!(["ann@example.com", "bo@example.com"]));
    let text = mail["text"].as_str().expect("text");
    assert!(text.contains("has reached its threshold") && text.contains("3000 tokens are used"), "{text}");
    assert!(text.contains(&format!("Key {id}")) && text.contains("the threshold is 2500 tokens"), "{text}");
    // The next mail is of the end, not the threshold again.
    while call().await == 200 {}
    let mail = server.next().await;
    assert!(mail["text"].as_str().is_some_and(|text| text.contains("is exhausted")), "{mail}");
}

#[tokio::test]
async fn a_test_message_says_what_became_of_each_channel() {
    let gateway = Gateway::start().await;
    let (fine, gone) = (hook().await, Upstream::replying(|_| reply::whole(404, &[], String::new())).await);
    let channels = json!([{ "type": "webhook", "url": fine.url() }, { "type": "slack", "url": gone.url() }]);
    let path = rule(&gateway, "latency", 5.0, json!({ "channels": channels })).await;
    let told = gateway.admin().post(&format!("{path}/test"), &json!({})).await.expect(200).json();
    let failed = json!({ "type": "slack", "status": "failed", "error": "the hook answered 404" });
    assert_eq!(told["channels"], json!([{ "type": "webhook", "status": "sent", "error": null }, failed]));
    assert_eq!(fine.only().json()["event"], "alert.test");
    let text = gone.only().json()["text"].as_str().expect("text").to_owned();
    assert!(text.contains("latency: this is a test of an alert rule"), "{text}");
    let state = gateway.admin().get(&path).await.expect(200).json()["state"].clone();
    assert!(state["last_fired_at"].is_null(), "a test is no alert: {state}");
}

#[tokio::test]
async fn addresses_that_nobody_may_call_are_refused_where_they_are_saved() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for host in hosts().filter(|host| !host.is_empty()) {
        for kind in ["webhook", "slack"] {
            let body =
                json!({ "name": "a", "type": "spend", "threshold": 1, "channels": [{ "type": kind, "url": host }] });
            let told = gateway.admin().post("/alerts", &body).await.expect(400).text();
            assert!(told.contains("channels[0].url"), "{host}: {told}");
        }
    }
    rule(&gateway, "spend", 1.0, json!({ "channels": [{ "type": "slack", "url": "https://trusted.example/x" }] }))
        .await;
}

#[tokio::test]
async fn mails_are_promised_only_where_somebody_sends_them() {
    let gateway = Gateway::start().await;
    let channels = json!([{ "type": "email", "to": ["a@example.com"] }]);
    let body = json!({ "name": "a", "type": "spend", "threshold": 1, "channels": channels });
    let told = gateway.admin().post("/alerts", &body).await.expect(400).text();
    assert!(told.contains("channels[0].type email needs --smtp-url"), "{told}");
}
