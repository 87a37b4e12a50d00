//! What a provider sends where an answer should be, and what of its head never goes down; the same on the way up.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};

fn streamed() -> Value {
    with(hello(), json!({ "stream": true }))
}

fn fallback(first: &Upstream, second: &Upstream) -> Value {
    json!({ "strategy": { "mode": "fallback" }, "targets": [target(first), target(second)] })
}

#[tokio::test]
async fn what_is_no_answer_is_a_502_and_falls_back() {
    let gateway = Gateway::start().await;
    let good = Upstream::replying(|_| reply::chat("good")).await;
    let page: &[u8] = b"<html>Please sign in</html>";
    for (status, headers, body) in [
        (200, &[("content-type", "text/html")][..], page),
        (307, &[("location", "https://elsewhere.example/x")], b""),
        (302, &[("location", "/login"), ("content-type", "text/html")], page),
        (204, &[], b""),
        (304, &[("etag", "\"x\"")], b""),
        (999, &[("content-type", "application/json")], b"{}"),
    ] {
        let upstream = Upstream::replying(move |_| reply::whole(status, headers, body)).await;
        let routes = [
            ("/v1/chat/completions", hello()),
            ("/v1/chat/completions", streamed()),
            ("/v1/embeddings", json!({ "model": "m", "input": "a" })),
            ("/v1/messages", with(hello(), json!({ "max_tokens": 5 }))),
        ];
        for (path, body) in routes {
            let answer = gateway.post(path).config(&target(&upstream)).json(&body).send().await.expect(502);
            assert_eq!(answer.header("location"), None, "{status} {path}");
            assert!(answer.json()["error"]["message"].is_string(), "{status} {path}: {}", answer.text());
        }
        let answer = gateway.chat().config(&fallback(&upstream, &good)).json(&hello()).send().await.expect(200);
        assert_eq!(answer.said(), "good", "{status}");
    }
}

#[tokio::test]
async fn pass_through_and_sound_are_handed_on_as_they_are() {
    let gateway = Gateway::start().await;
    let away = "https://elsewhere.example/x";
    let upstream = Upstream::replying(move |seen| match seen.target.as_str() {
        "/v1/audio/speech" => reply::whole(200, &[("content-type", "audio/mpeg")], b"sound"),
        "/v1/moved" => reply::whole(307, &[("location", away)], b""),
        _ => reply::whole(200, &[("content-type", "text/html")], b"<html>"),
    })
    .await;
    let call = |path: &str| gateway.post(path).config(&target(&upstream)).json(&json!({ "input": "a" })).send();
    assert_eq!(call("/v1/audio/speech").await.expect(200).body, b"sound");
    assert_eq!(call("/v1/proxy/moved").await.expect(307).header("location"), Some(away));
    assert_eq!(call("/v1/proxy/chat/completions").await.expect(200).text(), "<html>");
}

/// A server that does not stream answers whole: the client gets its stream all the same.
#[tokio::test]
async fn a_whole_answer_to_a_call_for_a_stream_becomes_one() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("all at once")).await;
    let asked = with(streamed(), json!({ "stream_options": { "include_usage": true } }));
    let answer = gateway.chat_through(&upstream).json(&asked).send().await.expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!((answer.said().as_str(), events.last().map(String::as_str)), ("all at once", Some("[DONE]")));
    assert!(answer.text().contains("\"prompt_tokens\""), "usage was asked for: {}", answer.text());
    let body = with(streamed(), json!({ "max_tokens": 9 }));
    let text = gateway.post("/v1/messages").config(&target(&upstream)).json(&body).send().await.expect(200).text();
    assert!(text.contains("event: message_stop") && text.contains("all at once"), "{text}");
    let body = json!({ "model": "m", "input": "hi", "stream": true });
    let whole =
        Upstream::replying(|_| reply::json(200, &json!({ "id": "r", "object": "response", "output": [] }))).await;
    gateway.post("/v1/responses").config(&target(&whole)).json(&body).send().await.expect(502);
}

/// Some servers end a stream without its mark: a finish for every choice and the proper end of the body are as good.
#[tokio::test]
async fn a_stream_ends_with_its_mark_or_with_every_choice() {
    let gateway = Gateway::start().await;
    let choice = |index: u32, finish: Value| {
        let delta = if finish.is_null() { json!({ "content": "word" }) } else { json!({}) };
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": index, "delta": delta, "finish_reason": finish }] });
        reply::chunk(format!("data: {chunk}\n\n"))
    };
    let usage = json!({ "id": "c", "choices": [],
        "usage": { "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8 } });
    let usage = reply::chunk(format!("data: {usage}\n\n"));
    let (stop, open) = (json!("stop"), Value::Null);
    for (n, events, ends) in [
        (1, vec![choice(0, open.clone()), choice(0, stop.clone())], true),
        (1, vec![choice(0, open.clone()), choice(0, stop.clone()), usage], true),
        (1, vec![choice(0, open.clone())], false),
        (2, vec![choice(0, open.clone()), choice(1, open.clone()), choice(0, stop.clone())], false),
        (2, vec![choice(0, open.clone()), choice(1, open), choice(1, stop.clone()), choice(0, stop)], true),
    ] {
        let bytes = [reply::STREAM, &events.concat(), reply::LAST_CHUNK].concat();
        let upstream = Upstream::replying(move |_| bytes.clone()).await;
        let call = gateway.chat_through(&upstream).json(&with(streamed(), json!({ "n": n })));
        let text = call.send().await.expect(200).text();
        assert_eq!(text.contains("data: [DONE]"), ends, "{n}: {text}");
        assert_eq!(text.contains("\"error\""), !ends, "{n}: {text}");
        if n == 1 {
            let body = with(streamed(), json!({ "max_tokens": 9 }));
            let text =
                gateway.post("/v1/messages").config(&target(&upstream)).json(&body).send().await.expect(200).text();
            assert_eq!(text.contains("event: message_stop"), ends, "{text}");
        }
    }
}

#[tokio::test]
async fn headers_of_one_connection_and_the_gateways_own_stay_where_they_are() {
    let gateway = Gateway::with(&["--header-alias", "x-acme-"]).await;
    let upstream = Upstream::replying(|_| {
        let headers = [
            ("content-type", "application/json"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("x-kept", "1"),
            ("alt-svc", "h3=\":443\""),
            ("x-acme-trace-id", "evil"),
            ("x-acme-anything", "evil"),
        ];
        reply::whole(200, &headers, reply::completion("hi").to_string())
    })
    .await;
    for path in ["/v1/chat/completions", "/v1/proxy/chat/completions"] {
        let config = target(&upstream).to_string();
        let body = hello().to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {config}\r\n\
             connection: keep-alive, x-mine\r\nx-mine: 1\r\nx-kept: 1\r\nx-other: {WORKSPACE_KEY}\r\n\
             x_gateway_api_key: {WORKSPACE_KEY}\r\nx-pairs: a=b; key={WORKSPACE_KEY}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = Raw::connect(gateway.proxy).await.exchange(head.as_bytes()).await;
        assert_eq!(answer.head.status, 200, "{path}: {}", answer.text());
        for name in ["x-hop", "alt-svc", "x-acme-anything"] {
            assert_eq!(answer.head.header(name), None, "{path}: {name}");
        }
        assert_eq!(answer.head.header("x-kept"), Some("1"));
        let traces = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-acme-trace-id"));
        assert_eq!(traces.filter(|(_, value)| value != "evil").count(), 1, "{path}: {:?}", answer.head.headers);
        let seen = upstream.seen().pop().expect("it went up");
        assert!(!seen.headers.iter().any(|(_, value)| value.contains(WORKSPACE_KEY)), "{path}: {:?}", seen.headers);
        assert_eq!(seen.header("x-mine"), None, "{path}");
        assert_eq!(seen.header("x-kept"), path.contains("proxy").then_some("1"), "{path}");
    }
}

/// A limit that owes more than a window says when a call will fit, not when the window ends.
#[tokio::test]
async fn a_debt_is_told_with_the_time_that_it_takes() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| {
        let usage = json!({ "prompt_tokens": 12, "completion_tokens": 1000, "total_tokens": 1012 });
        reply::json(200, &with(reply::completion("hi"), json!({ "usage": usage })))
    })
    .await;
    let limit = json!({ "name": "Tokens", "type": "tokens", "unit": "tpm", "value": 300,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }] });
    gateway.admin().post("/policies/rate-limits", &limit).await.expect(200);
    let ask = || gateway.chat_through(&upstream).json(&with(hello(), json!({ "max_tokens": 20 }))).send();
    ask().await.expect(200);
    let refused = ask().await.expect(429);
    let wait: u64 = refused.header("retry-after").expect("told").parse().expect("seconds");
    // 712 are owed behind this minute: two more minutes repay 600, and the call fits into what is left of the third.
    assert!((120..=180).contains(&wait), "{wait}");
    assert_eq!(refused.header("x-should-retry"), Some("false"), "no SDK waits that long");
}

#[tokio::test]
async fn what_no_provider_will_ever_do_is_not_tried_again() {
    let gateway = Gateway::start().await;
    let speech = json!({ "model": "m", "input": "a", "voice": "alloy" });
    let config = json!({ "provider": "anthropic", "api_key": "k" });
    let refused = gateway.post("/v1/audio/speech").config(&config).json(&speech).send().await.expect(500);
    assert!(refused.error().contains("not supported"), "{}", refused.error());
    assert_eq!(refused.header("x-should-retry"), Some("false"));
}

#[tokio::test]
async fn a_key_that_is_held_to_its_config_cannot_be_led_elsewhere() {
    let gateway = Gateway::start().await;
    let (home, other) =
        (Upstream::replying(|_| reply::chat("home")).await, Upstream::replying(|_| reply::chat("elsewhere")).await);
    gateway.admin().provider("other", "openai", Some(&other.url())).await;
    let slug = gateway.admin().config("home", &with(target(&home), json!({ "request_timeout": 5_000 }))).await;
    let defaults = json!({ "defaults": { "config_id": slug, "allow_config_override": false } });
    let (_, held) = gateway.admin().workspace_key("held", defaults).await;
    let ask = |name: &str, value: &str| gateway.chat().key(&held).header(name, value).json(&hello()).send();
    for (name, value) in [
        ("x-gateway-provider", "@other"),
        ("x-gateway-provider", "mock"),
        ("x-gateway-virtual-key", "other"),
        ("x-gateway-custom-host", other.url().as_str()),
        ("x-gateway-forward-headers", "x-mine"),
        ("x-gateway-config", "{}"),
        ("x-gateway-azure-resource-name", "mine"),
    ] {
        let refused = ask(name, value).await.expect(400);
        assert_eq!(
            refused.json()["error"]["param"].as_str().map(|p| name.ends_with(&p.replace('_', "-"))),
            Some(true),
            "{name}: {}",
            refused.text()
        );
    }
    let led = with(hello(), json!({ "model": "@other/gpt-4o" }));
    gateway.chat().key(&held).json(&led).send().await.expect(400);
    assert_eq!((home.seen().len(), other.seen().len()), (0, 0), "nothing went up");
    // Fields of the body are the client's own, and a time may be shorter.
    let own = with(hello(), json!({ "temperature": 0.3 }));
    let call = gateway.chat().key(&held).header("x-gateway-request-timeout", "4000").json(&own);
    assert_eq!(call.send().await.expect(200).said(), "home");
}
