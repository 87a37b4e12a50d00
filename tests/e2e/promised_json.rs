//! `response_format: json_object` at providers that have no switch for it: asked for in words, looked at before the
//! answer ends, told of, paid for in any case, and refused to who insists on OpenAI's own API.

use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

fn claude(upstream: &Upstream) -> Value {
    with(target(upstream), json!({ "provider": "anthropic", "api_key": "sk-a" }))
}

fn wish() -> Value {
    let messages = [json!({ "role": "system", "content": "Be brief." }), json!({ "role": "user", "content": "Hi" })];
    json!({ "model": "claude-sonnet-4-5", "messages": messages, "response_format": { "type": "json_object" } })
}

fn message(text: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": text }], "usage": { "input_tokens": 9, "output_tokens": 7 },
    })
}

/// Anthropic's stream of these pieces.
fn stream(pieces: &[&str]) -> Vec<u8> {
    let mut events = vec![
        json!({ "type": "message_start", "message": with(message(""), json!({ "content": [], "stop_reason": null })) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    ];
    events.extend(pieces.iter().map(
        |text| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
    ));
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    let usage = json!({ "output_tokens": 7 });
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    let text: String =
        events.iter().map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().expect("a type"))).collect();
    [reply::STREAM.to_vec(), reply::chunk(text), reply::LAST_CHUNK.to_vec()].concat()
}

/// Answers with the text that the client asks for in `user`.
async fn says(text: &'static [&'static str]) -> Upstream {
    Upstream::replying(move |seen| {
        if seen.json()["stream"] == json!(true) { stream(text) } else { reply::json(200, &message(&text.concat())) }
    })
    .await
}

async fn ask(gateway: &Gateway, upstream: &Upstream, more: Value) -> Answer {
    gateway.chat().config(&claude(upstream)).json(&with(wish(), more)).send().await
}

#[tokio::test]
async fn an_object_comes_through_without_its_fence() {
    let gateway = Gateway::start().await;
    for pieces in [&["{\"a\"", ": 1}"][..], &["``", "`json\n{\"a\"", ": 1}\n```"], &["```\n{\"a\": 1}\n", "```\n"]] {
        let upstream = says(pieces).await;
        for streamed in [false, true] {
            let answer = ask(&gateway, &upstream, json!({ "stream": streamed })).await.expect(200);
            assert_eq!(answer.said(), "{\"a\": 1}", "{pieces:?}");
            assert_eq!(answer.header("x-gateway-adjusted-params"), Some("response_format"));
            assert!(!streamed || answer.text().ends_with("data: [DONE]\n\n"));
        }
        let system = upstream.seen()[0].json()["system"].to_string();
        assert!(system.contains("Be brief.") && system.contains("JSON object"), "{system}");
    }
    // A client of Responses gets it too.
    let upstream = says(&["{\"a\": 1}"]).await;
    let body = json!({ "model": "claude-sonnet-4-5", "input": "Hi", "text": { "format": { "type": "json_object" } } });
    let answer = gateway.post("/v1/responses").config(&claude(&upstream)).json(&body).send().await.expect(200);
    assert_eq!(answer.header("x-gateway-adjusted-params"), Some("text.format"));
    let answer = answer.json();
    assert_eq!(answer["output"][0]["content"][0]["text"], "{\"a\": 1}", "{answer}");
}

#[tokio::test]
async fn what_is_no_object_is_an_error_that_falls_back_and_is_paid_for() {
    let gateway = Gateway::start().await;
    let chatty = says(&["Sure! ", "{\"a\": 1}"]).await;
    let answer = ask(&gateway, &chatty, json!({})).await.expect(502);
    assert!(answer.error().contains("JSON object"), "{}", answer.error());
    let trace = answer.header("x-gateway-trace-id").expect("an id").to_owned();
    let record = eventually("the record", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().filter(|l| !l.is_empty()).map(|l| l[0].clone())
    })
    .await;
    assert_eq!(record["metrics"]["total_units"], 16, "{record}");
    // A stream has gone out by then: it ends in an error, and without its mark.
    let read = Arc::new(Notify::new());
    let heard = read.clone();
    let slow = Upstream::scripted(move |mut peer| {
        let heard = heard.clone();
        async move {
            peer.request().await;
            let whole = String::from_utf8(stream(&["Sure! ", "{}"])).expect("text");
            let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
            let body = body.split_once("\r\n").expect("a chunk").1;
            let (first, rest) = body.split_at(body.find("event: content_block_stop").expect("the end of the text"));
            let rest = rest.split("\r\n").next().expect("events");
            peer.send(format!("{head}\r\n\r\n")).await;
            peer.send(reply::chunk(first)).await;
            heard.notified().await;
            peer.send([reply::chunk(rest), reply::LAST_CHUNK.to_vec()].concat()).await;
        }
    })
    .await;
    let call = gateway.chat().config(&claude(&slow)).json(&with(wish(), json!({ "stream": true })));
    let mut open = call.open().await;
    let begun = open.chunk().await.expect("a piece").expect("a beginning");
    assert!(begun.starts_with(b"data: "));
    read.notify_one();
    let mut answer = Answer::read(open, Instant::now()).await;
    answer.body.splice(0..0, begun.iter().copied());
    let last = answer.events().pop().expect("events");
    assert!(last.contains("error") && last.contains("JSON object") && !answer.text().contains("[DONE]"), "{last}");
    // Before anything went out the next target has its turn.
    let second = Upstream::replying(|_| reply::chat("{}")).await;
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [claude(&chatty), target(&second)] });
    let answer = gateway.chat().config(&config).json(&wish()).send().await.expect(200);
    assert_eq!(answer.said(), "{}");
    assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
}

#[tokio::test]
async fn who_insists_is_refused() {
    let gateway = Gateway::start().await;
    let upstream = says(&["{}"]).await;
    let strict = |value: &str| {
        let call = gateway.chat().config(&claude(&upstream)).json(&wish());
        call.header("x-gateway-strict-open-ai-compliance", value)
    };
    let refused = strict("true").send().await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "response_format");
    assert!(refused.error().contains("strict_open_ai_compliance"), "{}", refused.error());
    strict("false").send().await.expect(200);
    let insisting = with(claude(&upstream), json!({ "strict_open_ai_compliance": true }));
    gateway.chat().config(&insisting).json(&wish()).send().await.expect(400);

    // Whatever else would not arrive as it was asked for can be refused too.
    let seeded = with(hello(), json!({ "seed": 7, "logit_bias": { "1": 1 } }));
    let call = || gateway.chat().config(&claude(&upstream)).json(&seeded);
    assert_eq!(call().send().await.expect(200).header("x-gateway-adjusted-params"), Some("logit_bias,seed"));
    let refused = call().header("x-gateway-adjusted-params", "refuse").send().await.expect(400);
    assert!(refused.error().contains("logit_bias, seed"), "{}", refused.error());
    assert_eq!(refused.json()["error"]["param"], "logit_bias");
    call().header("x-gateway-adjusted-params", "allow").send().await.expect(200);
}

/// A caller pays for an answer that was none as well as for the one that took its place.
#[tokio::test]
async fn what_was_lost_on_the_way_counts_for_the_caller() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (chatty, second) = (says(&["no JSON"]).await, Upstream::replying(|_| reply::chat("{}")).await);
    let both = json!({ "strategy": { "mode": "fallback" }, "targets": [claude(&chatty), target(&second)] });
    let left = async |name: &str, config: &Value| {
        let limits = json!({ "rate_limits": [{ "type": "tokens", "unit": "rph", "value": 100_000 }] });
        let (_, key) = gateway.admin().workspace_key(name, limits).await;
        let ask = async |config: &Value| gateway.chat().key(&key).config(config).json(&wish()).send().await.expect(200);
        ask(config).await;
        eventually("its end", || async {
            gateway.metrics().await.contains("gateway_requests_in_flight 0").then_some(())
        })
        .await;
        let after = ask(&target(&second)).await;
        let left = after.header("x-gateway-ratelimit-remaining-tokens").expect("a limit").parse::<i64>();
        left.expect("a number")
    };
    let (plain, lossy) = (left("plain", &target(&second)).await, left("lossy", &both).await);
    assert_eq!(plain - lossy, 16, "nine tokens in and seven out");
}
