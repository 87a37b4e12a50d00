//! What is refused before anything costly is done: too many calls at once, and too many from one address.

use crate::harness::{Gateway, Raw, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

/// Answers what is asked to stream with a stream that does not end before its client leaves, `user: bad` with an
/// error, and the rest at once.
async fn upstream() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            let body = seen.json();
            if body["stream"] == json!(true) {
                peer.send(reply::STREAM).await;
                peer.send(reply::role()).await;
                peer.send(reply::delta("hi")).await;
                peer.gone().await;
                return;
            }
            let answer = if body["user"] == "bad" { reply::error(500, &[]) } else { reply::chat("hi") };
            if !peer.send(answer).await {
                return;
            }
        }
    })
    .await
}

fn endless() -> Value {
    with(hello(), json!({ "stream": true }))
}

#[tokio::test]
async fn a_key_has_no_more_calls_under_way_than_it_may() {
    let (gateway, upstream) = (Gateway::start().await, upstream().await);
    let (id, key) = gateway.admin().workspace_key("narrow", json!({ "max_parallel": 2 })).await;
    let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
    assert_eq!(shown["max_parallel"], 2, "{shown}");
    let call = |body: &Value| gateway.chat_through(&upstream).key(&key).json(body);
    // Answers that end give their place back, good ones and bad ones.
    for user in ["good", "bad", "good", "bad"] {
        let status = call(&with(hello(), json!({ "user": user }))).send().await.status;
        assert_eq!(status, if user == "bad" { 500 } else { 200 });
    }
    let mut open = vec![call(&endless()).open().await, call(&endless()).open().await];
    assert!(open.iter().all(|answer| answer.status() == 200));
    let refused = call(&hello()).send().await.expect(429);
    assert!(refused.error().contains("API key \"narrow\" allows 2 requests at once"), "{}", refused.error());
    assert_eq!(refused.header("retry-after"), Some("1"));
    let multipart = gateway.post("/v1/proxy/files").key(&key).provider("mock");
    multipart.body("multipart/form-data; boundary=x", "--x--\r\n").send().await.expect(429);
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    // A client that leaves gives its place back.
    open.pop();
    eventually("a free place", || async { (call(&hello()).send().await.status == 200).then_some(()) }).await;
    call(&endless()).open().await;
    drop(open);
    eventually("all places", || async {
        let mut both = JoinSet::new();
        both.spawn(call(&hello()).send());
        both.spawn(call(&hello()).send());
        let all = both.join_all().await;
        all.iter().all(|answer| answer.status == 200).then_some(())
    })
    .await;
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "max_parallel": 0 })).await.expect(400);
    gateway.admin().put(&format!("/api-keys/{id}"), &json!({ "max_parallel": null })).await.expect(200);
    let mut many = JoinSet::new();
    (0..8).for_each(|_| drop(many.spawn(call(&hello()).send())));
    assert!(many.join_all().await.iter().all(|answer| answer.status == 200));
    assert!(gateway.metrics().await.contains("gateway_shed_parallel "));
}

#[tokio::test]
async fn a_provider_that_has_enough_to_do_is_passed_over() {
    let gateway = Gateway::start().await;
    let (one, two) = (upstream().await, Upstream::replying(|_| reply::chat("two")).await);
    let admin = gateway.admin();
    admin.provider("narrow", "openai", Some(&one.url())).await;
    admin.put("/providers/narrow", &json!({ "max_parallel": 1 })).await.expect(200);
    let first = json!({ "provider": "@narrow" });
    let both = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&two)] });
    let open = gateway.chat().config(&first).json(&endless()).open().await;
    assert_eq!(open.status(), 200);
    let refused = gateway.chat().config(&first).json(&hello()).send().await.expect(429);
    assert!(refused.error().contains("provider \"narrow\" allows 1 request"), "{}", refused.error());
    let answer = gateway.chat().config(&both).json(&hello()).send().await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "two");
    drop(open);
    eventually("the place to be free", || async {
        (gateway.chat().config(&first).json(&hello()).send().await.status == 200).then_some(())
    })
    .await;
}

/// Good, bad and broken, exchanged and relayed, left by its client and left for another target.
#[tokio::test]
async fn a_provider_has_its_place_back_however_a_call_ends() {
    let narrow = Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            let how = seen.header("x-how").unwrap_or_default().to_owned();
            let sent = match how.as_str() {
                "bad" => peer.send(reply::error(500, &[])).await,
                "broken" => return peer.reset().await,
                "stream" => peer.send(reply::stream(&["hi"])).await,
                "endless" => {
                    peer.send([reply::STREAM, &reply::role(), &reply::delta("hi")].concat()).await;
                    return peer.gone().await;
                }
                _ => peer.send(reply::chat("hi")).await,
            };
            if !sent {
                return;
            }
        }
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.provider("narrow", "openai", Some(&narrow.url())).await;
    admin.put("/providers/narrow", &json!({ "max_parallel": 1 })).await.expect(200);
    let one = json!({ "provider": "@narrow" });
    let asked = |config: &Value, how: &str, body: &Value| {
        let call = gateway.chat().config(config).header("x-gateway-forward-headers", "x-how");
        call.header("x-how", how).json(body)
    };
    let form = |how: &str| {
        let call = gateway.post("/v1/proxy/files").config(&one).header("x-gateway-forward-headers", "x-how");
        call.header("x-how", how).body("multipart/form-data; boundary=b", "--b--")
    };
    // A place is given back right behind the last byte of an answer, which its client may have by then.
    let free = async || {
        eventually("a free place", || async {
            (asked(&one, "good", &hello()).send().await.status == 200).then_some(())
        })
        .await;
    };
    for (how, status, body) in
        [("bad", 500, hello()), ("stream", 200, endless()), ("broken", 502, hello()), ("good", 200, hello())]
    {
        asked(&one, how, &body).send().await.expect(status);
        free().await;
    }
    for (how, status) in [("good", 200), ("bad", 500)] {
        form(how).send().await.expect(status);
        free().await;
    }
    form("broken").send().await;
    free().await;
    let left = asked(&one, "endless", &endless()).open().await;
    form("good").send().await.expect(429);
    drop(left);
    free().await;
    let other = upstream().await;
    let both = json!({ "strategy": { "mode": "fallback" }, "targets": [one, target(&other)] });
    let open = asked(&both, "bad", &endless()).open().await;
    assert_eq!(open.status(), 200);
    asked(&one, "good", &hello()).send().await.expect(200);
}

#[tokio::test]
async fn whoever_is_no_trusted_proxy_speaks_for_one_address() {
    let gateway = Gateway::with(&["--address-rate", "20", "--trusted-proxies", "198.51.100.0/24"]).await;
    let mut calls = JoinSet::new();
    for n in 0..120 {
        let call = gateway.chat().provider("mock").header("x-forwarded-for", &format!("203.0.113.{n}"));
        calls.spawn(call.json(&hello()).send());
    }
    let shed = calls.join_all().await.iter().filter(|answer| answer.status == 429).count();
    assert!(shed > 0);
    assert!(gateway.metrics().await.contains(&format!("gateway_shed_floods {shed}\n")));
}

#[tokio::test]
async fn a_storm_from_one_address_is_shed_and_others_pass() {
    let flags = ["--address-rate", "20", "--unknown-key-rate", "5", "--trusted-proxies", "127.0.0.1"];
    let gateway = Gateway::with(&flags).await;
    let from = |path: &str, address: &str| gateway.post(path).provider("mock").header("x-forwarded-for", address);
    let messages = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }] });
    let storm = async |path: &str, body: &Value, address: &str| {
        let mut calls = JoinSet::new();
        (0..120).for_each(|_| drop(calls.spawn(from(path, address).json(body).send())));
        calls.join_all().await
    };
    let all = storm("/v1/messages", &messages, "203.0.113.1").await;
    let shed: Vec<_> = all.iter().filter(|answer| answer.status == 429).collect();
    assert!(!shed.is_empty());
    assert_eq!(shed[0].json()["error"]["type"], "rate_limit_error", "{}", shed[0].text());
    assert_eq!(shed[0].json()["type"], "error", "in the dialect of the route");
    assert_eq!(shed[0].header("retry-after"), Some("1"));
    from("/v1/chat/completions", "203.0.113.2").json(&hello()).send().await.expect(200);
    let token = |address: &str| {
        let key = format!("eyJhbGciOiJSUzI1NiJ9.{}.x", "e30");
        from("/v1/chat/completions", address).key(&key).json(&hello()).send()
    };
    let mut floods = JoinSet::new();
    (0..15).for_each(|_| drop(floods.spawn(token("203.0.113.3"))));
    let heard: Vec<u16> = floods.join_all().await.iter().map(|answer| answer.status).collect();
    assert!(heard.contains(&401) && heard.contains(&429), "{heard:?}");
    from("/v1/chat/completions", "203.0.113.3").json(&hello()).send().await.expect(200);
    let after = Duration::from_millis(2_100);
    tokio::time::sleep(after).await;
    from("/v1/messages", "203.0.113.1").json(&messages).send().await.expect(200);
}

/// Places of key and provider are taken while a WebSocket is open, and however it ends they are free again.
#[tokio::test]
async fn a_websocket_gives_its_places_back_whoever_ends_it() {
    let narrow = Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            if seen.header("upgrade").is_none() {
                peer.send(reply::chat("hi")).await;
                continue;
            }
            let head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
            peer.send(format!("{head}sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")).await;
            match peer.bytes().await.as_slice() {
                b"end" => return,
                b"cut" => return peer.reset().await,
                _ => peer.gone().await,
            }
            return;
        }
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.provider("narrow", "openai", Some(&narrow.url())).await;
    admin.put("/providers/narrow", &json!({ "max_parallel": 1 })).await.expect(200);
    let (_, key) = admin.workspace_key("narrow", json!({ "max_parallel": 1 })).await;
    let handshake = format!(
        "GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         x-gateway-api-key: {key}\r\nx-gateway-provider: @narrow\r\n\r\n"
    );
    for ending in ["the client leaves", "end", "cut"] {
        // A client may hear the end of its answer a moment before its place is free.
        let mut socket = eventually("a place for the handshake", || async {
            let mut socket = Raw::connect(gateway.proxy).await;
            socket.send(&handshake).await;
            (socket.head().await.status == 101).then_some(socket)
        })
        .await;
        let mut second = Raw::connect(gateway.proxy).await;
        second.send(&handshake).await;
        assert_eq!(second.head().await.status, 429, "{ending}: the key's place is taken");
        let other = async || gateway.chat().provider("@narrow").json(&hello()).send().await;
        other().await.expect(429);
        if ending == "the client leaves" {
            drop(socket);
        } else {
            socket.send(ending).await;
            while !socket.bytes().await.is_empty() {}
        }
        eventually("the provider's place", || async { (other().await.status == 200).then_some(()) }).await;
        eventually("the key's place", || async {
            let call = gateway.chat().key(&key).provider("@narrow").json(&hello());
            (call.send().await.status == 200).then_some(())
        })
        .await;
    }
}
