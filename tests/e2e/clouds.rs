//! Providers of clouds through the real binary: Gemini's dialect, tokens that are fetched and renewed, settings by
//! integration and by header.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, reply};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn gemini(text: &str, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": [{ "text": text }] }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({ "candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r1",
            "usageMetadata": { "promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6 } })
}

fn streamed(texts: &[&str]) -> Vec<u8> {
    let mut out = reply::STREAM.to_vec();
    for (i, text) in texts.iter().enumerate() {
        let finish = (i + 1 == texts.len()).then_some("STOP");
        out.extend(reply::chunk(format!("data: {}\r\n\r\n", gemini(text, finish))));
    }
    out.extend(reply::LAST_CHUNK);
    out
}

pub(crate) fn hello(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }] })
}

/// Base URL without the `/v1` that most upstreams have.
pub(crate) fn bare(upstream: &Upstream) -> String {
    upstream.url().trim_end_matches("/v1").to_owned()
}

pub(crate) async fn integration(gateway: &Gateway, family: &str, key: Option<&str>, configurations: Value) {
    let admin = gateway.admin();
    let body = json!({ "name": "cloud", "slug": "cloud-i", "ai_provider_id": family, "key": key,
                       "create_default_provider": false, "configurations": configurations });
    admin.post("/integrations", &body).await.expect(200);
    let provider = json!({ "name": "cloud", "slug": "cloud", "integration_id": "cloud-i" });
    admin.post("/providers", &provider).await.expect(200);
}

/// A credential file with a key of its own, made by openssl, which also tells what it signs.
fn service_account(token_uri: &str) -> Value {
    let output = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .expect("openssl");
    let key = String::from_utf8(output.stdout).expect("PEM");
    json!({ "type": "service_account", "project_id": "p-1", "private_key_id": "k1", "private_key": key,
            "client_email": "robot@p-1.iam.gserviceaccount.com", "token_uri": token_uri })
}

/// Gives `t1`, `t2` … that live for so long.
pub(crate) async fn token_endpoint(lives: u64) -> Upstream {
    let calls = AtomicUsize::new(0);
    Upstream::replying(move |_| {
        let token = format!("t{}", calls.fetch_add(1, SeqCst) + 1);
        reply::json(200, &json!({ "access_token": token, "expires_in": lives, "token_type": "Bearer" }))
    })
    .await
}

#[tokio::test]
async fn chat_reaches_gemini_and_comes_back() {
    let up = Upstream::replying(|seen| {
        if seen.target.contains("stream") {
            streamed(&["Hel", "lo"])
        } else {
            reply::json(200, &gemini("Hello", Some("STOP")))
        }
    })
    .await;
    let gateway = Gateway::start().await;
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    let ask = |body: Value| gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&body);
    let body = json!({ "model": "gemini-2.5-flash", "messages": [{ "role": "user", "content": "Hi" }] });
    let answer = ask(body.clone()).send().await.expect(200);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "Hello");
    let seen = up.only();
    assert_eq!(seen.target, "/v1beta/models/gemini-2.5-flash:generateContent");
    assert_eq!((seen.header("x-goog-api-key"), seen.header("authorization")), (Some("AIza-managed"), None));
    assert_eq!(seen.json(), json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hi" }] }] }));
    let mut body = body;
    body["stream"] = true.into();
    let text = ask(body).send().await.expect(200).text();
    assert!(text.contains("\"content\":\"Hel\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(up.seen()[1].target, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
}

#[tokio::test]
async fn vertex_signs_in_once_for_a_crowd() {
    let (tokens, up) =
        (token_endpoint(3600).await, Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await);
    let gateway = Gateway::start().await;
    let account = service_account(&format!("{}/token", bare(&tokens)));
    let settings = json!({ "custom_host": bare(&up), "vertex_auth_type": "serviceAccount", "vertex_region": "us-central1",
                           "vertex_service_account_json": account });
    integration(&gateway, "vertex-ai", None, settings).await;
    let shown = gateway.admin().get("/integrations/cloud-i").await.expect(200).text();
    assert!(shown.contains("us-central1") && !shown.contains("PRIVATE KEY") && !shown.contains("p-1.iam"), "{shown}");
    let body = hello("gemini-2.5-flash");
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&body);
        crowd.spawn(async move { call.send().await.expect(200) });
    }
    crowd.join_all().await;
    assert_eq!(up.seen().len(), 40);
    for seen in up.seen() {
        assert_eq!(seen.header("authorization"), Some("Bearer t1"));
        let path = "/v1/projects/p-1/locations/us-central1/publishers/google/models/gemini-2.5-flash:generateContent";
        assert_eq!(seen.target, path);
    }
    let asked = tokens.only().text();
    let assertion = asked.split('&').find_map(|p| p.strip_prefix("assertion=")).expect("an assertion").to_owned();
    assert!(asked.contains("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"), "{asked}");
    let claims = assertion.split('.').nth(1).expect("claims");
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON");
    assert_eq!(claims["iss"], "robot@p-1.iam.gserviceaccount.com");
}

#[tokio::test]
async fn tokens_are_renewed_under_load_and_nobody_notices() {
    let (tokens, up) =
        (token_endpoint(2).await, Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await);
    let gateway = Gateway::start().await;
    let account = service_account(&format!("{}/token", bare(&tokens)));
    let settings =
        json!({ "custom_host": bare(&up), "vertex_region": "global", "vertex_service_account_json": account });
    integration(&gateway, "vertex-ai", None, settings).await;
    let until = Instant::now() + Duration::from_secs(5);
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let gateway = &gateway;
        let calls = move || {
            gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello("gemini-2.5-flash"))
        };
        let mut ready: Vec<_> = (0..400).map(|_| calls()).collect();
        crowd.spawn(async move {
            while let Some(call) = ready.pop().filter(|_| Instant::now() < until) {
                call.send().await.expect(200);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    crowd.join_all().await;
    let fetched = tokens.seen().len();
    assert!((2..=5).contains(&fetched), "{fetched} fetches of a token of two seconds");
    let sent: std::collections::BTreeSet<String> =
        up.seen().iter().filter_map(|s| s.header("authorization").map(str::to_owned)).collect();
    assert!(sent.len() >= 2 && sent.len() <= fetched, "{sent:?}");
}

#[tokio::test]
async fn a_refused_credential_is_told_in_the_clients_dialect() {
    let body = json!({ "error": "invalid_grant", "error_description": "Invalid JWT Signature." });
    let tokens = Upstream::replying(move |_| reply::json(400, &body)).await;
    let gateway = Gateway::start().await;
    let account = service_account(&format!("{}/token", bare(&tokens)));
    let settings =
        json!({ "custom_host": bare(&tokens), "vertex_region": "global", "vertex_service_account_json": account });
    integration(&gateway, "vertex-ai", None, settings).await;
    let call = |path: &str| gateway.post(path).key(WORKSPACE_KEY).provider("@cloud");
    let told = call("/v1/chat/completions").json(&hello("gemini-2.5-flash")).send().await.expect(401).json();
    let message = told["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("vertex-ai") && message.contains("invalid_grant: Invalid JWT Signature."), "{message}");
    let mut body = hello("gemini-2.5-flash");
    body["max_tokens"] = 5.into();
    let told = call("/v1/messages").json(&body).send().await.expect(401).json();
    assert_eq!((&told["type"], &told["error"]["type"]), (&json!("error"), &json!("authentication_error")));
    assert_eq!(tokens.seen().len(), 1, "a refusal is remembered for a moment");
}

#[tokio::test]
async fn settings_by_header_come_with_their_own_credential_only() {
    let (tokens, up) =
        (token_endpoint(3600).await, Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await);
    let gateway = Gateway::start().await;
    let account = service_account(&format!("{}/token", bare(&tokens))).to_string();
    let call = || {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("vertex-ai");
        call.header("x-gateway-custom-host", &bare(&up)).json(&hello("gemini-2.5-flash"))
    };
    let call_with = |pairs: &[(&str, &str)]| pairs.iter().fold(call(), |call, (name, value)| call.header(name, value));
    let place = [("x-gateway-vertex-project-id", "p-9"), ("x-gateway-vertex-region", "europe-west4")];
    let file = ("x-gateway-vertex-service-account-json", account.as_str());
    call_with(&[place[0], place[1], file]).send().await.expect(200);
    assert_eq!(up.only().header("authorization"), Some("Bearer t1"));
    assert!(up.only().target.starts_with("/v1/projects/p-9/locations/europe-west4/"), "{}", up.only().target);
    // A token of the caller's own.
    call_with(&[place[0], place[1], ("authorization", "Bearer ya29.mine")]).send().await.expect(200);
    assert_eq!(up.seen()[1].header("authorization"), Some("Bearer ya29.mine"));
    // The machine's identity is nobody's to borrow.
    let told = call_with(&[place[0], place[1], ("x-gateway-vertex-auth-type", "workload")]).send().await.expect(400);
    assert!(told.text().contains("vertex_auth_type"), "{}", told.text());
    // A saved credential does not go where a request says either.
    integration(&gateway, "openai", Some("sk-saved"), json!({ "custom_host": up.url() })).await;
    let told = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud");
    let told = told.header("x-gateway-oauth-token-endpoint", "https://evil.example/t").json(&hello("m")).send().await;
    assert!(told.expect(400).text().contains("oauth_token_endpoint"));
    assert_eq!(up.seen().len(), 2);
}

#[tokio::test]
async fn the_machines_identity_serves_saved_integrations() {
    let (metadata, up) =
        (token_endpoint(3600).await, Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await);
    let gateway = Gateway::with(&["--google-metadata-url", &bare(&metadata)]).await;
    let settings = json!({ "custom_host": bare(&up), "vertex_auth_type": "workload", "vertex_region": "global",
                           "vertex_project_id": "p-1" });
    integration(&gateway, "vertex-ai", None, settings).await;
    let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud");
    call.json(&hello("gemini-2.5-flash")).send().await.expect(200);
    assert_eq!(up.only().header("authorization"), Some("Bearer t1"));
    let asked = metadata.only();
    assert!(
        asked.target.starts_with("/computeMetadata/v1/instance/service-accounts/default/token?"),
        "{}",
        asked.target
    );
    assert_eq!(asked.header("metadata-flavor"), Some("Google"));
}

#[tokio::test]
async fn headers_of_vertex_ride_along() {
    let up = Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "vertex_region": "global", "vertex_project_id": "p-1" });
    integration(&gateway, "vertex-ai", Some("ya29.saved"), settings).await;
    let call = |model: &str| {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello(model));
        call.header("anthropic-beta", "context-1m-2025-08-07").header("openai-beta", "x")
    };
    let dedicated = |name: &str| call("gemini-2.5-flash").header(name, "dedicated");
    dedicated("x-vertex-ai-llm-request-type").send().await.expect(200);
    dedicated("x-gateway-vertex-ai-llm-request-type").send().await.expect(200);
    for seen in up.seen() {
        assert_eq!(seen.header("x-vertex-ai-llm-request-type"), Some("dedicated"));
        assert_eq!((seen.header("anthropic-beta"), seen.header("openai-beta")), (None, None));
        assert_eq!(seen.header("authorization"), Some("Bearer ya29.saved"));
    }
    // Only Claude knows Anthropic's betas, and is no Gemini: its answer is not understood.
    call("claude-sonnet-4-5").send().await.expect(502);
    assert_eq!(up.seen()[2].header("anthropic-beta"), Some("context-1m-2025-08-07"));
    // The bucket of files is the integration's.
    let told = dedicated("x-gateway-vertex-storage-bucket-name").send().await.expect(400).text();
    assert!(told.contains("vertex_storage_bucket_name comes with the request and is not taken"), "{told}");
}

#[tokio::test]
async fn full_resource_names_are_models() {
    let up = Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "vertex_region": "us-east1" });
    integration(&gateway, "vertex-ai", Some("ya29.saved"), settings).await;
    let name = "projects/p-7/locations/us-east1/publishers/google/models/gemini-2.5-flash";
    for model in [name.to_owned(), format!("@cloud/{name}")] {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY);
        let call = if model.starts_with('@') { call } else { call.provider("@cloud") };
        call.json(&hello(&model)).send().await.expect(200);
    }
    for seen in up.seen() {
        assert_eq!(seen.target, format!("/v1/{name}:generateContent"));
    }
    let elsewhere = name.replace("us-east1", "us-west1");
    let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud");
    let told = call.json(&hello(&elsewhere)).send().await.expect(400).text();
    assert!(told.contains("model is in another region"), "{told}");
}

#[tokio::test]
async fn client_credentials_serve_any_provider() {
    let (tokens, up) = (token_endpoint(3600).await, Upstream::replying(|_| reply::chat("Hi")).await);
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": up.url(), "oauth_token_endpoint": format!("{}/oauth/token", bare(&tokens)),
                           "oauth_client_id": "app", "oauth_client_secret": "s3cret-of-the-app-01", "oauth_scope": "llm" });
    integration(&gateway, "openai", None, settings).await;
    let shown = gateway.admin().get("/integrations/cloud-i").await.expect(200).json();
    assert_eq!(shown["configurations"]["oauth_client_secret"], "****p-01");
    let call = || gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello("m"));
    call().send().await.expect(200);
    assert_eq!(up.only().header("authorization"), Some("Bearer t1"));
    let asked = tokens.only();
    assert_eq!(asked.target, "/oauth/token");
    let form = "grant_type=client_credentials&client_id=app&client_secret=s3cret-of-the-app-01&scope=llm";
    assert_eq!(asked.text(), form);
    // Pass-through signs in the same way.
    let raw = gateway.post("/v1/proxy/anything").key(WORKSPACE_KEY).provider("@cloud").json(&json!({}));
    raw.send().await.expect(200);
    assert_eq!(up.seen()[1].header("authorization"), Some("Bearer t1"));
}

/// Clients of Anthropic's, Azure's and Google's put the gateway's key where they put their own; it goes no further.
#[tokio::test]
async fn keys_stand_where_each_client_puts_them() {
    let up = Upstream::replying(|_| reply::json(200, &gemini("Hi", Some("STOP")))).await;
    let gateway = Gateway::start().await;
    integration(&gateway, "google", Some("AIza-managed"), json!({ "custom_host": bare(&up) })).await;
    for name in ["x-api-key", "api-key", "x-goog-api-key"] {
        for path in ["/v1/chat/completions", "/v1/proxy/v1beta/models/gemini-2.5-flash:generateContent"] {
            let call = gateway.post(path).provider("@cloud").header(name, WORKSPACE_KEY).header("x-other", "kept");
            call.json(&hello("gemini-2.5-flash")).send().await.expect(200);
            let seen = up.seen().pop().expect("it went up");
            assert_eq!(seen.header("x-goog-api-key"), Some("AIza-managed"), "{name}");
            assert!(seen.headers.iter().all(|(_, value)| !value.contains(WORKSPACE_KEY)), "{name}: {:?}", seen.headers);
        }
    }
    // Beside the gateway's own header it is the provider's key.
    let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("google");
    let call = call.header("x-gateway-custom-host", &bare(&up)).header("x-goog-api-key", "AIza-own");
    call.json(&hello("gemini-2.5-flash")).send().await.expect(200);
    assert_eq!(up.seen().pop().expect("it went up").header("x-goog-api-key"), Some("AIza-own"));
    // A provider of another family never sees it.
    let other = Upstream::replying(|_| reply::chat("Hi")).await;
    gateway.admin().provider("plain", "openai", Some(&other.url())).await;
    let call = gateway.post("/v1/proxy/anything").key(WORKSPACE_KEY).provider("@plain");
    call.header("x-goog-api-key", WORKSPACE_KEY).header("api-key", "k").json(&json!({})).send().await.expect(200);
    assert_eq!((other.only().header("x-goog-api-key"), other.only().header("api-key")), (None, None));
}
