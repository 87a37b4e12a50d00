//! Streams as they end: cut at every place a provider's can be, silent, too long, and what the client hears meanwhile.

use crate::harness::{Answer, Gateway, Upstream, call::Call, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::time::Duration;

/// A family, what it answers when all goes well, and the units that this uses.
const STREAMS: [(&str, &str, (u64, u64)); 4] = [
    ("deepseek", include_str!("../../providers/tests/golden/openai/stream/upstream.sse"), (19, 10)),
    ("anthropic", include_str!("../../providers/tests/golden/anthropic/stream/upstream.sse"), (25, 15)),
    ("google", include_str!("../../providers/tests/golden/google/stream/upstream.sse"), (4, 7)),
    ("cohere", include_str!("../../providers/tests/golden/cohere/stream/upstream.sse"), (5, 11)),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Client {
    Chat,
    Messages,
    Responses,
}

impl Client {
    const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    fn call(self, gateway: &Gateway, config: &Value) -> Call {
        let model = json!({ "model": "m", "stream": true });
        let asked = json!([{ "role": "user", "content": "Hi" }]);
        let (path, body) = match self {
            Self::Chat => ("/v1/chat/completions", json!({ "messages": asked })),
            Self::Messages => ("/v1/messages", json!({ "messages": asked, "max_tokens": 99 })),
            Self::Responses => ("/v1/responses", json!({ "input": "Hi" })),
        };
        gateway.post(path).config(config).json(&with(model, body))
    }

    /// A family that speaks chat, so that the scripted upstream does, to whichever client.
    fn target(upstream: &Upstream) -> Value {
        with(target(upstream), json!({ "provider": "deepseek" }))
    }

    /// Text, whether it ended as a whole answer does, and whether an error was told.
    fn read(self, answer: &Answer) -> (String, bool, bool) {
        let events: Vec<Value> = answer.events().iter().filter_map(|e| serde_json::from_str(e).ok()).collect();
        let piece = |event: &Value| -> Option<String> {
            let found = match self {
                Self::Chat => &event["choices"][0]["delta"]["content"],
                Self::Messages => &event["delta"]["text"],
                Self::Responses if event["type"] == "response.output_text.delta" => &event["delta"],
                Self::Responses => return None,
            };
            found.as_str().map(str::to_owned)
        };
        let kind = |name: &str| events.iter().any(|event| event["type"] == name);
        let (clean, failed) = match self {
            Self::Chat => (answer.text().contains("data: [DONE]"), events.iter().any(|e| e["error"].is_object())),
            Self::Messages => (kind("message_stop"), kind("error")),
            Self::Responses => (kind("response.completed"), kind("response.failed") || kind("error")),
        };
        (events.iter().filter_map(piece).collect(), clean, failed)
    }
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The body ends as if it were whole.
    Ended,
    /// The connection ends inside the body.
    Closed,
    Reset,
}

/// Tells these events, and is cut as the request's path says not: by `cut`.
async fn cut_after(events: &[&str], cut: Cut) -> Upstream {
    let mut bytes = reply::STREAM.to_vec();
    events.iter().for_each(|event| bytes.extend(reply::chunk(format!("{event}\n\n"))));
    if matches!(cut, Cut::Ended) {
        bytes.extend(reply::LAST_CHUNK);
    }
    Upstream::scripted(move |mut peer| {
        let bytes = bytes.clone();
        async move {
            peer.request().await;
            peer.send(bytes).await;
            match cut {
                Cut::Ended => peer.gone().await,
                Cut::Closed => {}
                Cut::Reset => peer.reset().await,
            }
        }
    })
    .await
}

/// The one record of a trace, as it is listed.
async fn recorded(gateway: &Gateway, trace: &str) -> Value {
    eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().and_then(|rows| rows.first().cloned())
    })
    .await
}

/// What the record of a trace says was used: what went in, what came out.
async fn used(gateway: &Gateway, trace: &str) -> (u64, u64) {
    let row = recorded(gateway, trace).await;
    let [asked, answered, total] =
        ["req_units", "res_units", "total_units"].map(|units| row["metrics"][units].as_u64().unwrap_or(0));
    assert_eq!(total, asked + answered, "{trace}: {row}");
    (asked, answered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_cut_anywhere_is_one_answer_or_one_error() {
    let gateway = Gateway::start().await;
    for (family, whole, told) in STREAMS {
        let whole = whole.replace("\r\n", "\n");
        let events: Vec<&str> = whole.split("\n\n").map(str::trim).filter(|e| !e.is_empty()).collect();
        for client in Client::ALL {
            let mut full = String::new();
            for left in (0..=events.len()).rev() {
                for cut in [Cut::Ended, Cut::Closed, Cut::Reset] {
                    let upstream = cut_after(&events[..left], cut).await;
                    let config = with(target(&upstream), json!({ "provider": family }));
                    let trace = format!("{family}-{client:?}-{left}-{cut:?}");
                    let call = client.call(&gateway, &config).header("x-gateway-trace-id", &trace);
                    let answer = call.send().await;
                    if answer.status != 200 {
                        assert_eq!(answer.status, 502, "{trace}: {}", answer.text());
                        assert!(answer.json()["error"]["message"].is_string(), "{trace}: {}", answer.text());
                        continue;
                    }
                    let (said, clean, failed) = client.read(&answer);
                    assert!(clean != failed, "{trace}: {}", answer.text());
                    // Not every dialect has an end mark beside the end of the body.
                    if left == events.len() && matches!(cut, Cut::Ended) {
                        assert!(clean && !said.is_empty(), "{trace}: {}", answer.text());
                        full = said.clone();
                    }
                    assert!(full.starts_with(&said), "{trace}: {said:?} is not from {full:?}");
                    assert!(!clean || said == full, "{trace}: a whole answer without all of its text");
                    let (asked, answered) = used(&gateway, &trace).await;
                    if clean && left == events.len() {
                        assert_eq!((asked, answered), told, "{trace}");
                    }
                    // What the provider did not come to tell is estimated from what it said.
                    assert!(
                        said.is_empty() || (asked > 0 && answered > 0),
                        "{trace}: {asked}, {answered} for {said:?}"
                    );
                    assert!(asked <= told.0 + 10 && answered <= told.1 + 10, "{trace}: {asked}, {answered}");
                }
            }
        }
    }
}

fn streamed() -> Value {
    with(hello(), json!({ "stream": true }))
}

/// Begins, is silent for `ms`, and goes on to its end.
async fn pausing(ms: u64) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("one ")].concat()).await;
        peer.pause(ms).await;
        peer.send([reply::delta("two"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat()).await;
    })
    .await
}

const COMMENT: &str = ": keep-alive\n\n";

#[tokio::test]
async fn silence_inside_a_stream_is_filled_with_comments() {
    let gateway = Gateway::with(&["--stream-keepalive", "100ms"]).await;
    let upstream = pausing(650).await;
    for client in Client::ALL {
        let answer = client.call(&gateway, &Client::target(&upstream)).send().await.expect(200);
        let (said, clean, failed) = client.read(&answer);
        assert_eq!((said.as_str(), clean, failed), ("one two", true, false), "{client:?}");
        let comments = answer.text().matches(COMMENT).count();
        assert!((2..=6).contains(&comments), "{client:?}: {comments}");
        assert!(answer.text().split("\n\n").all(|e| !e.contains(": keep-alive") || e == ": keep-alive"), "{client:?}");
    }
    let raw = gateway.post("/v1/proxy/chat/completions").config(&target(&upstream)).json(&streamed()).send().await;
    assert_eq!((raw.said().as_str(), raw.text().contains(COMMENT)), ("one two", false), "it passes as it is");
    let quiet = Gateway::with(&["--stream-keepalive", "0"]).await;
    let answer = quiet.chat_through(&upstream).json(&streamed()).send().await.expect(200);
    assert_eq!((answer.said().as_str(), answer.text().contains(COMMENT)), ("one two", false));
}

/// Silent before its first byte, too.
async fn late(ms: u64, then: Vec<u8>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let then = then.clone();
        async move {
            peer.request().await;
            peer.pause(ms).await;
            peer.send(then).await;
        }
    })
    .await
}

const EARLY: &str = "x-gateway-early-keepalive";

#[tokio::test]
async fn comments_before_the_first_content_are_for_those_who_ask() {
    let gateway = Gateway::with(&["--stream-keepalive", "100ms"]).await;
    let upstream = late(450, reply::stream(&["one ", "two"])).await;
    for client in Client::ALL {
        for (asked, least) in [("true", 2), ("false", 0)] {
            let call = client.call(&gateway, &Client::target(&upstream)).header(EARLY, asked);
            let answer = call.send().await.expect(200);
            let (said, clean, failed) = client.read(&answer);
            assert_eq!((said.as_str(), clean, failed), ("one two", true, false), "{client:?}: {}", answer.text());
            let text = answer.text();
            let before = text.split("one ").next().unwrap_or_default().matches(COMMENT).count();
            assert!((least..=if least == 0 { 0 } else { 5 }).contains(&before), "{client:?} {asked}: {before}");
            assert!(answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")));
            assert!(answer.header("x-gateway-trace-id").is_some());
        }
    }
    // A call that is no stream has nothing to carry comments, and what passes through is left as it is.
    let plain = late(250, reply::chat("hi")).await;
    let answer = gateway.chat_through(&plain).header(EARLY, "true").json(&hello()).send().await.expect(200);
    assert_eq!(answer.said(), "hi");
    let call = gateway.post("/v1/proxy/chat/completions").config(&target(&upstream)).header(EARLY, "true");
    assert!(!call.json(&streamed()).send().await.expect(200).text().contains(COMMENT));
    let never = Gateway::with(&["--stream-keepalive", "0"]).await;
    let answer = never.chat_through(&upstream).header(EARLY, "true").json(&streamed()).send().await.expect(200);
    assert_eq!((answer.said().as_str(), answer.text().contains(COMMENT)), ("one two", false));
}

#[tokio::test]
async fn what_fails_after_comments_is_told_in_band_and_may_still_fall_back() {
    let gateway = Gateway::with(&["--stream-keepalive", "100ms"]).await;
    let (failing, good) = (late(350, reply::error(500, &[])).await, late(250, reply::stream(&["good"])).await);
    let whole = late(350, reply::chat("no stream")).await;
    let at_once = Upstream::replying(|_| reply::error(500, &[])).await;
    let silent = late(20_000, Vec::new()).await;
    let slow = with(Client::target(&silent), json!({ "request_timeout": 300 }));
    for client in Client::ALL {
        let ask = async |config: &Value, trace: &str| {
            let call = client.call(&gateway, config).header(EARLY, "true");
            call.header("x-gateway-trace-id", &format!("{trace}-{client:?}")).send().await
        };
        let failing = Client::target(&failing);
        for (config, trace, status, told) in [
            (failing.clone(), "failing", 500, "scripted 500"),
            (slow.clone(), "slow", 408, "300ms"),
            (Client::target(&whole), "whole", 502, "something else"),
        ] {
            let answer = ask(&config, trace).await.expect(200);
            let (said, clean, failed) = client.read(&answer);
            assert!(answer.text().starts_with(COMMENT) && answer.whole, "{client:?} {trace}: {}", answer.text());
            assert_eq!((said.as_str(), clean, failed), ("", false, true), "{client:?} {trace}: {}", answer.text());
            assert!(answer.text().contains(told), "{client:?} {trace}: {}", answer.text());
            let row = recorded(&gateway, &format!("{trace}-{client:?}")).await;
            assert_eq!(row["metrics"]["response_status_code"], status, "{client:?} {trace}: {row}");
        }
        ask(&Client::target(&at_once), "once").await.expect(500);
        let fallback = json!({ "strategy": { "mode": "fallback" }, "targets": [failing, slow, Client::target(&good)] });
        let answer = ask(&fallback, "fallback").await.expect(200);
        let (said, clean, failed) = client.read(&answer);
        assert_eq!((said.as_str(), clean, failed), ("good", true, false), "{client:?}: {}", answer.text());
        let retried = Upstream::in_turn(vec![reply::error(503, &[]), reply::stream(&["again"])]).await;
        let config = with(Client::target(&retried), json!({ "retry": { "attempts": 1 } }));
        let answer = ask(&config, "retried").await.expect(200);
        assert!(answer.text().starts_with(COMMENT), "heard while it waits: {}", answer.text());
        assert_eq!(client.read(&answer), ("again".to_owned(), true, false), "{client:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn who_leaves_while_comments_are_all_there_is_ends_the_call() {
    let gateway = Gateway::with(&["--stream-keepalive", "100ms"]).await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let call = gateway.chat_through(&silent).header(EARLY, "true").header("x-gateway-trace-id", "left");
    let mut answer = call.json(&streamed()).open().await;
    let first = answer.chunk().await.expect("readable").expect("a comment");
    assert_eq!(&first[..], COMMENT.as_bytes());
    drop(answer);
    eventually("the end of the call", || async { (silent.open() == 0).then_some(()) }).await;
    assert_eq!(recorded(&gateway, "left").await["metrics"]["response_status_code"], 499);
}

#[tokio::test]
async fn comments_do_not_keep_a_silent_provider_alive() {
    let gateway = Gateway::with(&["--stream-keepalive", "100ms", "--idle-timeout", "500ms"]).await;
    let upstream = pausing(20_000).await;
    for client in Client::ALL {
        let answer = client.call(&gateway, &Client::target(&upstream)).send().await.expect(200);
        let (said, clean, failed) = client.read(&answer);
        assert_eq!((said.as_str(), clean, failed), ("one ", false, true), "{}", answer.text());
        assert!(answer.text().contains(COMMENT) && answer.text().contains("fell silent"), "{}", answer.text());
        assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&answer.took), "{:?}", answer.took);
    }
}

#[tokio::test]
async fn the_time_for_the_whole_request_holds_to_its_end() {
    let gateway = Gateway::with(&["--total-timeout", "700ms"]).await;
    let dripping = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role()].concat()).await;
        while peer.send(reply::delta("drip ")).await {
            peer.pause(50).await;
        }
    })
    .await;
    for client in Client::ALL {
        let answer = client.call(&gateway, &Client::target(&dripping)).send().await.expect(200);
        let (said, clean, failed) = client.read(&answer);
        assert!(said.starts_with("drip drip ") && !clean && failed, "{}", answer.text());
        assert!(answer.text().contains("700ms"), "{}", answer.text());
        assert!((700..4000).contains(&answer.took.as_millis()), "{:?}", answer.took);
    }
    for (path, kind) in [("/v1/proxy/chat/completions", "application/json"), ("/v1/audio/translations", "audio/wav")] {
        let call = gateway.post(path).config(&target(&dripping)).body(kind, streamed().to_string());
        let answer = call.send().await.expect(200);
        assert!(!answer.whole && answer.took.as_millis() < 4000, "{path}: {:?}", answer.took);
    }
    // One second of back-off would outlast it.
    let failing = Upstream::replying(|_| reply::error(500, &[])).await;
    let config = with(target(&failing), json!({ "retry": { "attempts": 3 } }));
    let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(500);
    assert_eq!((answer.header("x-gateway-retry-attempt-count"), failing.seen().len()), (Some("-1"), 1));
    assert!(answer.took.as_millis() < 600, "{:?}", answer.took);
    // Neither a further try nor a further target once it is over.
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let fallback = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&silent), target(&silent)] });
    for (path, kind) in [("/v1/chat/completions", "application/json"), ("/v1/audio/transcriptions", "audio/wav")] {
        let call = gateway.post(path).config(&fallback).body(kind, hello().to_string());
        let answer = call.send().await.expect(408);
        assert!(answer.text().contains("700ms"), "{path}: {}", answer.text());
        assert!((700..4000).contains(&answer.took.as_millis()), "{path}: {:?}", answer.took);
    }
    assert_eq!(silent.seen().len(), 2);
}
