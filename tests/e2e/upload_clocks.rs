//! How calls whose bodies stream up come to an end: by which clock, at which moment, with what answer, and that each
//! ending is recorded and counted once.

use crate::harness::{
    Answer, Gateway, Peer, Raw, Upstream, WORKSPACE_KEY, eventually, gateway::target, reply, stand_at_noon, with,
};
use crate::record_fields::record_of;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const FORM: &str = "multipart/form-data; boundary=b";
const LARGE: usize = 20 << 20;
/// Far less than any clock that is not meant, far more than a busy machine needs.
const SOON: Duration = Duration::from_secs(8);

fn head(config: &Value, trace: &str, length: usize) -> String {
    format!(
        "POST /v1/files HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\ncontent-type: {FORM}\r\n\
         x-gateway-trace-id: {trace}\r\nx-gateway-config: {config}\r\ncontent-length: {length}\r\n\r\n"
    )
}

async fn send(gateway: &Gateway, config: &Value, trace: &str) -> Answer {
    let call = gateway.post("/v1/files").config(config).header("x-gateway-trace-id", trace);
    call.body(FORM, "a small body").send().await
}

/// Takes heads, and nothing of their bodies.
async fn reluctant() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        peer.head().await;
        std::future::pending().await
    })
    .await
}

/// Reads a request and gives this answer, however far that goes; then nothing.
async fn stalling(answer: &'static str) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        peer.request().await;
        peer.send(answer).await;
        peer.gone().await;
    })
    .await
}

async fn drip(peer: &mut Peer, head: &str) {
    peer.request().await;
    peer.send(head).await;
    while peer.send(" ").await {
        peer.pause(20).await;
    }
}

async fn fault(gateway: &Gateway, trace: &str) -> (Value, Value) {
    let record = record_of(gateway, trace).await;
    (record["response"]["status"].clone(), record["fault"].clone())
}

#[tokio::test]
async fn a_target_that_does_not_take_the_body_is_left_in_time() {
    let upstream = reluctant().await;
    let timed = with(target(&upstream), json!({ "request_timeout": 300 }));
    let cases: [(&[&str], Value, u16, &str, &str); 3] = [
        (&[], timed, 408, "300ms", "request_timeout"),
        (&["--total-timeout", "400ms"], target(&upstream), 408, "400ms", "request_timeout"),
        (&["--idle-timeout", "400ms"], target(&upstream), 504, "did not answer in time", "upstream_silent"),
    ];
    for (flags, config, status, told, label) in cases {
        let gateway = Gateway::with(flags).await;
        let mut client = Raw::connect(gateway.proxy).await;
        let began = Instant::now();
        let request = [head(&config, "stuck", LARGE).into_bytes(), vec![b'x'; LARGE]].concat();
        let response = client.exchange(&request).await;
        assert_eq!((response.head.status, response.whole), (status, true), "{flags:?}: {}", response.text());
        assert!(response.text().contains(told) && began.elapsed() < SOON, "{flags:?}: {}", response.text());
        let error: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert!(error["error"]["type"].is_string(), "in the client's dialect: {error}");
        assert_eq!(fault(&gateway, "stuck").await, (json!(status), json!(label)), "{flags:?}");
    }
}

#[tokio::test]
async fn a_try_that_took_too_long_falls_back_and_is_retried_where_it_is_listed() {
    let gateway = Gateway::start().await;
    let silent = stalling("").await;
    let good = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let timed =
        with(target(&silent), json!({ "request_timeout": 150, "retry": { "attempts": 1, "on_status_codes": [408] } }));
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [timed, target(&good)] });
    let answer = send(&gateway, &config, "fell").await.expect(200);
    assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
    let bodies: Vec<String> = silent.seen().iter().chain(&good.seen()).map(|seen| seen.text()).collect();
    assert_eq!(bodies, ["a small body"; 3], "once, once more, and to the next");
}

#[tokio::test]
async fn the_time_of_a_try_covers_a_whole_json_answer_and_the_beginning_of_all_else() {
    const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    let gateway = Gateway::start().await;
    let timed = |upstream: &Upstream| with(target(upstream), json!({ "request_timeout": 400 }));
    let dripping = Upstream::scripted(|mut peer| async move { drip(&mut peer, JSON).await }).await;
    let answer = send(&gateway, &timed(&dripping), "drips").await.expect(200);
    assert!(!answer.whole && answer.took < SOON, "{:?}", answer.took);
    assert_eq!(fault(&gateway, "drips").await, (json!(200), json!("request_timeout")));
    let stalling = stalling(JSON).await;
    let answer = send(&gateway, &timed(&stalling), "stalls").await.expect(408);
    assert!(answer.error().contains("400ms"), "nothing of it went down: {}", answer.text());
    assert_eq!(fault(&gateway, "stalls").await, (json!(408), json!("request_timeout")));
    let pausing = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send(reply::STREAM).await;
        peer.send(reply::delta("one")).await;
        peer.pause(700).await;
        peer.send([reply::delta("two"), reply::done(), reply::LAST_CHUNK.to_vec()].concat()).await;
    })
    .await;
    let answer = send(&gateway, &timed(&pausing), "streams").await.expect(200);
    assert!(answer.whole && answer.said() == "onetwo", "{}", answer.text());
    eventually("the end of the calls", || async { (dripping.open() + stalling.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn the_time_of_the_whole_request_ends_it_at_its_moment() {
    const TEXT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\n";
    let gateway = Gateway::with(&["--total-timeout", "600ms"]).await;
    // No byte comes that could have been the occasion.
    let begun = stalling(TEXT).await;
    let answer = send(&gateway, &target(&begun), "unsaid").await.expect(408);
    assert!(answer.error().contains("600ms") && answer.took < SOON, "{}", answer.text());
    let silent = stalling("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\nsome").await;
    let answer = send(&gateway, &target(&silent), "silent").await.expect(200);
    assert!(!answer.whole && answer.text() == "some" && answer.took < SOON, "{:?}", answer.took);
    let dripping = Upstream::scripted(|mut peer| async move { drip(&mut peer, TEXT).await }).await;
    let answer = send(&gateway, &target(&dripping), "drips").await.expect(200);
    assert!(!answer.whole && answer.took < SOON, "{:?}", answer.took);
    for trace in ["silent", "drips"] {
        assert_eq!(fault(&gateway, trace).await, (json!(200), json!("request_timeout")), "{trace}");
    }
    eventually("the end of the calls", || async {
        (begun.open() + silent.open() + dripping.open() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_stops_reading_or_sending_does_not_outlast_the_whole_request() {
    let gateway = Gateway::with(&["--total-timeout", "600ms"]).await;
    let endless = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
        while peer.send(vec![b'x'; 64 << 10]).await {}
    })
    .await;
    let mut deaf = Raw::connect(gateway.proxy).await;
    deaf.send([head(&target(&endless), "deaf", 3), "abc".into()].concat()).await;
    eventually("the call", || async { (endless.seen().len() == 1).then_some(()) }).await;
    assert_eq!(fault(&gateway, "deaf").await, (json!(200), json!("request_timeout")));
    eventually("the end of the call", || async { (endless.open() == 0).then_some(()) }).await;
    let reading = stalling("").await;
    let mut mute = Raw::connect(gateway.proxy).await;
    mute.send([head(&target(&reading), "mute", 5000), "abc".into()].concat()).await;
    let response = mute.response().await;
    assert_eq!(response.head.status, 408, "{}", response.text());
    assert_eq!(fault(&gateway, "mute").await, (json!(408), json!("slow_client")));
}

#[tokio::test]
async fn a_client_that_sends_no_more_is_told_and_no_target_is_blamed() {
    let gateway = Gateway::with(&["--idle-timeout", "400ms"]).await;
    let reading = stalling("").await;
    let rules = json!({ "retry": { "attempts": 2, "on_status_codes": [408] } });
    let targets = [with(target(&reading), rules), target(&reading)];
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": targets });
    let mut client = Raw::connect(gateway.proxy).await;
    client.send([head(&config, "mute", 5000), "abc".into()].concat()).await;
    let response = client.response().await;
    assert_eq!((response.head.status, response.whole), (408, true), "{}", response.text());
    assert!(response.text().contains("did not arrive in time"), "{}", response.text());
    assert_eq!(fault(&gateway, "mute").await, (json!(408), json!("slow_client")));
    assert_eq!(reading.connections(), 1, "there is nothing to send again");
}

#[tokio::test]
async fn every_ending_is_recorded_and_counted_once() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let limits = json!({
        "name": "Requests", "type": "requests", "unit": "rph", "value": 10,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    gateway.admin().post("/policies/rate-limits", &limits).await.expect(200);
    let silent = stalling("").await;
    let timed = with(target(&silent), json!({ "request_timeout": 150 }));
    send(&gateway, &timed, "late").await.expect(408);
    let breaking = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.reset().await;
    })
    .await;
    send(&gateway, &with(target(&breaking), json!({ "retry": { "attempts": 0 } })), "broken").await.expect(502);
    let cut = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nsome").await;
    })
    .await;
    assert!(!send(&gateway, &target(&cut), "cut").await.expect(200).whole);
    let mut client = Raw::connect(gateway.proxy).await;
    client.send([head(&target(&silent), "left", 5), "abcde".into()].concat()).await;
    eventually("the call", || async { (silent.seen().len() == 2).then_some(()) }).await;
    drop(client);
    let endings = [
        ("late", 408, "request_timeout"),
        ("broken", 502, "upstream_broken"),
        ("cut", 200, "upstream_broken"),
        ("left", 499, "client_gone"),
    ];
    for (trace, status, label) in endings {
        assert_eq!(fault(&gateway, trace).await, (json!(status), json!(label)), "{trace}");
    }
    let good = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let answer = send(&gateway, &target(&good), "good").await.expect(200);
    assert_eq!(answer.header("x-gateway-ratelimit-remaining-requests"), Some("5"));
}

#[tokio::test]
async fn tokens_of_relayed_answers_are_counted_once_and_those_of_failed_calls_not() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let limits = json!({
        "name": "Tokens", "type": "tokens", "unit": "tph", "value": 1_000_000,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    gateway.admin().post("/policies/rate-limits", &limits).await.expect(200);
    let usage = json!({ "input_tokens": 30, "output_tokens": 10, "total_tokens": 40 });
    let (told, usage) = (json!({ "text": "heard", "usage": usage }), usage.to_string());
    let plain = Upstream::replying(move |_| reply::json(200, &told)).await;
    let said = format!("data: {{\"type\":\"transcript.text.done\",\"text\":\"heard\",\"usage\":{usage}}}\n\n");
    let events = Upstream::replying(move |_| {
        [reply::STREAM.to_vec(), reply::chunk(&said), reply::done(), reply::LAST_CHUNK.to_vec()].concat()
    })
    .await;
    let mute = stalling("").await;
    let silent = with(target(&mute), json!({ "request_timeout": 100 }));
    let mut left = Vec::new();
    for (index, (config, status)) in
        [(&target(&plain), 200), (&silent, 408), (&target(&events), 200), (&silent, 408), (&target(&plain), 200)]
            .into_iter()
            .enumerate()
    {
        let trace = format!("call-{index}");
        // What passes through is counted as what it is.
        let call = gateway.post("/v1/proxy/audio/transcriptions").config(config).header("x-gateway-trace-id", &trace);
        let answer = call.body(FORM, "a small body").send().await.expect(status);
        let record = record_of(&gateway, &trace).await;
        if status == 200 {
            assert_eq!((&record["metrics"]["req_units"], &record["metrics"]["res_units"]), (&json!(30), &json!(10)));
            let told = answer.header("x-gateway-ratelimit-remaining-tokens").expect("told");
            left.push(told.parse::<u64>().expect("a number"));
        }
    }
    // What a call holds while it runs is taken off as well, the same each time.
    assert_eq!(left.iter().map(|at| left[0] - at).collect::<Vec<_>>(), [0, 40, 80]);
}

#[tokio::test]
async fn an_open_websocket_is_held_to_no_clock() {
    let gateway = Gateway::with(&["--total-timeout", "300ms", "--idle-timeout", "300ms"]).await;
    let socket = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n").await;
        loop {
            let bytes = peer.bytes().await;
            if bytes.is_empty() || !peer.send(&bytes).await {
                return;
            }
        }
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(handshake(&with(target(&socket), json!({ "request_timeout": 200 })), "open")).await;
    assert_eq!(client.head().await.status, 101);
    tokio::time::sleep(Duration::from_millis(1000)).await;
    client.send("still there").await;
    assert_eq!(client.bytes().await, b"still there");
    drop(client);
    let record = record_of(&gateway, "open").await;
    assert_eq!((&record["response"]["status"], &record["fault"]), (&json!(101), &Value::Null), "{record}");
    assert_eq!(record["request"]["bytes"], 11, "{record}");
}

#[tokio::test]
async fn a_websocket_that_does_not_open_is_held_to_all_clocks_and_falls_back() {
    let silent = stalling("").await;
    let open = stalling("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n").await;
    let timed = with(target(&silent), json!({ "request_timeout": 200 }));
    let fallback = json!({ "strategy": { "mode": "fallback" }, "targets": [timed, target(&open)] });
    let cases: [(&[&str], &Value, u16); 4] = [
        (&[], &timed, 408),
        (&["--total-timeout", "300ms"], &target(&silent), 408),
        (&["--first-byte-timeout", "300ms"], &target(&silent), 504),
        (&[], &fallback, 101),
    ];
    for (flags, config, status) in cases {
        let gateway = Gateway::with(flags).await;
        let mut client = Raw::connect(gateway.proxy).await;
        let began = Instant::now();
        client.send(handshake(config, "opens")).await;
        let response = client.response().await;
        assert_eq!(response.head.status, status, "{flags:?}: {}", response.text());
        assert!(began.elapsed() < SOON, "{flags:?}");
    }
}

#[tokio::test]
async fn the_last_words_on_a_websocket_are_passed_on() {
    let gateway = Gateway::start().await;
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let socket = Upstream::scripted(move |mut peer| {
        let heard = heard.clone();
        async move {
            peer.head().await;
            peer.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n").await;
            let mut all = 0;
            loop {
                let bytes = peer.bytes().await;
                all += bytes.len();
                if bytes.is_empty() {
                    let _ = heard.send(all);
                    return;
                }
            }
        }
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(handshake(&target(&socket), "last")).await;
    assert_eq!(client.head().await.status, 101);
    client.send(vec![b'x'; 3 << 20]).await;
    drop(client);
    assert_eq!(hears.recv().await, Some(3 << 20));
    let last = Upstream::scripted(|mut peer| async move {
        peer.head().await;
        peer.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\nbye").await;
    })
    .await;
    let mut client = Raw::connect(gateway.proxy).await;
    client.send(handshake(&target(&last), "bye")).await;
    assert_eq!(client.head().await.status, 101);
    let mut said = Vec::new();
    loop {
        let bytes = client.bytes().await;
        if bytes.is_empty() {
            break;
        }
        said.extend(bytes);
    }
    assert_eq!(said, b"bye", "and then the end");
}

fn handshake(config: &Value, trace: &str) -> String {
    format!(
        "GET /v1/live?model=m HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         x-gateway-trace-id: {trace}\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {config}\r\n\r\n"
    )
}
