//! Alert rules: read strictly, their secrets kept and masked, told once when they apply, and brought to every channel.

use crate::harness::{House, list, pass_seconds, text};
use crate::logs::record;
use bytes::Bytes;
use gateway_admin::{ALERT_LEASE, DeliveredAlert, check_alerts, deliver_alert};
use gateway_domain::NanoUsd;
use gateway_domain::alert::ALERT_JOB;
use gateway_domain::ports::{Fut, Mail, MailError, Mailer, Outside, OutsideCall, OutsideError, OutsideReply};
use gateway_domain::record::LogRecord;
use http::HeaderMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOOK: &str = "https://hooks.example.com/services/T0/B0/secret-path";

fn hook() -> Value {
    json!([{"type": "webhook", "url": "https://hooks.example.com/a"}])
}

fn rule(more: &Value) -> Value {
    let mut body = json!({"name": "Too much", "type": "spend", "threshold": 5, "channels": hook()});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// What leaves, and what it is answered with: by address, 204 unless said otherwise.
#[derive(Default)]
struct Post {
    answers: Mutex<BTreeMap<String, u16>>,
    calls: Mutex<Vec<OutsideCall>>,
    mails: Mutex<Vec<Mail>>,
}

impl Outside for Post {
    fn call(&self, call: OutsideCall) -> Fut<'_, Result<OutsideReply, OutsideError>> {
        let status = self.answers.lock().expect("unpoisoned").get(&call.url).copied().unwrap_or(204);
        self.calls.lock().expect("unpoisoned").push(call);
        Box::pin(async move {
            if status == 0 {
                return Err(OutsideError::Forbidden("is not public".to_owned()));
            }
            Ok(OutsideReply { status, headers: HeaderMap::new(), body: Bytes::new() })
        })
    }

    fn resolves<'a>(&'a self, _host: &'a str) -> Fut<'a, bool> {
        Box::pin(async { true })
    }
}

impl Mailer for Post {
    fn send<'a>(&'a self, mail: &'a Mail) -> Fut<'a, Result<(), MailError>> {
        self.mails.lock().expect("unpoisoned").push(mail.clone());
        Box::pin(async { Ok(()) })
    }
}

impl Post {
    fn urls(&self) -> Vec<String> {
        self.calls.lock().expect("unpoisoned").iter().map(|call| call.url.clone()).collect()
    }
}

async fn equipped() -> (House, Arc<Post>) {
    let post = Arc::<Post>::default();
    let mut house = House::new().await;
    house.equip(|app| {
        app.outside = Some(post.clone());
        app.mailer = Some(post.clone());
    });
    (house, post)
}

/// Calls of the last minute: so many that cost a dollar each, and so many that failed.
async fn called(house: &House, dear: usize, failed: usize) {
    let (org, home) = (house.org().id, house.default_workspace());
    let one = |n: usize| LogRecord {
        cost: Some(NanoUsd(if n < dear { 1_000_000_000 } else { 0 })),
        status: if n < dear { 200 } else { 500 },
        ..record(org, home, -1, &format!("t{n}"))
    };
    let records: Vec<LogRecord> = (0..dear + failed).map(one).collect();
    house.logs().append(&records).await.expect("appended");
}

/// What a node does: how many rules it found to be told.
async fn look(house: &House) -> usize {
    let round = check_alerts(&house.app, Duration::ZERO).await.expect("a store");
    assert_eq!(round.failed, 0);
    round.fired.len()
}

async fn deliver(house: &House) -> Option<Vec<DeliveredAlert>> {
    let leased = house.app.jobs.take(&[ALERT_JOB], ALERT_LEASE).await.expect("a store")?;
    Some(deliver_alert(&house.app, leased).await)
}

async fn made(house: &House, more: &Value) -> String {
    format!("/alerts/{}", text(&house.as_admin().post("/alerts", rule(more)).await.expect(200)["slug"]))
}

#[tokio::test]
async fn a_rule_is_saved_shown_changed_and_deleted() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = made(&house, &json!({})).await;
    assert_eq!(path, "/alerts/too-much");
    let shown = admin.get(&path).await.expect(200);
    for (field, want) in [
        ("object", json!("alert")),
        ("unit", json!("usd")),
        ("statistic", json!(null)),
        ("window_minutes", json!(60)),
        ("minimum_count", json!(0)),
        ("cool_down_minutes", json!(60)),
        ("state", json!(null)),
        ("filters", json!({})),
    ] {
        assert_eq!(shown[field], want, "{field}");
    }
    // The cool-down is the window, until one says otherwise.
    admin.put(&path, json!({"window_minutes": 90})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["cool_down_minutes"], 90);
    admin.put(&path, json!({"cool_down_minutes": 10})).await.expect(200);
    admin.put(&path, json!({"window_minutes": 30})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["cool_down_minutes"], 10);
    made(&house, &json!({"name": "Budgets", "type": "budget"})).await;
    assert_eq!(admin.get("/alerts/budgets").await.expect(200)["cool_down_minutes"], 1_440);
    assert_eq!(list(&admin.get("/alerts?type=budget").await.expect(200), "slug"), ["budgets"]);
    admin.put(&path, json!({"status": "archived"})).await.expect(200);
    assert_eq!(list(&admin.get("/alerts?status=archived").await.expect(200), "slug"), ["too-much"]);
    admin.delete(&path).await.expect(200);
    admin.get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn what_says_nothing_or_too_much_is_refused_by_name() {
    let house = House::new().await;
    let admin = house.as_admin();
    let channel = |given: Value| json!({"channels": [given]});
    for (more, says) in [
        (json!({"name": " "}), "name must not be empty"),
        (json!({"type": "weather"}), "type must be one of spend, error_rate, latency, budget"),
        (json!({"threshold": -1}), "threshold must be a number of dollars above 0"),
        (json!({"type": "error_rate", "threshold": 101}), "threshold must be a percentage"),
        (json!({"window_minutes": 1}), "window_minutes must be from 5 to 44640 minutes"),
        (json!({"cool_down_minutes": 99_999}), "cool_down_minutes must be from 5"),
        (json!({"statistic": "p99"}), "statistic is of alerts of the type latency"),
        (json!({"type": "budget", "window_minutes": 60}), "window_minutes is of alerts of the type spend"),
        (json!({"type": "budget", "minimum_count": 3}), "minimum_count is of alerts of the type spend"),
        (json!({"type": "budget", "filters": {"ai_org": ["x"]}}), "filters is of alerts of the type spend"),
        (json!({"filters": {"colour": ["x"]}}), "filters.colour is not a known field"),
        (json!({"filters": {"ai_model": [""]}}), "filters.ai_model must hold names"),
        (json!({"channels": []}), "channels must hold 1 to 5 channels"),
        (channel(json!({"type": "pigeon"})), "channels[0].type must be one of webhook, slack, email"),
        (channel(json!({"type": "webhook"})), "channels[0].url is required"),
        (
            channel(json!({"type": "webhook", "url": "https://a.example", "to": []})),
            "channels[0].to is of another type",
        ),
        (channel(json!({"type": "slack", "url": HOOK, "headers": {}})), "channels[0].headers is of another type"),
        (channel(json!({"type": "slack", "url": "****path"})), "is a masked value that stands for no stored one"),
        (channel(json!({"type": "webhook", "url": "http://127.0.0.1/x"})), "channels[0].url"),
        (channel(json!({"type": "webhook", "url": "https://u:p@a.example"})), "channels[0].url must not contain cred"),
        (
            channel(json!({"type": "webhook", "url": "https://a.example", "headers": {"content-type": "x"}})),
            "channels[0].headers.content-type is set by the gateway",
        ),
        (
            channel(json!({"type": "webhook", "url": "https://a.example", "headers": {"host": "x"}})),
            "channels[0].headers.host",
        ),
        (
            channel(json!({"type": "webhook", "url": "https://a.example", "headers": {"x-a": "x\u{7}"}})),
            "channels[0].headers.x-a must be 1..4096",
        ),
        (channel(json!({"type": "email", "to": ["a@example.com"]})), "channels[0].type email needs --smtp-url"),
        (json!({"colour": "red"}), "colour is not a known field"),
    ] {
        let said = admin.post("/alerts", rule(&more)).await.refused(400, "AB01");
        assert!(said.contains(says), "{more}: {said}");
    }
    let path = made(&house, &json!({})).await;
    let said = admin.put(&path, json!({"type": "latency"})).await.refused(400, "AB01");
    assert_eq!(said, "type cannot be changed");
    let (house, _) = equipped().await;
    let said = house.as_admin().post("/alerts", rule(&channel(json!({"type": "email", "to": ["nobody"]})))).await;
    assert_eq!(said.refused(400, "AB01"), "channels[0].to[0] must be an e-mail address");
}

#[tokio::test]
async fn masks_stand_for_what_is_stored_where_it_went_before() {
    let (house, post) = equipped().await;
    let admin = house.as_admin();
    let channels = |url: &str, token: &str, hook: &str| json!({"channels": [{"type": "webhook", "url": url, "headers": {"X-Token": token}}, {"type": "slack", "url": hook}]});
    let path = made(&house, &channels("https://a.example/x", "token-0123456789abcd", HOOK)).await;
    let shown = admin.get(&path).await.expect(200);
    let masked = channels("https://a.example/x", "****abcd", "****path");
    assert_eq!(shown["channels"][0]["headers"], json!({"x-token": "****abcd"}));
    assert_eq!(shown["channels"][1]["url"], "****path");
    admin.put(&path, masked).await.expect(200);
    // Whoever names another address gives the secret again.
    let said = admin.put(&path, channels("https://b.example/x", "****abcd", "****path")).await.refused(400, "AB01");
    assert_eq!(said, "channels[0].headers.X-Token is a masked value that stands for no stored one");
    called(&house, 6, 0).await;
    assert_eq!(look(&house).await, 1);
    deliver(&house).await.expect("a message");
    assert_eq!(post.urls(), ["https://a.example/x", HOOK]);
    let calls = post.calls.lock().expect("unpoisoned");
    let token = calls[0].headers.iter().find(|(name, _)| name.as_str() == "x-token").map(|(_, value)| value.clone());
    assert_eq!(token.expect("the header"), "token-0123456789abcd");
}

#[tokio::test]
async fn rules_of_the_organisation_are_for_its_admin_keys() {
    let house = House::new().await;
    let org = house.org().id.to_string();
    let body = rule(&json!({"name": "All", "organisation_id": org}));
    let made = house.as_admin().post("/alerts", body.clone()).await.expect(200);
    let path = format!("/alerts/{}", text(&made["id"]));
    assert_eq!(house.as_admin().get(&path).await.expect(200)["workspace_id"], json!(null));
    let own =
        json!({"scopes": ["policies.list", "policies.read", "policies.create", "policies.update", "policies.delete"]});
    let (_, key) = house.key("workspace/service", own).await;
    let asker = house.with(&key);
    asker.get(&path).await.refused(404, "AB08");
    asker.put(&path, json!({"threshold": 1})).await.refused(404, "AB08");
    asker.delete(&path).await.refused(404, "AB08");
    asker.post(&format!("{path}/test"), json!({})).await.refused(404, "AB08");
    let (here, all) = (asker.get("/alerts").await.expect(200), format!("/alerts?organisation_id={org}"));
    assert_eq!((&here["total"], &house.as_admin().get(&all).await.expect(200)["total"]), (&json!(0), &json!(1)));
    asker.post("/alerts", body).await.refused(403, "AB03");
    asker.post("/alerts", rule(&json!({}))).await.expect(200);
    assert_eq!(asker.get("/alerts").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn an_organisation_has_a_hundred_rules() {
    let house = House::new().await;
    for n in 0..100 {
        house.as_admin().post("/alerts", rule(&json!({"name": format!("r{n}")}))).await.expect(200);
    }
    let said = house.as_admin().post("/alerts", rule(&json!({}))).await.refused(409, "AB07");
    assert!(said.contains("100 alert rules"), "{said}");
    house.as_admin().delete("/alerts/r7").await.expect(200);
    house.as_admin().post("/alerts", rule(&json!({}))).await.expect(200);
}

#[tokio::test]
async fn what_applies_is_told_once_and_again_after_its_cool_down() {
    let (house, post) = equipped().await;
    let path = made(&house, &json!({"cool_down_minutes": 30})).await;
    assert_eq!(look(&house).await, 0);
    assert_eq!(house.as_admin().get(&path).await.expect(200)["state"]["last_value"], json!(0.0));
    called(&house, 6, 0).await;
    assert_eq!(look(&house).await, 1);
    assert_eq!((look(&house).await, look(&house.beside().await).await), (0, 0), "whoever looks");
    assert_eq!(deliver(&house).await, Some(vec![DeliveredAlert { channel: "webhook", is_sent: true }]));
    assert_eq!(deliver(&house).await, None);
    let body: Value = serde_json::from_slice(&post.calls.lock().expect("unpoisoned")[0].body).expect("JSON");
    assert_eq!((&body["event"], &body["value"], &body["calls"]), (&json!("alert.fired"), &json!(6.0), &json!(6)));
    let state = house.as_admin().get(&path).await.expect(200)["state"].clone();
    assert!(state["last_fired_at"].is_string() && state["last_value"] == 6.0, "{state}");
    pass_seconds(29 * 60);
    assert_eq!(look(&house).await, 0, "it rests");
    pass_seconds(2 * 60);
    assert_eq!(look(&house).await, 1);
    deliver(&house).await.expect("another message");
    let ids: Vec<_> = post.calls.lock().expect("unpoisoned").iter().map(|call| call.headers.last().cloned()).collect();
    assert_ne!(ids[0], ids[1], "messages have ids of their own");
    let fired = actions(&house).await.into_iter().filter(|action| action == "alert_fired").count();
    assert_eq!(fired, 2);
}

/// What the gateway says in the audit trail that it did by itself.
async fn trail(house: &House) -> Value {
    let (org, range) = (house.org().id, "start_time=2020-01-01&end_time=2100-01-01&user_type=system");
    house.as_admin().get(&format!("/audit-logs?organisation_id={org}&{range}")).await.expect(200)
}

async fn actions(house: &House) -> Vec<String> {
    let trail = trail(house).await;
    trail["records"].as_array().expect("rows").iter().map(|row| text(&row["action"])).collect()
}

#[tokio::test]
async fn a_node_that_died_before_it_could_note_a_message_sends_none_twice() {
    let (house, post) = equipped().await;
    made(&house, &json!({})).await;
    called(&house, 6, 0).await;
    assert_eq!(look(&house).await, 1);
    // How the rule stands is forgotten, as if the note had not been written: the next look finds the message there.
    let rule = house.app.live.snapshot().orgs().next().expect("one").alerts().keys().next().copied().expect("a rule");
    let standing = house.app.alerts.alert_standings(&[rule]).await.expect("a store")[0];
    house.app.alerts.forget_alerts(standing.checked_at.plus_micros(1)).await.expect("a store");
    assert_eq!(look(&house).await, 0);
    assert!(house.app.alerts.alert_standings(&[rule]).await.expect("a store")[0].fired_at.is_some(), "now it is noted");
    deliver(&house).await.expect("the message");
    assert_eq!((deliver(&house).await, post.urls().len()), (None, 1));
}

#[tokio::test]
async fn each_kind_finds_what_it_is_about() {
    let (house, _) = equipped().await;
    called(&house, 3, 1).await;
    for (more, value) in [
        (json!({"name": "a"}), json!(3.0)),
        (json!({"name": "b", "filters": {"ai_org": ["nobody"]}}), json!(0.0)),
        (json!({"name": "c", "type": "error_rate"}), json!(25.0)),
        (json!({"name": "d", "type": "error_rate", "minimum_count": 5}), json!(null)),
        (json!({"name": "e", "type": "error_rate", "window_minutes": 10}), json!(25.0)),
        (json!({"name": "f", "type": "budget"}), json!(null)),
    ] {
        let path = made(&house, &more).await;
        look(&house).await;
        assert_eq!(house.as_admin().get(&path).await.expect(200)["state"]["last_value"], value, "{more}");
    }
    let latency = made(&house, &json!({"name": "g", "type": "latency", "threshold": 0.001})).await;
    look(&house).await;
    assert!(house.as_admin().get(&latency).await.expect(200)["state"]["last_value"].as_f64() > Some(0.0));
}

#[tokio::test]
async fn a_channel_that_fails_holds_no_other_up_and_is_tried_again() {
    let (house, post) = equipped().await;
    let channels = json!([{"type": "webhook", "url": "https://a.example/down"}, {"type": "slack", "url": HOOK},
        {"type": "email", "to": ["Ann@example.com"]}, {"type": "webhook", "url": "https://a.example/gone"}]);
    made(&house, &json!({"channels": channels})).await;
    post.answers
        .lock()
        .expect("unpoisoned")
        .extend([("https://a.example/down".to_owned(), 503), ("https://a.example/gone".to_owned(), 410)]);
    called(&house, 6, 0).await;
    look(&house).await;
    let told = deliver(&house).await.expect("a message");
    let outcomes: Vec<_> = told.iter().map(|one| (one.channel, one.is_sent)).collect();
    assert_eq!(outcomes, [("webhook", false), ("slack", true), ("email", true), ("webhook", false)]);
    assert_eq!(deliver(&house).await, None, "the next try is not due");
    let mails = post.mails.lock().expect("unpoisoned").clone();
    assert_eq!(mails[0].to, ["ann@example.com"]);
    assert!(mails[0].subject.contains("Too much: 6 USD were spent within 1 h"), "{}", mails[0].subject);
    let job = house.app.jobs.job(house.org().id, mails[0].id).await.expect("a store").expect("it waits");
    assert!(!job.state.has_ended() && job.note.contains("webhook: the hook answered 503"), "{job:?}");
    assert_eq!(post.urls().len(), 3, "what will never take it is not asked again, and the others have it");
}

#[tokio::test]
async fn what_no_channel_will_ever_take_is_told_in_the_trail() {
    let (house, post) = equipped().await;
    made(&house, &json!({})).await;
    post.answers.lock().expect("unpoisoned").insert("https://hooks.example.com/a".to_owned(), 0);
    called(&house, 6, 0).await;
    look(&house).await;
    deliver(&house).await.expect("a message");
    assert!(actions(&house).await.contains(&"alert_undelivered".to_owned()));
    let trail = trail(&house).await;
    assert!(trail.to_string().contains("webhook: the address is not public"), "{trail}");
}

#[tokio::test]
async fn a_rule_that_was_taken_back_is_told_to_nobody() {
    let (house, post) = equipped().await;
    let path = made(&house, &json!({})).await;
    called(&house, 6, 0).await;
    look(&house).await;
    house.as_admin().delete(&path).await.expect(200);
    assert_eq!(deliver(&house).await, Some(Vec::new()));
    assert_eq!((post.urls().len(), look(&house).await), (0, 0));
}
