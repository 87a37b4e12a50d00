//! HTTPS and HTTP/2 on the proxy port.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, gateway::target, hello, reply, with};
use serde_json::json;
use std::path::Path;

pub(crate) async fn secure(flags: &[&str]) -> Gateway {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/tls");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    Gateway::with(&[&["--tls-cert", &cert, "--tls-key", &key], flags].concat()).await
}

/// A client that trusts the test certificate only.
pub(crate) fn client(http2: bool) -> reqwest::Client {
    let pem = include_bytes!("../harness/tls/cert.pem");
    let builder = reqwest::Client::builder().no_proxy().tls_built_in_root_certs(false);
    let builder = builder.add_root_certificate(reqwest::Certificate::from_pem(pem).expect("a certificate"));
    if http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }.build().expect("a client")
}

#[tokio::test]
async fn both_versions_of_http_are_served() {
    let gateway = secure(&[]).await;
    let upstream = Upstream::replying(|seen| {
        if seen.json()["stream"] == true { reply::stream(&["over ", "tls"]) } else { reply::chat("over tls") }
    })
    .await;
    let url = format!("https://localhost:{}/v1/chat/completions", gateway.proxy.port());
    for (http2, version) in [(false, reqwest::Version::HTTP_11), (true, reqwest::Version::HTTP_2)] {
        for stream in [false, true] {
            let call = crate::harness::call::Call::new(&client(http2), "POST", &url);
            let call = call.key(WORKSPACE_KEY).config(&target(&upstream));
            let response = call.json(&with(hello(), json!({ "stream": stream }))).open().await;
            assert_eq!((response.status().as_u16(), response.version()), (200, version));
            let answer = crate::harness::Answer::read(response, std::time::Instant::now()).await;
            assert_eq!((answer.said().as_str(), answer.whole), ("over tls", true));
        }
    }
}

#[tokio::test]
async fn a_large_body_without_length_passes_over_http2() {
    let gateway = secure(&[]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let body = with(hello(), json!({ "filler": "x".repeat(1 << 20) })).to_string();
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.as_bytes().chunks(10_000).map(|p| Ok(p.to_vec())).collect();
    let url = format!("https://localhost:{}/v1/chat/completions", gateway.proxy.port());
    let call = crate::harness::call::Call::new(&client(true), "POST", &url).key(WORKSPACE_KEY);
    let call = call.config(&target(&upstream)).bytes(reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)));
    call.send().await.expect(200);
    assert_eq!(upstream.only().text(), body);
}

#[tokio::test]
async fn a_broken_stream_does_not_end_cleanly_over_http2() {
    let gateway = secure(&[]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("half")].concat()).await;
        peer.reset().await;
    })
    .await;
    let url = format!("https://localhost:{}/v1/chat/completions", gateway.proxy.port());
    let call = crate::harness::call::Call::new(&client(true), "POST", &url).key(WORKSPACE_KEY);
    let answer = call.config(&target(&upstream)).json(&with(hello(), json!({ "stream": true }))).send().await;
    assert_eq!(answer.said(), "half");
    assert!(answer.text().contains("\"error\"") && !answer.text().contains("[DONE]"), "{}", answer.text());
}

#[tokio::test]
async fn bodies_that_stream_up_pass_over_http2_and_are_held_to_their_clocks() {
    let gateway = secure(&[]).await;
    let body: Vec<u8> = std::iter::repeat_n(*b"0123456789abcdef", 256 << 10).flatten().collect();
    let url = format!("https://localhost:{}/v1/files", gateway.proxy.port());
    let send = async |config: &serde_json::Value| {
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(10_000).map(|p| Ok(p.to_vec())).collect();
        let call = crate::harness::call::Call::new(&client(true), "POST", &url).key(WORKSPACE_KEY).config(config);
        let pieces = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
        call.body("multipart/form-data; boundary=b", pieces).send().await
    };
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    send(&target(&upstream)).await.expect(200);
    assert!(upstream.only().body == body, "all of it, in order");
    let timed = |upstream: &Upstream| with(target(upstream), json!({ "request_timeout": 300 }));
    let reluctant = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        std::future::pending().await
    })
    .await;
    let answer = send(&timed(&reluctant)).await.expect(408);
    assert!(answer.error().contains("300ms") && answer.whole, "{}", answer.text());
    let stalling = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{").await;
        peer.gone().await;
    })
    .await;
    let answer = send(&timed(&stalling)).await.expect(200);
    assert!(!answer.whole && answer.text() == "{", "{}", answer.text());
}
