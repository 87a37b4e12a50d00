//! What is relayed untouched: `/v1/proxy/*`, unknown paths, files, sockets.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, reply, with};
use serde_json::json;

#[tokio::test]
async fn the_proxy_prefix_is_taken_off_and_nothing_else_changed() {
    let gateway = Gateway::start().await;
    let answer = b"{\"odd\" : 1.0, \"a\\u0062c\":[ ] }".to_vec();
    let expected = answer.clone();
    let upstream = Upstream::replying(move |_| {
        reply::whole(203, &[("content-type", "application/json"), ("x-upstream", "yes"), ("x-two", "1")], &answer)
    })
    .await;
    let body = r#"{"n" : 999, "model":"gpt-4o-mini","x":1e3}"#;
    let call = gateway.post("/v1/proxy/chat/completions?a=b&c=%20d").config(&target(&upstream)).bytes(body);
    let got = call.send().await.expect(203);
    assert_eq!(got.body, expected);
    assert_eq!((got.header("x-upstream"), got.header("x-two")), (Some("yes"), Some("1")));
    let seen = upstream.only();
    assert_eq!((seen.target.as_str(), seen.text().as_str()), ("/v1/chat/completions?a=b&c=%20d", body));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-upstream"));
}

#[tokio::test]
async fn unknown_paths_pass_with_every_method() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| reply::whole(200, &[("x-method", &seen.method)], &seen.body)).await;
    for (method, body) in [("POST", "{\"a\":1}"), ("PUT", "{\"b\":2}"), ("GET", ""), ("DELETE", "")] {
        let call = gateway.call(method, "/v1/brand/new/thing?q=1").config(&target(&upstream));
        let call = if body.is_empty() { call } else { call.bytes(body) };
        let answer = call.send().await.expect(200);
        assert_eq!((answer.header("x-method"), answer.text().as_str()), (Some(method), body));
        let seen = upstream.seen().pop().expect("it went up");
        assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, "/v1/brand/new/thing?q=1"));
    }
}

#[tokio::test]
async fn strategies_and_retries_hold_on_raw_routes_too() {
    let gateway = Gateway::start().await;
    let broken = Upstream::in_turn(vec![reply::error(429, &[("retry-after-ms", "1")])]).await;
    let good = Upstream::replying(|_| reply::whole(200, &[], "good")).await;
    let first = with(target(&broken), json!({ "retry": { "attempts": 1, "use_retry_after_header": true } }));
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
    for (i, path) in ["/v1/proxy/chat/completions", "/v1/brand/new"].iter().enumerate() {
        let answer = gateway.post(path).config(&config).bytes("{}").send().await.expect(200);
        assert_eq!(answer.text(), "good");
        assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
        assert_eq!(broken.seen().len(), 2 * (i + 1));
    }
}

#[tokio::test]
async fn errors_of_the_provider_come_as_they_are() {
    let gateway = Gateway::start().await;
    let body = r#"{"odd":"error","code":42}"#;
    let upstream = Upstream::replying(move |_| reply::whole(422, &[("content-type", "application/json")], body)).await;
    let answer = gateway.post("/v1/proxy/thing").config(&target(&upstream)).bytes("{}").send().await.expect(422);
    assert_eq!(answer.text(), body);
}

#[tokio::test]
async fn an_event_stream_passes_event_by_event() {
    let gateway = Gateway::start().await;
    let (go, mut gone) = tokio::sync::mpsc::unbounded_channel::<()>();
    let upstream = Upstream::scripted(move |mut peer| {
        let go = go.clone();
        async move {
            peer.request().await;
            peer.send([reply::STREAM, &reply::chunk("event: odd\ndata: 1\n\n")].concat()).await;
            // The rest only once the first has been seen.
            peer.pause(50).await;
            let _ = go.send(());
            peer.send([reply::chunk("data: 2\n\n"), reply::LAST_CHUNK.to_vec()].concat()).await;
        }
    })
    .await;
    let call = gateway.post("/v1/proxy/stream").config(&target(&upstream)).bytes(r#"{"stream":true}"#);
    let mut response = call.open().await;
    let first = response.chunk().await.expect("bytes").expect("a first event");
    assert_eq!(&first[..], b"event: odd\ndata: 1\n\n");
    gone.recv().await;
    let rest = response.bytes().await.expect("the rest");
    assert_eq!(&rest[..], b"data: 2\n\n");
}

#[tokio::test]
async fn multipart_is_relayed_byte_for_byte() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let mut body =
        b"--bound\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--bound\r\n".to_vec();
    body.extend(b"content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n");
    body.extend((0..300_000u32).map(|i| u8::try_from(i % 251).expect("a byte")));
    body.extend(b"\r\n--bound--\r\n");
    let kind = "multipart/form-data; boundary=bound";
    for path in ["/v1/audio/transcriptions", "/v1/files", "/v1/proxy/upload", "/v1/brand/new"] {
        for call in [gateway.post(path).config(&target(&upstream)), gateway.post(path).provider("@main")] {
            let answer = call.body(kind, body.clone()).send().await.expect(200);
            assert_eq!(answer.json()["text"], "heard", "{path}");
            assert_eq!(answer.header("x-gateway-provider"), Some("openai"), "{path}");
            let seen = upstream.seen().pop().expect("it went up");
            assert!(seen.body == body, "{path}: the body was changed");
            let kind = if path.contains("audio") { "multipart/form-data; boundary=\"bound\"" } else { kind };
            assert_eq!(seen.header("content-type"), Some(kind), "{path}");
            assert_eq!(seen.target, path.replace("/proxy", ""), "{path}");
            assert!(!seen.headers.iter().any(|(n, _)| n.to_lowercase().starts_with("x-gateway")), "{path}");
        }
    }
}

#[tokio::test]
async fn relayed_bodies_are_not_capped_and_binary_answers_pass() {
    let gateway = Gateway::with(&["--max-body", "64KiB"]).await;
    let sound: Vec<u8> = (0..200_000u32).map(|i| u8::try_from(i % 256).expect("a byte")).collect();
    let answer = sound.clone();
    let upstream = Upstream::replying(move |_| reply::whole(200, &[("content-type", "audio/mpeg")], &answer)).await;
    let call = gateway.post("/v1/files").config(&target(&upstream));
    let got = call.body("multipart/form-data; boundary=b", vec![b'x'; 1 << 20]).send().await.expect(200);
    assert!(got.body == sound, "the answer was changed");
    assert_eq!(got.header("content-type"), Some("audio/mpeg"));
    let speech = json!({ "model": "tts-1", "input": "hello", "voice": "alloy" });
    let got = gateway.post("/v1/audio/speech").config(&target(&upstream)).json(&speech).send().await.expect(200);
    assert!(got.body == sound, "the answer was changed");
}

#[tokio::test]
async fn a_relay_is_refused_without_key_or_provider_before_its_body() {
    let gateway = Gateway::start().await;
    let mut client = Raw::connect(gateway.proxy).await;
    let head = |key: &str| {
        format!(
            "POST /v1/uploads/upload_1/parts HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {key}\r\n\
             content-type: multipart/form-data; boundary=b\r\ncontent-length: 100000\r\n\r\n"
        )
    };
    client.send(head("unknown")).await;
    assert_eq!(client.head().await.status, 401);
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(head(WORKSPACE_KEY)).await;
    assert_eq!(client.head().await.status, 400);
}

/// A handshake and an echo of frames, as the realtime API has them.
async fn websocket_echo() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        let Some(seen) = peer.request().await else { return };
        if seen.header("upgrade").is_none_or(|u| !u.eq_ignore_ascii_case("websocket")) {
            peer.send(reply::error(426, &[])).await;
            return;
        }
        // The accept value of the key that RFC 6455 uses as its example.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        let head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
        peer.send(format!("{head}sec-websocket-accept: {accept}\r\n\r\n")).await;
        loop {
            let bytes = peer.bytes().await;
            if bytes.is_empty() || !peer.send(&bytes).await {
                return;
            }
        }
    })
    .await
}

fn handshake(path: &str, headers: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
}

#[tokio::test]
async fn a_websocket_is_relayed_both_ways() {
    let gateway = Gateway::start().await;
    let upstream = websocket_echo().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for path in ["/v1/live?model=gpt-live", "/v1/proxy/live?model=gpt-live"] {
        let mut client = Raw::connect(gateway.proxy).await;
        let key = format!("x-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-provider: @main\r\n");
        client.send(handshake(path, &key)).await;
        let head = client.head().await;
        assert_eq!(head.status, 101, "{path}");
        assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        // A masked text frame "hello", then a large binary one.
        let small = [&[0x81, 0x85, 1, 2, 3, 4][..], b"igohn"].concat();
        let mut large = vec![0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        large.extend(vec![7u8; 65536]);
        for frame in [small, large] {
            client.send(&frame).await;
            let mut back = Vec::new();
            while back.len() < frame.len() {
                let more = client.bytes().await;
                assert!(!more.is_empty(), "{path}: the socket ended");
                back.extend(more);
            }
            assert!(back == frame, "{path}: frames were changed");
        }
    }
    let seen = upstream.seen();
    assert_eq!(seen[0].target, "/v1/live?model=gpt-live");
    assert_eq!(seen[0].header("authorization"), Some("Bearer sk-managed"));
    assert!(!seen.iter().any(|s| s.headers.iter().any(|(_, v)| v.contains(WORKSPACE_KEY))));
}

#[tokio::test]
async fn a_websocket_needs_a_key_like_all_else() {
    let gateway = Gateway::start().await;
    let upstream = websocket_echo().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for (key, status) in [("", 401), ("x-gateway-api-key: unknown\r\n", 401)] {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(handshake("/v1/realtime?model=m", &format!("{key}x-gateway-provider: @main\r\n"))).await;
        assert_eq!(client.head().await.status, status);
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_websocket_that_one_side_ends_is_ended_on_the_other() {
    let gateway = Gateway::start().await;
    let upstream = websocket_echo().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let mut client = Raw::connect(gateway.proxy).await;
    let key = format!("x-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-provider: @main\r\n");
    client.send(handshake("/v1/realtime?model=m", &key)).await;
    assert_eq!(client.head().await.status, 101);
    drop(client);
    crate::harness::eventually("the upstream's end", || async { (upstream.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn what_the_address_ends_in_and_the_path_begins_with_is_meant_once() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &serde_json::json!({}))).await;
    let root = upstream.url().trim_end_matches("/v1").to_owned();
    for (base, path, whole) in [
        ("/v1", "/v1/proxy/v1/audio/speech?a=1", "/v1/audio/speech?a=1"),
        ("/v1", "/v1/proxy/audio/speech", "/v1/audio/speech"),
        ("/openai/v1", "/v1/proxy/openai/v1/audio/speech", "/openai/v1/audio/speech"),
        ("/openai/v1", "/v1/proxy/v1/audio/speech", "/openai/v1/audio/speech"),
        ("/v1", "/v1/proxy/v10/audio", "/v1/v10/audio"),
        ("", "/v1/proxy/v1/audio", "/v1/audio"),
    ] {
        let config =
            serde_json::json!({ "provider": "openai", "api_key": "k", "custom_host": format!("{root}{base}") });
        gateway.post(path).config(&config).json(&serde_json::json!({})).send().await.expect(200);
        assert_eq!(upstream.seen().last().expect("it went up").target, whole, "{base} and {path}");
    }
}
