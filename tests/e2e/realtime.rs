//! Realtime sessions: keys, models and limits before they open, each response counted while they last, and their ends.

use crate::harness::{Gateway, LiveProvider, Said, Socket, WORKSPACE_KEY, eventually, stand_at_noon, with};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

const PATH: &str = "/v1/realtime?model=gpt-realtime";

/// What providers of these tests heard, in order.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Value>>>);

impl Heard {
    pub(crate) fn note(&self, event: &Value) {
        self.0.lock().expect("no panic while noting").push(event.clone());
    }

    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().expect("no panic while noting").clone()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.all().iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn created() -> Value {
    let heard = json!({ "input": { "transcription": { "model": "whisper-1" } } });
    let session = json!({ "type": "realtime", "id": "sess_1", "model": "gpt-realtime-2025-08-28", "audio": heard });
    json!({ "type": "session.created", "event_id": "event_0", "session": session })
}

fn begun(id: &str) -> Value {
    json!({ "type": "response.created", "response": { "id": id, "status": "in_progress" } })
}

fn delta(id: &str, text: &str) -> Value {
    json!({ "type": "response.output_text.delta", "response_id": id, "delta": text })
}

fn done(id: &str, status: &str, usage: &Value) -> Value {
    json!({ "type": "response.done", "response": { "id": id, "status": status, "usage": usage } })
}

/// So many tokens of text, half of them in.
fn plain(tokens: u64) -> Value {
    let (input, output) = (tokens / 2, tokens - tokens / 2);
    json!({ "total_tokens": tokens, "input_tokens": input, "output_tokens": output,
        "input_token_details": { "text_tokens": input }, "output_token_details": { "text_tokens": output } })
}

/// Answers the first `response.create` with a response of these tokens, the second with four times as many, and so on.
pub(crate) async fn answering(tokens: u64) -> (LiveProvider, Heard) {
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            socket.say(&created()).await;
            let mut count = 0;
            loop {
                match socket.next().await {
                    Said::Event(event) => {
                        heard.note(&event);
                        if event["type"] == "response.create" {
                            count += 1;
                            let id = format!("resp_{count}");
                            for said in [
                                begun(&id),
                                delta(&id, "hello"),
                                done(&id, "completed", &plain(tokens * count * count)),
                            ] {
                                socket.say(&said).await;
                            }
                        }
                    }
                    Said::Close(told) => {
                        heard.note(&json!({ "closed": told.map(|(code, _)| code) }));
                    }
                    Said::Gone => return,
                    _ => {}
                }
            }
        }
    })
    .await;
    (provider, heard)
}

fn config(provider: &LiveProvider) -> String {
    json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": provider.url() }).to_string()
}

pub(crate) async fn open(gateway: &Gateway, provider: &LiveProvider, key: &str, trace: &str) -> Socket {
    let config = config(provider);
    let headers = [("x-gateway-api-key", key), ("x-gateway-config", config.as_str()), ("x-gateway-trace-id", trace)];
    Socket::open(gateway.proxy, PATH, &headers).await.expect("it opens")
}

pub(crate) fn create() -> Value {
    json!({ "type": "response.create" })
}

/// The records of a trace, by their operation: that of the session, and those of its parts in order.
pub(crate) async fn records(gateway: &Gateway, trace: &str, count: usize) -> (Value, Vec<Value>) {
    let admin = gateway.admin();
    let rows = eventually(&format!("{count} records of {trace}"), || async {
        let list = admin.get(&format!("/logs?trace_id={trace}&page_size=50")).await.expect(200).json();
        let rows = list["data"].as_array().expect("rows").clone();
        assert!(rows.len() <= count, "{list}");
        (rows.len() == count).then_some(rows)
    })
    .await;
    let mut all = Vec::new();
    for row in rows {
        all.push(admin.get(&format!("/logs/{}", row["id"].as_str().expect("an id"))).await.expect(200).json());
    }
    all.reverse();
    let at = all.iter().position(|record| !record["realtime"]["totals"].is_null()).expect("the session's");
    let session = all.remove(at);
    (session, all)
}

fn cents(record: &Value) -> f64 {
    record["metrics"]["cost"].as_f64().unwrap_or_else(|| panic!("no cost: {record}"))
}

fn near(told: f64, cents: f64) {
    assert!((told - cents).abs() < 1e-9, "{told} for {cents}");
}

#[tokio::test]
async fn usage_and_cost_of_a_session_are_the_sum_by_hand() {
    let gateway = Gateway::start().await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        socket.say(&created()).await;
        socket.event("response.create").await;
        let first = json!({
            "total_tokens": 1250, "input_tokens": 1000, "output_tokens": 250,
            "input_token_details": { "text_tokens": 600, "audio_tokens": 400, "cached_tokens": 300,
                "cached_tokens_details": { "text_tokens": 200, "audio_tokens": 100 } },
            "output_token_details": { "text_tokens": 50, "audio_tokens": 200 },
        });
        let transcript = json!({
            "type": "conversation.item.input_audio_transcription.completed", "item_id": "item_1", "transcript": "hi",
            "usage": { "type": "duration", "seconds": 3.5 },
        });
        for said in [begun("resp_1"), transcript.clone(), done("resp_1", "completed", &first), transcript] {
            socket.say(&said).await;
        }
        socket.event("response.create").await;
        let second = json!({
            "total_tokens": 1260, "input_tokens": 1250, "output_tokens": 10,
            "input_token_details": { "text_tokens": 850, "audio_tokens": 400, "cached_tokens": 1024,
                "cached_tokens_details": { "text_tokens": 704, "audio_tokens": 320 } },
            "output_token_details": { "text_tokens": 0, "audio_tokens": 10 },
        });
        for said in [begun("resp_2"), done("resp_2", "cancelled", &second)] {
            socket.say(&said).await;
        }
        socket.end().await;
    })
    .await;
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1_000_000 } });
    let (id, key) = gateway.admin().workspace_key("speaker", limits).await;
    let mut client = open(&gateway, &provider, &key, "sum").await;
    client.event("session.created").await;
    client.say(&create()).await;
    let told = client.event("response.done").await;
    assert_eq!(told["response"]["usage"]["total_tokens"], 1250, "it passes as it came");
    client.say(&create()).await;
    client.event("response.done").await;
    client.close(1000, "bye").await;
    assert_eq!(client.end().await.code(), Some(1000));

    let (session, parts) = records(&gateway, "sum", 4).await;
    assert_eq!(session["response"]["status"], 101);
    let note = &session["realtime"];
    assert_eq!((&note["ended"], &note["closed_by"]), (&json!("client"), &json!("client")), "{note}");
    assert_eq!((&note["close_code"], &note["close_reason"]), (&json!(1000), &json!("bye")), "{note}");
    let totals = json!({
        "responses": 2, "transcripts": 1, "denied": 0, "events_up": 2, "events_down": 7, "tokens": 2510,
    });
    assert_eq!(note["totals"], totals);
    assert_eq!(session["metrics"]["total_units"].as_u64().unwrap_or(0), 0, "its tokens are those of its parts");

    let of = |id: &str| parts.iter().find(|part| part["realtime"]["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let [first, second, transcript] = ["resp_1", "resp_2", "item_1"].map(of);
    assert_eq!(second["realtime"]["status"], "cancelled");
    // 400 × 4 + 300 × 32 + 200 × 0.4 + 100 × 0.4 + 50 × 16 + 200 × 64 dollars for a million.
    near(cents(first), 2.492);
    // 146 × 4 + 80 × 32 + 704 × 0.4 + 320 × 0.4 + 10 × 64.
    near(cents(second), 0.41936);
    // 3.5 seconds at 0.006 dollars a minute, though it was told twice.
    near(cents(transcript), 0.035);
    let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
    assert_eq!(shown["usage_limits"]["current_usage"], 2510, "{shown}");
}

/// A provider that never says which model transcribes, and writes down a minute of sound for each buffer that is committed.
#[tokio::test]
async fn a_transcript_costs_what_the_model_costs_that_the_client_asked_for() {
    let gateway = Gateway::start().await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        let session = json!({ "type": "realtime", "id": "sess_1", "model": "gpt-realtime" });
        socket.say(&json!({ "type": "session.created", "session": session })).await;
        let mut count = 0;
        loop {
            let Said::Event(event) = socket.next().await else { return };
            let answer = match event["type"].as_str() {
                Some("input_audio_buffer.commit") => {
                    count += 1;
                    json!({ "type": "conversation.item.input_audio_transcription.completed", "transcript": "hi",
                        "item_id": format!("item_{count}"), "usage": { "type": "duration", "seconds": 60 } })
                }
                _ if event["event_id"] == "bad" => {
                    json!({ "type": "error", "error": { "code": "invalid_value", "event_id": "bad" } })
                }
                _ => continue,
            };
            socket.say(&answer).await;
        }
    })
    .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "heard").await;
    client.event("session.created").await;
    let transcribe = |id: &str, model: &str| {
        let heard = json!({ "input": { "transcription": { "model": model } } });
        json!({ "type": "session.update", "event_id": id, "session": { "type": "realtime", "audio": heard } })
    };
    let heard = "conversation.item.input_audio_transcription.completed";
    for (id, model) in [("a", "whisper-1"), ("b", "gpt-live-transcribe"), ("bad", "gpt-realtime"), ("c", "whisper-1")] {
        client.say(&transcribe(id, model)).await;
        if id == "bad" {
            client.event("error").await;
            continue;
        }
        client.say(&json!({ "type": "input_audio_buffer.commit" })).await;
        client.event(heard).await;
    }
    client.close(1000, "").await;
    client.end().await;
    let (_, parts) = records(&gateway, "heard", 4).await;
    let told: Vec<_> =
        parts.iter().map(|part| (part["metrics"]["ai_model"].as_str().unwrap_or_default(), cents(part))).collect();
    let names: Vec<_> = told.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["whisper-1", "gpt-live-transcribe", "whisper-1"], "{parts:?}");
    for ((_, told), cents) in told.iter().zip([0.6, 1.7, 0.6]) {
        assert!((told - cents).abs() < 1e-4, "{told} for {cents}");
    }
}

#[tokio::test]
async fn a_budget_that_runs_out_ends_a_session_by_rule() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(60).await;
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 200 } });
    let (_, key) = gateway.admin().workspace_key("short", limits).await;
    let mut client = open(&gateway, &provider, &key, "short").await;
    let bounded = json!({ "type": "response.create", "response": { "max_output_tokens": 20 } });
    client.say(&bounded).await;
    client.event("response.done").await;
    client.say(&bounded).await;
    client.event("response.done").await;
    // The one that ran comes to its end, and nothing after it.
    let error = client.event("error").await;
    assert_eq!(error["error"]["code"], "budget_exhausted", "{error}");
    client.say(&bounded).await;
    assert_eq!(client.end().await.code(), Some(1008));
    eventually("the provider hears the end", || async { (heard.all().last()?["closed"] == 1000).then_some(()) }).await;
    assert_eq!(heard.kinds().iter().filter(|kind| *kind == "response.create").count(), 2);
    let (session, parts) = records(&gateway, "short", 3).await;
    assert_eq!(session["realtime"]["ended"], "budget_exhausted", "{session}");
    assert_eq!((&session["realtime"]["closed_by"], parts.len()), (&json!("gateway"), 2));
    // And none opens any more.
    let config = config(&provider);
    let headers = [("x-gateway-api-key", key.as_str()), ("x-gateway-config", config.as_str())];
    let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("nothing is left");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (412, &json!("budget_exhausted")));
}

/// Holds each response until it is told to go on.
pub(crate) async fn holding() -> (LiveProvider, Heard, tokio::sync::watch::Sender<u32>) {
    let heard = Heard::default();
    let (go, goes) = tokio::sync::watch::channel(0);
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let (heard, mut goes) = (noted.clone(), goes.clone());
        async move {
            socket.say(&created()).await;
            let mut ended = 0;
            let mut running = Vec::new();
            loop {
                tokio::select! {
                    said = socket.next() => match said {
                        Said::Event(event) => {
                            heard.note(&event);
                            if event["type"] == "response.create" {
                                running.push(format!("resp_{}", running.len() + 1));
                                let id = running.last().expect("one");
                                socket.say(&begun(id)).await;
                                socket.say(&delta(id, &"word ".repeat(20))).await;
                            }
                        }
                        Said::Close(told) => heard.note(&json!({ "closed": told.map(|(code, _)| code) })),
                        Said::Gone => {
                            heard.note(&json!({ "gone": true }));
                            return;
                        }
                        _ => {}
                    },
                    _ = goes.changed() => {
                        while ended < *goes.borrow() as usize {
                            ended += 1;
                            socket.say(&done(&format!("resp_{ended}"), "completed", &plain(10))).await;
                        }
                    }
                }
            }
        }
    })
    .await;
    (provider, heard, go)
}

#[tokio::test]
async fn a_response_beyond_a_limit_is_refused_and_the_session_goes_on() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (provider, heard, go) = holding().await;
    let limits = json!({ "rate_limits": [{ "type": "tokens", "unit": "rpw", "value": 1_000 }] });
    let (_, key) = gateway.admin().workspace_key("k", limits).await;
    let mut client = open(&gateway, &provider, &key, "beyond").await;
    let large =
        |id: &str| json!({ "type": "response.create", "event_id": id, "response": { "max_output_tokens": 600 } });
    client.say(&large("one")).await;
    client.event("response.created").await;
    client.say(&large("two")).await;
    let error = client.event("error").await;
    let told = &error["error"];
    assert_eq!((&told["code"], &told["event_id"]), (&json!("rate_limit_exceeded"), &json!("two")), "{error}");
    assert_eq!(heard.kinds(), ["response.create"], "it did not go up");
    go.send_replace(1);
    client.event("response.done").await;
    client.say(&large("three")).await;
    client.event("response.created").await;
    go.send_replace(2);
    client.event("response.done").await;
    client.close(1000, "").await;
    client.end().await;
    let (session, parts) = records(&gateway, "beyond", 3).await;
    assert_eq!((&session["realtime"]["totals"]["denied"], parts.len()), (&json!(1), 2));
    let metrics = gateway.metrics().await;
    for line in [
        "gateway_realtime_turns_total{outcome=\"denied\"} 1",
        "gateway_realtime_turns_total{outcome=\"settled\"} 2",
        "gateway_realtime_ended_total{why=\"client\"} 1",
        "gateway_realtime_messages_total{from=\"client\"} 3",
        "gateway_realtime_sessions 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn a_response_that_begins_by_itself_is_cancelled_where_limits_refuse_it() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            socket.say(&created()).await;
            socket.say(&begun("resp_1")).await;
            socket.say(&begun("resp_2")).await;
            let cancel = socket.event("response.cancel").await;
            heard.note(&cancel);
            socket.say(&done("resp_2", "cancelled", &plain(4))).await;
            socket.say(&done("resp_1", "completed", &plain(1_200))).await;
            heard.note(&json!({ "closed": socket.end().await.code() }));
        }
    })
    .await;
    // A response of which nobody knows how long it will be holds 1,000.
    let limits = json!({ "rate_limits": [{ "type": "tokens", "unit": "rpw", "value": 1_100 }] });
    let (_, key) = gateway.admin().workspace_key("k", limits).await;
    let mut client = open(&gateway, &provider, &key, "voice").await;
    let error = client.event("error").await;
    assert_eq!(error["error"]["code"], "rate_limit_exceeded", "{error}");
    assert_eq!(client.end().await.code(), Some(1008));
    eventually("the provider hears the end", || async { (heard.all().len() == 2).then_some(()) }).await;
    assert_eq!(heard.all()[0]["response_id"], "resp_2");
    let (session, parts) = records(&gateway, "voice", 3).await;
    assert_eq!(session["realtime"]["ended"], "rate_limit_exceeded", "{session}");
    let tokens: Vec<_> = parts.iter().map(|part| part["metrics"]["total_units"].as_u64()).collect();
    assert_eq!(tokens.iter().flatten().sum::<u64>(), 1_204, "what it used until then counts: {tokens:?}");
}

#[tokio::test]
async fn models_that_may_not_be_used_do_not_go_up() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/integration-models", &models).await.expect(200);
    let key = ("x-gateway-api-key", WORKSPACE_KEY);
    let refused =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-dear", &[key]).await.expect_err("not this one");
    assert_eq!(refused.status, 400, "{}", refused.body);
    let mut client =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-realtime", &[key]).await.expect("this one");
    assert_eq!(provider.seen()[0].target, "/v1/realtime?model=gpt-realtime", "the slug is for the gateway");
    for (id, update) in [
        ("a", json!({ "type": "session.update", "session": { "model": "gpt-dear" } })),
        (
            "b",
            json!({ "type": "session.update", "session": { "audio": { "input": { "transcription": { "model": "dear" } } } } }),
        ),
        ("c", json!({ "type": "response.create", "response": { "model": "gpt-dear" } })),
        (
            "d",
            json!({ "type": "transcription_session.update", "session": { "input_audio_transcription": { "model": "dear" } } }),
        ),
    ] {
        client.say(&with(update, json!({ "event_id": id }))).await;
        let error = client.event("error").await;
        assert_eq!((&error["error"]["event_id"], &error["error"]["code"]), (&json!(id), &json!("model_not_permitted")));
    }
    client.say(&json!({ "type": "session.update", "session": { "model": "gpt-realtime" } })).await;
    client.say(&create()).await;
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["session.update", "response.create"]);
    client.close(1000, "").await;
}

#[tokio::test]
async fn a_session_is_led_to_no_model_that_its_key_may_not_call() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let (id, key) = gateway.admin().workspace_key("held", json!({ "allowed_models": ["gpt-realtime"] })).await;
    let key = ("x-gateway-api-key", key.as_str());
    let refused =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-dear", &[key]).await.expect_err("not this one");
    assert_eq!(refused.status, 403, "{}", refused.body);
    let mut client =
        Socket::open(gateway.proxy, "/v1/realtime?model=@main/gpt-realtime", &[key]).await.expect("this one");
    let led = json!({ "type": "session.update", "event_id": "a", "session": { "model": "gpt-dear" } });
    client.say(&led).await;
    let error = client.event("error").await;
    assert_eq!((&error["error"]["event_id"], &error["error"]["code"]), (&json!("a"), &json!("model_not_permitted")));
    client.say(&create()).await;
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["response.create"]);
    // In force in the session that is open.
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "allowed_models": ["other"] })).await.expect(200);
    client.say(&create()).await;
    client.event("error").await;
    assert_eq!(heard.kinds(), ["response.create"]);
}

#[tokio::test]
async fn a_browser_brings_its_key_among_its_protocols() {
    let gateway = Gateway::start().await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        socket.say(&created()).await;
        socket.end().await;
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let (_, key) = gateway.admin().workspace_key("page", json!({})).await;
    let offered = format!("realtime, openai-insecure-api-key.{key}, openai-beta.realtime-v1");
    let headers = [("sec-websocket-protocol", offered.as_str()), ("openai-beta", "realtime=v1")];
    let headers = [&headers[..], &[("sec-websocket-extensions", "permessage-deflate")]].concat();
    let opened = Socket::opened(gateway.proxy, "/v1/realtime?model=%40main%2Fgpt-realtime", &headers).await;
    let (mut client, chosen) = opened.expect("it opens");
    assert_eq!(chosen.as_deref(), Some("realtime"));
    client.event("session.created").await;
    let seen = provider.seen().pop().expect("it went up");
    assert_eq!(seen.header("sec-websocket-protocol"), Some("realtime, openai-beta.realtime-v1"));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"));
    assert_eq!((seen.header("openai-beta"), seen.header("sec-websocket-extensions")), (Some("realtime=v1"), None));
    assert!(!format!("{seen:?}").contains(&key), "the key stays here");
    client.close(1000, "").await;
    for protocol in ["realtime, openai-insecure-api-key.gw_nobody", "realtime"] {
        let headers = [("sec-websocket-protocol", protocol)];
        let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("nobody's");
        assert_eq!((refused.status, refused.body["error"]["message"].is_string()), (401, true), "{}", refused.body);
    }
}

#[tokio::test]
async fn clients_of_azure_open_sessions_by_their_own_paths() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(30).await;
    let integration = json!({
        "name": "azure", "slug": "azure-integration", "ai_provider_id": "azure-openai", "key": "azure-key",
        "create_default_provider": false,
        "configurations": { "custom_host": format!("{}/openai", provider.root()), "azure_api_version": "2025-04-01-preview" },
    });
    gateway.admin().post("/integrations", &integration).await.expect(200);
    let named = json!({ "name": "azure", "slug": "azure", "integration_id": "azure-integration" });
    gateway.admin().post("/providers", &named).await.expect(200);
    for (path, seen_path) in [
        ("/v1/openai/realtime?api-version=2025-04-01-preview&deployment=gpt-realtime", "/openai/realtime?"),
        ("/v1/realtime?model=gpt-realtime", "/openai/realtime?"),
        ("/v1/openai/v1/realtime?model=gpt-realtime", "/openai/v1/realtime?"),
    ] {
        let headers = [("api-key", WORKSPACE_KEY), ("x-gateway-provider", "@azure")];
        let trace = format!("azure-{}", path.len());
        let headers = [&headers[..], &[("x-gateway-trace-id", trace.as_str())]].concat();
        let mut client = Socket::open(gateway.proxy, path, &headers).await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        client.say(&create()).await;
        client.event("response.done").await;
        client.close(1000, "").await;
        client.end().await;
        let seen = provider.seen().pop().expect("it went up");
        assert!(seen.target.starts_with(seen_path), "{path}: {}", seen.target);
        assert_eq!(seen.header("api-key"), Some("azure-key"), "{path}");
        let (_, parts) = records(&gateway, &trace, 2).await;
        assert_eq!(parts[0]["metrics"]["total_units"], 30, "{path}: {}", parts[0]);
    }
}

#[tokio::test]
async fn ends_are_told_both_ways() {
    let gateway = Gateway::start().await;
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            socket.say(&created()).await;
            match socket.next().await {
                Said::Event(event) if event["type"] == "end" => {
                    socket.close(4002, "enough").await;
                    heard.note(&json!({ "closed": socket.end().await.code() }));
                }
                Said::Event(event) if event["type"] == "die" => drop(socket),
                Said::Close(told) => heard.note(&json!({ "closed": told })),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "client-ends").await;
    client.event("session.created").await;
    client.close(4001, "over").await;
    assert_eq!(client.end().await.code(), Some(4001), "its own word comes back");
    eventually("the code comes up", || async { (heard.all() == [json!({ "closed": [4001, "over"] })]).then_some(()) })
        .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "provider-ends").await;
    client.say(&json!({ "type": "end" })).await;
    assert_eq!(client.end().await, Said::Close(Some((4002, "enough".to_owned()))));
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "provider-dies").await;
    client.say(&json!({ "type": "die" })).await;
    assert_eq!(client.end().await.code(), Some(1011));
    for (trace, ended, by, code) in [
        ("client-ends", "client", "client", 4001),
        ("provider-ends", "provider", "provider", 4002),
        ("provider-dies", "provider_gone", "provider", 1011),
    ] {
        let (session, _) = records(&gateway, trace, 1).await;
        let note = &session["realtime"];
        assert_eq!(
            (&note["ended"], &note["closed_by"], &note["close_code"]),
            (&json!(ended), &json!(by), &json!(code))
        );
    }
}

#[tokio::test]
async fn a_client_that_vanishes_pays_for_what_was_said_until_then() {
    let gateway = Gateway::start().await;
    let (provider, heard, _go) = holding().await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "vanished").await;
    client.say(&create()).await;
    client.event("response.output_text.delta").await;
    drop(client);
    eventually("the provider hears of it", || async { (heard.all().last()?["gone"] == true).then_some(()) }).await;
    assert_eq!(heard.all()[1]["closed"], 1001, "{:?}", heard.all());
    let (session, parts) = records(&gateway, "vanished", 2).await;
    assert_eq!((&session["fault"], &session["realtime"]["ended"]), (&json!("client_gone"), &json!("client_gone")));
    let part = &parts[0];
    assert_eq!(part["realtime"]["status"], "cut", "{part}");
    assert_eq!(part["metrics"]["res_units"], 25, "a token for four of its hundred characters: {part}");
}

#[tokio::test]
async fn what_is_no_frame_or_no_event_does_not_pass() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    let mask = [1, 2, 3, 4];
    let masked = |bytes: &[u8]| bytes.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect::<Vec<u8>>();
    let frame = |first: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("short");
        [&[first, 0x80 | length][..], &mask, &masked(payload)].concat()
    };
    for (what, bytes, code) in [
        ("unmasked", vec![0x81, 2, b'{', b'}'], 1002),
        ("a reserved bit", frame(0xc1, b"{}"), 1002),
        ("of no known kind", frame(0x83, b"{}"), 1002),
        ("binary", frame(0x82, b"{}"), 1003),
        ("no UTF-8", frame(0x81, &[0xff, 0xfe]), 1007),
        ("huge", [&[0x81, 0xff][..], &(17_u64 << 20).to_be_bytes(), &mask].concat(), 1009),
        ("goes on with nothing", frame(0x80, b"{}"), 1002),
        ("half a code", frame(0x88, &[3]), 1002),
    ] {
        let mut client = open(&gateway, &provider, WORKSPACE_KEY, "foreign").await;
        client.event("session.created").await;
        client.bytes().write_all(&bytes).await.expect("the gateway reads");
        assert_eq!(client.end().await.code(), Some(code), "{what}");
    }
    assert!(heard.kinds().iter().all(String::is_empty), "nothing went up but ends: {:?}", heard.all());
    // What is no event is told of, and the session goes on.
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "goes-on").await;
    for text in ["", "{", "[]", r#"{"type":"x","type":"response.create"}"#] {
        client.send(Message::text(text)).await;
        let error = client.event("error").await;
        assert_eq!(error["error"]["code"], "invalid_event", "{text}");
    }
    client.send(Message::text(r#"{"type":"session.update","event_id":"mine","session":{"model":5}}"#)).await;
    let error = client.event("error").await["error"].clone();
    let told = (&error["code"], &error["event_id"], &error["message"]);
    let message = json!("`session.model` of an event must be a string");
    assert_eq!(told, (&json!("invalid_event"), &json!("mine"), &message));
    // A message in pieces with a ping among them is one message.
    let text = create().to_string();
    let (one, two) = text.as_bytes().split_at(9);
    let pieces = [frame(0x01, one), frame(0x89, b"ping"), frame(0x80, two)].concat();
    client.bytes().write_all(&pieces).await.expect("the gateway reads");
    client.event("response.done").await;
    assert_eq!(heard.kinds().last().map(String::as_str), Some("response.create"));
    client.close(1000, "").await;
}

#[tokio::test]
async fn pings_are_answered_by_the_other_side() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(4).await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "ping").await;
    client.event("session.created").await;
    client.send(Message::Ping(b"there?".to_vec().into())).await;
    assert_eq!(client.next().await, Said::Pong(b"there?".to_vec()));
    client.close(1000, "").await;
}

#[tokio::test]
async fn large_messages_pass_whole_and_a_client_that_does_not_read_is_let_go() {
    let gateway = Gateway::with(&["--idle-timeout", "1s"]).await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        let asked = socket.event("input_audio_buffer.append").await;
        let sound = asked["audio"].as_str().expect("sound").to_owned();
        socket.say(&json!({ "type": "response.output_audio.delta", "response_id": "r", "delta": sound })).await;
        // More than all buffers between here and there.
        while socket.say(&json!({ "type": "response.output_audio.delta", "response_id": "r", "delta": sound })).await {}
    })
    .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "slow").await;
    let sound = "A".repeat(3 << 20);
    client.say(&json!({ "type": "input_audio_buffer.append", "audio": sound })).await;
    let back = client.next().await.event();
    assert_eq!(back["delta"].as_str().map(str::len), Some(3 << 20));
    let (session, _) = records(&gateway, "slow", 1).await;
    assert_eq!(session["realtime"]["ended"], "client_gone", "{session}");
    eventually("nothing is held", || async {
        gateway.metrics().await.contains("gateway_buffered_bytes 0").then_some(())
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn silence_and_age_end_a_session() {
    let (provider, _) = answering(4).await;
    for (flag, ended) in [("--realtime-idle", "idle"), ("--realtime-max-time", "too_long")] {
        let gateway = Gateway::with(&[flag, "1s"]).await;
        let mut client = open(&gateway, &provider, WORKSPACE_KEY, ended).await;
        assert_eq!(client.end().await.code(), Some(1001), "{flag}");
        let (session, _) = records(&gateway, ended, 1).await;
        assert_eq!((&session["realtime"]["ended"], &session["realtime"]["close_code"]), (&json!(ended), &json!(1001)));
    }
}

#[tokio::test]
async fn a_key_that_is_taken_away_ends_its_sessions() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(4).await;
    let (id, key) = gateway.admin().workspace_key("gone", json!({})).await;
    let mut client = open(&gateway, &provider, &key, "revoked").await;
    client.event("session.created").await;
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!(client.end().await.code(), Some(1008));
    let (session, _) = records(&gateway, "revoked", 1).await;
    assert_eq!(session["realtime"]["ended"], "revoked");
}

#[tokio::test]
async fn a_process_that_leaves_ends_quiet_sessions_and_waits_for_responses() {
    let mut gateway = Gateway::start().await;
    let (provider, _, go) = holding().await;
    let mut quiet = open(&gateway, &provider, WORKSPACE_KEY, "quiet").await;
    quiet.event("session.created").await;
    let (busy_provider, _, busy_go) = holding().await;
    let mut busy = open(&gateway, &busy_provider, WORKSPACE_KEY, "busy").await;
    busy.say(&create()).await;
    busy.event("response.created").await;
    gateway.process.signal("TERM");
    assert_eq!(quiet.end().await.code(), Some(1001));
    busy_go.send_replace(1);
    busy.event("response.done").await;
    assert_eq!(busy.end().await.code(), Some(1001));
    drop((quiet, busy, go));
    assert!(gateway.process.exit(std::time::Duration::from_secs(30)).await.success());
}

#[tokio::test]
async fn an_extension_that_nobody_asked_for_is_no_session() {
    let gateway = Gateway::start().await;
    let headers = &[("sec-websocket-extensions", "permessage-deflate")];
    let provider = LiveProvider::answering(headers, |mut socket| async move {
        socket.end().await;
    })
    .await;
    let config = config(&provider);
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-config", config.as_str())];
    let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("frames that nobody could read");
    assert_eq!(refused.status, 502, "{}", refused.body);
}
