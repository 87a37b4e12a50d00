//! The request headers of the contract, each with values that are not what it takes.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway, hello, raw, reply};

/// Header, bad value, route.
const BAD: &[(&str, &str)] = &[
    ("x-gateway-provider", "two words"),
    ("x-gateway-virtual-key", "two words"),
    ("x-gateway-config", "{"),
    ("x-gateway-config", "[]"),
    ("x-gateway-config", "no-such-config"),
    ("x-gateway-custom-host", "ftp://example.com"),
    ("x-gateway-metadata", "{"),
    ("x-gateway-metadata", "[1]"),
    ("x-gateway-metadata", r#"{"_user":1}"#),
    ("x-gateway-cache-force-refresh", "perhaps"),
    ("x-gateway-request-timeout", "soon"),
    ("x-gateway-request-timeout", "0"),
    ("x-gateway-request-timeout", "-5"),
    ("x-gateway-request-timeout", "1.5"),
    ("x-gateway-fetch-integrated-models", "perhaps"),
    ("x-gateway-forward-headers", "x-gateway-forward-headers"),
    ("x-gateway-forward-headers", "not a name"),
    ("x-gateway-forward-headers", "[1,2]"),
    ("x-gateway-sensitive-headers", "not a name"),
    ("x-gateway-sensitive-headers", "[1,2]"),
    ("x-gateway-strict-open-ai-compliance", "perhaps"),
    ("x-gateway-debug", "perhaps"),
];

#[tokio::test]
async fn a_bad_value_is_a_400_that_names_the_header() {
    let gateway = Gateway::start().await;
    for (name, value) in BAD {
        let call = gateway.chat().provider("mock").header(name, value);
        let answer = call.json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{name}: {value}: {}", answer.text());
        let error = &answer.json()["error"];
        assert!(answer.error().contains(name) || error["param"] == *name, "{name}: {value}: {error}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{name}");
        assert_eq!(answer.json()["status"], "failure", "{name}");
    }
}

#[tokio::test]
async fn too_long_values_are_named_too() {
    let gateway = Gateway::start().await;
    let long = "x".repeat(300);
    let metadata = format!(r#"{{"_user":"{}"}}"#, "x".repeat(129));
    for (name, value) in
        [("x-gateway-trace-id", long.as_str()), ("x-gateway-provider", &long), ("x-gateway-metadata", &metadata)]
    {
        let answer = gateway.chat().provider("mock").header(name, value).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.error().contains(name), "{}", answer.error());
    }
}

#[tokio::test]
async fn values_that_are_no_text_are_named_too() {
    let gateway = Gateway::start().await;
    let body = hello().to_string();
    for name in ["x-gateway-provider", "x-gateway-trace-id", "x-gateway-cache-namespace", "x-gateway-custom-host"] {
        let mut client = Raw::connect(gateway.proxy).await;
        let mut request = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n{name}: ").into_bytes();
        request.extend([0xff, 0xfe]);
        request.extend(format!("\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n").into_bytes());
        request
            .extend(format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes());
        request.extend(body.as_bytes());
        client.send(request).await;
        let response = client.response().await;
        assert_eq!(response.head.status, 400, "{name}: {}", response.text());
        assert!(response.text().contains(name), "{name}: {}", response.text());
    }
}

#[tokio::test]
async fn what_was_a_setting_once_is_refused_by_name() {
    let gateway = Gateway::start().await;
    for (name, value) in [("x-gateway-cache", "simple"), ("x-gateway-retry-count", "3"), ("x-gateway-mode", "single")] {
        let answer = gateway.chat().provider("mock").header(name, value).json(&hello()).send().await.expect(400);
        assert!(answer.error().contains(name) && answer.error().contains("config"), "{}", answer.error());
    }
    let answer = gateway.chat().header("x-gateway-config", "[1]").json(&hello()).send().await.expect(400);
    assert!(answer.error().contains("a JSON object") && !answer.error().contains("not JSON"), "{}", answer.error());
}

#[tokio::test]
async fn one_setting_with_two_values_is_a_400() {
    let gateway = Gateway::with(&["--header-alias", "x-acme-"]).await;
    let body = hello().to_string();
    let ask = async |headers: &str| {
        let mut client = Raw::connect(gateway.proxy).await;
        let (length, key) = (body.len(), WORKSPACE_KEY);
        let head = format!("host: g\r\nx-gateway-api-key: {key}\r\ncontent-type: application/json\r\n{headers}");
        client
            .send(format!("POST /v1/chat/completions HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}"))
            .await;
        let response = client.response().await;
        (response.head.status, response.text())
    };
    for (headers, status) in [
        ("x-gateway-provider: mock\r\n", 200),
        ("x-gateway-provider: mock\r\nx-gateway-provider: mock\r\n", 200),
        ("x-gateway-provider: mock\r\nx-acme-provider: mock\r\n", 200),
        ("x-gateway-provider: mock\r\nx-gateway-provider: openai\r\n", 400),
        ("x-gateway-provider: mock\r\nx-acme-provider: openai\r\n", 400),
        ("x-gateway-provider: mock\r\nx-acme-api-key: another-key-entirely\r\n", 400),
    ] {
        let (answered, text) = ask(headers).await;
        assert_eq!(answered, status, "{headers}: {text}");
        assert!(status == 200 || text.contains("different values"), "{text}");
        assert!(!text.contains("another-key-entirely"));
    }
}

#[tokio::test]
async fn the_wrong_content_type_is_a_400() {
    let gateway = Gateway::start().await;
    for kind in ["text/plain", "application/xml", "multipart/form-data; boundary=x"] {
        let answer = gateway.chat().provider("mock").body(kind, hello().to_string()).send().await.expect(400);
        assert!(answer.error().to_lowercase().contains("content type"), "{kind}: {}", answer.error());
    }
    let call = gateway.chat().provider("mock").body("application/json; charset=utf-8", hello().to_string());
    call.send().await.expect(200);
}

#[tokio::test]
async fn good_values_in_either_form_pass() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for (names, config_strict) in [("x-one, X-Two", "true"), (r#"["x-one","X-Two"]"#, "false")] {
        let call = gateway.chat_through(&upstream).header("x-gateway-forward-headers", names);
        let call = call.header("x-one", "1").header("x-two", "2").header("x-three", "3");
        let call = call.header("x-gateway-strict-open-ai-compliance", config_strict);
        let call = call.header("x-gateway-metadata", r#"{"_user":"ann","_team":"blue"}"#);
        let call = call.header("x-gateway-sensitive-headers", "x-one").header("x-gateway-cache-force-refresh", "true");
        call.header("x-gateway-cache-namespace", "ns").json(&hello()).send().await.expect(200);
    }
    for seen in upstream.seen() {
        assert_eq!((seen.header("x-one"), seen.header("x-two"), seen.header("x-three")), (Some("1"), Some("2"), None));
    }
}

#[tokio::test]
async fn forwarded_headers_cannot_replace_a_saved_credential_on_raw_routes() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for path in ["/v1/proxy/chat/completions", "/v1/brand/new"] {
        let call = gateway.post(path).provider("@main").header("x-gateway-forward-headers", "authorization,x-api-key");
        let call = call.header("authorization", "Bearer own").json(&hello());
        call.send().await.expect(200);
        let seen = upstream.seen().pop().expect("it went up");
        assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"), "{path}");
    }
}

#[tokio::test]
async fn headers_of_one_connection_are_never_forwarded() {
    let gateway = Gateway::start().await;
    for name in ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host"]
    {
        let answer =
            gateway.chat().provider("mock").header("x-gateway-forward-headers", name).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.error().contains(name), "{}", answer.error());
    }
}

#[tokio::test]
async fn a_refusal_leaves_the_connection_usable() {
    let gateway = Gateway::start().await;
    let mut client = Raw::connect(gateway.proxy).await;
    let body = hello().to_string();
    for (config, status) in [("{", 400), (r#"{"provider":"mock"}"#, 200), ("nope", 400)] {
        client.send(raw::post("/v1/chat/completions", &[("x-gateway-config", config)], &body)).await;
        let response = client.response().await;
        assert_eq!(response.head.status, status, "{}", response.text());
    }
}

#[tokio::test]
async fn ambiguous_framing_is_refused_and_never_forwarded() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let config = gateway::target(&upstream);
    let hidden = "GET /v1/hidden HTTP/1.1\r\nhost: g\r\n\r\n";
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: +5",
        "content-length: 5, 6",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "content-length: 0x5",
    ] {
        let mut client = Raw::connect(gateway.proxy).await;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\
             content-type: application/json\r\nx-gateway-config: {config}\r\n{framing}\r\n\r\n0\r\n\r\n{hidden}"
        );
        client.try_send(head).await;
        // Whatever the answer, what stands behind the ambiguous body is not taken for a request.
        while !client.bytes().await.is_empty() {}
        let targets: Vec<String> = upstream.seen().into_iter().map(|s| s.target).collect();
        assert!(targets.iter().all(|t| t != "/v1/hidden"), "{framing}: {targets:?}");
    }
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
}
