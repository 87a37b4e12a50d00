//! HTTP/1 as bytes: requests of any length and version, clocks for every silence on both ports, heads within bounds,
//! requests that come before their turn, and the public variants of smuggling.

use crate::harness::{ADMIN_KEY, Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, raw, reply};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Far more than a busy machine needs, far less than any clock that is not meant.
const SOON: Duration = Duration::from_secs(8);
const CLOCKS: [&str; 6] =
    ["--client-idle-timeout", "500ms", "--client-header-timeout", "900ms", "--keepalive-timeout", "1400ms"];

/// Everything until the connection ends, and how long that took.
async fn rest(client: &mut Raw) -> (String, Duration) {
    let (began, mut all) = (Instant::now(), Vec::new());
    loop {
        let more = client.bytes().await;
        if more.is_empty() {
            return (String::from_utf8_lossy(&all).into_owned(), began.elapsed());
        }
        all.extend(more);
    }
}

#[tokio::test]
async fn requests_of_any_length_and_version_are_answered() {
    let gateway = Gateway::start().await;
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200"),
        ("OPTIONS / HTTP/1.0\r\n\r\n", "HTTP/1.1 4"),
        ("HEAD / HTTP/1.0\r\n\r\n", "HTTP/1.1 200"),
        ("GET / HTTP/1.0\n\n", "HTTP/1.1 200"),
        ("\r\n\r\nGET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200"),
        ("GET /v1/health HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n", "HTTP/1.1 200"),
        ("\u{16}\u{3}\u{1}", "HTTP/1.1 400"),
        ("{\"no\":\"request\"}", "HTTP/1.1 400"),
    ] {
        let mut whole = Raw::connect(gateway.proxy).await;
        whole.send(request).await;
        let (told, took) = rest(&mut whole).await;
        assert!(told.starts_with(status) && took < SOON, "{request:?} after {took:?}: {told}");
    }
    // Byte by byte, each in a packet of its own.
    let mut slow = Raw::connect(gateway.proxy).await;
    for byte in b"GET / HTTP/1.0\r\n\r\n" {
        slow.send([*byte]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(rest(&mut slow).await.0.starts_with("HTTP/1.1 200"));
    // HTTP/1.0 that asks for it keeps its connection.
    let mut kept = Raw::connect(gateway.proxy).await;
    for _ in 0..2 {
        kept.send("GET /v1/health HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
        assert_eq!(kept.response().await.head.status, 200);
    }
}

/// How long a client is kept that sends this once, and then a byte each while.
async fn kept(address: SocketAddr, first: &str, drip: Option<char>) -> (String, Duration) {
    let mut client = Raw::connect(address).await;
    let began = Instant::now();
    client.send(first).await;
    let Some(drip) = drip else {
        let told = rest(&mut client).await.0;
        return (told, began.elapsed());
    };
    while began.elapsed() < SOON && client.try_send(drip.to_string()).await {
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    (String::new(), began.elapsed())
}

#[tokio::test]
async fn every_silence_has_its_clock_on_both_ports() {
    let gateway = Gateway::with(&CLOCKS).await;
    let good = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {ADMIN_KEY}\r\n\r\n");
    for (address, good) in [(gateway.proxy, good("/v1/health")), (gateway.admin, good("/health/live"))] {
        let half = format!("{good}GET /v1/he");
        let cases: [(&str, &str, Option<char>, u64); 6] = [
            ("nothing", "", None, 500),
            ("ten bytes", "GET /v1/he", None, 900),
            ("a dripping head", "GET /v1/health HTTP/1.1\r\nx: ", Some('x'), 900),
            ("nothing after an answer", &good, None, 1400),
            ("half a head after an answer", &half, None, 900),
            ("a head without its end", "GET /v1/health HTTP/1.1\r\nhost: g\r\n", None, 900),
        ];
        let all = cases.map(|(what, first, drip, ms)| async move { (what, ms, kept(address, first, drip).await) });
        for (what, ms, (told, took)) in futures_util::future::join_all(all).await {
            assert!(took >= Duration::from_millis(ms - 50), "{what} on {address}: only {took:?}, {told}");
            assert!(took < Duration::from_millis(ms) + Duration::from_secs(3), "{what} on {address}: {took:?}");
        }
    }
    // Who was at it is told.
    let told = kept(gateway.proxy, "GET /v1/he", None).await.0;
    assert!(told.starts_with("HTTP/1.1 408") && told.contains("head of the request"), "{told}");
    assert!(!gateway.process.output().contains("ERROR"), "strangers write no errors: {}", gateway.process.output());
}

/// An answer that takes its time, and a stream that pauses, are no silence of the client's.
#[tokio::test]
async fn an_open_answer_is_not_idle() {
    let gateway = Gateway::with(&CLOCKS).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.pause(1800).await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("one ")].concat()).await;
        peer.pause(1800).await;
        peer.send([reply::delta("two"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat()).await;
    })
    .await;
    let body = crate::harness::with(hello(), serde_json::json!({ "stream": true }));
    let answer = gateway.chat_through(&upstream).json(&body).send().await.expect(200);
    assert!(answer.whole && answer.said() == "one two", "{}", answer.text());
}

#[tokio::test]
async fn a_body_and_its_clock_on_the_admin_port() {
    let gateway = Gateway::with(&["--body-timeout", "600ms"]).await;
    let head = |key: &str| {
        format!("POST /v1/configs HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {key}\r\ncontent-length: 100\r\n\r\n{{")
    };
    let mut client = Raw::connect(gateway.admin).await;
    let began = Instant::now();
    client.send(head(ADMIN_KEY)).await;
    assert_eq!(client.response().await.head.status, 408);
    assert!(began.elapsed() >= Duration::from_millis(550) && began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(client.bytes().await.is_empty(), "the connection ends");
    let mut stranger = Raw::connect(gateway.admin).await;
    stranger.send(head("nope")).await;
    assert_eq!(stranger.response().await.head.status, 401);
}

#[tokio::test]
async fn heads_have_a_bound() {
    let gateway = Gateway::start().await;
    let head = |bytes: usize| format!("GET /v1/health HTTP/1.1\r\nhost: g\r\nx-long: {}\r\n\r\n", "x".repeat(bytes));
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(head(60_000)).await;
    assert_eq!(client.response().await.head.status, 200);
    for bytes in [66_000, 300_000] {
        let mut client = Raw::connect(gateway.proxy).await;
        client.try_send(head(bytes)).await;
        let response = client.response().await;
        assert_eq!(response.head.status, 431, "{}", response.text());
        assert!(response.text().contains("65536"), "{}", response.text());
    }
    // What is not whole yet is held to it too.
    let before = gateway.memory("VmRSS");
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.try_send(format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(900_000))).await;
        clients.push(client);
    }
    let grown = gateway.memory("VmRSS").saturating_sub(before);
    assert!(grown < 40, "{grown} MiB for 100 heads");
}

#[tokio::test]
async fn what_comes_early_waits_for_its_turn() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            peer.pause(300).await;
            let said = seen.json()["user"].as_str().unwrap_or("none").to_owned();
            if !peer.send(reply::chat(&said)).await {
                return;
            }
        }
    })
    .await;
    let config = target(&upstream).to_string();
    let ask = |user: &str| {
        let body = crate::harness::with(hello(), serde_json::json!({ "user": user })).to_string();
        raw::post("/v1/chat/completions", &[("x-gateway-config", &config)], &body)
    };
    let health = "GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n";
    // Beside a call under way: another, a stray line end, one that is cut in two.
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(ask("one")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = ask("two");
    let (half, other) = second.split_at(40);
    client.send(format!("\r\n{half}")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.send(other).await;
    for user in ["one", "two"] {
        let response = client.response().await;
        assert_eq!(response.head.status, 200, "{}", response.text());
        assert!(response.text().contains(user), "{}", response.text());
    }
    // These come in one packet.
    client.send([&ask("three"), health, &ask("four"), health].concat()).await;
    for said in ["three", "healthy", "four", "healthy"] {
        let response = client.response().await;
        assert!(response.head.status == 200 && response.text().contains(said), "{said}: {}", response.text());
    }
    assert_eq!(upstream.seen().len(), 4);
    // Who asks early and leaves has left.
    let mut leaver = Raw::connect(gateway.proxy).await;
    leaver.send(ask("gone") + health).await;
    crate::harness::eventually("the call", || async { (upstream.seen().len() == 5).then_some(()) }).await;
    drop(leaver);
    crate::harness::eventually("the end of the call", || async {
        gateway.metrics().await.contains("gateway_requests_in_flight 0").then_some(())
    })
    .await;
}

/// Each carries a request within its body, or behind it, that must never be answered as one of its own.
#[tokio::test]
async fn no_request_hides_in_another() {
    let gateway = Gateway::start().await;
    let hidden = "GET /v1/health HTTP/1.1\r\nhost: hidden\r\n\r\n";
    let chunked = format!("0\r\n\r\n{hidden}");
    let no_digit = format!("2\r\n{{}}\r\n\r\n\r\n{hidden}");
    let cases = [
        ("content-length: 5\r\ncontent-length: 6", hidden, true),
        ("content-length: 5, 6", hidden, true),
        ("content-length: +5", hidden, true),
        ("content-length: 0x5", hidden, true),
        ("content-length: -1", hidden, true),
        ("content-length:", hidden, true),
        ("content-length : 5", hidden, true),
        ("content-length: 4\r\ntransfer-encoding: chunked", &chunked, true),
        ("transfer-encoding: chunked\r\nContent-Length: 4", &chunked, true),
        ("transfer-encoding: gzip, chunked", &chunked, true),
        ("transfer-encoding: identity, chunked", &chunked, true),
        ("transfer-encoding: chunked, chunked", &chunked, true),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", &chunked, true),
        ("transfer-encoding: cHunked", &chunked, true),
        ("transfer-encoding: chunked", &no_digit, true),
        ("x-length: 9999\r\ntransfer-encoding: chunked", &no_digit, true),
        ("transfer-encoding: xchunked", &chunked, true),
        ("transfer-encoding: chunked, identity", &chunked, true),
        ("transfer-encoding : chunked", &chunked, true),
        ("transfer-encoding: \u{b}chunked", &chunked, true),
        ("transfer-encoding:\r\n chunked", &chunked, false),
        ("x: y\rtransfer-encoding: chunked", &chunked, true),
        ("host: other", hidden, true),
        ("x\u{0}: y", hidden, true),
    ];
    for (header, body, refused) in cases {
        let mut client = Raw::connect(gateway.proxy).await;
        client
            .send(format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-provider: mock\r\n\
                 content-type: application/json\r\n{header}\r\n\r\n{body}"
            ))
            .await;
        let (told, took) = rest(&mut client).await;
        assert!(!told.contains("healthy") && took < SOON, "{header:?} after {took:?}: {told}");
        assert_eq!(told.matches("HTTP/1.1 ").count(), 1, "{header:?}: {told}");
        assert!(!refused || told.starts_with("HTTP/1.1 400"), "{header:?}: {told}");
        assert!(!refused || (told.contains("{\"error\":") && !told.contains("Pingora")), "{header:?}: {told}");
    }
    for (request, status) in [
        ("GET /v1/health HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
        ("GET /v1/health HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "HTTP/1.1 400"),
        ("GET /v1/health HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n", "HTTP/1.1 400"),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", "HTTP/1.1 405"),
        ("\u{16}\u{3}\u{1}", "HTTP/1.1 400"),
    ] {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(request).await;
        let told = rest(&mut client).await.0;
        assert!(told.starts_with(status) && told.contains("{\"error\":"), "{request:?}: {told}");
        assert!(!told.to_lowercase().contains("server:"), "{request:?}: {told}");
    }
    let mut old = Raw::connect(gateway.proxy).await;
    old.send(format!("POST /v1/chat/completions HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n{chunked}")).await;
    let told = rest(&mut old).await.0;
    assert!(told.starts_with("HTTP/1.1 400") && !told.contains("healthy"), "{told}");
}
