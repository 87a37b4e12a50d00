//! Guardrails on answers that stream: what leaves, what does not, and how the client is told.

use crate::guardrails::record;
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn guarded(upstream: &Upstream, guardrails: Value) -> Value {
    with(target(upstream), Value::Object([("output_guardrails".to_owned(), guardrails)].into_iter().collect()))
}

fn forbids(word: &str, actions: Value) -> Value {
    with(json!({ "default.contains": { "words": [word], "operator": "none" } }), actions)
}

fn redacts(rule: &str) -> Value {
    json!({ "default.regexReplace": { "rule": rule, "redactText": "[X]" } })
}

fn deny() -> Value {
    json!({ "deny": true })
}

pub(crate) fn asks() -> Value {
    with(hello(), json!({ "stream": true }))
}

pub(crate) async fn says(texts: &[&str]) -> Upstream {
    let stream = reply::stream(texts);
    Upstream::replying(move |_| stream.clone()).await
}

/// Says the first text, and the others once it had time to go on.
async fn says_by_and_by(texts: &[&str]) -> Upstream {
    let (first, rest) = texts.split_first().expect("a text");
    let head = [reply::STREAM, &reply::role(), &reply::delta(first)].concat();
    let mut tail: Vec<u8> = rest.iter().flat_map(|text| reply::delta(text)).collect();
    tail.extend([reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat());
    let parts = std::sync::Arc::new((head, tail));
    Upstream::scripted(move |mut peer| {
        let parts = parts.clone();
        async move {
            while peer.request().await.is_some() {
                peer.send(&parts.0).await;
                peer.pause(100).await;
                if !peer.send(&parts.1).await {
                    return;
                }
            }
        }
    })
    .await
}

async fn ask(gateway: &Gateway, config: &Value) -> Answer {
    gateway.chat().config(config).json(&asks()).send().await
}

pub(crate) fn is_done(answer: &Answer) -> bool {
    answer.text().contains("[DONE]")
}

#[tokio::test]
async fn no_character_of_a_forbidden_word_leaves_however_it_is_cut() {
    let gateway = Gateway::start().await;
    let word = "secret";
    for at in 0..=word.len() {
        let (head, tail) = word.split_at(at);
        for before in ["", "all is well, "] {
            let texts = [before, head, tail, " and more"];
            let upstream = if before.is_empty() { says(&texts).await } else { says_by_and_by(&texts).await };
            let answer = ask(&gateway, &guarded(&upstream, json!([forbids(word, deny())]))).await;
            if before.is_empty() {
                assert_eq!(answer.status, 446, "nothing had left at {at}: {}", answer.text());
                assert_eq!(answer.json()["error"]["type"], "hooks_failed");
                continue;
            }
            let answer = answer.expect(200);
            assert_eq!(answer.said(), before, "at {at}: {}", answer.text());
            assert!(!is_done(&answer) && answer.text().contains("hooks_failed"), "at {at}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn what_passes_arrives_as_it_came() {
    let gateway = Gateway::start().await;
    let texts = ["one ", "two", " three"];
    let upstream = says(&texts).await;
    let plain = ask(&gateway, &target(&upstream)).await.expect(200);
    let lists = [
        json!([forbids("secret", deny())]),
        json!([forbids("secret", with(deny(), json!({ "stream": "hold" })))]),
        json!([{ "default.wordCount": { "minWords": 1 } }]),
        json!([redacts("nothing of it")]),
    ];
    for list in lists {
        let answer = ask(&gateway, &guarded(&upstream, list.clone())).await.expect(200);
        assert_eq!(answer.text(), plain.text(), "{list}");
    }
}

#[tokio::test]
async fn a_held_answer_falls_back_and_a_denied_one_is_clean() {
    let gateway = Gateway::start().await;
    let (bad, good) = (says(&["a long answer ", "with a sec", "ret"]).await, says(&["fine"]).await);
    let hold = guarded(&bad, json!([forbids("secret", with(deny(), json!({ "stream": "hold" })))]));
    let denied = ask(&gateway, &hold).await.expect(446);
    assert_eq!(denied.json()["error"]["type"], "hooks_failed");
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [hold.clone(), target(&good)] });
    assert_eq!(ask(&gateway, &config).await.expect(200).said(), "fine");
    let soft = guarded(&bad, json!([forbids("secret", json!({ "stream": "hold" }))]));
    let answer = ask(&gateway, &soft).await.expect(246);
    assert_eq!((answer.said().as_str(), is_done(&answer)), ("a long answer with a secret", true));
    // One that holds holds the stream for all.
    let both = guarded(&bad, json!([{ "default.endsWith": { "suffix": "secret" }, "deny": true }, redacts("long")]));
    assert_eq!(ask(&gateway, &both).await.expect(200).said(), "a [X] answer with a secret");
    let retry = with(hold, json!({ "retry": { "attempts": 1, "on_status_codes": [446] } }));
    let answer = ask(&gateway, &retry).await.expect(446);
    assert_eq!(answer.header("x-gateway-retry-attempt-count"), Some("-1"));
}

#[tokio::test]
async fn what_is_redacted_streamed_is_what_is_redacted_whole() {
    let gateway = Gateway::start().await;
    let text = "mail bob@example.com, ann@x.org or nobody; 4111 1111 and bob@example.com again";
    let list = json!([redacts(r"\S+@\S+\.\w+"), redacts("4111 1111")]);
    let whole = Upstream::replying(move |_| reply::chat(text)).await;
    let expected = gateway.chat().config(&guarded(&whole, list.clone())).json(&hello()).send().await.expect(200).said();
    assert!(expected.contains("[X]") && !expected.contains('@'), "{expected}");
    for size in [1, 2, 3, 7, 20] {
        let pieces: Vec<&str> = text.as_bytes().chunks(size).map(|c| std::str::from_utf8(c).expect("ASCII")).collect();
        let upstream = says(&pieces).await;
        for mode in ["window", "hold"] {
            let list: Vec<Value> =
                list.as_array().expect("a list").iter().map(|g| with(g.clone(), json!({ "stream": mode }))).collect();
            let answer = ask(&gateway, &guarded(&upstream, json!(list))).await.expect(200);
            assert_eq!((answer.said(), is_done(&answer)), (expected.clone(), true), "{mode} by {size}");
        }
    }
}

#[tokio::test]
async fn each_dialect_is_cut_and_redacted_in_its_own_words() {
    let gateway = Gateway::start().await;
    let upstream = says_by_and_by(&["all is well, ", "but a sec", "ret"]).await;
    let message =
        json!({ "model": "m", "max_tokens": 9, "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let post =
        async |list: Value| gateway.post("/v1/messages").config(&guarded(&upstream, list)).json(&message).send().await;
    let cut = post(json!([forbids("secret", deny())])).await.expect(200).text();
    assert!(cut.contains("event: error") && cut.contains("hooks_failed"), "{cut}");
    assert!(!cut.contains("message_stop") && !cut.contains("sec\""), "{cut}");
    let soft =
        post(json!([forbids("secret", json!({ "deny": true, "soft_deny_200": true }))])).await.expect(200).text();
    assert!(soft.contains("\"stop_reason\":\"refusal\"") && soft.contains("message_stop"), "{soft}");
    let redacted = post(json!([redacts("secret")])).await.expect(200).text();
    assert!(redacted.contains("[X]") && redacted.contains("message_stop") && !redacted.contains("ret\""), "{redacted}");
    let softly = guarded(&upstream, json!([forbids("secret", json!({ "deny": true, "soft_deny_200": true }))]));
    let chat = ask(&gateway, &softly).await.expect(200);
    assert!(chat.text().contains("content_filter") && is_done(&chat), "{}", chat.text());
}

/// A stream of the Responses API that says these texts.
fn response(texts: &[&str]) -> Vec<u8> {
    let whole: String = texts.concat();
    let part = json!({ "type": "output_text", "text": whole, "annotations": [] });
    let item = json!({ "id": "i", "type": "message", "status": "completed", "role": "assistant", "content": [part] });
    let place = json!({ "item_id": "i", "output_index": 0, "content_index": 0 });
    let bare = json!({ "id": "r", "object": "response", "status": "in_progress", "model": "m", "output": [] });
    let done = with(
        bare.clone(),
        json!({ "status": "completed", "output": [item],
        "usage": { "input_tokens": 1, "output_tokens": 2, "total_tokens": 3 } }),
    );
    let mut events = vec![("response.created", json!({ "response": bare }))];
    for text in texts {
        events.push(("response.output_text.delta", with(place.clone(), json!({ "delta": text, "logprobs": [] }))));
    }
    events.push(("response.output_text.done", with(place.clone(), json!({ "text": whole }))));
    events.push(("response.content_part.done", with(place, json!({ "part": part }))));
    events.push(("response.output_item.done", json!({ "output_index": 0, "item": item })));
    events.push(("response.completed", json!({ "response": done })));
    let mut out = reply::STREAM.to_vec();
    for (number, (name, event)) in events.into_iter().enumerate() {
        let event = with(event, json!({ "type": name, "sequence_number": number }));
        out.extend(reply::chunk(format!("event: {name}\ndata: {event}\n\n")));
    }
    out.extend(reply::LAST_CHUNK);
    out
}

#[tokio::test]
async fn the_whole_response_agrees_with_its_redacted_pieces() {
    let gateway = Gateway::start().await;
    let stream = response(&["a se", "cret and", " more"]);
    let upstream = Upstream::replying(move |_| stream.clone()).await;
    let ask = async |list: Value| {
        let body = json!({ "model": "m", "input": "hi", "stream": true });
        gateway.post("/v1/responses").config(&guarded(&upstream, list)).json(&body).send().await.expect(200)
    };
    for mode in ["window", "hold"] {
        let answer = ask(json!([with(redacts("secret"), json!({ "stream": mode }))])).await;
        let events: Vec<Value> = answer.events().iter().filter_map(|e| serde_json::from_str(e).ok()).collect();
        let pieces = events.iter().filter(|e| e["type"] == "response.output_text.delta");
        let said: String = pieces.filter_map(|e| e["delta"].as_str()).collect();
        let last = events.last().expect("an event");
        assert_eq!(said, "a [X] and more", "{mode}");
        assert_eq!(last["type"], "response.completed");
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], "a [X] and more", "{mode}");
        assert!(!answer.text().contains("cret"), "{mode}: {}", answer.text());
    }
    let body = json!({ "model": "m", "input": "hi", "stream": true });
    let config = guarded(&upstream, json!([forbids("more", deny())]));
    let cut = gateway.post("/v1/responses").config(&config).json(&body).send().await.text();
    assert!(!cut.contains("response.completed") && cut.contains("hooks_failed"), "{cut}");
}

#[tokio::test]
async fn calls_of_tools_are_held_to_their_end() {
    let gateway = Gateway::start().await;
    let call = |id: Option<&str>, arguments: &str| {
        let mut call = json!({ "index": 0, "function": { "arguments": arguments } });
        if let Some(id) = id {
            (call["id"], call["type"], call["function"]["name"]) = (id.into(), "function".into(), "send".into());
        }
        let delta = json!({ "tool_calls": [call] });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
        reply::chunk(format!("data: {chunk}\n\n"))
    };
    let mut stream = [reply::STREAM, &reply::role()[..]].concat();
    for piece in [call(Some("c1"), ""), call(None, "{\"to\":\"bob@ex"), call(None, "ample.com\",\"n\":1}")] {
        stream.extend(piece);
    }
    stream.extend([reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat());
    let upstream = Upstream::replying(move |_| stream.clone()).await;
    let answer = ask(&gateway, &guarded(&upstream, json!([redacts(r"\S+@\S+")]))).await.expect(200);
    let events: Vec<Value> = answer.events().iter().filter_map(|e| serde_json::from_str(e).ok()).collect();
    let arguments: Vec<&str> = events
        .iter()
        .filter_map(|e| e["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str())
        .filter(|arguments| !arguments.is_empty())
        .collect();
    assert_eq!(arguments.len(), 1, "one delta: {}", answer.text());
    let read: Value = serde_json::from_str(arguments[0]).expect("valid JSON");
    assert_eq!((&read["to"], &read["n"]), (&json!("[X]"), &json!(1)));
    assert!(is_done(&answer));
    let denied = ask(&gateway, &guarded(&upstream, json!([forbids("example.com", deny())]))).await;
    assert!(!denied.text().contains("bob@"), "{}", denied.text());
    assert!(denied.text().contains("hooks_failed") && !is_done(&denied), "{}", denied.text());
}

#[tokio::test]
async fn a_cut_is_billed_recorded_and_ends_the_call() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("all is well, ")].concat()).await;
        peer.pause(100).await;
        peer.send(reply::delta("a secret")).await;
        peer.gone().await;
    })
    .await;
    let config = guarded(&upstream, json!([forbids("secret", deny())]));
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "cut").json(&asks());
    let answer = call.send().await.expect(200);
    assert_eq!((answer.said().as_str(), is_done(&answer)), ("all is well, ", false));
    eventually("the call ended", || async { (upstream.open() == 0).then_some(()) }).await;
    let record = record(&gateway, "cut").await;
    assert_eq!((&record["metrics"]["response_status_code"], &record["fault"]), (&json!(446), &json!("hooks_failed")));
    assert_eq!(record["metrics"]["usage"]["estimated"], true, "{record}");
    assert!(record["metrics"]["res_units"].as_u64().is_some_and(|n| n > 0), "{record}");
    assert!(record["hook_results"].to_string().contains("\"verdict\":false"), "{record}");
    assert!(!record.to_string().contains("a secret"), "what was withheld is not kept: {record}");
}

#[tokio::test]
async fn a_check_outside_slows_a_stream_and_keeps_its_order() {
    let gateway = Gateway::start().await;
    let texts: Vec<String> = (0..40).map(|n| format!("word{n} ")).collect();
    let pieces: Vec<&str> = texts.iter().map(String::as_str).collect();
    let upstream = says(&pieces).await;
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let judge = Upstream::scripted(move |mut peer| {
        let count = count.clone();
        async move {
            while let Some(seen) = peer.request().await {
                count.fetch_add(1, Ordering::SeqCst);
                peer.pause(20).await;
                let verdict = !seen.text().contains("word39");
                peer.send(reply::json(200, &json!({ "verdict": verdict }))).await;
            }
        }
    })
    .await;
    let list = |url: String| json!([{ "default.webhook": { "webhookURL": url }, "deny": true, "stream": "hold" }]);
    ask(&gateway, &guarded(&upstream, list(judge.url()))).await.expect(446);
    let fine = Upstream::replying(|_| reply::json(200, &json!({ "verdict": true }))).await;
    let answer = ask(&gateway, &guarded(&upstream, list(fine.url()))).await.expect(200);
    assert_eq!((answer.said(), is_done(&answer)), (texts.concat(), true));
    assert!(asked.load(Ordering::SeqCst) >= 1);
}

#[tokio::test]
async fn results_stand_in_the_stream_of_who_asks_for_extras() {
    let gateway = Gateway::start().await;
    let upstream = says(&["fine"]).await;
    let keys = json!({
        "input_guardrails": [forbids("nothing", json!({}))],
        "output_guardrails": [{ "default.wordCount": { "minWords": 1 } }],
        "strict_open_ai_compliance": false,
    });
    let config = with(target(&upstream), keys);
    let answer = ask(&gateway, &config).await.expect(200);
    let events = answer.events();
    assert!(events.first().is_some_and(|e| e.contains("before_request_hooks")), "{events:?}");
    let before_last = events.get(events.len().saturating_sub(2)).expect("events");
    assert!(before_last.contains("after_request_hooks") && before_last.contains("\"verdict\":true"), "{events:?}");
    assert!(answer.header("x-gateway-guardrails").is_some_and(|told| told.starts_with("in=pass")));
    let strict = with(config, json!({ "strict_open_ai_compliance": true }));
    let answer = ask(&gateway, &strict).await.expect(200);
    assert!(!answer.text().contains("hook_results"), "{}", answer.text());
}

#[tokio::test]
async fn a_soft_failure_is_told_before_the_head_and_recorded_behind_it() {
    let gateway = Gateway::start().await;
    let upstream = says(&["secret at once"]).await;
    let answer = ask(&gateway, &guarded(&upstream, json!([forbids("secret", json!({}))]))).await.expect(246);
    assert_eq!((answer.said().as_str(), is_done(&answer)), ("secret at once", true));
    let later = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("fine, ")].concat()).await;
        peer.pause(100).await;
        peer.send([&reply::delta("a secret")[..], &reply::finish(), &reply::done(), reply::LAST_CHUNK].concat()).await;
        peer.gone().await;
    })
    .await;
    let config = guarded(&later, json!([forbids("secret", json!({}))]));
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "soft-late").json(&asks());
    let answer = call.send().await.expect(200);
    assert_eq!((answer.said().as_str(), is_done(&answer)), ("fine, a secret", true));
    let record = record(&gateway, "soft-late").await;
    assert!(record["hook_results"].to_string().contains("\"verdict\":false"), "{record}");
}

#[tokio::test]
async fn streams_of_routes_whose_answers_are_not_judged_pass() {
    let events = |kind: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"said\":\"forbidden\"}}\n\n");
    let upstream = Upstream::replying(move |seen| {
        let kind = if seen.target.ends_with("/runs") { "thread.run.completed" } else { "image_generation.completed" };
        reply::whole(200, &[("content-type", "text/event-stream")], events(kind))
    })
    .await;
    let gateway = Gateway::start().await;
    let guards = [forbids("forbidden", deny()), with(forbids("forbidden", deny()), json!({ "stream": "hold" }))];
    for guard in guards {
        let config = guarded(&upstream, json!([guard]));
        for (path, body) in [
            ("/v1/threads/thread_1/runs", json!({ "assistant_id": "asst_1", "stream": true })),
            ("/v1/images/generations", json!({ "model": "gpt-image-2", "prompt": "a cat", "stream": true })),
        ] {
            let answer = gateway.post(path).config(&config).json(&body).send().await.expect(200);
            assert!(answer.text().contains("forbidden"), "{path}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn more_than_is_held_fails_the_check() {
    let gateway = Gateway::start().await;
    let large = "x".repeat(1 << 20);
    let pieces = [large.as_str(); 5];
    let upstream = says(&pieces).await;
    let list =
        |actions: Value| json!([with(json!({ "default.jsonKeys": { "keys": ["a"] }, "stream": "hold" }), actions)]);
    let denied = ask(&gateway, &guarded(&upstream, list(deny()))).await.expect(446);
    assert!(denied.text().contains("HoldLimit"), "{}", denied.text());
    let soft = ask(&gateway, &guarded(&upstream, list(json!({})))).await.expect(246);
    assert_eq!((soft.said().len(), is_done(&soft)), (5 << 20, true), "all of it arrives");
}

/// A key may hold a quarter of a megabyte here, whatever it is that is held.
#[tokio::test]
async fn what_is_held_to_be_judged_counts_among_the_bytes_of_bodies() {
    let gateway = Gateway::with(&["--max-buffered-bytes", "1MiB", "--max-body", "256KiB"]).await;
    let piece = "word ".repeat(13 << 10);
    let (long, short) = (says(&[piece.as_str(); 10]).await, says(&[piece.as_str(); 2]).await);
    let counts = |more: Value| json!([with(json!({ "default.wordCount": { "minWords": 1 } }), more)]);
    for (mode, more) in [
        ("after", json!({ "stream": "after" })),
        ("async", json!({ "async": true })),
        ("hold", json!({ "stream": "hold" })),
    ] {
        for (upstream, fits) in [(&short, true), (&long, false)] {
            let trace = format!("{mode}-{fits}");
            let config = guarded(upstream, counts(more.clone()));
            let call = gateway.chat().config(&config).header("x-gateway-trace-id", &trace).json(&asks());
            let answer = call.send().await.expect(if mode == "hold" && !fits { 246 } else { 200 });
            let pieces = if fits { 2 } else { 10 };
            assert_eq!((answer.said().len(), is_done(&answer)), (piece.len() * pieces, true), "{trace}");
            let told = record(&gateway, &trace).await["hook_results"].to_string();
            assert_eq!(told.contains("HoldLimit"), !fits, "{trace}: {told}");
        }
    }
    let denied = ask(&gateway, &guarded(&long, counts(json!({ "stream": "hold", "deny": true })))).await.expect(446);
    assert!(denied.text().contains("HoldLimit"), "{}", denied.text());
    eventually("all of it is given back", || async {
        gateway.metrics().await.lines().any(|line| line == "gateway_buffered_bytes 0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_passes_through_is_held_whole() {
    let gateway = Gateway::start().await;
    let upstream = says(&["all is well, ", "but a sec", "ret"]).await;
    let ask = async |list: Value| {
        let call = gateway.post("/v1/proxy/chat/completions").config(&guarded(&upstream, list));
        call.json(&asks()).send().await
    };
    ask(json!([forbids("secret", deny())])).await.expect(446);
    let soft = ask(json!([forbids("secret", json!({}))])).await.expect(246);
    assert_eq!((soft.said().as_str(), is_done(&soft)), ("all is well, but a secret", true));
    ask(json!([forbids("other", deny())])).await.expect(200);
}
