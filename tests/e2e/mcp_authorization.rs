//! Sign-in of MCP clients elsewhere: what tells them where, and what tokens must say before they open a server. Attacks
//! on the way stand beside what they attack.

use crate::harness::Answer;
use crate::harness::issuer::{FIRST, Issuer, SECOND, in_seconds};
use crate::mcp_script::{Script, Served, code, initialize, modern_call, request, tool_call};
use serde_json::{Value, json};

const PUBLIC: &str = "https://ai.example.com/gw";
const FLAGS: &[&str] = &["--public-url", PUBLIC, "--mcp-authorization-servers", "https://id.example.com"];
const DOCUMENT: &str = "/.well-known/oauth-protected-resource/files/mcp";

/// A gateway that sends clients elsewhere, with `files`, and an issuer that its organisation trusts.
async fn signing_in() -> (Served, Issuer) {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let served = Served::with(Script::default(), FLAGS).await;
    served.gateway.admin().put("/admin/organisation", &json!({"jwks_uris": issuer.uri()})).await.expect(200);
    (served, issuer)
}

fn token(extra: &Value) -> String {
    let mut claims =
        json!({"scope": "openid mcp", "sub": "ann", "exp": in_seconds(3600), "aud": format!("{PUBLIC}/files/mcp")});
    for (name, value) in extra.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    FIRST.sign(&claims)
}

async fn with_token(served: &Served, token: &str, body: &Value) -> Answer {
    let call = served.call("POST").without("x-gateway-api-key").header("authorization", &format!("Bearer {token}"));
    call.json(body).send().await
}

fn challenge(answer: &Answer) -> String {
    answer.header("www-authenticate").unwrap_or_else(|| panic!("no challenge: {}", answer.text())).to_owned()
}

#[tokio::test]
async fn a_client_without_a_token_hears_where_to_sign_in() {
    let (served, _issuer) = signing_in().await;
    let list = request("tools/list", json!({}));
    let refused = served.call("POST").without("x-gateway-api-key").json(&list).send().await.expect(401);
    let told = challenge(&refused);
    assert_eq!(told, format!(r#"Bearer resource_metadata="{PUBLIC}{DOCUMENT}", scope="mcp""#));
    // The address is that of --public-url, whatever a client or a proxy calls this host.
    let call = served.gateway.get(DOCUMENT).without("x-gateway-api-key").header("host", "127.0.0.1:1");
    let document = call.send().await.expect(200);
    assert_eq!(document.header("access-control-allow-origin"), Some("*"));
    let document = document.json();
    assert_eq!(document["resource"], format!("{PUBLIC}/files/mcp"));
    assert_eq!(document["authorization_servers"], json!(["https://id.example.com"]));
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));
    let other = "/.well-known/oauth-protected-resource/nobody/mcp";
    let other = served.gateway.get(other).without("x-gateway-api-key").send().await.expect(200).json();
    assert_eq!(other["resource"], format!("{PUBLIC}/nobody/mcp"), "nobody learns which servers there are");
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/v1/chat", "/.well-known/x"]
    {
        served.gateway.get(path).send().await.expect(404);
    }
    let bad = with_token(&served, "not-a-token", &list).await.expect(401);
    assert!(challenge(&bad).contains(r#"error="invalid_token""#));
    let chat = served.gateway.chat().without("x-gateway-api-key").json(&json!({})).send().await.expect(401);
    assert!(chat.header("www-authenticate").is_none_or(|told| !told.contains("resource_metadata")));
}

#[tokio::test]
async fn without_a_place_to_sign_in_nothing_is_told_of_one() {
    let served = Served::start(Script::default()).await;
    served.gateway.get(DOCUMENT).send().await.expect(404);
    let list = request("tools/list", json!({}));
    let refused = served.call("POST").without("x-gateway-api-key").json(&list).send().await.expect(401);
    assert!(refused.header("www-authenticate").is_none());
    let issuer = Issuer::publishing(&[&FIRST]).await;
    served.gateway.admin().put("/admin/organisation", &json!({"jwks_uris": issuer.uri()})).await.expect(200);
    with_token(&served, &token(&json!({})), &list).await.expect(403);
    let invoking = token(&json!({"scope": "mcp.invoke", "aud": null}));
    with_token(&served, &invoking, &initialize("2025-06-18")).await.expect(200);
}

#[tokio::test]
async fn a_token_opens_the_server_that_it_was_issued_for_and_no_other() {
    let (served, _issuer) = signing_in().await;
    let open = initialize("2025-06-18");
    let session = with_token(&served, &token(&json!({})), &open).await.expect(200);
    let session = session.header("mcp-session-id").expect("a session").to_owned();
    let before = served.mcp.upstream.seen().len();
    let files = format!("{PUBLIC}/files/mcp");
    for aud in [
        json!(null),
        json!(PUBLIC),
        json!(format!("{PUBLIC}/other/mcp")),
        json!(format!("{files}/")),
        json!("https://evil.example.com/files/mcp"),
        json!([format!("{PUBLIC}/other/mcp"), "files"]),
    ] {
        let refused = with_token(&served, &token(&json!({"aud": aud})), &open).await.expect(401);
        assert!(challenge(&refused).contains(r#"error="invalid_token""#), "{aud}");
    }
    let twin = json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "files-int"});
    served.gateway.admin().post("/mcp-servers", &twin).await.expect(200);
    let twin = Served { path: "/twin/mcp", ..served };
    with_token(&twin, &token(&json!({})), &open).await.expect(401);
    let both = token(&json!({"aud": [files, format!("{PUBLIC}/twin/mcp")]}));
    assert_eq!(twin.mcp.upstream.seen().len(), before, "the server heard of none of them");
    with_token(&twin, &both, &open).await.expect(200);
    // A session is no key: with another's token, or none, it opens nothing.
    let served = Served { path: "/files/mcp", ..twin };
    let list = request("tools/list", json!({}));
    let call = |token: Option<&str>| {
        let call = served.call("POST").without("x-gateway-api-key").header("mcp-session-id", &session).json(&list);
        token.iter().fold(call, |call, token| call.header("authorization", &format!("Bearer {token}")))
    };
    call(Some(&token(&json!({})))).send().await.expect(200);
    assert_eq!(code(&call(Some(&token(&json!({"sub": "eve"})))).send().await.expect(404)), -32600);
    call(None).send().await.expect(401);
    // Keys of the gateway are for all of their workspace, as they were.
    served.post(None, &open).await.expect(200);
}

#[tokio::test]
async fn scopes_of_the_protocol_say_who_reads_and_who_calls() {
    let (served, _issuer) = signing_in().await;
    let list = request("tools/list", json!({}));
    for (scope, reads, calls) in [
        ("mcp", true, true),
        ("mcp:read mcp:write", true, true),
        ("mcp:write", true, true),
        ("mcp:read", true, false),
        ("mcp.invoke", true, true),
        ("openid completions.write", false, false),
    ] {
        let token = token(&json!({"scope": scope}));
        let opened = with_token(&served, &token, &initialize("2025-06-18")).await;
        assert_eq!(opened.status, if reads { 200 } else { 403 }, "{scope}: {}", opened.text());
        let Some(session) = opened.header("mcp-session-id") else {
            assert!(challenge(&opened).contains(r#"error="insufficient_scope""#), "{scope}");
            continue;
        };
        let ask = |body: &Value| {
            let call = served.call("POST").without("x-gateway-api-key").header("mcp-session-id", session).json(body);
            call.header("authorization", &format!("Bearer {token}")).send()
        };
        ask(&list).await.expect(200);
        let before = served.mcp.heard("tools/call").len();
        let called = ask(&tool_call("echo", 7)).await;
        if calls {
            called.expect(200);
            continue;
        }
        let called = called.expect(403);
        assert!(
            challenge(&called).contains(r#"scope="mcp:write", error="insufficient_scope""#),
            "{}",
            challenge(&called)
        );
        assert_eq!(called.json()["id"], 7);
        assert_eq!(served.mcp.heard("tools/call").len(), before, "the server heard nothing of it");
        let mut batch = served.call("POST").without("x-gateway-api-key").header("mcp-protocol-version", "2025-03-26");
        batch = batch.header("authorization", &format!("Bearer {token}")).json(&json!([tool_call("echo", 1)]));
        assert_eq!(batch.send().await.expect(200).json()[0]["error"]["code"], 403, "in a batch it is that element's");
        let call = modern_call(&served, "tools/call", json!({"name": "echo"})).without("x-gateway-api-key");
        call.header("authorization", &format!("Bearer {token}")).send().await.expect(403);
        assert_eq!(served.mcp.heard("tools/call").len(), before);
    }
}

#[tokio::test]
async fn issuers_are_not_mixed_up_and_what_is_over_opens_nothing() {
    let (served, issuer) = signing_in().await;
    let other = Issuer::publishing(&[&SECOND]).await;
    let open = initialize("2025-06-18");
    let claims = json!({"scope": "mcp", "sub": "ann", "exp": in_seconds(3600), "aud": format!("{PUBLIC}/files/mcp")});
    with_token(&served, &SECOND.sign(&claims), &open).await.expect(401);
    // Even where both are trusted, the key of one signs no token that says it is the other's.
    let rules = json!({"jwks_uris": format!("{},{}", issuer.uri(), other.uri()),
        "token_rules": [{"jwks_uri": issuer.uri(), "iss": "https://one.example.com"},
                      {"jwks_uri": other.uri(), "iss": "https://two.example.com"}]});
    served.gateway.admin().put("/admin/organisation", &rules).await.expect(200);
    let saying = |iss: &str| {
        let mut claims = claims.clone();
        claims["iss"] = iss.into();
        claims
    };
    with_token(&served, &FIRST.sign(&saying("https://one.example.com")), &open).await.expect(200);
    let mixed = with_token(&served, &SECOND.sign(&saying("https://one.example.com")), &open).await.expect(401);
    assert!(challenge(&mixed).contains("invalid_token"));
    let over = token(&json!({"exp": in_seconds(-1), "iss": "https://one.example.com"}));
    let over = with_token(&served, &over, &open).await.expect(401);
    assert!(challenge(&over).contains("invalid_token"));
}
