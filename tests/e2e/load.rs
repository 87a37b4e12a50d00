//! Many at once: uploads that must not fill memory, and streams that live through changes.

use crate::harness::{Gateway, Mock, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, raw, reply, with};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const UPLOADS: usize = 500;
const UPLOAD_BYTES: usize = 20 << 20;

/// Reads heads only until told to go on; then throws the bodies away as they come.
async fn reluctant(go: tokio::sync::watch::Receiver<bool>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let mut go = go.clone();
        async move {
            let Some(seen) = peer.head().await else { return };
            let _ = go.wait_for(|go| *go).await;
            let mut left: usize = seen.header("content-length").and_then(|v| v.parse().ok()).expect("a length");
            while left > 0 {
                let bytes = peer.bytes().await;
                if bytes.is_empty() {
                    return;
                }
                left -= bytes.len();
            }
            peer.record(seen);
            peer.send(reply::json(200, &json!({ "ok": true }))).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_uploads_at_once_stay_below_a_gibibyte() {
    // This is no test of how quickly a busy machine accepts connections.
    let gateway = Gateway::with(&["--connect-timeout", "60s"]).await;
    let (go, told) = tokio::sync::watch::channel(false);
    let upstream = reluctant(told).await;
    let config = target(&upstream).to_string();
    let head: Arc<str> = format!(
        "POST /v1/files HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {config}\r\n\
         content-type: multipart/form-data; boundary=b\r\ncontent-length: {UPLOAD_BYTES}\r\n\r\n"
    )
    .into();
    let piece: Arc<[u8]> = vec![b'x'; 64 << 10].into();
    // Each sends until nobody takes more: every buffer on the way is full, of all five hundred at once.
    let (full, address) = (Arc::new(tokio::sync::Barrier::new(UPLOADS + 1)), gateway.proxy);
    let mut clients = JoinSet::new();
    for _ in 0..UPLOADS {
        let (head, piece, full, mut go) = (head.clone(), piece.clone(), full.clone(), go.subscribe());
        clients.spawn(async move {
            let mut client = Raw::connect(address).await;
            client.send(head.as_bytes()).await;
            let mut left = UPLOAD_BYTES;
            while let Some(taken) = client.send_some(&piece[..piece.len().min(left)], Duration::from_millis(500)).await
            {
                left -= taken;
            }
            full.wait().await;
            let _ = go.wait_for(|go| *go).await;
            while left > 0 {
                let piece = &piece[..piece.len().min(left)];
                left -= client.send_some(piece, Duration::from_secs(60)).await.expect("the upload goes on");
            }
            client.response().await
        });
    }
    full.wait().await;
    // The last of them reach the upstream of a busy machine later than their clients give up pushing.
    let all = async {
        while upstream.connections() < UPLOADS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("every upload reaches the upstream");
    let peak = gateway.memory("VmHWM");
    assert!(peak < 1024, "the gateway took {peak} MiB for {UPLOADS} uploads that nobody takes");
    let _ = go.send(true);
    while let Some(response) = clients.join_next().await {
        let response = response.expect("no client failed");
        assert_eq!((response.head.status, response.whole), (200, true), "{}", response.text());
    }
    assert_eq!(upstream.seen().len(), UPLOADS);
    let peak = gateway.memory("VmHWM");
    assert!(peak < 1024, "the gateway took {peak} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_live_through_changes_of_configuration() {
    let gateway = Gateway::start().await;
    let mock = Mock::start(&["--chunks", "30", "--chunk-gap", "40", "--reply-bytes", "300"]).await;
    gateway.admin().provider("main", "openai", Some(&mock.url())).await;
    let slug = gateway.admin().config("main", &json!({ "provider": "@main" })).await;
    let mut streams = JoinSet::new();
    for i in 0..200 {
        let call = gateway.chat().header("x-gateway-trace-id", &format!("s{i}"));
        let call = if i % 2 == 0 { call.provider("@main") } else { call.header("x-gateway-config", &slug) };
        streams.spawn(call.json(&with(hello(), json!({ "stream": true }))).send());
    }
    let mut changes = 0;
    while !streams.is_empty() {
        let config = json!({ "provider": "@main", "override_params": { "seed": changes } });
        let admin = gateway.admin();
        admin.put(&format!("/configs/{slug}"), &json!({ "name": "main", "config": config })).await.expect(200);
        admin.put("/integrations/main-integration", &json!({ "name": format!("n{changes}") })).await.expect(200);
        let (id, _) = admin.workspace_key(&format!("k{changes}"), json!({})).await;
        admin.delete(&format!("/api-keys/{id}")).await.expect(200);
        changes += 4;
        while let Some(answer) = streams.try_join_next() {
            let answer = answer.expect("no client failed").expect(200);
            assert_eq!(answer.said().len(), 300, "{}", answer.text());
            assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
        }
    }
    assert!(changes >= 8, "only {changes} changes fell into the streams");
    assert_eq!(mock.stats().await["aborted_by_peer"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_body_budget_sheds_and_recovers() {
    let gateway = Gateway::with(&["--max-buffered-bytes", "8MiB", "--max-body", "4MiB"]).await;
    let (go, told) = tokio::sync::watch::channel(false);
    let upstream = Upstream::scripted(move |mut peer| {
        let mut go = told.clone();
        async move {
            while peer.request().await.is_some() {
                let _ = go.wait_for(|go| *go).await;
                peer.send(reply::chat("hi")).await;
            }
        }
    })
    .await;
    let config = target(&upstream).to_string();
    let body = with(hello(), json!({ "filler": "x".repeat(3 << 20) })).to_string();
    let request = raw::post("/v1/chat/completions", &[("x-gateway-config", &config)], &body);
    let mut calls = JoinSet::new();
    // One key may hold no more than its share, so that these fill the budget together.
    for number in 0..8 {
        let (_, key) = gateway.admin().workspace_key(&format!("k{number}"), json!({})).await;
        calls.spawn(send_whole(gateway.proxy, request.replace(WORKSPACE_KEY, &key).into()));
    }
    let request: Arc<str> = request.into();
    // Those that do not fit are turned away while the others wait for the upstream.
    for _ in 0..6 {
        let response = calls.join_next().await.expect("a call").expect("no client failed");
        assert_eq!(response.head.status, 503, "{}", response.text());
        assert!(response.head.header("retry-after").is_some(), "a 503 says when to come back");
    }
    crate::harness::eventually("two requests upstream", || async { (upstream.seen().len() == 2).then_some(()) }).await;
    let _ = go.send(true);
    while let Some(response) = calls.join_next().await {
        assert_eq!(response.expect("no client failed").head.status, 200);
    }
    // A moment after the answer has left.
    for _ in 0..3 {
        crate::harness::eventually("the budget is given back", || async {
            (send_whole(gateway.proxy, request.clone()).await.head.status == 200).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_without_an_end_are_taken_from_the_budget() {
    let gateway = Gateway::with(&["--max-buffered-bytes", "8MiB"]).await;
    let (go, told) = tokio::sync::watch::channel(false);
    let upstream = Upstream::scripted(move |mut peer| {
        let mut go = told.clone();
        async move {
            while peer.request().await.is_some() {
                let event = reply::delta(&"x".repeat(3 << 20));
                let chunk = [reply::STREAM, &reply::chunk(&event[8..event.len() - 4])].concat();
                peer.send(chunk).await;
                let _ = go.wait_for(|go| *go).await;
                peer.send([reply::chunk("\n\n"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat())
                    .await;
            }
        }
    })
    .await;
    let config = target(&upstream);
    let body = with(hello(), json!({ "stream": true }));
    let call = || gateway.chat().config(&config).json(&body).send();
    let mut calls = JoinSet::new();
    (0..2).for_each(|_| drop(calls.spawn(call())));
    let held = || async {
        let metrics = gateway.metrics().await;
        let held = metrics.lines().find_map(|line| line.strip_prefix("gateway_buffered_bytes ")).expect("the metric");
        held.parse::<f64>().expect("a number")
    };
    crate::harness::eventually("two events held", || async { (held().await > 6e6).then_some(()) }).await;
    for _ in 0..3 {
        let refused = call().await;
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(refused.text().contains("holds as many bytes as it may"), "{}", refused.text());
    }
    let _ = go.send(true);
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no client failed").expect(200);
        assert_eq!(answer.said().len(), 3 << 20, "what had room comes whole");
    }
    crate::harness::eventually("the budget given back", || async { (held().await < 1.0).then_some(()) }).await;
}

/// Sends and reads at once, so that an early answer is heard.
async fn send_whole(address: std::net::SocketAddr, request: Arc<str>) -> raw::Response {
    let mut client = Raw::connect(address).await;
    client.exchange(request.as_bytes()).await
}
