//! Request bodies: how they arrive, how large they may be, what must be in them, and that they go on
//! byte for byte.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, raw, reply, with};
use serde_json::json;
use std::time::Instant;

/// Odd on purpose: spacing, key order, number spelling, escapes, repeated nested keys.
const ODD: &str = r#" { "zeta" : 1.0e2,"model":"gpt-4o-mini" ,
  "messages":[{"content":"snow\u2603 \ud83d\ude00 é \/","role":"user"}],"temperature":0.70,"n":1,"seed":-0,
  "unknown":{"b":1,"a":2,"b":3}, "big":12345678901234567890123456789,"stop":["a","b"] }  "#;

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

#[tokio::test]
async fn a_body_that_needs_no_change_goes_out_as_it_came() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    gateway.chat_through(&upstream).bytes(ODD).send().await.expect(200);
    gateway.chat().provider("@main").bytes(ODD).send().await.expect(200);
    for seen in upstream.seen() {
        assert_eq!(seen.text(), ODD);
        assert_eq!(seen.header("content-length"), Some(ODD.len().to_string().as_str()));
        assert_eq!(seen.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn a_change_of_model_changes_nothing_else() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let managed = ODD.replace("gpt-4o-mini", r"@main\/gpt-\u0034o-mini");
    gateway.chat().bytes(managed).send().await.expect(200);
    assert_eq!(upstream.only().text(), ODD);
}

#[tokio::test]
async fn a_chunked_body_of_200_kb_arrives_whole() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let body = with(hello(), json!({ "filler": "x".repeat(200_000) })).to_string();
    let mut client = Raw::connect(gateway.proxy).await;
    let config = target(&upstream);
    client
        .send(format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\
             x-gateway-config: {config}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        ))
        .await;
    for piece in body.as_bytes().chunks(7919) {
        client.send(reply::chunk(piece)).await;
    }
    client.send("0\r\n\r\n").await;
    let response = client.response().await;
    assert_eq!(response.head.status, 200, "{}", response.text());
    assert_eq!(upstream.only().text(), body);
}

#[tokio::test]
async fn expect_continue_is_answered_before_the_body() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let mut client = Raw::connect(gateway.proxy).await;
    let body = hello().to_string();
    let config = target(&upstream).to_string();
    let request =
        raw::post("/v1/chat/completions", &[("x-gateway-config", &config), ("expect", "100-continue")], &body);
    let (head, _) = request.split_at(request.len() - body.len());
    client.send(head).await;
    assert_eq!(client.head().await.status, 100);
    client.send(&body).await;
    let response = client.response().await;
    assert_eq!(response.head.status, 200, "{}", response.text());
    assert_eq!(upstream.only().text(), body);
    assert_eq!(upstream.only().header("expect"), None);
}

#[tokio::test]
async fn what_the_head_alone_refuses_is_refused_without_the_body() {
    let gateway = Gateway::start().await;
    let body = hello().to_string();
    for (headers, status) in [
        ([("x-other", "1"), ("expect", "100-continue")], 401),
        ([("x-gateway-request-timeout", "soon"), ("expect", "100-continue")], 400),
    ] {
        let mut client = Raw::connect(gateway.proxy).await;
        let request = raw::post("/v1/chat/completions", &headers, &body);
        let request = if status == 401 { request.replacen(WORKSPACE_KEY, "unknown", 1) } else { request };
        client.send(&request[..request.len() - body.len()]).await;
        assert_eq!(client.head().await.status, status, "the answer comes without the body");
    }
}

#[tokio::test]
async fn twenty_megabytes_pass() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let body = with(hello(), json!({ "filler": "x".repeat(20 << 20) })).to_string();
    gateway.chat_through(&upstream).bytes(body.clone()).send().await.expect(200);
    assert!(upstream.only().body == body.as_bytes(), "the body was changed on its way");
    let managed = body.replacen("gpt-4o-mini", "@main/gpt-4o-mini", 1);
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    gateway.chat().bytes(managed).send().await.expect(200);
    assert!(upstream.seen()[1].body == body.as_bytes(), "more than the model was changed");
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413() {
    let gateway = Gateway::with(&["--max-body", "1MiB"]).await;
    let body = with(hello(), json!({ "filler": "x".repeat(2 << 20) })).to_string();
    let answer = gateway.chat().provider("mock").bytes(body.clone()).send().await.expect(413);
    assert!(answer.error().contains('1'), "the limit is named: {}", answer.error());
    let mut client = Raw::connect(gateway.proxy).await;
    client
        .send(format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\
             x-gateway-provider: mock\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        ))
        .await;
    for piece in body.as_bytes().chunks(64 << 10) {
        if !client.try_send(reply::chunk(piece)).await {
            break;
        }
    }
    assert_eq!(client.response().await.head.status, 413);
    let just_fits = with(hello(), json!({ "filler": "x".repeat((1 << 20) - 200) })).to_string();
    gateway.chat().provider("mock").bytes(just_fits).send().await.expect(200);
}

/// Many clients write all before they read.
#[tokio::test]
async fn a_refusal_is_heard_by_a_client_that_sends_its_whole_body_first() {
    let gateway = Gateway::with(&["--max-body", "1MiB"]).await;
    let body = with(hello(), json!({ "filler": "x".repeat(3 << 20) })).to_string();
    let request = raw::post("/v1/chat/completions", &[("x-gateway-provider", "mock")], &body);
    for (request, status) in [(request.replacen(WORKSPACE_KEY, "unknown", 1), 401), (request, 413)] {
        for _ in 0..5 {
            let mut client = Raw::connect(gateway.proxy).await;
            for piece in request.as_bytes().chunks(128 << 10) {
                assert!(client.try_send(piece).await, "the connection was reset before {status} could be read");
            }
            assert_eq!(client.response().await.head.status, status);
        }
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_408() {
    let gateway = Gateway::with(&["--body-timeout", "300ms"]).await;
    let mut client = Raw::connect(gateway.proxy).await;
    let body = hello().to_string();
    let request = raw::post("/v1/chat/completions", &[("x-gateway-provider", "mock")], &body);
    client.send(&request[..request.len() - 10]).await;
    let started = Instant::now();
    let response = client.response().await;
    assert_eq!(response.head.status, 408, "{}", response.text());
    assert!(started.elapsed().as_millis() < 3000, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_trickle_does_not_put_off_the_deadline() {
    let gateway = Gateway::with(&["--body-timeout", "400ms"]).await;
    let mut client = Raw::connect(gateway.proxy).await;
    let body = hello().to_string();
    let request = raw::post("/v1/chat/completions", &[("x-gateway-provider", "mock")], &body);
    client.send(&request[..request.len() - body.len()]).await;
    let started = Instant::now();
    for byte in body.as_bytes() {
        if started.elapsed().as_millis() > 2000 || !client.try_send([*byte]).await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(client.response().await.head.status, 408);
}

#[tokio::test]
async fn what_is_no_json_is_a_400() {
    let gateway = Gateway::start().await;
    for body in ["", "{", "[]", "null", "7", "{\"messages\":[],}", "{} {}", "\u{feff}{}", "{'a':1}"] {
        let answer = gateway.chat().provider("mock").bytes(body).send().await;
        assert_eq!(answer.status, 400, "{body:?}: {}", answer.text());
        assert!(!answer.error().is_empty(), "{body:?}");
    }
    let answer = gateway.chat().provider("mock").bytes(b"{\"messages\":\"\xff\"}".to_vec()).send().await;
    assert_eq!(answer.status, 400, "bytes that are not UTF-8");
}

/// Route, fields laid over a good body, the field that the answer names.
fn out_of_bounds() -> Vec<(&'static str, serde_json::Value, &'static str)> {
    const CHAT: &str = "/v1/chat/completions";
    vec![
        (CHAT, json!({ "messages": [] }), "messages"),
        (CHAT, json!({ "messages": "hi" }), "messages"),
        (CHAT, json!({ "messages": [1] }), "messages[0]"),
        (CHAT, json!({ "messages": [{ "content": "no role" }] }), "messages[0].role"),
        (CHAT, json!({ "model": 5 }), "model"),
        (CHAT, json!({ "n": 0 }), "n"),
        (CHAT, json!({ "n": 129 }), "n"),
        (CHAT, json!({ "n": 1.5 }), "n"),
        (CHAT, json!({ "n": "1" }), "n"),
        (CHAT, json!({ "temperature": 2.1 }), "temperature"),
        (CHAT, json!({ "temperature": -0.1 }), "temperature"),
        (CHAT, json!({ "temperature": "hot" }), "temperature"),
        (CHAT, json!({ "top_p": 1.1 }), "top_p"),
        (CHAT, json!({ "top_p": -1 }), "top_p"),
        (CHAT, json!({ "top_logprobs": 21 }), "top_logprobs"),
        (CHAT, json!({ "top_logprobs": -1 }), "top_logprobs"),
        (CHAT, json!({ "presence_penalty": 2.5 }), "presence_penalty"),
        (CHAT, json!({ "frequency_penalty": -2.5 }), "frequency_penalty"),
        (CHAT, json!({ "tools": [] }), "tools"),
        (CHAT, json!({ "tools": vec![tool(); 129] }), "tools"),
        (CHAT, json!({ "stream": "yes" }), "stream"),
        (CHAT, json!({ "logprobs": 1 }), "logprobs"),
        (CHAT, json!({ "parallel_tool_calls": "no" }), "parallel_tool_calls"),
        (CHAT, json!({ "user": {} }), "user"),
        (CHAT, json!({ "max_tokens": "many" }), "max_tokens"),
        ("/v1/images/generations", json!({ "n": 11 }), "n"),
        ("/v1/images/generations", json!({ "n": 0 }), "n"),
        ("/v1/images/generations", json!({ "prompt": 1 }), "prompt"),
        ("/v1/threads/t/runs", json!({ "max_prompt_tokens": 255 }), "max_prompt_tokens"),
        ("/v1/threads/t/runs", json!({ "max_completion_tokens": 255 }), "max_completion_tokens"),
        ("/v1/threads/t/runs", json!({ "tools": vec![tool(); 21] }), "tools"),
        ("/v1/threads/t/runs/r", json!({ "metadata": "text" }), "metadata"),
        ("/v1/moderations", json!({ "input": 5 }), "input"),
        ("/v1/embeddings", json!({ "input": 5 }), "input"),
        ("/v1/embeddings", json!({ "input": "a", "dimensions": 0 }), "dimensions"),
        ("/v1/messages", json!({ "messages": [] }), "messages"),
        ("/v1/messages", json!({ "messages": "hi" }), "messages"),
    ]
}

fn tool() -> serde_json::Value {
    json!({ "type": "function", "function": { "name": "f" } })
}

#[tokio::test]
async fn what_is_out_of_bounds_is_a_400_that_names_field_and_rule() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    for (path, fields, field) in out_of_bounds() {
        let base = if path.ends_with("completions") || path.ends_with("messages") { hello() } else { json!({}) };
        let answer = gateway.post(path).config(&target(&upstream)).json(&with(base, fields.clone())).send().await;
        assert_eq!(answer.status, 400, "{path} {fields}: {}", answer.text());
        let name = field.split('[').next().unwrap_or_default();
        assert!(answer.error().contains(name), "{path} {fields}: {}", answer.error());
        assert!(answer.error().len() > name.len() + 5, "the rule is told: {}", answer.error());
        if !path.ends_with("/messages") {
            assert_eq!(answer.json()["error"]["param"], field, "{path} {fields}");
        }
    }
    assert_eq!(upstream.connections(), 0, "nothing went up");
}

#[tokio::test]
async fn a_run_is_modified_by_its_metadata_alone() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "id": "run_1", "object": "thread.run" }))).await;
    let modify = |body| gateway.post("/v1/threads/t/runs/r").config(&target(&upstream)).json(&body).send();
    modify(json!({ "metadata": { "a": "b" } })).await.expect(200);
    modify(json!({ "metadata": null })).await.expect(200);
    let answer = modify(json!({ "metadata": {}, "model": "m" })).await.expect(400);
    assert!(answer.error().contains("model"), "{}", answer.error());
}

#[tokio::test]
async fn other_forms_and_unknown_fields_pass() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let parts = json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": { "url": "x" } }] }]);
    for fields in [
        json!({ "messages": parts }),
        json!({ "messages": [{ "role": "assistant", "content": null, "tool_calls": [] }] }),
        json!({ "stop": ["a", "b"], "n": 128, "temperature": 0, "top_p": 1, "top_logprobs": 20 }),
        json!({ "stop": null, "n": null, "temperature": null, "tools": null, "stream": null, "max_tokens": null }),
        json!({ "tool_choice": { "type": "function", "function": { "name": "f" } }, "tools": vec![tool(); 128] }),
        json!({ "tool_choice": "anything-new", "reasoning_effort": "xhigh", "service_tier": "new" }),
        json!({ "unknown": { "n": 500 }, "x": [[[]]], "presence_penalty": -2, "frequency_penalty": 2 }),
    ] {
        let body = with(hello(), fields.clone());
        let answer = gateway.chat_through(&upstream).json(&body).send().await;
        assert_eq!(answer.status, 200, "{fields}: {}", answer.text());
        assert_eq!(upstream.seen().last().expect("it went up").json(), body);
    }
}

#[tokio::test]
async fn nothing_is_enforced_on_raw_routes() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    for path in ["/v1/proxy/chat/completions", "/v1/brand/new"] {
        for body in [r#"{"n":999,"temperature":"x","messages":[]}"#, r#"{"a":1,"a":2}"#, "[1,2", "\"text\""] {
            let answer = gateway.post(path).config(&target(&upstream)).bytes(body).send().await;
            assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
            assert_eq!(upstream.seen().last().expect("it went up").text(), body);
        }
    }
}

#[tokio::test]
async fn an_offer_to_upgrade_leaves_a_json_request_what_it_is() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let offer = |body: serde_json::Value| {
        let call = gateway.chat_through(&upstream).header("connection", "Upgrade, HTTP2-Settings");
        call.header("upgrade", "h2c").header("http2-settings", "AAMAAABkAAQAoAAAAAIAAAAA").json(&body).send()
    };
    offer(hello()).await.expect(200);
    let refused = offer(json!({ "model": "m", "messages": [] })).await;
    assert_eq!(refused.status, 400, "bounds hold: {}", refused.text());
}

#[tokio::test]
async fn a_model_in_the_middle_of_a_large_body_is_replaced_and_all_of_it_arrives() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for (before, after) in [(40_000, 30_000), (64_000, 1_200), (65_000, 10), (20, 65_400), (200_000, 200_000)] {
        let (before, after) = ("a".repeat(before), "b".repeat(after));
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{before}"}}],"model":"@main/gpt-4o","user":"{after}"}}"#
        );
        let call = gateway.chat().body("application/json", body.clone());
        call.send().await.expect(200);
        let seen = upstream.seen().pop().expect("a request");
        assert_eq!(seen.text(), body.replace("@main/gpt-4o", "gpt-4o"));
    }
}
