//! Where the gateway lets itself be sent: custom hosts by header, by inline config and from an admin.

use crate::area_forms::{FORM, form};
use crate::forbidden::{hosts, never};
use crate::harness::{Gateway, Socket, Upstream, WORKSPACE_KEY, hello, reply};
use gateway_domain::operation::TABLE;
use serde_json::json;

#[tokio::test]
async fn hosts_by_header_are_checked() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for host in hosts() {
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
    for host in hosts() {
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
    for (i, host) in hosts().enumerate() {
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
    for host in never() {
        let call = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
        let answer = call.header("x-gateway-custom-host", host).json(&hello()).send().await;
        assert_eq!(answer.status, 400, "{host}: {}", answer.text());
    }
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let call = gateway.chat().provider("openai").header("authorization", "Bearer sk-own");
    call.header("x-gateway-custom-host", &upstream.url()).json(&hello()).send().await.expect(200);
    assert_eq!(upstream.only().header("authorization"), Some("Bearer sk-own"));
}

/// Calls, files, batches, fine-tuning and sockets, as they go up where their host may be called. How many were refused
/// for it.
async fn begin_all(gateway: &Gateway, host: &str) -> usize {
    let file = form(&[("purpose", None, b"batch"), ("file", Some("f"), b"{}\n")]);
    let batch = json!({ "input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h" });
    let job = json!({ "model": "gpt-4o", "training_file": "file-1" });
    let to = |path: &str| {
        let call = gateway.post(path).provider("openai").header("authorization", "Bearer sk-own");
        call.header("x-gateway-custom-host", host)
    };
    let mut refused = 0;
    for call in [
        to("/v1/realtime/calls?model=gpt-realtime").body("application/sdp", "v=0\r\n"),
        to("/v1/realtime/calls/rtc_1/hangup"),
        to("/v1/files").body(FORM, file),
        to("/v1/batches").json(&batch),
        to("/v1/fine_tuning/jobs").json(&job),
    ] {
        let answer = call.send().await;
        refused += usize::from(answer.status == 400 && answer.text().contains("custom host"));
    }
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("authorization", "Bearer sk-own")];
    let headers = [&headers[..], &[("x-gateway-provider", "openai"), ("x-gateway-custom-host", host)]].concat();
    for path in ["/v1/realtime?model=gpt-realtime", "/v1/realtime?call_id=rtc_1", "/v1/responses", "/v1/other"] {
        let answer = Socket::open(gateway.proxy, path, &headers).await.expect_err("nobody agrees to it");
        refused += usize::from(answer.status == 400 && answer.body.to_string().contains("custom host"));
    }
    refused
}

#[tokio::test]
async fn no_route_of_the_table_leads_to_a_host_that_nobody_may_call() {
    let strict = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let upstream = Upstream::replying(|_| reply::error(404, &[])).await;
    assert_eq!(begin_all(&strict, &upstream.url()).await, 9);
    for row in TABLE {
        let path = format!("/v1{}", row.path.replace("{}", "x"));
        let call = strict.call(row.method.as_str(), &path).provider("openai").header("authorization", "Bearer sk-own");
        let call = call.header("x-gateway-custom-host", &upstream.url());
        let call = if row.method == "POST" { call.json(&hello()) } else { call };
        assert_ne!(call.send().await.status, 404, "{} {path}", row.method);
    }
    assert_eq!(upstream.connections(), 0);
    let trusting = Gateway::with(&["--trusted-custom-hosts", "127.0.0.1"]).await;
    assert_eq!(begin_all(&trusting, &upstream.url()).await, 0);
    assert_eq!(upstream.seen().len(), 9, "all of them are called where they may be");
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
