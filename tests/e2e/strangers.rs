//! What somebody without a key, or one key of many, can take from all others: nothing that lasts. A key is looked at
//! before its body, a body has a clock over either protocol, and what is announced takes no room.

use crate::harness::http2::Http2;
use crate::harness::{
    ADMIN_KEY, Gateway, Raw, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply, with,
};
use crate::record_fields::record_of;
use serde_json::json;
use std::time::{Duration, Instant};

const STRANGER: [(&str, &str); 1] = [("x-gateway-api-key", "nope")];
/// Far more than a busy machine needs, far less than any clock that is not meant.
const SOON: Duration = Duration::from_secs(8);

async fn buffered(gateway: &Gateway) -> u64 {
    let metrics = gateway.metrics().await;
    let line = metrics.lines().find(|l| l.starts_with("gateway_buffered_bytes ")).expect("the gauge");
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// A head of HTTP/1 with so long a body to come.
fn head(path: &str, key: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {key}\r\nx-gateway-provider: mock\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn nothing_is_read_of_a_strangers_body() {
    let gateway =
        Gateway::with(&["--max-buffered-bytes", "64MiB", "--body-timeout", "6s", "--unknown-key-rate", "0"]).await;
    let mut client = Http2::connect(gateway.proxy).await;
    let began = Instant::now();
    for _ in 0..9 {
        let mut stream = client.open("POST", "/v1/configs", &STRANGER).await;
        stream.send(&[b'x'; 20_000], false).await;
        let (status, told) = stream.answer().await;
        assert_eq!(status, 401, "{told}");
        assert_eq!(buffered(&gateway).await, 0);
    }
    for _ in 0..3 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(head("/v1/configs", "nope", 8 << 20)).await;
        assert_eq!(client.response().await.head.status, 401);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    // Who has a key is asked for the body then.
    let mut admin = Raw::connect(gateway.proxy).await;
    let body = json!({ "name": "late", "config": { "provider": "mock" } }).to_string();
    admin.send(head("/v1/configs", ADMIN_KEY, body.len())).await;
    admin.send(body).await;
    let made = admin.response().await;
    assert_eq!(made.head.status, 200, "{}", made.text());
}

#[tokio::test]
async fn a_stranger_counts_for_nobody_and_holds_up_no_end() {
    let mut gateway = Gateway::with(&["--max-connections", "2", "--unknown-key-rate", "0"]).await;
    let mut client = Http2::connect(gateway.proxy).await;
    let mut streams = Vec::new();
    for path in ["/v1/configs", "/v1/chat/completions", "/v1/audio/transcriptions"] {
        for _ in 0..3 {
            streams.push(client.open("POST", path, &STRANGER).await);
        }
    }
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(head("/v1/configs", "nope", 1000) + "{").await;
        clients.push(client);
    }
    for _ in 0..3 {
        gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    }
    let told = Instant::now();
    gateway.process.signal("TERM");
    let status = gateway.process.exit(SOON).await;
    assert!(status.success() && told.elapsed() < Duration::from_secs(4), "{status} after {:?}", told.elapsed());
}

#[tokio::test]
async fn a_body_that_does_not_come_over_http2_is_a_408() {
    let gateway = Gateway::with(&["--body-timeout", "400ms", "--idle-timeout", "400ms"]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.gone().await;
    })
    .await;
    let config = target(&upstream).to_string();
    let form = [("content-type", "multipart/form-data; boundary=b"), ("x-gateway-config", &*config)];
    let admin = [("x-gateway-api-key", ADMIN_KEY)];
    let mock = [("x-gateway-provider", "mock")];
    let cases: [(&str, &[(&str, &str)]); 3] =
        [("/v1/chat/completions", &mock), ("/v1/configs", &admin), ("/v1/files", &form)];
    let mut client = Http2::connect(gateway.proxy).await;
    for (path, headers) in cases {
        for beginning in ["", "{"] {
            let began = Instant::now();
            let mut stream = client.open("POST", path, headers).await;
            stream.send(beginning.as_bytes(), false).await;
            let (status, told) = stream.answer().await;
            assert_eq!(status, 408, "{path}: {told}");
            assert!(began.elapsed() < SOON, "{path}: {:?}", began.elapsed());
        }
    }
}

/// A byte now and then is no reason to wait for ever.
#[tokio::test]
async fn a_dripping_body_over_http2_ends_at_the_clock_of_the_whole() {
    let gateway = Gateway::with(&["--body-timeout", "700ms"]).await;
    let mut client = Http2::connect(gateway.proxy).await;
    let mut stream = client.open("POST", "/v1/chat/completions", &[("x-gateway-provider", "mock")]).await;
    let began = Instant::now();
    while stream.send(b" ", false).await && began.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, told) = stream.answer().await;
    assert_eq!(status, 408, "{told}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_is_announced_takes_no_room() {
    let gateway = Gateway::with(&["--body-timeout", "20s"]).await;
    let mut kept = Vec::new();
    for _ in 0..17 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(head("/v1/chat/completions", WORKSPACE_KEY, 64 << 20) + "{").await;
        kept.push(client);
    }
    let mut client = Http2::connect(gateway.proxy).await;
    let mut streams = Vec::new();
    for _ in 0..17 {
        let headers = [("x-gateway-provider", "mock"), ("content-length", "67108864")];
        streams.push(client.open("POST", "/v1/chat/completions", &headers).await);
    }
    eventually("all of them", || async {
        let told = gateway.metrics().await;
        told.contains("gateway_requests_in_flight 34").then_some(())
    })
    .await;
    assert!(buffered(&gateway).await < 1000, "{}", buffered(&gateway).await);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
}

#[tokio::test]
async fn a_key_holds_no_more_than_its_share() {
    let gateway = Gateway::with(&["--max-body", "2MiB", "--max-buffered-bytes", "8MiB", "--body-timeout", "20s"]).await;
    let (_, other) = gateway.admin().workspace_key("other", json!({})).await;
    const MOST: usize = 1_500_000;
    let holding = |key: String| async move {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(head("/v1/chat/completions", &key, 2_000_000)).await;
        client.send(vec![b' '; MOST]).await;
        client
    };
    let holding = &holding;
    let _first = holding(WORKSPACE_KEY.to_owned()).await;
    eventually("the first body", || async { (buffered(&gateway).await >= MOST as u64).then_some(()) }).await;
    let refused = holding(WORKSPACE_KEY.to_owned()).await.response().await;
    assert_eq!(refused.head.status, 429, "{}", refused.text());
    assert!(
        refused.text().contains("of this key") && refused.head.header("retry-after") == Some("1"),
        "{}",
        refused.text()
    );
    // Small requests of the same key go on, and so does another key.
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let large = with(hello(), json!({ "filler": "x".repeat(MOST) }));
    gateway.chat().key(&other).provider("mock").json(&large).send().await.expect(200);
}

#[tokio::test]
async fn unknown_keys_are_shed_on_control_plane_routes_too() {
    let gateway = Gateway::with(&["--unknown-key-rate", "5"]).await;
    let mut seen = Vec::new();
    for _ in 0..40 {
        let answer = gateway.get("/v1/configs").key("nope").send().await;
        seen.push(answer.status);
    }
    assert!(seen.iter().all(|s| matches!(s, 401 | 429)), "{seen:?}");
    assert!(seen.iter().filter(|s| **s == 429).count() > 15, "{seen:?}");
    gateway.get("/v1/configs").key(ADMIN_KEY).send().await.expect(200);
}

#[tokio::test]
async fn broken_framing_of_a_body_is_a_400_with_a_record() {
    let gateway = Gateway::start().await;
    for (i, broken) in ["zz\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5\r\nhello5\r\n"].into_iter().enumerate() {
        let mut client = Raw::connect(gateway.proxy).await;
        let trace = format!("broken-{i}");
        client
            .send(format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-provider: mock\r\n\
                 x-gateway-trace-id: {trace}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{broken}"
            ))
            .await;
        let response = client.response().await;
        assert_eq!(response.head.status, 400, "{broken:?}: {}", response.text());
        assert!(response.text().contains("framing"), "{}", response.text());
        assert_eq!(record_of(&gateway, &trace).await["response"]["status"], 400);
    }
}

#[tokio::test]
async fn a_late_body_is_a_408_at_its_clock_and_the_connection_ends() {
    let gateway = Gateway::with(&["--body-timeout", "500ms"]).await;
    let mut client = Raw::connect(gateway.proxy).await;
    let began = Instant::now();
    client.send(head("/v1/chat/completions", WORKSPACE_KEY, 100) + "{").await;
    assert_eq!(client.response().await.head.status, 408);
    let answered = began.elapsed();
    assert!(client.bytes().await.is_empty());
    let ended = began.elapsed();
    assert!(answered >= Duration::from_millis(450) && answered < Duration::from_millis(1400), "{answered:?}");
    assert!(ended < Duration::from_millis(1450), "{ended:?}");
}

/// RFC 9110, 10.1.1: HTTP/1.0 has no interim answers; and whoever was told to go on keeps its connection.
#[tokio::test]
async fn expect_is_answered_to_who_knows_it_and_the_connection_is_kept() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let (config, body) = (target(&upstream), hello().to_string());
    let ask = |version: &str| {
        format!(
            "POST /v1/chat/completions {version}\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {config}\r\n\
             content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
    };
    let mut client = Raw::connect(gateway.proxy).await;
    for _ in 0..2 {
        client.send(ask("HTTP/1.1")).await;
        assert_eq!(client.head().await.status, 100);
        client.send(&body).await;
        assert_eq!(client.response().await.head.status, 200);
    }
    let mut old = Raw::connect(gateway.proxy).await;
    old.send(ask("HTTP/1.0") + &body).await;
    assert_eq!(old.head().await.status, 200, "no interim answer");
}
