//! Sessions are watched by whatever path they are opened, and what nobody could watch is refused where a limit needs to
//! know what is said.

use crate::harness::{Gateway, LiveProvider, Raw, Socket, WORKSPACE_KEY, reply, stand_at_noon};
use crate::realtime::{answering, create, records};
use serde_json::{Value, json};

/// A gateway with `@main`, and a key that may use so many tokens.
async fn house(provider: &LiveProvider, tokens: u64) -> (Gateway, String, String) {
    let gateway = Gateway::start().await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": tokens } });
    let (id, key) = gateway.admin().workspace_key("talker", limits).await;
    (gateway, id, key)
}

async fn used(gateway: &Gateway, id: &str) -> Value {
    gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json()["usage_limits"]["current_usage"].clone()
}

#[tokio::test]
async fn a_session_is_watched_by_whatever_path_it_is_opened() {
    stand_at_noon();
    let (provider, _) = answering(30).await;
    let (gateway, id, key) = house(&provider, 1_000_000).await;
    for (number, (path, above)) in [
        ("/v1/realtime/", "/v1/realtime"),
        ("/v1/v1/realtime", "/v1/realtime"),
        ("/v1/proxy/realtime", "/v1/realtime"),
        ("/v1/proxy/v1/realtime", "/v1/realtime"),
        ("/v1/proxy/v1/realtime/", "/v1/realtime/"),
        ("/v1/proxy/v1/v1/realtime", "/v1/v1/realtime"),
        ("/v1/proxy/V1/Realtime", "/v1/V1/Realtime"),
        ("/v1/proxy/v1/%72ealtime", "/v1/realtime"),
        ("/v1/proxy/v1%2Frealtime", "/v1/v1%2Frealtime"),
        ("/v1/proxy/openai/v1/realtime", "/v1/openai/v1/realtime"),
        ("/v1/proxy/openai/deployments/gpt-realtime/realtime", "/v1/openai/deployments/gpt-realtime/realtime"),
    ]
    .into_iter()
    .enumerate()
    {
        let trace = format!("path-{number}");
        let headers = [("x-gateway-api-key", &*key), ("x-gateway-provider", "@main"), ("x-gateway-trace-id", &*trace)];
        let asked = format!("{path}?model=gpt-realtime");
        let mut client =
            Socket::open(gateway.proxy, &asked, &headers).await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        client.say(&create()).await;
        client.event("response.done").await;
        client.close(1000, "").await;
        client.end().await;
        let seen = provider.seen().pop().expect("it went up").target;
        assert_eq!(seen.split('?').next(), Some(above), "{path}");
        let (session, parts) = records(&gateway, &trace, 2).await;
        assert_eq!(session["realtime"]["totals"]["responses"], 1, "{path}: {session}");
        assert_eq!(parts[0]["metrics"]["total_units"], 30, "{path}: {}", parts[0]);
        assert_eq!(used(&gateway, &id).await, 30 * (number + 1), "{path}");
    }
}

#[tokio::test]
async fn a_budget_ends_a_session_that_passes_through() {
    stand_at_noon();
    let (provider, _) = answering(30).await;
    let (gateway, _, key) = house(&provider, 20).await;
    let headers = [("x-gateway-api-key", &*key), ("x-gateway-provider", "@main")];
    let path = "/v1/proxy/v1/realtime?model=gpt-realtime";
    let mut client = Socket::open(gateway.proxy, path, &headers).await.expect("it opens");
    client.say(&create()).await;
    assert_eq!(client.event("error").await["error"]["code"], "budget_exhausted");
    assert_eq!(client.end().await.code(), Some(1008));
    let refused = Socket::open(gateway.proxy, path, &headers).await.expect_err("nothing is left");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (412, &json!("budget_exhausted")));
}

/// Limits of the caller and of the target count alike.
#[tokio::test]
async fn a_socket_that_nobody_reads_is_refused_where_what_it_uses_is_limited() {
    stand_at_noon();
    let (provider, _) = answering(30).await;
    let (gateway, _, key) = house(&provider, 1_000_000).await;
    let admin = gateway.admin();
    let (_, paying) =
        admin.workspace_key("paying", json!({ "usage_limits": { "type": "cost", "credit_limit": 10 } })).await;
    let rates = json!({ "rate_limits": [{ "type": "tokens", "unit": "rpm", "value": 1_000 }] });
    let (_, slow) = admin.workspace_key("slow", rates).await;
    let counted = json!({ "rate_limits": [{ "type": "requests", "unit": "rpm", "value": 100 }] });
    let (_, counted) = admin.workspace_key("counted", counted).await;
    let open = async |path: &str, key: &str| {
        let headers = [("x-gateway-api-key", key), ("x-gateway-provider", "@main")];
        Socket::open(gateway.proxy, path, &headers).await
    };
    for path in ["/v1/live?model=m", "/v1/proxy/v1/speech-to-text/realtime", "/v1/brand/new", "/v1/proxy/x?a=/realtime"]
    {
        for key in [&*key, &*paying, &*slow] {
            let refused = open(path, key).await.expect_err("nobody would read it");
            assert_eq!(refused.status, 403, "{path}: {}", refused.body);
            assert_eq!(refused.body["error"]["code"], "websocket_not_metered", "{path}: {}", refused.body);
            let why = refused.body["error"]["message"].as_str().expect("why");
            assert!(why.contains("tokens or money") && why.contains("/v1/live/sessions"), "{path}: {why}");
        }
        for key in [&*counted, WORKSPACE_KEY] {
            assert!(open(path, key).await.is_ok(), "{path}: nothing wants to know what is said");
        }
    }
    for path in ["/v1/live/sessions", "/v1/proxy/v1/Live/sessions/", "/v1/live/sessions/live_1/fork"] {
        let begin = async |key: &str| {
            let call = gateway.post(path).key(key).provider("@main").json(&json!({ "model": "gpt-live-1" }));
            call.send().await
        };
        for key in [&*key, &*paying, &*slow] {
            let refused = begin(key).await.expect(403);
            assert_eq!(refused.json()["error"]["code"], "session_not_metered", "{path}: {}", refused.text());
        }
        assert_ne!(begin(&counted).await.status, 403, "{path}: nothing wants to know what is said");
    }
    let before = provider.seen().len();
    let money = json!({
        "name": "money", "type": "cost", "credit_limit": 10,
        "conditions": [{ "key": "virtual_key", "value": "main" }], "group_by": [{ "key": "virtual_key" }],
    });
    admin.post("/policies/usage-limits", &money).await.expect(200);
    let refused = open("/v1/live?model=m", WORKSPACE_KEY).await.expect_err("the target's limit");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (403, &json!("websocket_not_metered")));
    assert_eq!(provider.seen().len(), before, "it did not go up");
}

#[tokio::test]
async fn a_session_is_opened_beside_one_call_alone() {
    let (provider, _) = answering(30).await;
    let (gateway, _, key) = house(&provider, 1_000_000).await;
    for path in ["/v1/realtime?call_id=rtc_1&call_id=rtc_2", "/v1/proxy/v1/realtime?call_id=rtc_1&call%5Fid=rtc_1"] {
        let headers = [("x-gateway-api-key", &*key), ("x-gateway-provider", "@main")];
        let refused = Socket::open(gateway.proxy, path, &headers).await.expect_err("which of them is meant?");
        assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("call_id")), "{path}");
    }
    assert!(provider.seen().is_empty(), "nothing went up");
}

#[tokio::test]
async fn calls_and_keys_of_providers_are_refused_by_whatever_path() {
    let gateway = Gateway::start().await;
    let upstream = crate::harness::Upstream::replying(|_| reply::json(200, &json!({}))).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for path in [
        "/v1/proxy/v1/realtime",
        "/v1/proxy/v1/realtime/calls",
        "/v1/proxy/v1/realtime/calls/",
        "/v1/proxy/v1/realtime/calls/rtc_1/accept",
        "/v1/v1/realtime/calls",
        "/v1/proxy/v1/Realtime/Calls",
        "/v1/proxy/v1/realtime%2Fcalls",
        "/v1/proxy/v1/realtime/client_secrets",
        "/v1/proxy/v1/%72ealtime/sessions",
        "/v1/v1/realtime/transcription_sessions",
    ] {
        let refused = gateway.post(path).provider("@main").json(&json!({ "model": "gpt-realtime" })).send().await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        assert!(refused.text().contains("go round the gateway"), "{path}: {}", refused.text());
    }
    assert_eq!(upstream.connections(), 0);
    gateway.post("/v1/proxy/v1/realtime/translations").provider("@main").json(&json!({})).send().await.expect(200);
}

#[tokio::test]
async fn what_is_no_handshake_opens_nothing() {
    let gateway = Gateway::start().await;
    let provider = LiveProvider::scripted(|_| async {}).await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let good = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (name, value) in [
        ("connection", "keep-alive"),
        ("sec-websocket-version", "12"),
        ("sec-websocket-key", "dGhl"),
        ("sec-websocket-key", ""),
    ] {
        let mut head =
            format!("GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n");
        head += "x-gateway-provider: @main\r\n";
        for (told, usual) in good {
            head += &format!("{told}: {}\r\n", if told == name { value } else { usual });
        }
        let mut raw = Raw::connect(gateway.proxy).await;
        let answer = raw.exchange((head + "\r\n").as_bytes()).await;
        assert_eq!(answer.head.status, 400, "{name}: {}", answer.text());
        assert!(answer.text().contains(name), "{}", answer.text());
    }
    assert!(provider.seen().is_empty(), "nobody was asked");
}
