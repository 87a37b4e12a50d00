//! Upstreams that fail in every way a network allows, each seen through the real binary.

use crate::harness::{
    Answer, Gateway, Mock, Peer, Upstream, eventually, gateway::target, hello, ports::Port, reply, with,
};
use serde_json::{Value, json};
use std::time::Duration;

fn streamed() -> Value {
    with(hello(), json!({ "stream": true }))
}

/// An upstream that reads the request, sends these bytes and ends its side.
async fn sending(bytes: Vec<u8>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let bytes = bytes.clone();
        async move {
            if peer.request().await.is_some() {
                peer.send(bytes).await;
            }
        }
    })
    .await
}

/// An upstream that reads the request, sends these bytes and resets the connection (RST).
async fn resetting_after(bytes: Vec<u8>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let bytes = bytes.clone();
        async move {
            if peer.request().await.is_some() {
                peer.send(bytes).await;
                peer.reset().await;
            }
        }
    })
    .await
}

async fn silent() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await
}

async fn ask(gateway: &Gateway, upstream: &Upstream, body: &Value) -> Answer {
    gateway.chat_through(upstream).json(body).send().await
}

/// Falls back from `bad` to one that answers: what failed must not have reached the client.
async fn falls_back(gateway: &Gateway, bad: &Upstream, body: &Value) {
    let good = Upstream::replying(|seen| {
        if seen.json()["stream"] == true { reply::stream(&["go", "od"]) } else { reply::chat("good") }
    })
    .await;
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target(bad), target(&good)] });
    let answer = gateway.chat().config(&config).json(body).send().await.expect(200);
    assert_eq!(answer.said(), "good");
    assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
}

/// A stream that broke: an error inside it, and no end mark.
fn broke_in_band(answer: &Answer) {
    let events = answer.events();
    let last: Value = serde_json::from_str(events.last().expect("an event")).expect("the last event is JSON");
    assert!(last["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{events:?}");
    assert!(!answer.text().contains("[DONE]"), "a broken stream ends cleanly: {}", answer.text());
}

#[tokio::test]
async fn connection_refused_is_a_503() {
    let gateway = Gateway::start().await;
    let nobody = Port::reserve();
    let config =
        json!({ "provider": "openai", "api_key": "k", "custom_host": format!("http://{}/v1", nobody.address) });
    for body in [hello(), streamed()] {
        let answer = gateway.chat().config(&config).json(&body).send().await.expect(503);
        assert_eq!(answer.json()["error"]["type"], "server_error");
        assert!(!answer.text().contains("127.0.0.1"), "addresses stay inside: {}", answer.text());
    }
}

#[tokio::test]
async fn a_head_that_is_cut_or_is_none_is_a_502() {
    let gateway = Gateway::start().await;
    for bytes in [
        b"".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-type: appl".to_vec(),
        b"\x16\x03\x01 no http at all\r\n\r\n".to_vec(),
        b"HTTP/1.1 OK 200\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\nhello".to_vec(),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for upstream in [resetting_after(bytes.clone()).await, sending(bytes).await] {
            let answer = ask(&gateway, &upstream, &hello()).await;
            assert_eq!(answer.status, 502, "{text:?}: {}", answer.text());
            assert_eq!(upstream.seen().len(), 1, "{text:?}: repeated unasked");
            falls_back(&gateway, &upstream, &hello()).await;
        }
    }
}

#[tokio::test]
async fn a_stream_cut_by_a_reset_ends_in_band() {
    let gateway = Gateway::start().await;
    let begun = [reply::STREAM, &reply::role(), &reply::delta("half an "), &reply::delta("ans")].concat();
    for upstream in [resetting_after(begun.clone()).await, sending(begun).await] {
        let answer = ask(&gateway, &upstream, &streamed()).await.expect(200);
        assert_eq!(answer.said(), "half an ans", "what came before is not lost");
        broke_in_band(&answer);
    }
}

#[tokio::test]
async fn a_stream_cut_before_its_first_content_falls_back() {
    let gateway = Gateway::start().await;
    for begun in [reply::STREAM.to_vec(), [reply::STREAM, &reply::role()].concat()] {
        let upstream = resetting_after(begun).await;
        ask(&gateway, &upstream, &streamed()).await.expect(502);
        falls_back(&gateway, &upstream, &streamed()).await;
    }
}

#[tokio::test]
async fn a_whole_body_that_is_cut_is_never_a_whole_answer() {
    let gateway = Gateway::start().await;
    let whole = reply::chat("this will be cut");
    let cut = whole[..whole.len() - 40].to_vec();
    for upstream in [resetting_after(cut.clone()).await, sending(cut).await] {
        let answer = ask(&gateway, &upstream, &hello()).await;
        assert!(answer.status == 502 || !answer.whole, "{} {}", answer.status, answer.text());
    }
}

#[tokio::test]
async fn a_429_is_passed_on_with_its_headers() {
    let gateway = Gateway::start().await;
    let headers = [("retry-after", "7"), ("x-ratelimit-remaining-requests", "0"), ("x-request-id", "req_1")];
    let upstream = Upstream::in_turn(vec![reply::error(429, &headers)]).await;
    let answer = ask(&gateway, &upstream, &hello()).await.expect(429);
    for (name, value) in headers {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(answer.json()["error"]["type"], "scripted");
    assert!(answer.error().contains("scripted 429"), "{}", answer.error());
}

#[tokio::test]
async fn failures_then_success_are_one_success_to_the_client() {
    let gateway = Gateway::start().await;
    let mock = Mock::start(&[]).await;
    let retry = json!({ "attempts": 3, "use_retry_after_header": true });
    let config = json!({ "provider": "openai", "api_key": "k", "custom_host": mock.url(), "retry": retry });
    let names = "x-mock-fail-first,x-mock-id,x-mock-status,x-mock-retry-after-ms";
    for (id, body) in [("whole", hello()), ("streamed", streamed())] {
        let call = gateway.chat().config(&config).header("x-gateway-forward-headers", names);
        let call = call.header("x-mock-fail-first", "2").header("x-mock-id", id).header("x-mock-status", "429");
        let answer = call.header("x-mock-retry-after-ms", "1").json(&body).send().await.expect(200);
        assert_eq!(answer.header("x-gateway-retry-attempt-count"), Some("2"));
        assert_eq!(answer.said(), "You said: hello there");
    }
}

#[tokio::test]
async fn a_silent_upstream_is_given_up() {
    let gateway = Gateway::with(&["--first-byte-timeout", "200ms"]).await;
    let upstream = silent().await;
    for body in [hello(), streamed()] {
        let answer = ask(&gateway, &upstream, &body).await.expect(504);
        assert!(answer.took < Duration::from_secs(2), "{:?}", answer.took);
        falls_back(&gateway, &upstream, &body).await;
    }
}

#[tokio::test]
async fn a_stream_that_stalls_is_ended_in_band() {
    let gateway = Gateway::with(&["--idle-timeout", "250ms"]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("one")].concat()).await;
        peer.gone().await;
    })
    .await;
    let answer = ask(&gateway, &upstream, &streamed()).await.expect(200);
    assert_eq!(answer.said(), "one");
    broke_in_band(&answer);
}

#[tokio::test]
async fn a_drip_of_single_bytes_is_put_together() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| {
        if seen.json()["stream"] == true { reply::stream(&["dr", "ip"]) } else { reply::chat("drip") }
    });
    let (whole, mock) = (upstream.await, Mock::start(&["--fault", "drip"]).await);
    assert_eq!(ask(&gateway, &whole, &streamed()).await.expect(200).said(), "drip");
    let config = json!({ "provider": "openai", "api_key": "k", "custom_host": mock.url() });
    for body in [hello(), streamed()] {
        let answer = gateway.chat().config(&config).json(&body).send().await.expect(200);
        assert_eq!(answer.said(), "You said: hello there");
    }
}

#[tokio::test]
async fn an_early_413_is_heard_while_the_body_is_still_sent() {
    let gateway = Gateway::start().await;
    let mock = Mock::start(&["--fault", "early-413"]).await;
    let body = with(hello(), json!({ "filler": "x".repeat(20 << 20) })).to_string();
    let config = json!({ "provider": "openai", "api_key": "k", "custom_host": mock.url() });
    let answer = gateway.chat().config(&config).bytes(body.clone()).send().await.expect(413);
    assert!(answer.error().contains("no such body"), "{}", answer.text());
    let relayed = gateway.post("/v1/files").config(&config);
    relayed.body("multipart/form-data; boundary=b", body).send().await.expect(413);
}

#[tokio::test]
async fn compressed_answers_arrive_readable_or_as_they_are() {
    let gateway = Gateway::start().await;
    let mock = Mock::start(&["--fault", "gzip"]).await;
    let config = json!({ "provider": "openai", "api_key": "k", "custom_host": mock.url() });
    for body in [hello(), streamed()] {
        let answer = gateway.chat().config(&config).json(&body).send().await.expect(200);
        let text = match answer.header("content-encoding") {
            Some("gzip") => gunzip(&answer.body),
            other => {
                assert_eq!(other, None);
                answer.text()
            }
        };
        assert!(text.contains("hello"), "{text}");
    }
}

fn gunzip(bytes: &[u8]) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("gzip reads");
    let out = child.wait_with_output().expect("gzip ends");
    assert!(out.status.success(), "not gzip");
    String::from_utf8(out.stdout).expect("text")
}

#[tokio::test]
async fn trailers_do_no_harm() {
    let gateway = Gateway::start().await;
    let mock = Mock::start(&["--fault", "trailers"]).await;
    let config = json!({ "provider": "openai", "api_key": "k", "custom_host": mock.url() });
    for _ in 0..2 {
        for body in [hello(), streamed()] {
            let answer = gateway.chat().config(&config).json(&body).send().await.expect(200);
            assert_eq!(answer.said(), "You said: hello there");
        }
    }
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    let gateway = Gateway::start().await;
    for (status, bytes) in
        [(204, "HTTP/1.1 204 No Content\r\n\r\n"), (304, "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n")]
    {
        let upstream = Upstream::replying(move |_| bytes.as_bytes().to_vec()).await;
        for path in ["/v1/brand/new", "/v1/proxy/chat/completions"] {
            for _ in 0..2 {
                let answer = gateway.post(path).config(&target(&upstream)).json(&hello()).send().await.expect(status);
                assert_eq!(answer.body, b"");
            }
        }
        assert_eq!(upstream.seen().len(), 4);
    }
}

#[tokio::test]
async fn json_that_is_none_is_a_502() {
    let gateway = Gateway::start().await;
    let cut = reply::completion("x").to_string();
    let bodies = ["{\"choices\":[{", &cut[..cut.len() / 2], "<html>maintenance</html>", ""];
    for body in bodies {
        let bytes = reply::whole(200, &[("content-type", "application/json")], body);
        let upstream = Upstream::replying(move |_| bytes.clone()).await;
        let answer = ask(&gateway, &upstream, &hello()).await;
        assert_eq!(answer.status, 502, "{body:?}: {}", answer.text());
        falls_back(&gateway, &upstream, &hello()).await;
    }
}

#[tokio::test]
async fn an_error_as_first_event_of_a_200_falls_back() {
    let gateway = Gateway::start().await;
    let event = json!({ "error": { "message": "overloaded", "type": "server_error", "code": null } });
    let error = reply::chunk(format!("data: {event}\n\n"));
    for opening in [Vec::new(), reply::role(), reply::chunk(": keep-alive\n\n")] {
        let bytes = [reply::STREAM, &opening, &error, reply::LAST_CHUNK].concat();
        let upstream = Upstream::replying(move |_| bytes.clone()).await;
        falls_back(&gateway, &upstream, &streamed()).await;
        // A client whose request has no other target learns of it, by status or in the stream.
        let answer = ask(&gateway, &upstream, &streamed()).await;
        assert!(answer.text().contains("overloaded"), "{} {}", answer.status, answer.text());
        assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
    }
}

#[tokio::test]
async fn an_error_after_content_is_passed_on_in_band() {
    let gateway = Gateway::start().await;
    let error = reply::chunk("data: {\"error\":{\"message\":\"it broke\",\"type\":\"server_error\"}}\n\n");
    let begun = [reply::STREAM, &reply::role(), &reply::delta("half"), &error, reply::LAST_CHUNK].concat();
    let upstream = sending(begun).await;
    let answer = ask(&gateway, &upstream, &streamed()).await.expect(200);
    assert_eq!(answer.said(), "half");
    assert!(answer.text().contains("it broke"), "{}", answer.text());
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
}

#[tokio::test]
async fn a_stream_without_its_end_mark_gets_none() {
    let gateway = Gateway::start().await;
    let begun = [reply::STREAM, &reply::role(), &reply::delta("no end"), reply::LAST_CHUNK].concat();
    let upstream = sending(begun).await;
    let answer = ask(&gateway, &upstream, &streamed()).await.expect(200);
    assert_eq!(answer.said(), "no end");
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
}

/// Sends `before`, and tells when the client's leaving has got here.
async fn watching(before: Vec<u8>) -> (Upstream, tokio::sync::mpsc::UnboundedReceiver<()>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::scripted(move |mut peer: Peer| {
        let (before, tell) = (before.clone(), tell.clone());
        async move {
            if peer.request().await.is_some() {
                peer.send(before).await;
                peer.gone().await;
                let _ = tell.send(());
            }
        }
    })
    .await;
    (upstream, told)
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_ends_the_upstream_call() {
    let gateway = Gateway::start().await;
    let (upstream, mut gone) = watching(Vec::new()).await;
    for (i, body) in [hello(), streamed()].into_iter().enumerate() {
        let mut call = tokio::task::JoinSet::new();
        call.spawn(gateway.chat_through(&upstream).json(&body).send());
        eventually("the request upstream", || async { (upstream.seen().len() > i).then_some(()) }).await;
        drop(call);
        let ended = tokio::time::timeout(Duration::from_millis(300), gone.recv()).await;
        assert!(ended.is_ok(), "the upstream call goes on 300 ms after the client left");
    }
}

#[tokio::test]
async fn a_client_that_leaves_mid_stream_ends_the_upstream_call() {
    let gateway = Gateway::start().await;
    let (upstream, mut gone) = watching([reply::STREAM, &reply::role(), &reply::delta("one")].concat()).await;
    let mut response = gateway.chat_through(&upstream).json(&streamed()).open().await;
    response.chunk().await.expect("bytes").expect("the first events");
    drop(response);
    let ended = tokio::time::timeout(Duration::from_millis(300), gone.recv()).await;
    assert!(ended.is_ok(), "the upstream call goes on 300 ms after the client left");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_left_in_the_end() {
    let gateway = Gateway::with(&["--idle-timeout", "400ms"]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role()].concat()).await;
        let flood = reply::delta(&"x".repeat(16 << 10));
        while peer.send(&flood).await {}
    })
    .await;
    let before = gateway.memory("VmRSS");
    let mut client = crate::harness::Raw::connect(gateway.proxy).await;
    let config = target(&upstream).to_string();
    let request =
        crate::harness::raw::post("/v1/chat/completions", &[("x-gateway-config", &config)], &streamed().to_string());
    client.send(request).await;
    eventually("the upstream is let go", || async {
        (upstream.connections() == 1 && upstream.open() == 0).then_some(())
    })
    .await;
    let grown = gateway.memory("VmHWM").saturating_sub(before);
    assert!(grown < 64, "the gateway grew by {grown} MiB for one client that does not read");
}

#[tokio::test]
async fn a_pass_through_that_breaks_before_its_first_byte_is_recorded_with_what_was_told() {
    let gateway = Gateway::start().await;
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n";
    let upstream = resetting_after(head.to_vec()).await;
    let answer = gateway.post("/v1/proxy/broken").config(&target(&upstream)).json(&hello()).send().await.expect(502);
    let line = eventually("the line", || async {
        let lines = gateway.process.output();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["path"] == "/v1/proxy/broken")
    })
    .await;
    assert_eq!(line["response_bytes"], answer.body.len(), "{line}");
}
