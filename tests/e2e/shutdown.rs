//! Leaving and handing over: what is under way is finished, and nothing is lost between two processes.

use crate::harness::{ADMIN_KEY, Gateway, Raw, Upstream, eventually, hello, reply, stand_at_noon, with};
use serde_json::json;
use std::time::{Duration, Instant};

/// Streams `one`, and the rest when told.
async fn held() -> (Upstream, tokio::sync::broadcast::Sender<()>) {
    let (go, _) = tokio::sync::broadcast::channel::<()>(8);
    let release = go.clone();
    let upstream = Upstream::scripted(move |mut peer| {
        let mut go = go.subscribe();
        async move {
            if peer.request().await.is_some() {
                peer.send([reply::STREAM, &reply::role(), &reply::delta("one ")].concat()).await;
                let _ = go.recv().await;
                peer.send([reply::delta("two"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat())
                    .await;
                peer.gone().await;
            }
        }
    })
    .await;
    (upstream, release)
}

#[tokio::test]
async fn an_idle_gateway_leaves_at_once() {
    let mut gateway = Gateway::start().await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let told = Instant::now();
    gateway.process.signal("TERM");
    let status = gateway.process.exit(Duration::from_secs(5)).await;
    assert!(status.success(), "{status}");
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
}

#[tokio::test]
async fn a_request_of_the_admin_port_is_finished_before_leaving() {
    let mut gateway = Gateway::start().await;
    let body = json!({ "name": "renamed" }).to_string();
    let mut admin = Raw::connect(gateway.admin).await;
    let head = format!(
        "PUT /v1/admin/organisation HTTP/1.1\r\nhost: a\r\nx-gateway-api-key: {ADMIN_KEY}\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    admin.send(head).await;
    assert_eq!(admin.head().await.status, 100, "it is being served");
    gateway.process.signal("TERM");
    eventually("the listener closes", || async {
        tokio::net::TcpStream::connect(gateway.proxy).await.is_err().then_some(())
    })
    .await;
    // An idle process would be gone by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    admin.send(body).await;
    assert_eq!(admin.response().await.head.status, 200);
    assert!(gateway.process.exit(Duration::from_secs(5)).await.success());
}

#[tokio::test]
async fn a_stream_under_way_is_finished_before_leaving() {
    let mut gateway = Gateway::start().await;
    let (upstream, go) = held().await;
    let mut response = gateway.chat_through(&upstream).json(&with(hello(), json!({ "stream": true }))).open().await;
    let first = response.chunk().await.expect("bytes").expect("the first events");
    gateway.process.signal("TERM");
    eventually("the listener closes", || async {
        tokio::net::TcpStream::connect(gateway.proxy).await.is_err().then_some(())
    })
    .await;
    assert!(gateway.process.exited().is_none(), "left with a stream under way");
    let _ = go.send(());
    let rest = response.bytes().await.expect("the rest of the stream");
    let text = String::from_utf8([&first[..], &rest[..]].concat()).expect("text");
    assert!(text.contains("two") && text.trim_end().ends_with("[DONE]"), "{text}");
    let finished = Instant::now();
    let status = gateway.process.exit(Duration::from_secs(5)).await;
    assert!(status.success(), "{status}");
    assert!(finished.elapsed() < Duration::from_secs(2), "idle for {:?} before leaving", finished.elapsed());
}

#[tokio::test]
async fn a_stream_that_does_not_end_is_cut_at_the_drain_timeout() {
    let mut gateway = Gateway::with(&["--drain-timeout", "700ms"]).await;
    let (upstream, _go) = held().await;
    let mut response = gateway.chat_through(&upstream).json(&with(hello(), json!({ "stream": true }))).open().await;
    response.chunk().await.expect("bytes").expect("the first events");
    let told = Instant::now();
    gateway.process.signal("TERM");
    gateway.process.exit(Duration::from_secs(10)).await;
    let took = told.elapsed();
    assert!(took >= Duration::from_millis(600) && took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test]
async fn readiness_fails_first_when_a_delay_is_set() {
    let mut gateway = Gateway::with(&["--shutdown-delay", "2s"]).await;
    let told = Instant::now();
    gateway.process.signal("TERM");
    let ready = || async {
        gateway.client().get(gateway.admin_url("/health/ready")).send().await.ok().map(|r| r.status().as_u16())
    };
    eventually("readiness at 503", || async { (ready().await == Some(503)).then_some(()) }).await;
    assert!(told.elapsed() < Duration::from_millis(1500), "{:?}", told.elapsed());
    // Those who have not heard yet are still served.
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let live = gateway.client().get(gateway.admin_url("/health/live")).send().await.expect("an answer");
    assert_eq!(live.status(), 200, "draining is no reason to be killed");
    gateway.process.exit(Duration::from_secs(10)).await;
    assert!(told.elapsed() >= Duration::from_secs(2), "{:?}", told.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_loses_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("upgrade.sock").display().to_string();
    let mut old = Gateway::with(&["--upgrade-sock", &socket]).await;
    let (upstream, go) = held().await;
    let mut held_stream = old.chat_through(&upstream).json(&with(hello(), json!({ "stream": true }))).open().await;
    let first = held_stream.chunk().await.expect("bytes").expect("the first events");

    // A new connection for each request: none may be refused or cut.
    let (stop, url) = (std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)), old.url("/v1/chat/completions"));
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (stop, url) = (stop.clone(), url.clone());
        load.spawn(async move {
            let mut answered = 0u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let client = reqwest::Client::builder().no_proxy().build().expect("a client");
                let call = crate::harness::call::Call::new(&client, "POST", &url).key(crate::harness::WORKSPACE_KEY);
                call.provider("mock").json(&hello()).send().await.expect(200);
                answered += 1;
            }
            answered
        });
    }
    let new = old.succeed(&["--upgrade", "--upgrade-sock", &socket]);
    old.process.signal("QUIT");
    let mut new = new;
    new.ready_as_successor(&old).await;
    let _ = go.send(());
    let rest = held_stream.bytes().await.expect("the stream goes on in the old process");
    let text = String::from_utf8([&first[..], &rest[..]].concat()).expect("text");
    assert!(text.trim_end().ends_with("[DONE]"), "{text}");
    old.process.exit(Duration::from_secs(30)).await;
    new.chat().provider("mock").json(&hello()).send().await.expect(200);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut answered = 0;
    while let Some(count) = load.join_next().await {
        answered += count.expect("no request failed");
    }
    assert!(answered > 10, "only {answered} requests fell into the upgrade");
}

/// The new process goes on where the old one counted, also with what that counted when both were there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_go_on_in_the_process_that_takes_over() {
    stand_at_noon();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("upgrade.sock").display().to_string();
    let mut old = Gateway::with(&["--upgrade-sock", &socket]).await;
    let (upstream, go) = held().await;
    let policy = json!({
        "name": "Many", "type": "requests", "unit": "rpw", "value": 1000,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    old.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let budget = json!({
        "name": "Spend", "type": "requests", "credit_limit": 1000,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [],
    });
    let made = old.admin().post("/policies/usage-limits", &budget).await.expect(200).json();
    let left = async |gateway: &Gateway| {
        let answer = gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
        answer.header("x-gateway-ratelimit-remaining-requests").and_then(|n| n.parse::<u32>().ok()).expect("told")
    };
    let mut held_stream = old.chat_through(&upstream).json(&with(hello(), json!({ "stream": true }))).open().await;
    held_stream.chunk().await.expect("bytes").expect("the first events");
    assert_eq!(left(&old).await, 998);
    let mut new = old.succeed(&["--upgrade", "--upgrade-sock", &socket]);
    old.process.signal("QUIT");
    new.ready_as_successor(&old).await;
    let _ = go.send(());
    held_stream.bytes().await.expect("the stream goes on in the old process");
    old.process.exit(Duration::from_secs(30)).await;
    let asked = std::sync::atomic::AtomicU32::new(2);
    eventually("the old one's count", || async {
        let asked = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        (left(&new).await == 1000 - asked).then_some(())
    })
    .await;
    let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
    let path = format!("/policies/usage-limits/{}/entities", made["id"].as_str().expect("an id"));
    eventually("the budget", || async {
        let told = new.admin().get(&path).await.expect(200).json();
        (told["data"][0]["current_usage"] == asked).then_some(())
    })
    .await;
}
