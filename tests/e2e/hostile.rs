//! Requests that no honest client sends: none opens a way past the key, the route or the host.

use crate::harness::{Gateway, Raw, Upstream, WORKSPACE_KEY, gateway::target, hello, reply};

#[tokio::test]
async fn the_host_a_client_claims_decides_nothing() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let (config, body) = (target(&upstream), hello().to_string());
    let rest = format!(
        "x-gateway-api-key: {WORKSPACE_KEY}\r\nx-gateway-config: {config}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for head in [
        "POST /v1/chat/completions HTTP/1.1\r\nhost: evil.example\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 169.254.169.254\r\n",
        "POST http://evil.example/v1/chat/completions HTTP/1.1\r\nhost: evil.example\r\n",
    ] {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(format!("{head}{rest}")).await;
        let response = client.response().await;
        if response.head.status == 200 {
            let seen = upstream.seen().pop().expect("it went up");
            assert_eq!(seen.target, "/v1/chat/completions", "{head}");
            let authority = upstream.url().replace("http://", "").replace("/v1", "");
            assert_eq!(seen.header("host"), Some(authority.as_str()), "{head}");
        } else {
            assert_eq!(response.head.status, 400, "{head}: {}", response.text());
        }
    }
}

#[tokio::test]
async fn it_is_no_open_proxy() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let address = upstream.url().replace("http://", "").replace("/v1", "");
    for request in [
        format!("CONNECT {address} HTTP/1.1\r\nhost: {address}\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\r\n"),
        format!("GET http://{address}/v1/x HTTP/1.1\r\nhost: {address}\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\r\n"),
        format!("TRACE /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n\r\n"),
    ] {
        let mut client = Raw::connect(gateway.proxy).await;
        client.send(&request).await;
        let status = client.head().await.status;
        assert!((400..500).contains(&status), "{status} for {request}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn heads_that_are_too_much_are_refused_and_others_served() {
    let gateway = Gateway::start().await;
    let many: String = (0..5000).map(|i| format!("x-h{i}: {i}\r\n")).collect();
    for extra in [format!("x-large: {}\r\n", "x".repeat(2 << 20)), many] {
        let mut client = Raw::connect(gateway.proxy).await;
        let request =
            format!("GET /v1/models HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {WORKSPACE_KEY}\r\n{extra}\r\n");
        client.try_send(request).await;
        let mut answer = Vec::new();
        loop {
            let more = client.bytes().await;
            if more.is_empty() {
                break;
            }
            answer.extend(more);
            if answer.windows(4).any(|w| w == b"\r\n\r\n") {
                break;
            }
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
}

#[tokio::test]
async fn the_admin_port_gives_nothing_without_a_key() {
    let gateway = Gateway::start().await;
    for path in ["/v1/configs", "/v1/api-keys", "/v1/logs", "/v1/integrations", "/v1/providers", "/v1/admin/workspaces"]
    {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let call = crate::harness::call::Call::new(gateway.client(), method, &gateway.admin_url(path));
            let status = call.json(&hello()).send().await.status;
            assert!(matches!(status, 401 | 404 | 405 | 501), "{method} {path}: {status}");
        }
    }
    for path in ["/health/live", "/health/ready", "/metrics"] {
        let call = crate::harness::call::Call::new(gateway.client(), "GET", &gateway.admin_url(path));
        let text = call.send().await.expect(200).text();
        assert!(!text.contains(WORKSPACE_KEY), "{path}");
    }
}
