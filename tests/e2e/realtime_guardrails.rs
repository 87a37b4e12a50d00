//! Guardrails in realtime sessions: what is written waits for its verdict, what is said aloud is taken back, and where
//! a guardrail holds streams nothing of a response is heard before it was judged.

use crate::guardrail_defaults::{save, slug};
use crate::harness::{Gateway, LiveProvider, Said, Socket, Upstream, WORKSPACE_KEY, eventually, with};
use crate::realtime::{Heard, records};
use serde_json::{Value, json};

fn forbids(word: &str) -> Value {
    json!({ "default.contains": { "words": [word], "operator": "none" }, "deny": true })
}

/// Says what `response.metadata.say` of a `response.create` holds, in two pieces; `response.metadata.heard` is what the
/// user is supposed to have said aloud meanwhile, and `response.metadata.bytes` how much sound there is.
async fn speaking() -> (LiveProvider, Heard) {
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            let mut count = 0;
            loop {
                match socket.next().await {
                    Said::Event(event) => {
                        heard.note(&event);
                        match event["type"].as_str() {
                            Some("response.create") => {
                                count += 1;
                                speak(&mut socket, count, &event["response"]["metadata"]).await;
                            }
                            Some("response.cancel") => {
                                let why = json!({ "type": "error", "error": { "code": "response_cancel_not_active",
                                    "event_id": event["event_id"] } });
                                socket.say(&why).await;
                            }
                            _ => {}
                        }
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

async fn speak(socket: &mut Socket, count: u32, told: &Value) {
    let (id, item) = (format!("resp_{count}"), format!("item_{count}"));
    let text = told["say"].as_str().unwrap_or_default();
    let of = |kind: &str, fields: Value| {
        let base = json!({ "type": kind, "response_id": id, "item_id": item });
        with(base, fields)
    };
    let (head, tail) = text.split_at(text.len() / 2);
    let message = json!({ "id": item, "content": [{ "type": "output_text", "text": text }] });
    let usage = json!({ "total_tokens": 30, "input_tokens": 10, "output_tokens": 20 });
    socket.say(&json!({ "type": "response.created", "response": { "id": id } })).await;
    socket.say(&json!({ "type": "response.output_item.added", "response_id": id, "item": { "id": item } })).await;
    socket.say(&json!({ "type": "conversation.item.added", "item": { "id": item } })).await;
    if let Some(aloud) = told["heard"].as_str() {
        let kind = "conversation.item.input_audio_transcription.completed";
        let usage = json!({ "type": "duration", "seconds": 1.0 });
        socket.say(&json!({ "type": kind, "item_id": "spoken", "transcript": aloud, "usage": usage })).await;
    }
    if let Some(bytes) = told["bytes"].as_str().and_then(|bytes| bytes.parse::<usize>().ok()) {
        let piece = "A".repeat(1 << 20);
        for _ in 0..bytes >> 20 {
            socket.say(&of("response.output_audio.delta", json!({ "delta": piece }))).await;
        }
    }
    socket.say(&of("response.output_text.delta", json!({ "delta": head }))).await;
    socket.say(&of("response.output_text.delta", json!({ "delta": tail }))).await;
    if let Some(arguments) = told["call"].as_str() {
        let (kind, done) = ("response.function_call_arguments.delta", "response.function_call_arguments.done");
        socket.say(&of(kind, json!({ "call_id": "call_1", "delta": arguments }))).await;
        socket.say(&of(done, json!({ "call_id": "call_1", "name": "f", "arguments": arguments }))).await;
    }
    if let Some(arguments) = told["tool"].as_str() {
        let (kind, done) = ("response.mcp_call_arguments.delta", "response.mcp_call_arguments.done");
        socket.say(&of(kind, json!({ "output_index": 0, "delta": arguments }))).await;
        socket.say(&of(done, json!({ "output_index": 0, "arguments": arguments }))).await;
    }
    if told["untold"].is_null() {
        socket.say(&of("response.output_text.done", json!({ "text": text }))).await;
    }
    socket.say(&json!({ "type": "conversation.item.done", "item": message })).await;
    let response = json!({ "id": id, "status": "completed", "usage": usage, "output": [message] });
    socket.say(&json!({ "type": "response.done", "response": response })).await;
}

fn create(metadata: &Value) -> Value {
    json!({ "type": "response.create", "response": { "metadata": metadata } })
}

async fn open(gateway: &Gateway, provider: &LiveProvider, guardrails: Value, trace: &str) -> Socket {
    let target = json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": provider.url() });
    let config = with(target, guardrails).to_string();
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-config", &config), ("x-gateway-trace-id", trace)];
    Socket::open(gateway.proxy, "/v1/realtime?model=gpt-realtime", &headers).await.expect("it opens")
}

/// All events up to the next of this type.
async fn until(client: &mut Socket, kind: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        match client.next().await {
            Said::Event(event) => {
                let is_last = event["type"] == kind;
                all.push(event);
                if is_last {
                    return all;
                }
            }
            other => panic!("instead of {kind}: {other:?} after {all:?}"),
        }
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn what_a_client_writes_is_judged_before_it_goes_up() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    let mut client = open(&gateway, &provider, json!({ "input_guardrails": [forbids("secret")] }), "written").await;
    let item =
        |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let denied = [
        json!({ "type": "conversation.item.create", "item": item("the secret") }),
        json!({ "type": "conversation.item.create",
            "item": { "type": "function_call_output", "call_id": "c", "output": "the secret" } }),
        json!({ "type": "response.create", "response": { "instructions": "the secret" } }),
        json!({ "type": "response.create", "response": { "input": [item("the secret")] } }),
        json!({ "type": "session.update", "session": { "prompt": { "id": "p", "variables": { "a": "the secret" } } } }),
        json!({ "type": "event.of.tomorrow", "content": [{ "text": "the secret" }] }),
    ];
    for (n, event) in denied.iter().enumerate() {
        client.say(&with(event.clone(), json!({ "event_id": format!("e{n}") }))).await;
        let error = client.event("error").await["error"].clone();
        assert_eq!((&error["code"], &error["event_id"]), (&json!("hooks_failed"), &json!(format!("e{n}"))), "{error}");
        let hook = &error["hook_results"]["before_request_hooks"][0];
        assert_eq!(hook["verdict"], false, "{error}");
    }
    // What two readers would read in two ways goes up as it was judged.
    let twice =
        r#"{"type":"conversation.item.create","item":{"content":[{"text":"the secret","text":"all is well"}]}}"#;
    client.send(tokio_tungstenite::tungstenite::Message::text(twice)).await;
    client.say(&json!({ "type": "conversation.item.create", "item": item("and more") })).await;
    client.say(&json!({ "type": "input_audio_buffer.append", "audio": "secret" })).await;
    client.say(&create(&json!({ "say": "fine" }))).await;
    client.event("response.done").await;
    let all = heard.all();
    let seen = ["conversation.item.create", "conversation.item.create", "input_audio_buffer.append", "response.create"];
    assert_eq!(heard.kinds(), seen, "in their order, and nothing else");
    assert_eq!(all[0]["item"]["content"][0], json!({ "text": "all is well" }));
    client.close(1000, "").await;
    let (session, parts) = records(&gateway, "written", denied.len() + 2).await;
    assert_eq!(session["realtime"]["totals"]["denied"], denied.len(), "{session}");
    let status = |part: &Value| part["response"]["status"].as_u64();
    assert_eq!(parts.iter().filter(|part| status(part) == Some(446)).count(), denied.len());
    let spoken = parts.iter().find(|part| part["realtime"]["id"] == "resp_1").expect("its record");
    assert_eq!(status(spoken), Some(200));
    assert!(spoken.to_string().contains("default.contains"), "what was said of its request: {spoken}");
}

#[tokio::test]
async fn a_text_is_rewritten_on_its_way_up() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    let redacts = json!({ "default.regexReplace": { "rule": "\\d{4}", "redactText": "[X]" } });
    let mut client = open(&gateway, &provider, json!({ "input_guardrails": [redacts] }), "redacted").await;
    let content = json!([{ "type": "input_text", "text": "my number is 1234" }]);
    client.say(&json!({ "type": "conversation.item.create", "item": { "role": "user", "content": content } })).await;
    client.say(&create(&json!({ "say": "fine" }))).await;
    client.event("response.done").await;
    assert_eq!(heard.all()[0]["item"]["content"][0]["text"], "my number is [X]");
    // What was spoken cannot be said otherwise afterwards: it is taken back.
    client.say(&create(&json!({ "say": "fine", "heard": "it is 1234" }))).await;
    client.event("response.done").await;
    eventually("the item is deleted", || async {
        heard.kinds().contains(&"conversation.item.delete".into()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_said_aloud_is_taken_back_where_its_transcript_is_denied() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    let mut client = open(&gateway, &provider, json!({ "input_guardrails": [forbids("secret")] }), "aloud").await;
    client.say(&create(&json!({ "say": "fine", "heard": "a mystery" }))).await;
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["response.create"]);
    client.say(&create(&json!({ "say": "fine", "heard": "the secret" }))).await;
    let error = client.event("error").await;
    assert_eq!(error["error"]["code"], "hooks_failed", "{error}");
    eventually("the item is deleted", || async {
        let all = heard.all();
        all.iter().any(|e| e["type"] == "conversation.item.delete" && e["item_id"] == "spoken").then_some(())
    })
    .await;
    client.close(1000, "").await;
    let (_, parts) = records(&gateway, "aloud", 5).await;
    let denied: Vec<&Value> = parts.iter().filter(|part| part["response"]["status"] == 446).collect();
    assert_eq!(denied.len(), 1, "the transcript alone");
    assert_eq!(denied[0]["realtime"]["id"], "spoken");
}

#[tokio::test]
async fn what_a_model_says_is_taken_back_where_it_is_denied() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    for (trace, untold) in [("told", Value::Null), ("untold", json!("yes"))] {
        let mut client = open(&gateway, &provider, json!({ "output_guardrails": [forbids("secret")] }), trace).await;
        client.say(&create(&json!({ "say": "all is well", "untold": untold }))).await;
        let events = until(&mut client, "response.done").await;
        assert!(!kinds(&events).contains(&"error"), "{events:?}");
        let before = heard.all().len();
        client.say(&create(&json!({ "say": "the secret", "untold": untold }))).await;
        let error = client.event("error").await;
        assert_eq!(error["error"]["code"], "hooks_failed", "{error}");
        assert_eq!(error["error"]["hook_results"]["after_request_hooks"][0]["verdict"], false, "{error}");
        if untold.is_null() {
            eventually("the item is deleted", || async {
                let all = heard.all();
                all[before..]
                    .iter()
                    .any(|e| e["type"] == "conversation.item.delete" && e["item_id"] == "item_2")
                    .then_some(())
            })
            .await;
        }
        client.close(1000, "").await;
        let (session, parts) = records(&gateway, trace, 3).await;
        assert_eq!(session["realtime"]["totals"]["denied"], 1, "{session}");
        let told: Vec<_> = parts.iter().map(|part| (&part["realtime"]["id"], &part["response"]["status"])).collect();
        assert_eq!(told, [(&json!("resp_1"), &json!(200)), (&json!("resp_2"), &json!(446))]);
        assert!(parts.iter().all(|part| part["metrics"]["total_units"] == 30), "both were paid for: {parts:?}");
    }
}

#[tokio::test]
async fn nothing_of_a_held_response_is_heard_before_its_verdict() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    let hold = with(forbids("secret"), json!({ "stream": "hold" }));
    let lists = json!({ "input_guardrails": [forbids("mystery")], "output_guardrails": [hold] });
    let mut client = open(&gateway, &provider, lists, "held").await;
    client.say(&create(&json!({ "say": "all is well" }))).await;
    let events = until(&mut client, "response.done").await;
    let order = [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "conversation.item.done",
        "response.done",
    ];
    assert_eq!(kinds(&events), order, "all of it, in its order");
    for (say, aloud) in [("the secret", Value::Null), ("all is well", json!("a mystery"))] {
        client.say(&create(&json!({ "say": say, "heard": aloud }))).await;
        let events = until(&mut client, "response.done").await;
        let told = serde_json::to_string(&events).expect("JSON");
        assert!(!told.contains("the secret") && !told.contains("all is well"), "{told}");
        assert!(kinds(&events).contains(&"error"), "{told}");
        let done = &events.last().expect("the end")["response"];
        assert_eq!(
            (&done["status"], &done["status_details"]["reason"]),
            (&json!("incomplete"), &json!("content_filter"))
        );
        assert_eq!(done["usage"]["total_tokens"], 30, "{done}");
    }
    // What may not be held any longer is not heard either.
    client.say(&create(&json!({ "say": "all is well", "bytes": (17 << 20).to_string() }))).await;
    let events = until(&mut client, "response.done").await;
    assert_eq!(events.last().expect("the end")["response"]["status"], "incomplete");
    assert!(!kinds(&events).contains(&"response.output_audio.delta"));
    client.say(&create(&json!({ "say": "all is well" }))).await;
    let events = until(&mut client, "response.done").await;
    assert_eq!(kinds(&events), order, "the session goes on");
    client.close(1000, "").await;
    let cancelled = heard.all().iter().filter(|event| event["type"] == "response.cancel").count();
    assert!(cancelled >= 1, "{:?}", heard.kinds());
    let (_, parts) = records(&gateway, "held", 7).await;
    let denied = parts.iter().filter(|part| part["response"]["status"] == 446).count();
    assert_eq!(denied, 4, "the response that said it, the transcript, its answer, and what was too long");
}

#[tokio::test]
async fn arguments_of_a_function_that_a_model_asks_for_are_judged_as_in_chat() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    // What stands in JSON that stands in JSON is found as it reads, and names of members are no texts.
    let (good, bad) = (r#"{"the secret":"a mystery"}"#, r#"{"q":["the \u0073ecret"]}"#);
    let hold = json!({ "stream": "hold" });
    for (trace, asks, stream) in [
        ("beside", "call", &json!({})),
        ("held", "call", &hold),
        ("tool-beside", "tool", &json!({})),
        ("tool-held", "tool", &hold),
    ] {
        let stream = stream.clone();
        let done = if asks == "call" { "function_call_arguments" } else { "mcp_call_arguments" };
        let guardrail = with(forbids("secret"), stream);
        let mut client = open(&gateway, &provider, json!({ "output_guardrails": [guardrail] }), trace).await;
        client.say(&create(&json!({ "say": "fine", asks: good }))).await;
        let events = until(&mut client, "response.done").await;
        assert!(kinds(&events).contains(&&*format!("response.{done}.done")), "{events:?}");
        assert!(!kinds(&events).contains(&"error"), "{events:?}");
        let before = heard.all().len();
        client.say(&create(&json!({ "say": "fine", asks: bad }))).await;
        let events = until(&mut client, "error").await;
        assert_eq!(events.last().expect("an error")["error"]["code"], "hooks_failed", "{events:?}");
        if trace.ends_with("held") {
            assert!(!kinds(&events).iter().any(|kind| kind.contains("arguments")), "{events:?}");
            let rest = until(&mut client, "response.done").await;
            assert_eq!(rest.last().expect("the end")["response"]["status"], "incomplete", "{rest:?}");
        }
        eventually("the item is deleted", || async {
            let all = heard.all();
            let deleted = |e: &Value| e["type"] == "conversation.item.delete" && e["item_id"] == "item_2";
            all[before..].iter().any(deleted).then_some(())
        })
        .await;
        client.close(1000, "").await;
        let (session, parts) = records(&gateway, trace, 3).await;
        assert_eq!(session["realtime"]["totals"]["denied"], 1, "{session}");
        let told: Vec<_> = parts.iter().map(|part| part["response"]["status"].as_u64()).collect();
        assert_eq!(told, [Some(200), Some(446)]);
    }
}

#[tokio::test]
async fn guardrails_that_change_are_in_force_in_sessions_that_are_open() {
    let gateway = Gateway::start().await;
    let (provider, heard) = speaking().await;
    let mut client = open(&gateway, &provider, json!({}), "changed").await;
    let secret = json!({ "type": "conversation.item.create", "item": { "content": [{ "text": "the secret" }] } });
    client.say(&secret).await;
    eventually("it goes up", || async { (heard.all().len() == 1).then_some(()) }).await;
    let saved = save(&gateway, "secret", json!({})).await;
    let defaults = json!({ "defaults": { "input_guardrails": [slug(&saved)] } });
    gateway.admin().put("/workspaces/default", &defaults).await.expect(200);
    client.say(&secret).await;
    client.event("error").await;
    gateway.admin().put("/workspaces/default", &json!({ "defaults": { "input_guardrails": [] } })).await.expect(200);
    client.say(&secret).await;
    eventually("it goes up again", || async { (heard.all().len() == 2).then_some(()) }).await;
}

#[tokio::test]
async fn a_guardrail_that_asks_somebody_else_holds_up_neither_the_provider_nor_the_order() {
    let gateway = Gateway::start().await;
    let asked = Upstream::scripted(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.pause(500).await;
            peer.send(&crate::harness::reply::json(200, &json!({ "verdict": true }))).await;
        }
    })
    .await;
    let (provider, heard) = speaking().await;
    let webhook = json!({ "default.webhook": { "webhookURL": asked.url() }, "deny": true });
    let mut client = open(&gateway, &provider, json!({ "input_guardrails": [webhook] }), "slow").await;
    client.say(&create(&json!({ "say": "fine" }))).await;
    let text = json!({ "type": "conversation.item.create", "item": { "content": [{ "text": "hello" }] } });
    client.say(&text).await;
    client.say(&json!({ "type": "input_audio_buffer.commit" })).await;
    // The response comes while the text is still being judged.
    client.event("response.done").await;
    assert_eq!(heard.kinds(), ["response.create"]);
    eventually("the rest goes up", || async { (heard.all().len() == 3).then_some(()) }).await;
    assert_eq!(heard.kinds()[1..], ["conversation.item.create", "input_audio_buffer.commit"]);
    client.close(1000, "").await;
    assert_eq!(client.end().await.code(), Some(1000));
}
