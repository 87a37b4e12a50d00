//! How MCP servers learn who calls them: a token of the gateway's own that is fetched once for all, and what a server
//! hears of whoever calls. Nothing of either goes to the other side.

use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::harness::{Gateway, Upstream, eventually, reply};
use crate::mcp_client::{PUBLIC, person};
use crate::mcp_script::{Script, ScriptedMcp, Served, modern_call, offered, request};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const SECRET: &str = "client-secret-canary-0123456789";

/// A token endpoint that gives `tok-1`, or answers with another status.
pub(crate) async fn endpoint() -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let said = status.clone();
    let upstream = Upstream::replying(move |seen| {
        std::thread::sleep(Duration::from_millis(50));
        match said.load(SeqCst) {
            200 => reply::json(200, &json!({"access_token": "tok-1", "token_type": "Bearer", "expires_in": 3600})),
            status => reply::json(status, &json!({"error": "invalid_client", "error_description": seen.text()})),
        }
    })
    .await;
    (upstream, status)
}

pub(crate) fn client(endpoint: &Upstream) -> Value {
    json!({"token_url": format!("{}/token", endpoint.url()), "client_id": "gateway", "client_secret": SECRET,
        "scope": "tools", "resource": "https://mcp.example.com/mcp", "audience": "api"})
}

/// A gateway before a scripted server that is called so.
async fn served(configurations: Value, auth: &str, script: Script, flags: &[&str]) -> Served {
    let (gateway, mcp) = (Gateway::with(flags).await, ScriptedMcp::start(script).await);
    let integration = json!({"name": "Files", "slug": "files-int", "url": mcp.upstream.url(), "auth_type": auth,
        "transport": "http", "configurations": configurations});
    gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
    let server = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
    gateway.admin().post("/mcp-servers", &server).await.expect(200);
    let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    Served { gateway, mcp, key, path: "/files/mcp" }
}

#[tokio::test]
async fn one_token_is_fetched_for_all_who_wait_and_shown_to_nobody() {
    let (tokens, _) = endpoint().await;
    let modern = Script { modern: true, ..Script::default() };
    let served = served(json!({"oauth": client(&tokens)}), "oauth_client_credentials", modern, &[]).await;
    let admin = served.gateway.admin();
    assert_eq!(admin.get("/mcp-servers/files/metadata").await.expect(200).json()["sync_status"], "ok");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        calls.spawn(modern_call(&served, "tools/call", json!({"name": "echo"})).send());
    }
    while let Some(answer) = calls.join_next().await {
        answer.expect("no client failed").expect(200);
    }
    let asked = tokens.seen();
    assert_eq!(asked.len(), 1, "one fetch for what was asked and for all calls");
    let form = asked[0].text();
    for part in ["grant_type=client_credentials", "client_id=gateway", "scope=tools", "audience=api", "resource=https"]
    {
        assert!(form.contains(part), "{part}: {form}");
    }
    for seen in served.mcp.upstream.seen() {
        assert_eq!(seen.header("authorization"), Some("Bearer tok-1"), "{seen:?}");
        assert!(!format!("{seen:?}").contains(SECRET), "the secret goes to the token endpoint alone");
    }
    let shown = admin.get("/mcp-integrations/files-int").await.expect(200).json();
    assert_eq!(shown["configurations"]["oauth"]["client_secret"], "****6789", "{shown}");
    // What is shown may be sent back, as long as it goes to the same place.
    let kept = json!({"configurations": {"oauth": shown["configurations"]["oauth"]}});
    admin.put("/mcp-integrations/files-int", &kept).await.expect(200);
    modern_call(&served, "tools/call", json!({"name": "echo"})).send().await.expect(200);
    let mut moved = kept.clone();
    moved["configurations"]["oauth"]["token_url"] = json!(format!("{}/elsewhere", tokens.url()));
    let refused = admin.put("/mcp-integrations/files-int", &moved).await.expect(400);
    assert!(refused.text().contains("configurations.oauth.client_secret"), "{}", refused.text());
    let org = shown["organisation_id"].as_str().expect("an id");
    let trail = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01&page_size=100");
    let trail = admin.get(&trail).await.expect(200).text();
    let logs = eventually("the calls are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).text();
        logs.contains("mcp.tools/call").then_some(logs)
    })
    .await;
    for text in [&trail, &logs, &served.gateway.process.output()] {
        assert!(!text.contains(SECRET) && !text.contains("tok-1"), "{text}");
    }
}

/// Answers as a server of the modern era does that keeps no session, to whoever brings another token than this.
async fn server_without(refused: Arc<Mutex<String>>) -> Upstream {
    Upstream::replying(move |seen| {
        if seen.header("authorization") == Some(refused.lock().expect("no panic").as_str()) {
            return reply::whole(401, &[("www-authenticate", "Bearer")], "");
        }
        let body = seen.json();
        let method = body["method"].as_str().unwrap_or_default();
        let mut result = match method {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "modern", "version": "2"}}),
            method => offered(method, &body["params"]).unwrap_or_default(),
        };
        result["resultType"] = "complete".into();
        reply::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
    })
    .await
}

#[tokio::test]
async fn a_token_that_the_server_does_not_take_is_fetched_anew_once_and_the_call_goes_on() {
    let issued = AtomicU16::new(0);
    let tokens = Upstream::replying(move |_| {
        let token = format!("tok-{}", issued.fetch_add(1, SeqCst) + 1);
        reply::json(200, &json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}))
    })
    .await;
    let refused = Arc::new(Mutex::new(String::new()));
    let (gateway, server) = (Gateway::start().await, server_without(refused.clone()).await);
    let integration = json!({"name": "Files", "slug": "files-int", "url": server.url(), "transport": "http",
        "auth_type": "oauth_client_credentials", "configurations": {"oauth": client(&tokens)}});
    gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
    let named = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
    gateway.admin().post("/mcp-servers", &named).await.expect(200);
    let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    let call = async || crate::mcp_account_server::call(&gateway, &key, false).await;
    call().await.expect(200);
    "Bearer tok-1".clone_into(&mut refused.lock().expect("no panic"));
    // A server that refuses everything has nobody ask for tokens without end: one that was just fetched is not fetched
    // anew.
    call().await.expect(502);
    assert_eq!(tokens.seen().len(), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let called = call().await.expect(200).json();
    assert!(called["result"]["content"].is_array(), "{called}");
    assert_eq!(tokens.seen().len(), 2);
    let last = server.seen().pop().expect("a call");
    assert_eq!(last.header("authorization"), Some("Bearer tok-2"));
}

#[tokio::test]
async fn a_sign_in_that_is_refused_is_told_to_the_admin_and_not_to_callers() {
    let (tokens, status) = endpoint().await;
    status.store(401, SeqCst);
    let served = served(json!({"oauth": client(&tokens)}), "oauth_client_credentials", Script::default(), &[]).await;
    let call = served.post(None, &request("tools/list", json!({}))).await.expect(502);
    let text = call.text();
    assert!(text.contains("cannot sign in") && !text.contains("invalid_client") && !text.contains(SECRET), "{text}");
    let tried = served.gateway.admin().post("/mcp-integrations/files-int/test", &json!({})).await.expect(200);
    assert!(tried.text().contains("invalid_client") && !tried.text().contains(SECRET), "{}", tried.text());
    assert!(served.mcp.upstream.seen().is_empty(), "nobody is called without a token");
    assert!(!served.gateway.process.output().contains(SECRET));
}

#[tokio::test]
async fn what_makes_no_client_is_refused_by_name() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let good = json!({"token_url": "https://login.example.com/token", "client_id": "c", "client_secret": "s"});
    let body = |auth: &str, configurations: Value| {
        json!({"name": "x", "url": "https://example.com/mcp", "auth_type": auth, "transport": "http",
            "configurations": configurations})
    };
    let with = |field: &str, value: Value| {
        let mut client = good.clone();
        client[field] = value;
        body("oauth_client_credentials", json!({"oauth": client}))
    };
    let forwards = |rule: Value| body("none", json!({"user_identity_forwarding": rule}));
    for (body, told) in [
        (body("oauth_client_credentials", json!({})), "configurations.oauth is required"),
        (body("none", json!({"oauth": good})), "configurations.oauth belongs"),
        (with("token_url", json!("http://169.254.169.254/token")), "configurations.oauth.token_url"),
        (with("client_id", json!("")), "configurations.oauth.client_id"),
        (with("client_secret", json!("")), "configurations.oauth.client_secret"),
        (with("client_secret", json!("****cdef")), "configurations.oauth.client_secret"),
        (with("scope", json!("a\nb")), "configurations.oauth.scope"),
        (with("colour", json!("red")), "colour"),
        (forwards(json!({"method": "telepathy"})), "user_identity_forwarding.method"),
        (forwards(json!({"method": "jwt_header"})), "needs --public-url"),
        (forwards(json!({"method": "claims_header", "header_name": "authorization"})), "header_name"),
        (forwards(json!({"method": "claims_header", "header_name": "mcp-session-id"})), "header_name"),
        (forwards(json!({"method": "claims_header", "header_name": "cookie"})), "header_name"),
        (forwards(json!({"method": "bearer", "header_name": "x-who"})), "header_name"),
        (forwards(json!({"method": "claims_header", "include_claims": ["password"]})), "include_claims[0]"),
        (forwards(json!({"method": "claims_header", "jwt_expiry_seconds": 5})), "jwt_expiry_seconds"),
    ] {
        let refused = admin.post("/mcp-integrations", &body).await.expect(400);
        assert!(refused.text().contains(told), "{told}: {}", refused.text());
    }
    let both = json!({"user_identity_forwarding": {"method": "claims_header", "header_name": "x-who"},
        "custom_headers": {"x-who": "me"}});
    let refused = admin.post("/mcp-integrations", &body("headers", both)).await.expect(400);
    assert!(refused.text().contains("configurations.custom_headers.x-who"), "{}", refused.text());
}

#[tokio::test]
async fn a_server_hears_who_calls_as_the_rule_says_and_not_what_the_caller_says() {
    let rule = json!({"user_identity_forwarding": {"method": "claims_header", "include_claims": ["email"]}});
    let served = served(rule, "none", Script::default(), &[]).await;
    let (ann, key) = person(&served.gateway, "ann@example.com").await;
    let call = modern_call(&served, "tools/call", json!({"name": "echo"})).key(&key);
    call.header("x-user-claims", r#"{"sub":"root"}"#).send().await.expect(200);
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    let claims: Value = serde_json::from_str(heard.header("x-user-claims").expect("claims")).expect("json");
    assert_eq!(claims, json!({"sub": ann, "email": "ann@example.com"}));
    assert!(!format!("{heard:?}").contains(&key));
    // A key of nobody's is told by its id, and no session of one is another's.
    modern_call(&served, "tools/call", json!({"name": "echo"})).send().await.expect(200);
    let other = served.mcp.heard("tools/call").pop().expect("a call");
    let claims: Value = serde_json::from_str(other.header("x-user-claims").expect("claims")).expect("json");
    assert!(claims["sub"].is_string() && claims["sub"] != json!(ann) && claims.get("email").is_none(), "{claims}");
    assert_ne!(other.header("mcp-session-id"), heard.header("mcp-session-id"));
}

#[tokio::test]
async fn a_server_can_check_who_calls_by_the_gateways_signature() {
    let rule = json!({"user_identity_forwarding": {"method": "jwt_header", "header_name": "Authorization",
        "include_claims": ["email", "workspace_slug"], "jwt_expiry_seconds": 60}});
    let served = served(rule, "none", Script { modern: true, ..Script::default() }, &["--public-url", PUBLIC]).await;
    let (ann, key) = person(&served.gateway, "ann@example.com").await;
    modern_call(&served, "tools/call", json!({"name": "echo"})).key(&key).send().await.expect(200);
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    let token =
        heard.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).expect("a token").to_owned();
    let keys =
        served.gateway.get("/.well-known/jwks.json").without("x-gateway-api-key").send().await.expect(200).json();
    let part = |name: &str| keys["keys"][0][name].as_str().expect("a part").to_owned();
    let key = DecodingKey::from_ec_components(&part("x"), &part("y")).expect("a key");
    let mut rules = Validation::new(Algorithm::ES256);
    let url = served.gateway.admin().get("/mcp-integrations/files-int").await.expect(200).json()["url"].clone();
    rules.set_audience(&[url.as_str().expect("a url")]);
    rules.set_issuer(&[PUBLIC]);
    let claims = decode::<Value>(&token, &key, &rules).expect("signed").claims;
    assert_eq!((&claims["sub"], &claims["email"]), (&json!(ann), &json!("ann@example.com")), "{claims}");
    assert_eq!(claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat), Some(60));
    assert!(claims.get("name").is_none() && claims["workspace_slug"].is_string(), "{claims}");
    // It is no token of the gateway's own: neither this server nor any other opens by it.
    let call = served.gateway.call("POST", "/files/mcp").without("x-gateway-api-key");
    let call = call.header("authorization", &format!("Bearer {token}")).json(&request("tools/list", json!({})));
    let refused = call.send().await;
    assert!(matches!(refused.status, 401 | 403), "{}", refused.text());
    // Each caller has lists of their own: what a server shows may depend on who asks.
    let before = served.mcp.heard("tools/list").len();
    let (_, other) = person(&served.gateway, "bob@example.com").await;
    for key in [&served.key, &other, &other] {
        modern_call(&served, "tools/list", json!({})).key(key).send().await.expect(200);
    }
    assert_eq!(served.mcp.heard("tools/list").len(), before + 2);
}

#[tokio::test]
async fn a_callers_own_token_goes_on_only_to_whom_it_names() {
    let rule = json!({"user_identity_forwarding": {"method": "bearer"}});
    let served = served(rule, "none", Script { modern: true, ..Script::default() }, &[]).await;
    let admin = served.gateway.admin();
    let call = modern_call(&served, "tools/call", json!({"name": "echo"})).send().await.expect(403);
    assert!(call.text().contains("own token"), "{}", call.text());
    let issuer = Issuer::publishing(&[&FIRST]).await;
    admin.put("/admin/organisation", &json!({"jwks_uris": issuer.uri()})).await.expect(200);
    let url = admin.get("/mcp-integrations/files-int").await.expect(200).json()["url"].clone();
    let token =
        |aud: Value| FIRST.sign(&json!({"sub": "u", "aud": aud, "exp": in_seconds(600), "scope": "mcp.invoke"}));
    let ask = |token: &str| {
        let call = modern_call(&served, "tools/call", json!({"name": "echo"})).without("x-gateway-api-key");
        call.header("authorization", &format!("Bearer {token}")).send()
    };
    let good = token(json!(["gateway", url]));
    ask(&good).await.expect(200);
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    assert_eq!(heard.header("authorization"), Some(format!("Bearer {good}").as_str()));
    let before = served.mcp.upstream.seen().len();
    ask(&token(json!("gateway"))).await.expect(403);
    ask(&token(json!("https://other.example.com/mcp"))).await.expect(403);
    assert_eq!(served.mcp.upstream.seen().len(), before);
}
