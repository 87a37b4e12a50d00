//! Trying a target again: when, how often, after how long, and what the answer says of it.

use crate::harness::{Answer, Gateway, Raw, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

async fn ask(gateway: &Gateway, upstream: &Upstream, retry: Value) -> Answer {
    let config = with(target(upstream), json!({ "retry": retry }));
    gateway.chat().config(&config).json(&hello()).send().await
}

fn count(answer: &Answer) -> &str {
    answer.header("x-gateway-retry-attempt-count").unwrap_or_default()
}

/// A 429 that asks for almost no wait, so that tests need not sit out the back-off.
fn soon() -> Vec<u8> {
    reply::error(429, &[("retry-after-ms", "5")])
}

#[tokio::test]
async fn a_success_after_failures_is_counted() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![soon(), soon(), reply::chat("hi")]).await;
    let answer = ask(&gateway, &upstream, json!({ "attempts": 3, "use_retry_after_header": true })).await.expect(200);
    assert_eq!((count(&answer), answer.said().as_str()), ("2", "hi"));
    let seen = upstream.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|s| s.body == seen[0].body), "each try sends the same body");
    assert_eq!(upstream.connections(), 1, "an answered 429 costs no connection");
}

#[tokio::test]
async fn attempts_that_run_out_are_counted_as_minus_one() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![soon()]).await;
    let answer = ask(&gateway, &upstream, json!({ "attempts": 2, "use_retry_after_headers": true })).await.expect(429);
    assert_eq!((count(&answer), upstream.seen().len()), ("-1", 3));
    assert_eq!(answer.header("retry-after-ms"), Some("5"), "the upstream's advice is passed on");
}

#[tokio::test]
async fn without_a_rule_nothing_is_repeated() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::error(500, &[])]).await;
    let answer = gateway.chat_through(&upstream).json(&hello()).send().await.expect(500);
    assert_eq!((count(&answer), upstream.seen().len()), ("0", 1));
}

#[tokio::test]
async fn statuses_outside_the_list_are_given_as_they_are() {
    let gateway = Gateway::start().await;
    for (status, list) in [(501, Value::Null), (400, Value::Null), (500, json!([429]))] {
        let upstream = Upstream::in_turn(vec![reply::error(status, &[]), reply::chat("hi")]).await;
        let answer = ask(&gateway, &upstream, json!({ "attempts": 2, "on_status_codes": list })).await.expect(status);
        assert_eq!((count(&answer), upstream.seen().len()), ("0", 1), "{status}");
    }
}

#[tokio::test]
async fn the_first_back_off_is_a_second() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::error(529, &[("retry-after-ms", "1")]), reply::chat("hi")]).await;
    let answer = ask(&gateway, &upstream, json!({ "attempts": 1 })).await.expect(200);
    assert!(answer.took >= Duration::from_secs(1), "{:?}", answer.took);
    assert!(answer.took < Duration::from_secs(5), "{:?}", answer.took);
    assert_eq!(count(&answer), "1");
}

#[tokio::test]
async fn retry_after_is_read_in_its_three_spellings() {
    let gateway = Gateway::start().await;
    // The back-off of two retries is three seconds.
    for (name, value, least, below) in
        [("retry-after-ms", "40", 80, 2500), ("x-ms-retry-after-ms", "40", 80, 2500), ("retry-after", "1", 2000, 2900)]
    {
        let busy = reply::error(429, &[(name, value)]);
        let upstream = Upstream::in_turn(vec![busy.clone(), busy, reply::chat("hi")]).await;
        let answer =
            ask(&gateway, &upstream, json!({ "attempts": 2, "use_retry_after_header": true })).await.expect(200);
        let took = answer.took.as_millis();
        assert!(took >= least && took < below, "{name}: {took} ms");
    }
}

#[tokio::test]
async fn a_wait_of_a_minute_is_not_waited() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::error(429, &[("retry-after", "60")]), reply::chat("hi")]).await;
    let answer = ask(&gateway, &upstream, json!({ "attempts": 3, "use_retry_after_header": true })).await.expect(429);
    assert!(answer.took < Duration::from_secs(2), "{:?}", answer.took);
    assert_eq!((count(&answer), upstream.seen().len()), ("-1", 1));
    assert_eq!(answer.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn a_broken_connection_is_retried_by_rule_only() {
    let gateway = Gateway::start().await;
    let script = |peer: crate::harness::Peer| async move {
        let mut peer = peer;
        if peer.request().await.is_some() {
            if peer.connection() == 0 {
                peer.send(b"HTTP/1.1 200 OK\r\nconte").await;
                peer.reset().await;
            } else {
                peer.send(reply::chat("hi")).await;
            }
        }
    };
    let upstream = Upstream::scripted(script).await;
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(502);
    assert_eq!(upstream.seen().len(), 1, "a POST is not repeated unasked");
    let upstream = Upstream::scripted(script).await;
    let answer = ask(&gateway, &upstream, json!({ "attempts": 1 })).await.expect(200);
    assert_eq!((count(&answer), upstream.seen().len()), ("1", 2));
}

#[tokio::test]
async fn a_kept_connection_that_the_upstream_closed_costs_no_request() {
    let gateway = Gateway::start().await;
    // Answers once and then closes without having said so.
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send(reply::chat("hi")).await;
    })
    .await;
    for _ in 0..20 {
        gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    }
    assert_eq!(upstream.seen().len(), 20, "each went up exactly once");
}

#[tokio::test]
async fn a_timeout_is_a_408_that_names_it() {
    let gateway = Gateway::start().await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let by_config = gateway.chat().config(&with(target(&silent), json!({ "request_timeout": 120 })));
    let by_header = gateway.chat_through(&silent).header("x-gateway-request-timeout", "120");
    let header_wins = gateway.chat().config(&with(target(&silent), json!({ "request_timeout": 60_000 })));
    for call in [by_config, by_header, header_wins.header("x-gateway-request-timeout", "120")] {
        let answer = call.json(&hello()).send().await.expect(408);
        assert_eq!(answer.error(), "Request exceeded the timeout sent in the request: 120ms");
        assert_eq!(answer.json()["error"]["type"], "timeout_error");
        assert!((120..5000).contains(&answer.took.as_millis()), "{:?}", answer.took);
    }
}

#[tokio::test]
async fn a_timeout_counts_for_each_try_and_is_retried_when_listed() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        if peer.connection() == 0 {
            peer.gone().await;
        } else {
            peer.send(reply::chat("hi")).await;
        }
    })
    .await;
    let config = with(target(&upstream), json!({ "request_timeout": 150, "retry": { "attempts": 1 } }));
    gateway.chat().config(&config).json(&hello()).send().await.expect(408);
    let upstream_again = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        if peer.connection() == 0 {
            peer.gone().await;
        } else {
            peer.send(reply::chat("hi")).await;
        }
    })
    .await;
    let retry = json!({ "attempts": 1, "on_status_codes": [408] });
    let config = with(target(&upstream_again), json!({ "request_timeout": 150, "retry": retry }));
    let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    assert_eq!(count(&answer), "1");
}

#[tokio::test]
async fn a_timeout_falls_back() {
    let gateway = Gateway::start().await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let good = Upstream::replying(|_| reply::chat("good")).await;
    let slow = with(target(&silent), json!({ "request_timeout": 100 }));
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [slow, target(&good)] });
    let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    assert_eq!(answer.said(), "good");
}

#[tokio::test]
async fn a_stream_that_has_begun_outlives_the_timeout() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("one ")].concat()).await;
        peer.pause(400).await;
        peer.send([reply::delta("two"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()].concat()).await;
    })
    .await;
    let call = gateway.chat_through(&upstream).header("x-gateway-request-timeout", "200");
    let answer = call.json(&with(hello(), json!({ "stream": true }))).send().await.expect(200);
    assert_eq!(answer.said(), "one two");
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
}

#[tokio::test]
async fn relayed_calls_are_retried_by_the_same_rules() {
    let gateway = Gateway::start().await;
    let retry = json!({ "attempts": 3, "use_retry_after_header": true });
    let ask = async |upstream: &Upstream, retry: &Value| {
        let config = with(target(upstream), json!({ "retry": retry }));
        gateway.post("/v1/audio/transcriptions").config(&config).body("audio/wav", "sound").send().await
    };
    let upstream = Upstream::in_turn(vec![soon(), soon(), reply::chat("hi")]).await;
    let answer = ask(&upstream, &retry).await.expect(200);
    assert_eq!((count(&answer), upstream.seen().len()), ("2", 3));
    assert!(answer.took < Duration::from_millis(900), "{:?}", answer.took);
    assert!(upstream.seen().iter().all(|s| s.text() == "sound"), "each try sends the same body");

    let upstream = Upstream::in_turn(vec![soon()]).await;
    let answer = ask(&upstream, &retry).await.expect(429);
    assert_eq!((count(&answer), upstream.seen().len()), ("-1", 4));

    let late = Upstream::in_turn(vec![reply::error(429, &[("retry-after", "60")])]).await;
    let answer = ask(&late, &retry).await.expect(429);
    assert_eq!((count(&answer), late.seen().len()), ("-1", 1), "a minute is not waited");

    let other = Upstream::in_turn(vec![reply::error(501, &[])]).await;
    let answer = ask(&other, &retry).await.expect(501);
    assert_eq!((count(&answer), other.seen().len()), ("0", 1), "not in the list");

    let fast = json!({ "attempts": 1, "jitter": true });
    let upstream = Upstream::in_turn(vec![reply::error(503, &[]), reply::chat("hi")]).await;
    let answer = ask(&upstream, &fast).await.expect(200);
    assert_eq!(count(&answer), "1");
    assert!((500..1500).contains(&answer.took.as_millis()), "{:?}", answer.took);
}

async fn left(gateway: &Gateway, trace: &str) {
    let row = eventually("the record", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().and_then(|rows| rows.first().cloned())
    })
    .await;
    assert_eq!(row["metrics"]["response_status_code"], 499, "{trace}: {row}");
}

/// No way leaves anything behind: no further call, nothing of the provider's limits, and a record that says why.
#[tokio::test]
async fn a_client_that_leaves_during_a_wait_ends_the_retries() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::error(503, &[])).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let limits = json!({ "rate_limits": [{ "type": "requests", "unit": "rpw", "value": 1 }], "max_parallel": 1 });
    gateway.admin().put("/providers/main", &limits).await.expect(200);
    let retry = json!({ "provider": "@main", "retry": { "attempts": 5 } });
    let calls = async |n: usize| eventually("a try", || async { (upstream.seen().len() == n).then_some(()) }).await;
    for (n, (path, kind)) in
        [("/v1/chat/completions", "application/json"), ("/v1/audio/transcriptions", "audio/wav")].iter().enumerate()
    {
        let trace = format!("left-{n}");
        let call = gateway.post(path).config(&retry).body(kind, hello().to_string());
        let mut waiting = JoinSet::new();
        waiting.spawn(call.header("x-gateway-trace-id", &trace).send());
        calls(n + 1).await;
        drop(waiting);
        left(&gateway, &trace).await;
    }
    let mut socket = Raw::connect(gateway.proxy).await;
    let key = crate::harness::WORKSPACE_KEY;
    socket
        .send(format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nx-gateway-api-key: {key}\r\n\
             x-gateway-trace-id: left-2\r\nx-gateway-config: {retry}\r\n\r\n"
        ))
        .await;
    calls(3).await;
    drop(socket);
    left(&gateway, "left-2").await;
    assert_eq!(upstream.seen().len(), 3, "no further tries");
}
