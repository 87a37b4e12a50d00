//! Where the gateway lets itself be sent: custom hosts by header, by inline config and from an admin.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, hello, reply};
use serde_json::json;

/// Everything that no one may reach without being trusted.
const REFUSED: &[&str] = &[
    // Scheme and shape.
    "ftp://example.com",
    "ftps://example.com",
    "file:///etc/passwd",
    "data:text/plain,x",
    "gopher://example.com",
    "example.com",
    "https://",
    "https://user:secret@example.com",
    "https://@example.com",
    "https://example.com#fragment",
    "https://exa%6dple.com",
    "https://exämple.com",
    "https://xn--exmple-cua.com",
    "https://example.com.",
    "https://example..com",
    "https://a.b.c.d.e.f.g.h.i.j.k.com",
    "https://exam_ple!.com",
    // Private and reserved addresses.
    "http://10.0.0.1",
    "http://172.16.0.1",
    "http://172.31.255.255",
    "http://192.168.1.1",
    "http://127.0.0.1",
    "http://127.8.9.1",
    "http://169.254.1.1",
    "http://100.64.0.1",
    "http://0.0.0.0",
    "http://224.0.0.1",
    "http://255.255.255.255",
    "http://198.18.0.1",
    "http://192.0.0.1",
    "http://192.0.2.1",
    "http://198.51.100.1",
    "http://203.0.113.1",
    "http://192.88.99.1",
    "http://[::1]",
    "http://[::]",
    "http://[fc00::1]",
    "http://[fe80::1]",
    "http://[fec0::1]",
    "http://[ff02::1]",
    "http://[2001::1]",
    "http://[100:0:0:1::1]",
    "http://[::ffff:127.0.0.1]",
    "http://[::ffff:7f00:1]",
    "http://[2002:7f00:1::]",
    "http://[64:ff9b::7f00:1]",
    // Numeric spellings.
    "http://2130706433",
    "http://0x7f000001",
    "http://0x7f.0.0.1",
    "http://0177.0.0.1",
    "http://127.1",
    "http://127.0.1",
    // Names that are private, or lead there.
    "http://localhost",
    "http://api.localhost",
    "http://printer.local",
    "http://db.localdomain",
    "http://db.internal",
    "http://db.intranet",
    "http://db.lan",
    "http://db.home",
    "http://db.corp",
    "http://db.test",
    "http://db.invalid",
    "http://db.onion",
    "http://127.0.0.1.nip.io",
    "http://10.0.0.1.sslip.io",
    "http://127.0.0.1.xip.io",
    "http://localtest.me",
    "http://lvh.me",
    "http://vcap.me",
    "http://a.traefik.me",
    "http://a.localhost.run",
    // Ports.
    "https://example.com:0",
    "https://example.com:65536",
    "https://example.com:port",
];

/// Refused also when the whole Internet is trusted.
const NEVER: &[&str] = &[
    "http://169.254.169.254",
    "http://169.254.170.2",
    "http://169.254.170.23",
    "http://100.100.100.200",
    "http://168.63.129.16",
    "http://192.0.0.192",
    "http://[fd00:ec2::254]",
    "http://[::ffff:169.254.169.254]",
    "http://metadata",
    "http://metadata.google.internal",
    "http://instance-data",
    "http://kubernetes.default.svc.cluster.local",
    "http://consul",
    "http://127.0.0.1:22",
    "http://127.0.0.1:25",
    "http://127.0.0.1:445",
    "http://127.0.0.1:3306",
    "http://127.0.0.1:5432",
    "http://127.0.0.1:6379",
    "http://127.0.0.1:6443",
    "http://127.0.0.1:9200",
    "http://127.0.0.1:27017",
];

#[tokio::test]
async fn hosts_by_header_are_checked() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for host in REFUSED.iter().chain(NEVER) {
        // A header cannot carry it, which refuses it as well.
        if !host.is_ascii() {
            continue;
        }
        let call = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
        let answer = call.header("x-gateway-custom-host", host).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{host}: {}", answer.text());
        assert!(answer.error().contains("custom host"), "{host}: {}", answer.error());
    }
}

#[tokio::test]
async fn hosts_in_an_inline_config_are_checked() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for host in REFUSED.iter().chain(NEVER) {
        if !host.is_ascii() {
            continue;
        }
        let config = json!({ "provider": "openai", "api_key": "k", "custom_host": host });
        let answer = gateway.chat().config(&config).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{host}: {}", answer.text());
        assert!(answer.text().contains("custom_host"), "{host}: {}", answer.text());
    }
}

#[tokio::test]
async fn hosts_that_an_admin_saves_are_checked() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let admin = gateway.admin();
    for (i, host) in REFUSED.iter().chain(NEVER).enumerate() {
        let integration = json!({
            "name": format!("i{i}"), "slug": format!("i{i}"), "ai_provider_id": "openai", "key": "k",
            "configurations": { "custom_host": host },
        });
        let answer = admin.post("/integrations", &integration).await;
        assert_eq!(answer.status, 400, "{host}: {}", answer.text());
        assert!(answer.text().contains("custom_host"), "{host}: {}", answer.text());
    }
    let config =
        json!({ "name": "c", "config": { "provider": "openai", "api_key": "k", "custom_host": "http://10.0.0.1" } });
    let answer = admin.post("/configs", &config).await.expect(400);
    assert!(answer.text().contains("custom_host"), "{}", answer.text());
}

#[tokio::test]
async fn trust_lifts_private_ranges_and_nothing_else() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "0.0.0.0/0,::/0,*.local,metadata,consul"]).await;
    for host in NEVER {
        let call = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
        let answer = call.header("x-gateway-custom-host", host).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{host}: {}", answer.text());
    }
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let call = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
    call.header("x-gateway-custom-host", &upstream.url()).json(&hello()).send().await.expect(200);
    assert_eq!(upstream.only().header("authorization"), Some("Bearer sk-own"));
}

#[tokio::test]
async fn the_pass_through_routes_are_no_side_door() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for path in ["/v1/proxy/chat/completions", "/v1/anything", "/v1/files"] {
        for kind in ["application/json", "multipart/form-data; boundary=b"] {
            let call = gateway.post(path).provider("openai").header("authorization", "Bearer sk-own");
            let call = call.header("x-gateway-custom-host", &upstream.url()).body(kind, "{}");
            assert_eq!(call.send().await.status, 400, "{path} {kind}");
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_managed_credential_never_meets_a_host_of_the_request() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let elsewhere = Upstream::replying(|_| reply::chat("stolen")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let by_header = gateway.chat().provider("@main").header("x-gateway-custom-host", &elsewhere.url());
    by_header.json(&hello()).send().await.expect(400);
    let by_config = gateway.chat().config(&json!({ "provider": "@main", "custom_host": elsewhere.url() }));
    by_config.json(&hello()).send().await.expect(400);
    let parent = json!({
        "strategy": { "mode": "single" }, "custom_host": elsewhere.url(), "targets": [{ "provider": "@main" }],
    });
    gateway.chat().config(&parent).json(&hello()).send().await.expect(400);
    let mixed =
        gateway.chat().config(&json!({ "provider": "@main" })).header("x-gateway-custom-host", &elsewhere.url());
    mixed.json(&hello()).send().await.expect(400);
    let by_model = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
    let by_model = by_model.header("x-gateway-custom-host", &elsewhere.url());
    let body = json!({ "model": "@main/gpt-4o", "messages": [{ "role": "user", "content": "hi" }] });
    let _ = by_model.json(&body).send().await;
    for seen in elsewhere.seen() {
        assert!(!seen.headers.iter().any(|(_, v)| v.contains("sk-managed")), "the managed key went to {seen:?}");
    }
}

#[tokio::test]
async fn a_host_without_a_credential_of_the_request_gets_none() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for (name, value) in [("authorization", format!("Bearer {WORKSPACE_KEY}")), ("x-api-key", WORKSPACE_KEY.to_owned())]
    {
        for provider in ["openai", "anthropic"] {
            let call = gateway.chat().without("x-gateway-api-key").header(name, &value).provider(provider);
            let _ = call.header("x-gateway-custom-host", &upstream.url()).json(&hello()).send().await;
        }
    }
    for seen in upstream.seen() {
        for name in ["authorization", "x-api-key"] {
            assert_eq!(seen.header(name), None, "a credential went to a host that a request named");
        }
    }
}

#[tokio::test]
async fn redirects_are_followed_by_nobody() {
    let gateway = Gateway::start().await;
    let elsewhere = Upstream::replying(|_| reply::chat("redirected")).await;
    let location = format!("{}/chat/completions", elsewhere.url());
    let upstream = Upstream::replying(move |_| reply::whole(307, &[("location", &location)], "")).await;
    let answer = gateway.chat_through(&upstream).json(&hello()).send().await;
    assert_eq!((answer.status, elsewhere.connections()), (502, 0));
    assert_eq!(answer.header("location"), None, "a client would take its key along");
}

#[tokio::test]
async fn a_key_saved_in_a_config_never_meets_a_host_of_the_request() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let elsewhere = Upstream::replying(|_| reply::chat("stolen")).await;
    let saved = json!({ "provider": "openai", "api_key": "sk-saved-0123456789", "custom_host": upstream.url() });
    let slug = gateway.admin().config("saved", &saved).await;
    let call = || gateway.chat().header("x-gateway-config", &slug);
    call().json(&hello()).send().await.expect(200);
    let answer = call().header("x-gateway-custom-host", &elsewhere.url()).json(&hello()).send().await;
    assert_eq!((answer.status, elsewhere.connections()), (400, 0), "{}", answer.text());
}
