//! MCP servers whose people sign in at an issuer of the server's own: its tokens open that server and nothing else, and
//! nobody else's open it. Attacks stand beside what they attack.

use crate::harness::Answer;
use crate::harness::issuer::{CURVE, FIRST, Issuer, SECOND, in_seconds};
use crate::harness::{Gateway, Upstream, eventually, reply, with};
use crate::mcp_client::{BACK, PUBLIC, access, signing_in};
use crate::mcp_script::{Script, Served, initialize, modern_call, request};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example.com/realm";

fn claims(extra: Value) -> Value {
    with(
        json!({"iss": ISSUER, "sub": "ann", "scope": "openid mcp", "aud": format!("{PUBLIC}/files/mcp"),
            "iat": in_seconds(-10), "exp": in_seconds(600)}),
        extra,
    )
}

fn token(extra: Value) -> String {
    FIRST.sign(&claims(extra))
}

async fn with_token(served: &Served, token: &str) -> Answer {
    let call = served.call("POST").without("x-gateway-api-key").header("authorization", &format!("Bearer {token}"));
    call.json(&initialize("2025-06-18")).send().await
}

async fn rule(gateway: &Gateway, issuer: &Issuer, rules: Value) -> Answer {
    let rules = with(json!({"jwksUri": issuer.uri()}), rules);
    let body = json!({"configurations": {"external_auth_config": {"issuer": ISSUER}, "jwt_validation": rules}});
    gateway.admin().put("/mcp-integrations/files-int", &body).await
}

/// The server `files` with an issuer of its own.
async fn served(rules: Value) -> (Served, Issuer) {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let served = Served::with(Script::default(), &["--public-url", PUBLIC]).await;
    rule(&served.gateway, &issuer, rules).await.expect(200);
    eventually("its keys are known", || async {
        (with_token(&served, &token(json!({}))).await.status == 200).then_some(())
    })
    .await;
    (served, issuer)
}

#[tokio::test]
async fn clients_are_sent_to_the_issuer_of_a_server_and_its_tokens_open_that_server() {
    let (served, issuer) = served(json!({})).await;
    let document = async |slug: &str| {
        let path = format!("/.well-known/oauth-protected-resource/{slug}/mcp");
        served.gateway.get(&path).without("x-gateway-api-key").send().await.expect(200).json()
    };
    assert_eq!(document("files").await["authorization_servers"], json!([ISSUER]));
    assert_eq!(document("files").await["resource"], format!("{PUBLIC}/files/mcp"));
    assert_eq!(document("nobody").await["authorization_servers"], json!([PUBLIC]));
    let both = json!([format!("{PUBLIC}/files/mcp"), format!("{PUBLIC}/twin/mcp")]);
    let ann = token(json!({"aud": both, "scope": "mcp:read"}));
    let opened = with_token(&served, &ann).await.expect(200);
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let ask = async |token: &str, body: &Value| {
        let call = served.call("POST").without("x-gateway-api-key").header("mcp-session-id", &session).json(body);
        call.header("authorization", &format!("Bearer {token}")).send().await
    };
    let list = request("tools/list", json!({}));
    assert!(ask(&ann, &list).await.expect(200).json()["result"]["tools"].is_array());
    let echo = request("tools/call", json!({"name": "echo", "arguments": {}}));
    let refused = ask(&ann, &echo).await.expect(403);
    assert!(refused.header("www-authenticate").is_some_and(|told| told.contains("insufficient_scope")));
    ask(&token(json!({})), &echo).await.expect(200);
    // Somebody else's session, though of the same issuer; and the name of one at another issuer is another's.
    ask(&token(json!({"sub": "eve"})), &list).await.expect(404);
    // Such a token opens nothing else: no other server, no model, no Admin API.
    let twin = json!({"name": "Twin", "slug": "twin", "url": served.mcp.upstream.url(), "transport": "http", "auth_type": "none"});
    served.gateway.admin().post("/mcp-integrations", &with(twin, json!({"slug": "twin-int"}))).await.expect(200);
    let named = json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "twin-int"});
    served.gateway.admin().post("/mcp-servers", &named).await.expect(200);
    let other = served.gateway.call("POST", "/twin/mcp").without("x-gateway-api-key").json(&initialize("2025-06-18"));
    let other = other.header("authorization", &format!("Bearer {ann}")).send().await;
    assert!(matches!(other.status, 401 | 403), "{}", other.text());
    let chat = served.gateway.chat().key(&ann).provider("mock").json(&json!({"messages": []})).send().await;
    assert!(matches!(chat.status, 401 | 403), "{}", chat.text());
    let admin = served.gateway.admin().with_key(&ann).get("/mcp-servers").await;
    assert!(matches!(admin.status, 401 | 403), "{}", admin.text());
    // It is no good either for a whole that the server is a member of.
    let whole =
        json!({"name": "All", "slug": "all", "members": [{"mcp_server_id": "files"}, {"mcp_server_id": "twin"}]});
    served.gateway.admin().post("/mcp-servers", &with(whole, json!({"slug": "all-of-it"}))).await.expect(200);
    let call = served.gateway.call("POST", "/all-of-it/mcp").without("x-gateway-api-key");
    let call = call.header("authorization", &format!("Bearer {ann}")).json(&initialize("2025-06-18"));
    assert!(matches!(call.send().await.status, 401 | 403));
    // Keys of the gateway are for all of their workspace, as they were.
    served.post(None, &initialize("2025-06-18")).await.expect(200);
    // The issuer turns its keys: the new one is asked for, and the old one opens nothing any more.
    issuer.publish(&[&SECOND]);
    let turned = SECOND.sign(&claims(json!({})));
    eventually("the new key counts", || async { (with_token(&served, &turned).await.status == 200).then_some(()) })
        .await;
    with_token(&served, &token(json!({"n": 1}))).await.expect(401);
    // Once its issuer is gone, the token is nobody's, at once.
    let gone = json!({"configurations": {"external_auth_config": null}});
    served.gateway.admin().put("/mcp-integrations/files-int", &gone).await.expect(200);
    assert_ne!(with_token(&served, &turned).await.status, 200);
    assert_eq!(document("files").await["authorization_servers"], json!([PUBLIC]));
}

#[tokio::test]
async fn what_another_signed_or_is_for_another_or_over_opens_nothing() {
    let (served, _issuer) = served(json!({"maxTokenAge": 3600})).await;
    let before = served.mcp.upstream.seen().len();
    let plain = |header: Value| {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", encode(&header), encode(&claims(json!({}))))
    };
    let public = FIRST.public()["n"].as_str().expect("a modulus").to_owned();
    let mixed = |secret: &[u8]| {
        let header = Header { kid: Some("first".to_owned()), ..Header::new(Algorithm::HS256) };
        encode(&header, &claims(json!({})), &EncodingKey::from_secret(secret)).expect("a token")
    };
    let other = format!("{PUBLIC}/other/mcp");
    for (what, token) in [
        ("another's key", SECOND.sign(&claims(json!({})))),
        ("another's key by this one's name", SECOND.sign_as(&FIRST.header(), &claims(json!({})))),
        ("another issuer", token(json!({"iss": "https://id.example.com/other"}))),
        ("no issuer", token(json!({"iss": null}))),
        ("another audience", token(json!({"aud": other}))),
        ("no audience", token(json!({"aud": null}))),
        ("nearly its audience", token(json!({"aud": format!("{PUBLIC}/files/mcp/")}))),
        ("no signature", plain(json!({"alg": "none", "kid": "first"}))),
        ("no algorithm", plain(json!({"kid": "first"}))),
        ("the public key as a secret", mixed(public.as_bytes())),
        ("the key set as a secret", mixed(FIRST.public().to_string().as_bytes())),
        ("an algorithm that is not taken", CURVE.sign(&claims(json!({})))),
        ("over", token(json!({"exp": in_seconds(-20)}))),
        ("not yet", token(json!({"nbf": in_seconds(60)}))),
        ("too old, whatever it says", token(json!({"iat": in_seconds(-4000)}))),
        ("of no age", token(json!({"iat": null}))),
    ] {
        let refused = with_token(&served, &token).await;
        assert!(matches!(refused.status, 401 | 403), "{what}: {} {}", refused.status, refused.text());
    }
    assert_eq!(served.mcp.upstream.seen().len(), before, "the server heard of none of them");
    with_token(&served, &token(json!({"exp": in_seconds(-2)}))).await.expect(200);
    // A trusted issuer of the organisation opens other servers, and not this one.
    let theirs = Issuer::publishing(&[&SECOND]).await;
    let admin = served.gateway.admin();
    admin.put("/admin/organisation", &json!({"jwks_uris": theirs.uri()})).await.expect(200);
    let invoking = SECOND.sign(&json!({"sub": "ann", "scope": "mcp.invoke mcp", "exp": in_seconds(600),
        "aud": format!("{PUBLIC}/files/mcp")}));
    eventually("the organisation's issuer is known", || async {
        let call = modern_call(&served, "tools/list", json!({})).without("x-gateway-api-key");
        let told = call.header("authorization", &format!("Bearer {invoking}")).send().await;
        told.text().contains("its own issuer alone").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_the_gateway_issued_itself_opens_no_server_that_has_an_issuer_of_its_own() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    with_token(&here.served, access(&tokens)).await.expect(200);
    let issuer = Issuer::publishing(&[&FIRST]).await;
    rule(&here.served.gateway, &issuer, json!({})).await.expect(200);
    let refused = with_token(&here.served, access(&tokens)).await.expect(401);
    assert!(refused.text().contains("its own issuer alone"), "{}", refused.text());
}

#[tokio::test]
async fn claims_are_held_to_the_rules_of_the_server() {
    let rules = json!({"requiredClaims": ["team"], "claimValues": {
        "roles": {"values": ["dev", "ops"], "matchType": "contains"},
        "groups": {"values": ["a", "b"], "matchType": "containsAll"},
        "email": {"values": ["@example[.]com$"], "matchType": "regex"},
        "tier": {"values": ["gold"], "matchType": "exact"}}});
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let served = Served::with(Script::default(), &["--public-url", PUBLIC]).await;
    rule(&served.gateway, &issuer, rules).await.expect(200);
    let good =
        json!({"team": "x", "roles": "qa dev", "groups": ["b", "a"], "email": "ann@example.com", "tier": "gold"});
    eventually("its keys are known", || async {
        (with_token(&served, &token(good.clone())).await.status == 200).then_some(())
    })
    .await;
    for (name, value) in [
        ("team", json!(null)),
        ("roles", json!("developer")),
        ("groups", json!(["a"])),
        ("email", json!("ann@example.com.evil")),
        ("tier", json!("golden")),
        ("tier", json!(null)),
    ] {
        let refused = with_token(&served, &token(with(good.clone(), json!({name: value})))).await.expect(401);
        assert!(refused.text().contains(&format!("claim {name} ")), "{}", refused.text());
    }
}

#[tokio::test]
async fn keys_that_were_written_down_and_discovered_count_and_none_is_fetched_where_nobody_may_call() {
    let served = Served::with(Script::default(), &["--public-url", PUBLIC]).await;
    let admin = served.gateway.admin();
    let written = json!({"configurations": {"external_auth_config": {"issuer": ISSUER},
        "jwt_validation": {"jwks": {"keys": [CURVE.public()]}, "algorithms": ["ES256"]}}});
    admin.put("/mcp-integrations/files-int", &written).await.expect(200);
    with_token(&served, &CURVE.sign(&claims(json!({})))).await.expect(200);
    with_token(&served, &token(json!({}))).await.expect(401);
    let keys = Issuer::publishing(&[&FIRST]).await;
    let uri = keys.uri();
    for (leads, status) in [(uri.as_str(), 200), ("http://169.254.169.254/latest/keys", 401)] {
        let leads = leads.to_owned();
        let discovery = Upstream::replying(move |seen| {
            let own = format!("http://{}/v1", seen.header("host").unwrap_or_default());
            reply::json(200, &json!({"issuer": own, "jwks_uri": leads}))
        })
        .await;
        let issuer = discovery.url();
        let body = json!({"configurations": {"external_auth_config": {"issuer": issuer}, "jwt_validation": null}});
        admin.put("/mcp-integrations/files-int", &body).await.expect(200);
        let token = token(json!({"iss": issuer}));
        eventually("it was asked", || async {
            let told = with_token(&served, &token).await;
            (told.status == status && !discovery.seen().is_empty()).then_some(())
        })
        .await;
    }
    eventually("nobody was called there", || async {
        served.gateway.process.output().contains("an issuer's keys could not be fetched").then_some(())
    })
    .await;
}

#[tokio::test]
async fn of_two_servers_at_one_address_the_token_says_which() {
    let (served, _issuer) = served(json!({})).await;
    let admin = served.gateway.admin();
    admin.post("/admin/workspaces", &json!({"name": "Team", "slug": "team"})).await.expect(200);
    let twin = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int", "workspace_id": "team"});
    admin.post("/mcp-servers", &twin).await.expect(200);
    let refused = with_token(&served, &token(json!({"jti": "1"}))).await.expect(401);
    assert!(refused.text().contains("gateway_workspace"), "{}", refused.text());
    for name in ["team", "default"] {
        with_token(&served, &token(json!({"gateway_workspace": name}))).await.expect(200);
    }
    with_token(&served, &token(json!({"gateway_workspace": "nowhere"}))).await.expect(401);
}

#[tokio::test]
async fn rules_that_make_no_sense_are_refused_by_name() {
    let off = Served::start(Script::default()).await;
    let issuer = json!({"configurations": {"external_auth_config": {"issuer": ISSUER}}});
    let told = off.gateway.admin().put("/mcp-integrations/files-int", &issuer).await.expect(400);
    assert!(told.text().contains("--public-url"), "{}", told.text());
    let served = Served::with(Script::default(), &["--public-url", PUBLIC]).await;
    let admin = served.gateway.admin();
    let rules = |rules: Value| json!({"external_auth_config": {"issuer": ISSUER}, "jwt_validation": rules});
    let values =
        |values: Value, kind: &str| rules(json!({"claimValues": {"a": {"values": values, "matchType": kind}}}));
    for (configurations, told) in [
        (json!({"jwt_validation": {}}), "jwt_validation belongs to external_auth_config"),
        (json!({"external_auth_config": {"issuer": "http://169.254.169.254"}}), "external_auth_config.issuer"),
        (json!({"external_auth_config": {"issuer": "https://a.example.com?x"}}), "external_auth_config.issuer"),
        (json!({"external_auth_config": {"issuer": ISSUER, "x": 1}}), "x"),
        (rules(json!({"jwksUri": "http://10.1.2.3/keys"})), "jwt_validation.jwksUri"),
        (rules(json!({"jwks": {"keys": []}})), "jwt_validation.jwks"),
        (rules(json!({"algorithms": ["HS256"]})), "jwt_validation.algorithms"),
        (rules(json!({"algorithms": ["none"]})), "jwt_validation.algorithms"),
        (rules(json!({"algorithms": []})), "jwt_validation.algorithms"),
        (rules(json!({"clockTolerance": 301})), "jwt_validation.clockTolerance"),
        (rules(json!({"maxTokenAge": 0})), "jwt_validation.maxTokenAge"),
        (rules(json!({"requiredClaims": vec!["a"; 21]})), "jwt_validation.requiredClaims"),
        (values(json!([]), "exact"), "claimValues.a.values"),
        (values(json!(vec!["a"; 51]), "exact"), "claimValues.a.values"),
        (values(json!(["("]), "regex"), "claimValues.a.values"),
        (values(json!(["x"]), "like"), "matchType"),
        (rules(json!({"introspectEndpoint": "https://a.example.com"})), "jwt_validation.introspectEndpoint"),
        (rules(json!({"headerKey": "x-token"})), "jwt_validation.headerKey"),
    ] {
        let body = json!({"configurations": configurations});
        let refused = admin.put("/mcp-integrations/files-int", &body).await.expect(400);
        assert!(refused.text().contains(told), "{told}: {}", refused.text());
    }
    let agent = json!({"name": "a", "url": "https://agent.example.com", "auth_type": "none",
        "configurations": {"external_auth_config": {"issuer": ISSUER}}});
    let refused = admin.post("/agent-integrations", &agent).await.expect(400);
    assert!(refused.text().contains("external_auth_config"), "{}", refused.text());
}
