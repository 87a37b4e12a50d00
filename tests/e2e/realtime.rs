//! Realtime sessions: each response is counted while they last, and refused or ended where a limit says so. The
//! scripted providers here serve the tests of how sessions open, pass frames and end, and know none of these.

use crate::harness::{Gateway, LiveProvider, Said, Socket, WORKSPACE_KEY, eventually, stand_at_noon};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

pub(crate) const PATH: &str = "/v1/realtime?model=gpt-realtime";

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

pub(crate) fn created() -> Value {
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

pub(crate) fn config(provider: &LiveProvider) -> String {
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

/// A provider that never says which model transcribes, and writes down a minute of sound for each buffer that is
/// committed.
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
    // No other session opens any more.
    let config = config(&provider);
    let headers = [("x-gateway-api-key", key.as_str()), ("x-gateway-config", config.as_str())];
    let refused = Socket::open(gateway.proxy, PATH, &headers).await.expect_err("nothing is left");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (412, &json!("budget_exhausted")));
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
