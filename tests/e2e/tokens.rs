//! Tokens of an organisation's issuers on both ports: what opens, what does not, and what is over at once.

use crate::harness::issuer::{CURVE, FIRST, Issuer, SECOND, SHORT, in_seconds};
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};

/// Good for an hour, for one chat after another.
fn claims(extra: Value) -> Value {
    with(json!({ "scope": "openid completions.write", "sub": "ann", "exp": in_seconds(3600) }), extra)
}

async fn chat(gateway: &Gateway, token: &str) -> Answer {
    gateway.chat().key(token).provider("mock").json(&hello()).send().await
}

async fn trusting(issuers: &[&Issuer]) -> Gateway {
    let gateway = Gateway::start().await;
    trust(&gateway, issuers).await;
    gateway
}

async fn trust(gateway: &Gateway, issuers: &[&Issuer]) {
    let uris: Vec<String> = issuers.iter().map(|i| i.uri()).collect();
    let body = json!({ "jwks_uris": uris.join(",") });
    gateway.admin().put("/admin/organisation", &body).await.expect(200);
}

#[tokio::test]
async fn a_token_opens_both_ports_as_its_claims_say() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let admin = gateway.admin();
    let org = admin.get("/admin/organisation").await.expect(200).json()["id"].clone();
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let slug = admin.config("main", &target(&upstream)).await;
    let token = FIRST.sign(&claims(json!({
        "gateway_oid": org, "gateway_workspace": "default", "scope": ["completions.write", "configs.list", "logs.list"],
        "email_id": "ann@example.com", "defaults": { "config_id": slug, "metadata": { "team": "a" } },
    })));
    // The token counts in each of the three places, with the config that it brings.
    let ask = || gateway.chat().json(&hello()).without("x-gateway-api-key");
    ask().header("x-gateway-api-key", &token).header("x-gateway-trace-id", "jwt").send().await.expect(200);
    ask().header("authorization", &format!("Bearer {token}")).send().await.expect(200);
    ask().header("x-api-key", &token).send().await.expect(200);
    assert!(upstream.seen().iter().all(|s| s.header("authorization") == Some("Bearer sk-upstream")));
    assert_eq!(upstream.seen().len(), 3);
    let record = eventually("the record", || async {
        let list = admin.get("/logs?trace_id=jwt").await.expect(200).json();
        list["data"].as_array().filter(|l| !l.is_empty()).map(|l| l[0].clone())
    })
    .await;
    assert_eq!(record["metrics"]["metadata.key"], json!(["team", "_user"]));
    assert_eq!(record["metrics"]["metadata.value"], json!(["a", "ann@example.com"]));
    // The Admin API on its own port and through the proxy's.
    let read = admin.with_key(&token).get("/configs").await.expect(200).json();
    assert_eq!(read["data"][0]["slug"], json!(slug));
    gateway.get("/v1/configs").key(&token).send().await.expect(200);
    admin.with_key(&token).post("/configs", &json!({})).await.expect(403);
    admin.with_key(&token).get("/admin/organisation").await.expect(403);
    // A config that does not exist is as good as none.
    let lost = FIRST.sign(&claims(json!({ "defaults": { "config_id": "pc-nowhere" } })));
    chat(&gateway, &lost).await.expect(200);
    // A token beside a key of the gateway's own is the upstream's credential.
    let forward = json!({ "provider": "openai", "custom_host": upstream.url() });
    gateway
        .chat()
        .config(&forward)
        .header("authorization", &format!("Bearer {token}"))
        .json(&hello())
        .send()
        .await
        .expect(200);
    assert_eq!(upstream.seen().last().and_then(|s| s.header("authorization")), Some(&*format!("Bearer {token}")));
}

#[tokio::test]
async fn the_requests_config_beats_the_tokens_and_that_the_workspaces() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let admin = gateway.admin();
    let saying = async |text: &'static str| Upstream::replying(move |_| reply::chat(text)).await;
    let (own, claimed, common) = (saying("request").await, saying("token").await, saying("workspace").await);
    let slug = admin.config("of the token", &target(&claimed)).await;
    let default = admin.config("of the workspace", &target(&common)).await;
    admin.put(&format!("/configs/{default}"), &json!({ "isDefault": 1 })).await.expect(200);
    let plain = FIRST.sign(&claims(json!({})));
    let with_config = FIRST.sign(&claims(json!({ "defaults": { "config_id": slug } })));
    let ask = |token: &str| gateway.chat().key(token).json(&hello());
    assert_eq!(ask(&plain).send().await.expect(200).said(), "workspace");
    assert_eq!(ask(&with_config).send().await.expect(200).said(), "token");
    assert_eq!(ask(&with_config).config(&target(&own)).send().await.expect(200).said(), "request");
}

#[tokio::test]
async fn what_is_not_signed_by_an_issuer_or_is_over_opens_nothing() {
    let issuer = Issuer::publishing(&[&FIRST, &SHORT, &CURVE]).await;
    let gateway = trusting(&[&issuer]).await;
    let good = FIRST.sign(&claims(json!({})));
    chat(&gateway, &good).await.expect(200);
    let (head, rest) = good.split_once('.').expect("a head");
    let (body, signature) = rest.split_once('.').expect("a body");
    let other = FIRST.sign(&claims(json!({ "sub": "eve" })));
    let hmac = |key: &[u8]| {
        let header = Header { alg: Algorithm::HS256, ..FIRST.header() };
        encode(&header, &claims(json!({})), &EncodingKey::from_secret(key)).expect("a token")
    };
    let unsigned = {
        use base64::Engine as _;
        let head = json!({ "alg": "none", "typ": "JWT", "kid": "first" }).to_string();
        format!("{}.{body}.", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(head))
    };
    let on_curve = |alg: Algorithm| Header { alg, ..CURVE.header() };
    let curved = Header { alg: Algorithm::ES256, ..FIRST.header() };
    let modulus = FIRST.public()["n"].as_str().expect("a modulus").to_owned();
    let header = |change: &dyn Fn(&mut Header)| {
        let mut header = FIRST.header();
        change(&mut header);
        FIRST.sign_as(&header, &claims(json!({})))
    };
    for (name, token, status) in [
        ("a changed signature", format!("{head}.{body}.{}", other.rsplit('.').next().expect("one")), 401),
        ("a changed body", format!("{head}.{}.{signature}", other.split('.').nth(1).expect("one")), 401),
        ("no signature", unsigned, 401),
        ("an empty signature", format!("{head}.{body}."), 401),
        ("the public key as a secret", hmac(modulus.as_bytes()), 401),
        ("another key under this name", SECOND.sign_as(&FIRST.header(), &claims(json!({}))), 401),
        ("a key that nobody names", SECOND.sign(&claims(json!({}))), 401),
        ("a key that is too short", SHORT.sign(&claims(json!({}))), 401),
        ("ES256", CURVE.sign(&claims(json!({}))), 200),
        (
            "RS256 under the name of a key for ES256",
            FIRST.sign_as(&on_curve(Algorithm::RS256), &claims(json!({}))),
            401,
        ),
        ("ES256 under the name of a key for RS256", CURVE.sign_as(&curved, &claims(json!({}))), 401),
        ("RS512", header(&|h| h.alg = Algorithm::RS512), 401),
        ("another type", header(&|h| h.typ = Some("dpop+jwt".into())), 401),
        ("an access token", header(&|h| h.typ = Some("at+jwt".into())), 200),
        ("the same with its prefix", header(&|h| h.typ = Some("application/at+JWT".into())), 200),
        ("no key name", header(&|h| h.kid = None), 401),
        ("expired", FIRST.sign(&claims(json!({ "exp": in_seconds(-1) }))), 401),
        ("without an end", FIRST.sign(&json!({ "scope": "completions.write" })), 401),
        ("not yet", FIRST.sign(&claims(json!({ "nbf": in_seconds(60) }))), 401),
        ("bad claims", FIRST.sign(&claims(json!({ "defaults": 1 }))), 401),
        ("no scope", FIRST.sign(&claims(json!({ "scope": "configs.list" }))), 403),
        ("another organisation", FIRST.sign(&claims(json!({ "gateway_oid": "elsewhere" }))), 403),
        ("another workspace", FIRST.sign(&claims(json!({ "gateway_workspace": "elsewhere" }))), 403),
        ("words", "eyJ.eyJ.x".to_owned(), 401),
    ] {
        let answer = chat(&gateway, &token).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert!(status == 200 || !answer.error().is_empty(), "{name}: {}", answer.text());
    }
    let said = chat(&gateway, &FIRST.sign(&claims(json!({ "exp": in_seconds(-1) })))).await.error();
    assert_eq!(said, "The token's claim exp says that it has expired");
    // However many tokens name unknown keys, the issuer is asked a few times only.
    for _ in 0..20 {
        chat(&gateway, &SECOND.sign(&claims(json!({})))).await.expect(401);
    }
    let asked = issuer.server.seen().iter().filter(|seen| seen.target.ends_with("/jwks")).count();
    assert!(asked <= 5, "asked {asked} times");
}

#[tokio::test]
async fn a_token_that_was_good_is_over_when_its_time_is() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let token = FIRST.sign(&claims(json!({ "exp": in_seconds(2) })));
    chat(&gateway, &token).await.expect(200);
    eventually("its end", || async {
        let answer = chat(&gateway, &token).await;
        let is_over = in_seconds(0) >= claims_end(&token);
        assert!(answer.status == 401 || !is_over || in_seconds(0) == claims_end(&token), "{}", answer.status);
        (answer.status == 401).then_some(())
    })
    .await;
    assert!(in_seconds(0) >= claims_end(&token), "not before its time");
}

fn claims_end(token: &str) -> i64 {
    let read = jsonwebtoken::dangerous::insecure_decode::<Value>(token).expect("a token");
    read.claims["exp"].as_i64().expect("an end")
}

#[tokio::test]
async fn a_new_key_is_found_and_a_withdrawn_one_forgotten() {
    let (one, two) = (Issuer::publishing(&[&FIRST]).await, Issuer::publishing(&[]).await);
    let gateway = trusting(&[&one, &two]).await;
    let (first, second) = (FIRST.sign(&claims(json!({}))), SECOND.sign(&claims(json!({}))));
    chat(&gateway, &first).await.expect(200);
    chat(&gateway, &second).await.expect(401);
    // The issuer begins to sign with a new key: its first token already opens.
    two.publish(&[&SECOND]);
    chat(&gateway, &second).await.expect(200);
    chat(&gateway, &first).await.expect(200);
    // What an issuer that is away had said still counts.
    one.fail();
    chat(&gateway, &first).await.expect(200);
    // Taken out, it counts no more, from the next request on.
    trust(&gateway, &[&two]).await;
    chat(&gateway, &first).await.expect(401);
    chat(&gateway, &second).await.expect(200);
    // Written down instead of fetched.
    let inline = json!({ "jwks_uris": null, "jwks": { "keys": [FIRST.public()] } });
    gateway.admin().put("/admin/organisation", &inline).await.expect(200);
    chat(&gateway, &first).await.expect(200);
    chat(&gateway, &second).await.expect(401);
    gateway.admin().put("/admin/organisation", &json!({ "jwks": null })).await.expect(200);
    chat(&gateway, &first).await.expect(403);
}

#[tokio::test]
async fn an_archived_workspace_takes_its_tokens_along() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let admin = gateway.admin();
    let made = admin.post("/admin/workspaces", &json!({ "name": "Short" })).await.expect(200).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let token = FIRST.sign(&claims(json!({ "workspace_slug": id })));
    chat(&gateway, &token).await.expect(200);
    let body = json!({ "name": "Short", "force_delete": true });
    admin.call("DELETE", &format!("/admin/workspaces/{id}")).json(&body).send().await.expect(200);
    chat(&gateway, &token).await.expect(403);
}

/// A token that is none of those before, though it says the same.
fn fresh(says: Value) -> String {
    static MADE: AtomicI64 = AtomicI64::new(0);
    let nth = MADE.fetch_add(1, Ordering::Relaxed);
    FIRST.sign(&with(claims(json!({ "exp": in_seconds(3600 + nth), "jti": nth.to_string() })), says))
}

#[tokio::test]
async fn a_fresh_token_is_no_fresh_start() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let policy = json!({
        "name": "two each", "type": "requests", "unit": "rpw", "value": 2,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    // Others are whom another issuer means, or another subject; a token that names nobody stands for itself.
    for who in [json!({ "sub": "ann" }), json!({ "sub": "bob" }), json!({ "iss": "https://two.example" })] {
        for status in [200, 200, 429] {
            chat(&gateway, &fresh(who.clone())).await.expect(status);
        }
    }
    let nobody =
        || FIRST.sign(&json!({ "scope": "completions.write", "exp": in_seconds(3600), "jti": fresh(json!({})) }));
    for token in [nobody(), nobody()] {
        for status in [200, 200, 429] {
            chat(&gateway, &token).await.expect(status);
        }
    }
}

#[tokio::test]
async fn limits_of_tokens_count_by_their_id_else_by_whom_they_are_of() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let rates = |sub: &str, team: &str| {
        fresh(json!({ "iss": "https://one.example", "sub": sub, "rate_limits": [
            { "type": "requests", "unit": "rpw", "value": 2 },
            { "id": team, "type": "requests", "unit": "rpw", "value": 3 },
        ] }))
    };
    // Two for each subject, however many tokens; three for the team together.
    chat(&gateway, &rates("ann", "blue")).await.expect(200);
    let answer = chat(&gateway, &rates("ann", "blue")).await.expect(200);
    assert_eq!(answer.header("x-gateway-ratelimit-remaining-requests"), Some("0"));
    let refused = chat(&gateway, &rates("ann", "blue")).await.expect(429);
    assert!(refused.error().contains("token \"ann\" allows 2 requests per week (rpw)"), "{}", refused.error());
    assert!(refused.header("retry-after").is_some());
    chat(&gateway, &rates("bob", "blue")).await.expect(200);
    let refused = chat(&gateway, &rates("bob", "blue")).await.expect(429);
    assert!(refused.error().contains("token \"blue\" allows 3"), "{}", refused.error());
    chat(&gateway, &rates("bob", "red")).await.expect(200);
    // Another number keeps the count.
    let more = json!({ "sub": "cat", "rate_limits": { "id": "blue", "type": "requests", "unit": "rpw", "value": 4 } });
    chat(&gateway, &fresh(more.clone())).await.expect(200);
    chat(&gateway, &fresh(more)).await.expect(429);
}

#[tokio::test]
async fn budgets_of_tokens_hold_over_fresh_tokens() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let slug = gateway.admin().config("main", &target(&upstream)).await;
    let ask = async |says: Value| {
        let token = fresh(with(json!({ "defaults": { "config_id": slug } }), says));
        let body = with(hello(), json!({ "max_tokens": 5 }));
        gateway.chat().key(&token).json(&body).send().await
    };
    let budget = |limit: u64| json!({ "sub": "ann", "usage_limits": [{ "type": "tokens", "credit_limit": limit }] });
    // One call is larger than the whole limit and passes alone; then what it used is on the count.
    ask(budget(1)).await.expect(200);
    let refused = ask(budget(1)).await.expect(412);
    assert!(refused.error().contains("budget exhausted: token \"ann\" allows 1 tokens"), "{}", refused.error());
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    ask(budget(1_000_000)).await.expect(200);
    let mut said = json!({ "sub": "bob", "usage_limits": { "id": "x", "credit_limit": 9, "status": "exhausted" } });
    ask(said.clone()).await.expect(412);
    said["usage_limits"]["status"] = json!("active");
    ask(said.clone()).await.expect(200);
    // What cannot be kept is refused, with its name.
    said["usage_limits"]["alert_threshold"] = json!(3);
    let refused = ask(said).await.expect(401);
    assert!(
        refused.error().starts_with("The token's claim usage_limits has an alert_threshold"),
        "{}",
        refused.error()
    );
}

#[tokio::test]
async fn the_issuer_is_by_default_the_one_of_the_discovery_document() {
    use std::sync::{Arc, OnceLock};
    let address: Arc<OnceLock<String>> = Arc::default();
    let told = address.clone();
    let issuer = Upstream::replying(move |seen| {
        let base = told.get().expect("asked after the start");
        match &*seen.target {
            "/v1/realms/r/keys" => reply::json(200, &json!({ "keys": [FIRST.public()] })),
            // One that names another key set says nothing of this one.
            "/v1/realms/.well-known/openid-configuration" => {
                reply::json(200, &json!({ "issuer": "https://other.example", "jwks_uri": format!("{base}/else") }))
            }
            "/v1/.well-known/openid-configuration" => reply::json(
                200,
                &json!({ "issuer": "https://login.example", "jwks_uri": format!("{base}/realms/r/keys") }),
            ),
            _ => reply::json(404, &json!({})),
        }
    })
    .await;
    address.set(issuer.url()).expect("once");
    let gateway = Gateway::start().await;
    let put = async |body: Value| drop(gateway.admin().put("/admin/organisation", &body).await.expect(200));
    let keys = format!("{}/realms/r/keys", issuer.url());
    let ask = async |iss: Value, sub: &str| {
        let token = FIRST.sign(&claims(json!({ "iss": iss, "sub": sub })));
        let answer = chat(&gateway, &token).await;
        assert!(answer.status == 200 || answer.error().contains("claim iss"), "{}", answer.text());
        answer.status
    };
    // The organisation names the address of the keys, and then that of the document itself.
    for uri in [keys.clone(), format!("{}/.well-known/openid-configuration", issuer.url())] {
        put(json!({ "jwks_uris": [uri] })).await;
        for (iss, status) in
            [(json!("https://login.example"), 200), (json!("https://evil.example"), 401), (Value::Null, 401)]
        {
            assert_eq!(ask(iss.clone(), &uri[uri.len() - 4..]).await, status, "{uri}: {iss}");
        }
    }
    // A rule says what else it may be.
    put(json!({ "jwks_uris": [keys], "token_rules": [{ "jwks_uri": keys, "iss": "https://alias.example" }] })).await;
    assert_eq!(ask(json!("https://alias.example"), "rule").await, 200);
    assert_eq!(ask(json!("https://login.example"), "rule").await, 401);
}

#[tokio::test]
async fn issuer_and_audience_are_held_to_what_the_organisation_says() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let token = |more: Value| FIRST.sign(&claims(more));
    let other = token(json!({ "iss": "https://evil.example", "aud": "another-app" }));
    chat(&gateway, &other).await.expect(200);
    let rules =
        json!({ "token_rules": [{ "jwks_uri": issuer.uri(), "iss": "https://login.example", "aud": ["gateway"] }] });
    gateway.admin().put("/admin/organisation", &rules).await.expect(200);
    for (claims, status, said) in [
        (json!({ "iss": "https://evil.example", "aud": "another-app" }), 401, "iss"),
        (json!({ "iss": "https://login.example", "aud": "another-app" }), 401, "aud"),
        (json!({ "iss": "https://login.example" }), 401, "aud"),
        (json!({ "iss": "https://login.example", "aud": ["another-app", "gateway"] }), 200, ""),
    ] {
        // The first was found good before the rule was there.
        let answer = chat(&gateway, &token(claims.clone())).await;
        assert_eq!(answer.status, status, "{claims}: {}", answer.text());
        assert!(said.is_empty() || answer.error().contains(&format!("claim {said}")), "{claims}: {}", answer.text());
    }
    // The Admin API holds to it too.
    let call = gateway.client().get(gateway.admin_url("/v1/virtual-keys")).header("x-gateway-api-key", &other);
    assert_eq!(call.send().await.expect("an answer").status(), 401);
}
