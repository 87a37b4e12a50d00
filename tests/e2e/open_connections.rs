//! Bounds on open connections: who asks nothing makes room, the admin port always answers, and what is idle costs
//! little and is let go.

use crate::harness::http2::Http2;
use crate::harness::{ADMIN_KEY, Gateway, Raw, Upstream, eventually, hello, reply, with};
use serde_json::json;
use std::time::Duration;

async fn open(gateway: &Gateway) -> u64 {
    figure(gateway, "gateway_open_connections ").await
}

async fn figure(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics().await;
    let line = metrics.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number") as u64
}

#[tokio::test]
async fn who_asks_nothing_makes_room_for_who_does() {
    let gateway = Gateway::with(&["--max-open-connections", "8"]).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send("GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n").await;
        assert_eq!(client.response().await.head.status, 200);
        idle.push(client);
    }
    assert_eq!(open(&gateway).await, 8);
    for _ in 0..3 {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send("GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n").await;
        assert_eq!(client.response().await.head.status, 200);
        assert!(open(&gateway).await <= 8);
        idle.push(client);
    }
    assert_eq!(figure(&gateway, "gateway_shed_connections ").await, 0);
    drop(idle);
    eventually("all gone", || async { (open(&gateway).await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn calls_under_way_are_not_ended_for_newcomers() {
    let gateway = Gateway::with(&["--max-open-connections", "4"]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("hi")].concat()).await;
        peer.gone().await;
    })
    .await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let call = crate::harness::call::Call::new(&client, "POST", &gateway.url("/v1/chat/completions"));
        let call = call.key(crate::harness::WORKSPACE_KEY).config(&crate::harness::gateway::target(&upstream));
        let answer = call.json(&with(hello(), json!({ "stream": true }))).open().await;
        assert_eq!(answer.status(), 200);
        streams.push(answer);
    }
    let mut fifth = Raw::connect(gateway.proxy).await;
    fifth.try_send("GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n").await;
    assert!(fifth.bytes().await.is_empty(), "closed unheard");
    assert_eq!(figure(&gateway, "gateway_shed_connections ").await, 1);
    for stream in &mut streams {
        assert!(stream.chunk().await.expect("still open").is_some());
    }
    streams.pop();
    eventually("a place", || async {
        let mut client = Raw::connect(gateway.proxy).await;
        client.try_send("GET / HTTP/1.0\r\n\r\n").await.then_some(())?;
        (!client.bytes().await.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_descriptors_the_admin_port_and_good_clients_are_served() {
    let gateway = Gateway::with_descriptors(256, &[]).await;
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(Raw::connect(gateway.proxy).await);
    }
    for path in ["/health/live", "/health/ready", "/metrics", "/v1/configs"] {
        let call = crate::harness::call::Call::new(gateway.client(), "GET", &gateway.admin_url(path)).key(ADMIN_KEY);
        let answer = call.send().await.expect(200);
        assert!(answer.took < Duration::from_secs(2), "{path}: {:?}", answer.took);
    }
    for _ in 0..5 {
        gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    }
    // Idle clients of the admin port do not lock it either.
    let mut kept = Vec::new();
    for _ in 0..30 {
        kept.push(Raw::connect(gateway.admin).await);
    }
    gateway.admin().get("/configs").await.expect(200);
    assert!(!gateway.process.output().contains("ERROR"), "{}", gateway.process.output());
}

/// 600 of each kind. A debug build's futures are larger, and what a process grows by differs from run to run (36 to 49
/// KiB for HTTP/2 here): the close bounds are those of a release build, in `make connections`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_cost_little_and_are_let_go() {
    const MANY: usize = 600;
    let clocks = ["--client-idle-timeout", "6s", "--keepalive-timeout", "6s"];
    let gateway = Gateway::with(&clocks).await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    // What the first record needs to be stored is no connection's.
    eventually("the first record", || async {
        let stored = gateway.admin().get("/logs?page_size=1").await.expect(200).json();
        (stored["total"] == 1).then_some(())
    })
    .await;
    let mut before = gateway.memory_bytes();
    let mut grown = |what: &str, most: u64| {
        let now = gateway.memory_bytes();
        let each = now.saturating_sub(before) / MANY as u64;
        before = now.max(before);
        assert!(each < most << 10, "{what}: {each} bytes each");
    };
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(Raw::connect(gateway.proxy).await);
    }
    eventually("all silent", || async { (open(&gateway).await >= MANY as u64).then_some(()) }).await;
    grown("silent", 20);
    let mut kept = Vec::new();
    for _ in 0..MANY {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send("GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n").await;
        assert_eq!(client.response().await.head.status, 200);
        kept.push(client);
    }
    grown("kept after an answer", 32);
    let mut streams = Vec::new();
    for _ in 0..MANY {
        let mut client = Http2::connect(gateway.proxy).await;
        assert_eq!(client.ask("GET", "/v1/health", &[], b"").await.0, 200);
        streams.push(client);
    }
    grown("HTTP/2", 64);
    eventually("all let go", || async { (open(&gateway).await <= 1).then_some(()) }).await;
    drop((silent, kept, streams));
}
