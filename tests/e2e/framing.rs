//! Upstreams whose answers could be understood in two ways, or take for ever to begin: nothing of them reaches a
//! client.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, reply};
use std::time::{Duration, Instant};

/// Answers with these bytes and leaves the connection open.
async fn saying(bytes: &'static str) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        peer.request().await;
        peer.send(bytes).await;
        peer.gone().await;
    })
    .await
}

/// Repeats these bytes for as long as somebody takes them.
async fn repeating(begin: &'static str, then: &'static str, gap_ms: u64) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        peer.request().await;
        peer.send(begin).await;
        while peer.send(then).await {
            peer.pause(gap_ms).await;
        }
    })
    .await
}

#[tokio::test]
async fn answers_that_could_be_read_in_two_ways_are_a_502_at_once() {
    let gateway = Gateway::start().await;
    for (answer, why) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n{}\r\n\r\n", "chunk"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n", "chunk"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "transfer encoding"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "transfer encoding"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "both"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ", "length"),
        ("HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\n{}", "status"),
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", "switches protocols"),
        ("HTTP/1.1 101 X\r\n\r\n", "switches protocols"),
        ("HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}", "header"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
    ] {
        let upstream = saying(answer).await;
        let started = Instant::now();
        let refused = gateway.chat_through(&upstream).json(&hello()).send().await.expect(502);
        let told = refused.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains(why), "{answer:?}: {told}");
        assert!(started.elapsed() < Duration::from_secs(8), "{answer:?} took {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_flood_of_interim_answers_is_a_502_at_once() {
    let gateway = Gateway::start().await;
    let upstream = repeating("", "HTTP/1.1 100 Continue\r\n\r\n", 0).await;
    let started = Instant::now();
    let refused = gateway.chat_through(&upstream).json(&hello()).send().await.expect(502);
    assert!(refused.text().contains("interim"), "{}", refused.text());
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_wait_for_a_head_is_one_wait_whatever_trickles_in() {
    let gateway = Gateway::with(&["--first-byte-timeout", "1s"]).await;
    for (begin, then) in
        [("", "HTTP/1.1 102 Processing\r\n\r\n"), ("HTTP/1.1 200 OK\r\n", "x: y\r\n"), ("HTTP/1.1 200 OK\r\nx: ", "y")]
    {
        let upstream = repeating(begin, then, 100).await;
        let started = Instant::now();
        gateway.chat_through(&upstream).json(&hello()).send().await.expect(504);
        let took = started.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&took), "{then:?}: {took:?}");
    }
}

#[tokio::test]
async fn headers_that_connection_lists_stay_on_their_hop_both_ways() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| {
        let headers =
            [("connection", "keep-alive, X-Down"), ("x-down", "1"), ("x-end", "2"), ("keep-alive", "timeout=5")];
        reply::whole(200, &headers, "{}")
    })
    .await;
    for forwarded in ["", "x-gateway-forward-headers: x-up, x-kept\r\n"] {
        let path = if forwarded.is_empty() { "/v1/proxy/thing" } else { "/v1/chat/completions" };
        let body = hello().to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {}\r\n\
             connection: keep-alive, X-Up\r\nx-up: 1\r\nx-kept: 2\r\n{forwarded}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            target(&upstream),
            body.len(),
        );
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(request).await;
        let answer = client.response().await;
        let seen = upstream.seen().pop().expect("it went up");
        assert_eq!((seen.header("x-up"), seen.header("x-kept")), (None, Some("2")), "{path}");
        if forwarded.is_empty() {
            assert_eq!((answer.head.header("x-down"), answer.head.header("x-end")), (None, Some("2")));
            assert_eq!(answer.head.header("keep-alive"), None);
        }
    }
}

#[tokio::test]
async fn a_broken_answer_is_not_taken_for_the_next_one() {
    let gateway = Gateway::start().await;
    // An answer that nobody asked for follows a whole one: it must meet no request.
    let upstream = Upstream::scripted(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.send([reply::chat("right"), reply::chat("smuggled")].concat()).await;
        }
    })
    .await;
    for _ in 0..5 {
        let answer = gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
        assert_eq!(answer.said(), "right");
    }
    assert_eq!(upstream.connections(), 5, "none was used twice");
}
