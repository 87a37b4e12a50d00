//! Bodies that stream up unread (files, audio): their clocks, what may be sent again, answers that come early, and
//! what of them is recorded.

use crate::harness::{Answer, Gateway, Raw, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply, with};
use crate::journal::metric;
use serde_json::{Value, json};
use std::time::Duration;

const FORM: &str = "multipart/form-data; boundary=b";

fn form(bytes: usize) -> Vec<u8> {
    let head = b"--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
    [&head[..], &vec![b'x'; bytes], b"\r\n--b--\r\n"].concat()
}

async fn transcribe(gateway: &Gateway, config: &Value, trace: &str, bytes: usize) -> Answer {
    let call = gateway.post("/v1/files").config(config).header("x-gateway-trace-id", trace);
    call.body(FORM, form(bytes)).send().await
}

async fn recorded(gateway: &Gateway, trace: &str) -> Value {
    eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().and_then(|rows| rows.first().cloned())
    })
    .await
}

async fn metrics(gateway: &Gateway, trace: &str) -> Value {
    recorded(gateway, trace).await["metrics"].clone()
}

#[tokio::test]
async fn the_timeout_of_a_try_is_no_limit_on_silence() {
    let gateway = Gateway::start().await;
    // Never silent for long, and never done with its head.
    let dripping = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nx-long: ").await;
        while peer.send("x").await {
            peer.pause(20).await;
        }
    })
    .await;
    let config = with(target(&dripping), json!({ "request_timeout": 300 }));
    let answer = transcribe(&gateway, &config, "drips", 10).await.expect(408);
    assert!(answer.text().contains("300ms") && answer.took < Duration::from_secs(5), "{:?}", answer.took);
    assert_eq!(metrics(&gateway, "drips").await["response_status_code"], 408);
    // What has begun outlives it.
    let pausing = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\none").await;
        peer.pause(700).await;
        peer.send("two").await;
    })
    .await;
    let config = with(target(&pausing), json!({ "request_timeout": 300 }));
    let answer = transcribe(&gateway, &config, "begun", 10).await.expect(200);
    assert_eq!((answer.text().as_str(), answer.whole), ("onetwo", true));
}

#[tokio::test]
async fn silence_inside_an_answer_has_a_clock_of_its_own() {
    let gateway = Gateway::with(&["--idle-timeout", "400ms"]).await;
    let stalling = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\none").await;
        peer.gone().await;
    })
    .await;
    let answer = transcribe(&gateway, &target(&stalling), "stalls", 10).await.expect(200);
    assert!(!answer.whole && answer.took < Duration::from_secs(5), "{:?}", answer.took);
    assert_eq!(recorded(&gateway, "stalls").await["fault"], "upstream_silent");
    eventually("the end of the call", || async { (stalling.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn what_is_large_is_sent_once() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let good = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let retry = json!({ "retry": { "attempts": 2, "on_status_codes": [504] } });
    let config =
        json!({ "strategy": { "mode": "fallback" }, "targets": [with(target(&broken), retry), target(&good)] });
    let small = transcribe(&gateway, &config, "small", 1000).await.expect(200);
    assert_eq!(small.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
    assert!(good.only().body == form(1000), "all of it, once more");
    let large = transcribe(&gateway, &config, "large", 200_000).await.expect(503);
    assert_eq!(large.header("x-gateway-last-used-option-index"), Some("config.targets[0]"));
    assert!(broken.seen().pop().expect("it went up").body == form(200_000) && good.seen().len() == 1);
    // Nothing was read for a target that was never reached.
    let nobody = json!({ "provider": "openai", "api_key": "k", "custom_host": "http://127.0.0.1:1/v1" });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [nobody, target(&good)] });
    transcribe(&gateway, &config, "unreached", 200_000).await.expect(200);
    assert!(good.seen()[1].body == form(200_000));
}

#[tokio::test]
async fn a_target_that_is_left_early_costs_nothing_of_the_body() {
    let gateway = Gateway::start().await;
    let hasty = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.bytes().await;
        peer.send(reply::error(503, &[])).await;
        peer.gone().await;
    })
    .await;
    let good = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&hasty), target(&good)] });
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(format!("{}x-gateway-config: {config}\r\n\r\nhalf ", head(10))).await;
    eventually("the next target", || async { (good.open() == 1).then_some(()) }).await;
    client.send("whole").await;
    assert_eq!(client.response().await.head.status, 200);
    assert_eq!(good.only().text(), "half whole");
    eventually("the end of the first call", || async { (hasty.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn usage_of_what_is_answered_is_recorded() {
    let gateway = Gateway::start().await;
    let usage = json!({ "prompt_tokens": 14, "completion_tokens": 4, "total_tokens": 18 });
    let body = json!({ "text": "heard", "model": "gpt-4o-transcribe", "usage": usage });
    let upstream = Upstream::replying(move |_| reply::json(200, &body)).await;
    let answer = transcribe(&gateway, &target(&upstream), "used", 1000).await.expect(200);
    assert_eq!(answer.json()["text"], "heard");
    let told = metrics(&gateway, "used").await;
    assert_eq!((&told["req_units"], &told["res_units"]), (&json!(14), &json!(4)), "{told}");
}

fn head(length: usize) -> String {
    format!(
        "POST /v1/proxy/echo HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\ncontent-type: {FORM}\r\n\
         content-length: {length}\r\n"
    )
}

#[tokio::test]
async fn an_early_refusal_is_heard_while_the_body_is_still_sent() {
    let gateway = Gateway::start().await;
    let refusing = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.send(reply::error(413, &[("connection", "close")])).await;
        peer.gone().await;
    })
    .await;
    let body = form(20 << 20);
    let request = format!("{}x-gateway-config: {}\r\n\r\n", head(body.len()), target(&refusing));
    let mut client = Raw::connect(gateway.proxy).await;
    let response = client.exchange(&[request.as_bytes(), &body].concat()).await;
    assert_eq!((response.head.status, response.whole), (413, true), "{}", response.text());
    assert!(response.text().contains("scripted 413"), "{}", response.text());
}

#[tokio::test]
async fn an_answer_may_begin_before_the_body_is_over() {
    const HALF: usize = 64 << 10;
    let gateway = Gateway::start().await;
    // Says what it hears as it hears it.
    let echoing = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        let mut left = 2 * HALF;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {left}\r\n\r\n");
        peer.send(head).await;
        while left > 0 {
            let bytes = peer.bytes().await;
            if bytes.is_empty() || !peer.send(&bytes).await {
                return;
            }
            left -= bytes.len();
        }
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(format!("{}x-gateway-config: {}\r\n\r\n", head(2 * HALF), target(&echoing))).await;
    client.send(vec![b'a'; HALF]).await;
    let begun = client.head().await;
    assert_eq!(begun.status, 200);
    client.send(vec![b'b'; HALF]).await;
    let response = client.body(begun).await;
    assert!(response.whole && response.body == [vec![b'a'; HALF], vec![b'b'; HALF]].concat());
}

#[tokio::test]
async fn a_body_without_a_length_and_one_that_waits_for_a_word_go_up() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let config = target(&upstream);
    let mut client = Raw::connect(gateway.proxy).await;
    let chunked = head(0).replace("content-length: 0\r\n", "transfer-encoding: chunked\r\n");
    client.send(format!("{chunked}x-gateway-config: {config}\r\n\r\n3\r\none\r\n")).await;
    client.send("3\r\ntwo\r\n0\r\n\r\n").await;
    assert_eq!(client.response().await.head.status, 200);
    client.send(format!("{}expect: 100-continue\r\nx-gateway-config: {config}\r\n\r\n", head(6))).await;
    assert_eq!(client.head().await.status, 100);
    client.send("onetwo").await;
    assert_eq!(client.response().await.head.status, 200, "the connection was kept, too");
    let bodies: Vec<String> = upstream.seen().iter().map(|seen| seen.text()).collect();
    assert_eq!(bodies, ["onetwo", "onetwo"]);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_body_ends_the_call() {
    let gateway = Gateway::start().await;
    let reading = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.gone().await;
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    let head = format!("{}x-gateway-trace-id: left\r\nx-gateway-config: {}\r\n\r\n", head(5000), target(&reading));
    client.send(head).await;
    client.send(vec![b'a'; 1000]).await;
    eventually("the call", || async { (reading.open() == 1).then_some(()) }).await;
    drop(client);
    eventually("the end of the call", || async { (reading.open() == 0).then_some(()) }).await;
    assert_eq!(metrics(&gateway, "left").await["response_status_code"], 499);
}

#[tokio::test]
async fn a_provider_that_answers_while_it_still_reads_gets_all_of_the_body() {
    const ALL: usize = 8 << 20;
    let gateway = Gateway::start().await;
    // Reads more slowly than the client sends, and says so with each piece.
    let slow = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.send(reply::STREAM).await;
        let mut left = ALL;
        while left > 0 {
            peer.pause(1).await;
            let bytes = peer.bytes().await;
            if bytes.is_empty() {
                return;
            }
            left -= bytes.len();
            peer.send(reply::chunk(format!("data: {left}\n\n"))).await;
        }
        peer.send(reply::LAST_CHUNK).await;
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(format!("{}x-gateway-config: {}\r\n\r\n", head(ALL), target(&slow))).await;
    client.send(vec![b'a'; ALL]).await;
    let response = client.response().await;
    assert!(response.whole && response.text().ends_with("data: 0\n\n"), "{}", response.text());
}

#[tokio::test]
async fn what_streams_is_not_held_and_what_is_held_is_counted() {
    let gateway = Gateway::with(&["--max-buffered-bytes", "1MiB"]).await;
    let heard = Upstream::replying(|seen| {
        let usage = json!({ "input_tokens": 14, "output_tokens": 4, "total_tokens": 18 });
        let text = "x".repeat(if seen.body.len() > 10_000 { 3 << 20 } else { 100_000 });
        reply::json(200, &json!({ "text": text, "usage": usage }))
    })
    .await;
    let small = transcribe(&gateway, &target(&heard), "small", 1000).await.expect(200);
    assert_eq!(small.json()["text"].as_str().map(str::len), Some(100_000));
    assert_eq!(metrics(&gateway, "small").await["req_units"], 14);
    // Twenty times what may be held goes up, three times of it comes down.
    let large = transcribe(&gateway, &target(&heard), "large", 20 << 20).await.expect(200);
    assert_eq!(large.json()["text"].as_str().map(str::len), Some(3 << 20));
    assert_eq!(metrics(&gateway, "large").await["req_units"], Value::Null, "there was no room to look into it");
    assert_eq!(heard.seen()[1].body.len(), form(20 << 20).len());
    // What is read whole has to fit.
    let chatty = Upstream::replying(|_| reply::chat(&"x".repeat(3 << 20))).await;
    let refused = gateway.chat_through(&chatty).json(&hello()).send().await.expect(503);
    assert_eq!(refused.header("retry-after"), Some("1"), "{}", refused.text());
    let held = async || (metric(&gateway, "gateway_buffered_bytes").await == 0.0).then_some(());
    eventually("all of it given back", held).await;
}
