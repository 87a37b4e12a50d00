//! Tokens of an organisation's issuers on both ports: what opens, what does not, and what is over at once.

use crate::harness::issuer::{FIRST, Issuer, Pair, SECOND, SHORT, in_seconds};
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

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
    // In each of the three places, and with the config that the token brings.
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
    // With a key of the gateway's own beside it, a token is the upstream's credential.
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
async fn what_is_not_signed_by_an_issuer_or_is_over_opens_nothing() {
    let issuer = Issuer::publishing(&[&FIRST, &SHORT]).await;
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
        ("RS512", header(&|h| h.alg = Algorithm::RS512), 401),
        ("another type", header(&|h| h.typ = Some("at+jwt".into())), 401),
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
        assert!(!answer.error().is_empty(), "{name}: {}", answer.text());
    }
    let said = chat(&gateway, &FIRST.sign(&claims(json!({ "exp": in_seconds(-1) })))).await.error();
    assert_eq!(said, "The token's claim exp says that it has expired");
    // However many tokens name unknown keys, the issuer is asked a few times only.
    for _ in 0..20 {
        chat(&gateway, &SECOND.sign(&claims(json!({})))).await.expect(401);
    }
    assert!(issuer.server.seen().len() <= 5, "asked {} times", issuer.server.seen().len());
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

#[tokio::test]
async fn each_token_is_counted_for_itself() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = trusting(&[&issuer]).await;
    let policy = json!({
        "name": "two each", "type": "requests", "unit": "rph", "value": 2,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let sign = |pair: &Pair, sub: &str| pair.sign(&claims(json!({ "sub": sub })));
    for token in [sign(&FIRST, "ann"), sign(&FIRST, "bob")] {
        for status in [200, 200, 429] {
            chat(&gateway, &token).await.expect(status);
        }
    }
}
