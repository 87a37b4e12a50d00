//! Calls over WebRTC and SIP: their media go round the gateway, so it watches each by a socket of its own, counts what
//! is said in it, and hangs up where a session would be ended.

use crate::area_forms::{FORM, form};
use crate::harness::call::Call;
use crate::harness::{Answer, Gateway, Said, Socket, Upstream, WORKSPACE_KEY, eventually, reply, stand_at_noon};
use crate::realtime::records;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::broadcast;

const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n";
const ANSWER: &str = "v=0\r\no=- 2 2 IN IP4 127.0.0.1\r\n";
const MODEL: &str = "gpt-realtime";

/// A provider whose calls are heard by whoever opens a socket beside them.
pub(crate) struct CallHouse {
    pub(crate) upstream: Upstream,
    /// Sockets beside calls can be opened.
    pub(crate) listens: Arc<AtomicBool>,
    /// Said on every socket that is open.
    say: broadcast::Sender<Value>,
    /// What was said on them.
    heard: broadcast::Receiver<Value>,
}

impl CallHouse {
    pub(crate) async fn open(listens: bool) -> Self {
        let (say, _) = broadcast::channel::<Value>(64);
        let (told, heard) = broadcast::channel::<Value>(256);
        let said = say.clone();
        let listens = Arc::new(AtomicBool::new(listens));
        let opens = listens.clone();
        let upstream = Upstream::scripted(move |mut peer| {
            let (said, told, opens) = (said.clone(), told.clone(), opens.clone());
            async move {
                while let Some(seen) = peer.request().await {
                    if seen.method == "GET" && opens.load(SeqCst) {
                        let heard = said.subscribe();
                        return talk(peer.opened(&seen).await, heard, told).await;
                    }
                    let path = seen.target.split('?').next().unwrap_or_default();
                    let answer = match (seen.method.as_str(), path.trim_start_matches("/v1")) {
                        ("POST", "/realtime/calls") => reply::whole(
                            201,
                            &[("content-type", "application/sdp"), ("location", "/v1/realtime/calls/rtc_1")],
                            ANSWER,
                        ),
                        ("POST", _) => reply::whole(200, &[], ""),
                        _ => reply::error(404, &[]),
                    };
                    peer.send(answer).await;
                }
            }
        })
        .await;
        Self { upstream, listens, say, heard }
    }

    pub(crate) fn asked(&self, path: &str) -> usize {
        self.upstream.seen().iter().filter(|seen| seen.target.split('?').next() == Some(path)).count()
    }

    pub(crate) async fn hung_up(&self) {
        eventually("it is hung up", || async { (self.asked("/v1/realtime/calls/rtc_1/hangup") == 1).then_some(()) })
            .await;
    }

    pub(crate) fn send_event(&self, event: Value) {
        self.say.send(event).expect("somebody listens");
    }

    /// A response of so many tokens.
    pub(crate) fn respond(&self, id: &str, tokens: u64) {
        self.send_event(json!({ "type": "response.created", "response": { "id": id } }));
        let usage = json!({ "total_tokens": tokens, "input_tokens": tokens / 2, "output_tokens": tokens - tokens / 2 });
        self.send_event(
            json!({ "type": "response.done", "response": { "id": id, "status": "completed", "usage": usage } }),
        );
    }
}

async fn talk(mut socket: Socket, mut said: broadcast::Receiver<Value>, told: broadcast::Sender<Value>) {
    let session = json!({ "type": "realtime", "id": "sess_1", "model": "gpt-realtime-2025-08-28" });
    socket.say(&json!({ "type": "session.created", "session": session })).await;
    loop {
        tokio::select! {
            event = said.recv() => match event.expect("the house stands") {
                Value::Null => return socket.close(1000, "over").await,
                event => drop(socket.say(&event).await),
            },
            heard = socket.next() => match heard {
                Said::Event(event) => drop(told.send(event)),
                Said::Ping(_) | Said::Pong(_) | Said::Binary(_) => {}
                Said::Close(_) | Said::Gone => return,
            },
        }
    }
}

/// A gateway where one model of the provider is enabled.
async fn house_with(flags: &[&str], listens: bool) -> (Gateway, CallHouse) {
    let (gateway, house) = (Gateway::with(flags).await, CallHouse::open(listens).await);
    gateway.admin().provider("main", "openai", Some(&house.upstream.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": MODEL, "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/integration-models", &models).await.expect(200);
    (gateway, house)
}

pub(crate) async fn house() -> (Gateway, CallHouse) {
    house_with(&[], true).await
}

pub(crate) fn parts(session: &Value) -> Vec<u8> {
    form(&[("sdp", None, OFFER.as_bytes()), ("session", None, session.to_string().as_bytes())])
}

pub(crate) fn asking(gateway: &Gateway, key: &str, trace: &str) -> Call {
    gateway.post("/v1/realtime/calls").key(key).provider("@main").header("x-gateway-trace-id", trace)
}

pub(crate) async fn call(gateway: &Gateway, key: &str, trace: &str) -> Answer {
    let session = json!({ "type": "realtime", "model": "@main/gpt-realtime", "instructions": "Be kind." });
    asking(gateway, key, trace).body(FORM, parts(&session)).send().await
}

pub(crate) async fn limited(gateway: &Gateway, tokens: u64) -> (String, String) {
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": tokens } });
    gateway.admin().workspace_key("caller", limits).await
}

pub(crate) async fn used(gateway: &Gateway, key: &str, tokens: u64) {
    eventually(&format!("{tokens} tokens are counted"), || async {
        let shown = gateway.admin().get(&format!("/api-keys/{key}")).await.expect(200).json();
        (shown["usage_limits"]["current_usage"] == tokens).then_some(())
    })
    .await;
}

pub(crate) async fn watched(gateway: &Gateway, count: u32) {
    let line = format!("gateway_realtime_calls {count}\n");
    eventually(&line, || async { gateway.metrics().await.contains(&line).then_some(()) }).await;
}

#[tokio::test]
async fn a_call_is_watched_and_counted_as_a_session_is() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    let answer = call(&gateway, &key, "call").await.expect(201);
    assert_eq!((answer.text().as_str(), answer.header("location")), (ANSWER, Some("/v1/realtime/calls/rtc_1")));
    assert_eq!(answer.header("content-type"), Some("application/sdp"));
    let seen = house.upstream.seen();
    assert_eq!(
        seen.iter().map(|seen| seen.target.as_str()).collect::<Vec<_>>(),
        ["/v1/realtime/calls", "/v1/realtime?call_id=rtc_1"]
    );
    assert!(seen.iter().all(|seen| seen.header("authorization") == Some("Bearer sk-managed")), "{seen:?}");
    let made = String::from_utf8_lossy(&seen[0].body).into_owned();
    assert!(made.contains(OFFER) && made.contains(r#""model":"gpt-realtime""#) && made.contains("Be kind."), "{made}");
    assert!(seen[0].header("content-type").is_some_and(|media| media.starts_with("multipart/form-data; boundary=")));
    watched(&gateway, 1).await;
    house.respond("resp_1", 30);
    used(&gateway, &id, 30).await;
    house.send_event(Value::Null);
    let (session, others) = records(&gateway, "call", 3).await;
    assert_eq!((&session["realtime"]["ended"], &session["realtime"]["call_id"]), (&json!("provider"), &json!("rtc_1")));
    assert_eq!(session["realtime"]["totals"]["responses"], 1, "{session}");
    let began = others.iter().find(|record| record["response"]["status"] == 201).expect("that of the call");
    assert_eq!((&began["realtime"]["call_id"], &began["realtime"]["watched"]), (&json!("rtc_1"), &json!(true)));
    assert!(others.iter().any(|record| record["realtime"]["id"] == "resp_1"), "{others:?}");
    assert!(!format!("{session}{others:?}").contains("IN IP4"), "offers are not kept");
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 0, "it was over");
    watched(&gateway, 0).await;
}

#[tokio::test]
async fn a_budget_that_runs_out_hangs_up() {
    stand_at_noon();
    let (gateway, house) = house().await;
    let (_, key) = limited(&gateway, 200).await;
    call(&gateway, &key, "short").await.expect(201);
    house.respond("resp_1", 240);
    house.hung_up().await;
    let (session, _) = records(&gateway, "short", 3).await;
    assert_eq!(session["realtime"]["ended"], "budget_exhausted", "{session}");
    let refused = call(&gateway, &key, "none").await.expect(412).json();
    assert_eq!(refused["error"]["code"], "budget_exhausted", "{refused}");
    assert_eq!(house.asked("/v1/realtime/calls"), 1, "the second never went up");
}

#[tokio::test]
async fn a_key_that_is_taken_away_hangs_up() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    call(&gateway, &key, "gone").await.expect(201);
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    house.hung_up().await;
    let (session, _) = records(&gateway, "gone", 2).await;
    assert_eq!(session["realtime"]["ended"], "revoked", "{session}");
}

#[tokio::test]
async fn silence_and_age_hang_up_and_so_does_a_process_that_leaves() {
    for (flag, ended) in [("--realtime-idle", "idle"), ("--realtime-max-time", "too_long")] {
        let (gateway, house) = house_with(&[flag, "1s"], true).await;
        call(&gateway, WORKSPACE_KEY, ended).await.expect(201);
        house.hung_up().await;
        let (session, _) = records(&gateway, ended, 2).await;
        assert_eq!(session["realtime"]["ended"], ended, "{session}");
    }
    let (mut gateway, house) = house().await;
    call(&gateway, WORKSPACE_KEY, "leaving").await.expect(201);
    gateway.process.signal("TERM");
    house.hung_up().await;
    assert!(gateway.process.exit(std::time::Duration::from_secs(30)).await.success());
}

#[tokio::test]
async fn a_call_that_nobody_can_watch_is_ended_where_somebody_has_to() {
    let (gateway, house) = house_with(&[], false).await;
    let (_, key) = limited(&gateway, 10_000).await;
    let refused = call(&gateway, &key, "limited").await.expect(502).json();
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("could not be watched"), "{refused}");
    house.hung_up().await;
    // Where nothing is to be counted it goes on, and its record says so.
    call(&gateway, WORKSPACE_KEY, "free").await.expect(201);
    let record = eventually("its record", || async {
        let list = gateway.admin().get("/logs?trace_id=free&page_size=5").await.expect(200).json();
        list["data"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let record = gateway.admin().get(&format!("/logs/{record}")).await.expect(200).json();
    assert_eq!((&record["realtime"]["watched"], &record["response"]["status"]), (&json!(false), &json!(201)));
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 1, "only the first");
    // A guardrail has to hear it too.
    let rule = json!({ "default.contains": { "words": ["x"], "operator": "none" }, "deny": true });
    let config = json!({ "provider": "@main", "output_guardrails": [rule] });
    let session = json!({ "model": MODEL });
    let guarded = gateway.post("/v1/realtime/calls").key(WORKSPACE_KEY).config(&config);
    guarded.body(FORM, parts(&session)).send().await.expect(502);
    watched(&gateway, 0).await;
}

#[tokio::test]
async fn no_more_calls_are_watched_than_a_node_may() {
    let (gateway, house) = house_with(&["--realtime-calls", "1"], true).await;
    call(&gateway, WORKSPACE_KEY, "one").await.expect(201);
    let refused = call(&gateway, WORKSPACE_KEY, "two").await.expect(503).text();
    assert!(refused.contains("--realtime-calls"), "{refused}");
    assert_eq!(house.asked("/v1/realtime/calls"), 1, "the second never went up");
    house.send_event(Value::Null);
    watched(&gateway, 0).await;
    call(&gateway, WORKSPACE_KEY, "three").await.expect(201);
}

#[tokio::test]
async fn a_call_has_a_model_that_is_enabled_however_long_it_lasts() {
    let (gateway, house) = house().await;
    let asked = |session: Value| asking(&gateway, WORKSPACE_KEY, "model").body(FORM, parts(&session)).send();
    for (session, field) in [
        (json!({ "model": "gpt-dear" }), "model"),
        (json!({ "model": MODEL, "audio": { "input": { "transcription": { "model": "dear" } } } }), "session.audio"),
    ] {
        let refused = asked(session).await.expect(400).json();
        assert!(refused["error"]["param"].as_str().is_some_and(|param| param.starts_with(field)), "{refused}");
    }
    assert!(house.upstream.seen().is_empty(), "nothing went up");
    asked(json!({ "model": MODEL })).await.expect(201);
    let told = |model: &str| json!({ "type": "session.updated", "session": { "type": "realtime", "model": model } });
    house.send_event(told("gpt-realtime-2025-09-01"));
    house.respond("resp_1", 4);
    house.send_event(told("gpt-dear"));
    house.hung_up().await;
    let (session, others) = records(&gateway, "model", 5).await;
    assert_eq!(session["realtime"]["ended"], "revoked", "{session}");
    assert!(others.iter().any(|record| record["realtime"]["id"] == "resp_1"), "what came before counts: {others:?}");
}

#[tokio::test]
async fn what_is_said_in_a_call_is_judged() {
    let (gateway, mut house) = house().await;
    let rule = json!({ "default.contains": { "words": ["secret"], "operator": "none" }, "deny": true });
    let config = json!({ "provider": "@main", "input_guardrails": [rule], "output_guardrails": [rule] });
    let asked = |instructions: &str| {
        let session = json!({ "model": MODEL, "instructions": instructions });
        gateway.post("/v1/realtime/calls").key(WORKSPACE_KEY).config(&config).body(FORM, parts(&session)).send()
    };
    let refused = asked("tell the secret").await.expect(400).json();
    assert_eq!(refused["error"]["code"], "hooks_failed", "{refused}");
    assert!(house.upstream.seen().is_empty(), "it did not go up");
    asked("be kind").await.expect(201);
    house.send_event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    let said = json!({ "response_id": "resp_1", "item_id": "item_1", "transcript": "the secret" });
    house.send_event(crate::harness::with(json!({ "type": "response.output_audio_transcript.done" }), said));
    let orders = [house.heard.recv().await, house.heard.recv().await].map(|event| event.expect("an order"));
    assert_eq!(
        orders.map(|event| event["type"].as_str().unwrap_or_default().to_owned()),
        ["response.cancel", "conversation.item.delete"]
    );
}

#[tokio::test]
async fn a_response_counts_once_however_many_listen() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    call(&gateway, &key, "shared").await.expect(201);
    let headers =
        [("x-gateway-api-key", key.as_str()), ("x-gateway-provider", "@main"), ("x-gateway-trace-id", "side")];
    let mut side = Socket::open(gateway.proxy, "/v1/realtime?call_id=rtc_1", &headers).await.expect("it opens");
    side.event("session.created").await;
    for n in 0..5 {
        house.respond(&format!("resp_{n}"), 10);
        side.event("response.done").await;
    }
    used(&gateway, &id, 50).await;
    // One that only the client hears counts as well.
    house.send_event(Value::Null);
    watched(&gateway, 0).await;
    let mut alone = Socket::open(gateway.proxy, "/v1/realtime?call_id=rtc_1", &headers).await.expect("it opens");
    alone.event("session.created").await;
    house.respond("resp_5", 7);
    alone.event("response.done").await;
    used(&gateway, &id, 57).await;
}

#[tokio::test]
async fn calls_of_several_targets_are_found_where_they_are() {
    let (gateway, house) = house().await;
    let other = CallHouse::open(true).await;
    let admin = gateway.admin();
    admin.provider("other", "openai", Some(&other.upstream.url())).await;
    let config =
        json!({ "strategy": { "mode": "fallback" }, "targets": [{ "provider": "@main" }, { "provider": "@other" }] });
    let config = admin.config("both", &config).await;
    let named = |path: &str, key: &str| gateway.post(path).key(key).header("x-gateway-config", &config);
    let made = named("/v1/realtime/calls", WORKSPACE_KEY).body(FORM, parts(&json!({ "model": MODEL })));
    let made = made.send().await.expect(201);
    let place = made.header("location").expect("a place").to_owned();
    let bound = place.strip_prefix("/v1/realtime/calls/").expect("here");
    assert!(bound.starts_with("rtc_gw1_"), "{place}");
    let turned =
        json!({ "strategy": { "mode": "fallback" }, "targets": [{ "provider": "@other" }, { "provider": "@main" }] });
    let turned = turned.to_string();
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-config", turned.as_str())];
    let path = format!("/v1/realtime?call_id={bound}");
    let mut side = Socket::open(gateway.proxy, &path, &headers).await.expect("it opens");
    side.event("session.created").await;
    let hangup = gateway.post(&format!("{place}/hangup")).key(WORKSPACE_KEY).header("x-gateway-config", &turned);
    hangup.send().await.expect(200);
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 1);
    assert!(other.upstream.seen().is_empty(), "{:?}", other.upstream.seen());
    // Nobody else finds it.
    let changed = format!("{}x", &place[..place.len() - 1]);
    named(&format!("{changed}/hangup"), WORKSPACE_KEY).send().await.expect(404);
    admin.post("/admin/workspaces", &json!({ "name": "far", "slug": "far" })).await.expect(200);
    let (_, stranger) = admin.workspace_key("stranger", json!({ "workspace_id": "far" })).await;
    let inline = json!({ "provider": "openai", "api_key": "sk-other", "custom_host": house.upstream.url() });
    let foreign = gateway.post(&format!("{place}/hangup")).key(&stranger).config(&inline);
    foreign.send().await.expect(404);
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 1);
    let refused = Socket::open(gateway.proxy, &format!("{path}A"), &headers).await.expect_err("unknown");
    assert_eq!(refused.status, 404);
}

#[tokio::test]
async fn calls_over_sip_are_accepted_watched_and_sent_on() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    let post = |verb: &str, body: &Value| {
        gateway.post(&format!("/v1/realtime/calls/rtc_1/{verb}")).key(&key).provider("@main").json(body).send()
    };
    for (verb, body, field) in [
        ("accept", json!({ "type": "realtime" }), "model"),
        ("accept", json!([]), "the body"),
        ("refer", json!({}), "target_uri"),
        ("refer", json!({ "target_uri": 7 }), "target_uri"),
        ("reject", json!({ "status_code": 200 }), "status_code"),
        ("accept", json!({ "type": "realtime", "model": "gpt-dear" }), "model"),
    ] {
        let refused = post(verb, &body).await.expect(400).json();
        assert_eq!(refused["error"]["param"], field, "{verb} {body}: {refused}");
    }
    let bad = gateway.post("/v1/realtime/calls/rtc%20x/hangup").key(&key).provider("@main").send().await;
    assert_eq!(bad.expect(400).json()["error"]["param"], "call_id");
    assert!(house.upstream.seen().is_empty(), "nothing went up");
    post("accept", &json!({ "type": "realtime", "model": "@main/gpt-realtime" })).await.expect(200);
    let seen = house.upstream.seen();
    assert_eq!(seen[0].json(), json!({ "type": "realtime", "model": MODEL }));
    assert_eq!(seen[1].target, "/v1/realtime?call_id=rtc_1");
    house.respond("resp_1", 12);
    used(&gateway, &id, 12).await;
    post("refer", &json!({ "target_uri": "tel:+14155550123" })).await.expect(200);
    post("reject", &json!({ "status_code": 486 })).await.expect(200);
    post("hangup", &json!({})).await.expect(200);
    for verb in ["refer", "reject", "hangup"] {
        assert_eq!(house.asked(&format!("/v1/realtime/calls/rtc_1/{verb}")), 1, "{verb}");
    }
}

#[tokio::test]
async fn the_key_of_a_browser_opens_a_call_with_its_session() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    let session = json!({ "type": "realtime", "model": MODEL, "instructions": "Be kind." });
    let minted = gateway.post("/v1/realtime/client_secrets").key(&key).provider("@main");
    let minted = minted.json(&json!({ "session": session })).send().await.expect(200).json();
    let secret = minted["value"].as_str().expect("a key");
    let page = |path: &str| gateway.post(path).key(secret);
    let refused = page("/v1/realtime/calls").body(FORM, parts(&json!({ "model": MODEL }))).send().await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "session");
    page("/v1/realtime/calls?model=gpt-dear").body("application/sdp", OFFER).send().await.expect(400);
    page("/v1/realtime/calls/rtc_1/accept").json(&json!({ "model": MODEL })).send().await.expect(401);
    let answer = page("/v1/realtime/calls").body("application/sdp", OFFER).send().await.expect(201);
    assert_eq!(answer.text(), ANSWER);
    let made = String::from_utf8_lossy(&house.upstream.seen()[0].body).into_owned();
    assert!(made.contains("Be kind.") && made.contains(r#""model":"gpt-realtime""#) && made.contains(OFFER), "{made}");
    house.respond("resp_1", 9);
    used(&gateway, &id, 9).await;
}

#[tokio::test]
async fn what_is_no_call_is_refused_by_name() {
    let (gateway, house) = house().await;
    let asked = |media: &str, body: Vec<u8>| asking(&gateway, WORKSPACE_KEY, "bad").body(media, body).send();
    let only = |name: &str, value: &str| form(&[(name, None, value.as_bytes())]);
    for (media, body, field) in [
        ("application/json", b"{}".to_vec(), "content-type"),
        ("application/sdp", b"hello".to_vec(), "sdp"),
        ("application/sdp", OFFER.into(), "session.model"),
        (FORM, only("session", "{}"), "sdp"),
        (FORM, form(&[("sdp", None, OFFER.as_bytes()), ("session", None, b"[]")]), "session"),
        (FORM, parts(&json!({ "model": 7 })), "session.model"),
        (FORM, form(&[("sdp", None, OFFER.as_bytes()), ("other", None, b"x")]), "other"),
    ] {
        let refused = asked(media, body).await.expect(400).json();
        assert_eq!(refused["error"]["param"], field, "{refused}");
    }
    for round in [
        "/v1/proxy/realtime/calls",
        "/v1/openai/v1/realtime/calls",
        "/v1/realtime?model=gpt-realtime",
        "/v1/realtime/",
        "/v1/proxy/realtime?model=gpt-realtime",
        "/v1/openai/v1/realtime?model=gpt-realtime",
    ] {
        let call = gateway.post(round).key(WORKSPACE_KEY).provider("@main").body("application/sdp", OFFER);
        assert!(call.send().await.expect(400).text().contains("/v1/realtime/calls"), "{round}");
    }
    assert!(house.upstream.seen().is_empty(), "nothing went up");
    // The model may stand in the address, as older clients have it.
    let path = format!("/v1/realtime/calls?model={MODEL}");
    let call = gateway.post(&path).key(WORKSPACE_KEY).provider("@main").body("application/sdp", OFFER);
    call.send().await.expect(201);
}
