//! Records of what is only relayed, and of clients that leave: told as far as it is known, and nothing made up.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply, with};
use crate::journal::metric;
use crate::record_fields::record_of;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const FORM: &str = "multipart/form-data; boundary=b";

fn form() -> Vec<u8> {
    let part = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\ngpt-4o-transcribe\r\n--b--\r\n";
    part.as_bytes().to_vec()
}

async fn upload(gateway: &Gateway, upstream: &Upstream, trace: &str) -> Value {
    let call = gateway.post("/v1/files").config(&target(upstream));
    call.header("x-gateway-trace-id", trace).body(FORM, form()).send().await.expect(200);
    record_of(gateway, trace).await
}

#[tokio::test]
async fn what_a_relayed_answer_used_is_read_beside_it() {
    let gateway = Gateway::start().await;
    let told = json!({ "text": "heard", "usage": { "input_tokens": 14, "output_tokens": 45, "total_tokens": 59 } });
    let upstream = Upstream::replying(move |_| reply::json(200, &told)).await;
    let record = upload(&gateway, &upstream, "told").await;
    let metrics = &record["metrics"];
    assert_eq!((&metrics["req_units"], &metrics["res_units"]), (&json!(14), &json!(45)), "{record}");
    assert_eq!((&metrics["is_success"], &metrics["ai_org"]), (&json!(true), &json!("openai")));
    assert_eq!(record["request"]["bytes"], form().len());
    // The model stands in a part that nobody read, so nobody knows the price.
    assert_eq!((&metrics["ai_model"], &metrics["cost"]), (&json!(""), &Value::Null));
}

#[tokio::test]
async fn what_nobody_told_is_not_known_rather_than_nothing() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let record = upload(&gateway, &upstream, "untold").await;
    for field in ["req_units", "res_units", "total_units", "usage", "cost"] {
        assert_eq!(record["metrics"][field], Value::Null, "{field}: {record}");
    }
    let broken = Upstream::replying(|_| reply::error(400, &[])).await;
    let call = gateway.post("/v1/files").config(&target(&broken)).header("x-gateway-trace-id", "refused");
    call.body(FORM, form()).send().await.expect(400);
    let record = record_of(&gateway, "refused").await;
    assert_eq!((&record["metrics"]["total_units"], &record["response"]["status"]), (&json!(0), &json!(400)));
    assert_eq!(record["metrics"]["cost"].as_f64(), Some(0.0), "what used nothing cost nothing: {record}");
}

#[tokio::test]
async fn the_wait_for_a_relayed_answer_is_not_the_gateways_own() {
    let gateway = Gateway::start().await;
    let slow = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.pause(700).await;
        peer.send(reply::json(200, &json!({ "text": "heard" }))).await;
    })
    .await;
    let record = upload(&gateway, &slow, "slow").await;
    let of = |name: &str| record["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}: {record}"));
    assert!(of("upstream_response_time") >= 699.0 && of("response_time") >= 699.0, "{record}");
    assert!(of("gateway_processing_time") < 600.0, "{record}");
}

#[tokio::test]
async fn a_websocket_leaves_a_record_when_it_ends() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n").await;
        peer.bytes().await;
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client
        .send(format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             x-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-trace-id: socket\r\nx-gateway-config: {}\r\n\r\n",
            target(&upstream)
        ))
        .await;
    assert_eq!(client.head().await.status, 101);
    client.send("bye").await;
    drop(client);
    let record = record_of(&gateway, "socket").await;
    assert_eq!(record["response"]["status"], 101, "{record}");
    assert_eq!((&record["metrics"]["total_units"], &record["metrics"]["cost"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded_wherever_it_waits() {
    let gateway = Gateway::start().await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let cached = with(target(&silent), json!({ "cache": { "mode": "simple" } }));
    let chat = |trace: &str| gateway.chat().header("x-gateway-trace-id", trace);
    // The second waits for the answer to the first, not for an answer of its own.
    let first = calling(chat("first").config(&cached).json(&hello()).attempt());
    eventually("the first call upstream", || async { (silent.seen().len() == 1).then_some(()) }).await;
    let second = calling(chat("second").config(&cached).json(&hello()).attempt());
    let under_way = async || (metric(&gateway, "gateway_requests_in_flight").await == 2.0).then_some(());
    eventually("two calls under way", under_way).await;
    drop(second);
    left(&gateway, "second").await;
    let alone = gateway.post("/v1/files").header("x-gateway-trace-id", "upload").config(&target(&silent));
    let alone = calling(alone.body(FORM, form()).attempt());
    eventually("the upload upstream", || async { (silent.seen().len() == 2).then_some(()) }).await;
    drop(alone);
    left(&gateway, "upload").await;
    drop(first);
    left(&gateway, "first").await;
}

/// Under way until it is dropped.
fn calling(call: impl Future<Output = reqwest::Result<reqwest::Response>> + Send + 'static) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    calls.spawn(async move { drop(call.await) });
    calls
}

async fn left(gateway: &Gateway, trace: &str) {
    let record = record_of(gateway, trace).await;
    assert_eq!((&record["response"]["status"], &record["fault"]), (&json!(499), &json!("client_gone")), "{record}");
}
