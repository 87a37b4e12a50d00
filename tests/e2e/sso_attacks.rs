//! Attacks on the sign-on of people: tokens for others, forged and replayed answers, links that lead elsewhere, and
//! pages of others that use a session. None of them opens anything.

use crate::harness::eventually;
use crate::harness::issuer::{FIRST, SECOND, in_seconds};
use crate::harness::oidc::{CLIENT, OidcProvider, OidcSign};
use crate::sso::{Browser, PUBLIC, ann, back, gateway, state};
use crate::turned_away::{count, lines, rows};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

#[tokio::test]
async fn what_the_provider_signed_for_others_opens_nothing() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({})).await;
    for (name, claims) in [
        ("another nonce", json!({ "nonce": "other" })),
        ("no nonce", json!({ "nonce": null })),
        ("another issuer", json!({ "iss": "https://evil.example" })),
        ("another client", json!({ "aud": "other-client" })),
        ("several clients", json!({ "aud": [CLIENT, "other-client"] })),
        ("another party", json!({ "azp": "other-client" })),
        ("over", json!({ "exp": in_seconds(-5) })),
        ("no end", json!({ "exp": null })),
        ("not yet", json!({ "iat": in_seconds(3600) })),
        ("nobody", json!({ "sub": "" })),
    ] {
        provider.says(ann(claims));
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        assert_eq!((page.status, browser.session()), (401, None), "{name}: {}", page.text);
    }
    provider.says(ann(json!({})));
    let modulus = FIRST.public()["n"].as_str().expect("a modulus").to_owned();
    let hmac = move |claims: &Value| {
        let header = Header { alg: Algorithm::HS256, kid: Some("first".to_owned()), ..Header::default() };
        encode(&header, claims, &EncodingKey::from_secret(modulus.as_bytes())).expect("a token")
    };
    let unsigned = |claims: &Value| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({ "alg": "none", "typ": "JWT", "kid": "first" })), part(claims))
    };
    let other = |claims: &Value| SECOND.sign_as(&FIRST.header(), claims);
    let unknown = |claims: &Value| SECOND.sign(claims);
    let unnamed = |claims: &Value| FIRST.sign_as(&Header::new(Algorithm::RS256), claims);
    let sign: Vec<(&str, OidcSign)> = vec![
        ("HS256 with the public key", Box::new(hmac)),
        ("alg none", Box::new(unsigned)),
        ("another key of the same name", Box::new(other)),
        ("a key that is not published", Box::new(unknown)),
        ("no key named", Box::new(unnamed)),
        ("no token", Box::new(|_| "nonsense".to_owned())),
    ];
    for (name, sign) in sign {
        provider.signs(sign);
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        assert_eq!((page.status, browser.session()), (401, None), "{name}: {}", page.text);
    }
    assert_eq!(gateway.admin().get("/admin/users").await.expect(200).json()["total"], 0);
    // Each is counted and told of, without what was brought, and in the trail of the organisation that it was for.
    assert_eq!(count(&gateway.metrics().await, "bad_token"), 16);
    let told = eventually("the lines", || async { Some(lines(&gateway)).filter(|lines| lines.len() == 16) }).await;
    assert!(told.iter().all(|line| line["path"] == "/v1/sso/callback" && line["refused"] == "bad_token"), "{told:?}");
    let org =
        gateway.admin().get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    let row = eventually("the row", || async { rows(&gateway, &org).await.pop() }).await;
    assert!(row["refused"].as_str().is_some_and(|why| why.starts_with("the sign-in was refused")), "{row}");
    let kept = format!("{row}{}", gateway.process.output());
    assert!(!kept.contains("code-1") && !kept.contains("state="), "nothing of what they brought is kept");
}

#[tokio::test]
async fn an_answer_counts_once_and_only_for_the_browser_that_asked() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({})).await;
    provider.says(ann(json!({})));
    let mut browser = Browser::of(&gateway);
    let asked = browser.leave("").await;
    let (code, state) = (provider.grant(&asked), state(&asked));
    let ticket = browser.cookies.clone();
    // Another browser is handed the link: it would be signed in as somebody else.
    let mut victim = Browser::of(&gateway);
    assert_eq!(victim.open(&back(&code, &state)).await.status, 401);
    // With a ticket of the victim's own the state does not fit.
    victim.leave("").await;
    assert_eq!(victim.open(&back(&code, &state)).await.status, 401);
    // An answer that another provider gave.
    let mixed = format!("{}&iss=https%3A%2F%2Fevil.example", back(&code, &state));
    let mut mixing = Browser::of(&gateway);
    let own = mixing.leave("").await;
    let mixed_own = format!("{}&iss=https%3A%2F%2Fevil.example", back(&provider.grant(&own), &self::state(&own)));
    assert_eq!(mixing.open(&mixed_own).await.status, 401);
    assert_eq!(victim.open(&mixed).await.status, 401);
    assert_eq!(browser.open(&back(&code, &state)).await.status, 303);
    // The ticket comes once more, with the code that was used, and with a fresh one.
    for code in [code, provider.grant(&asked)] {
        let mut again = Browser::of(&gateway);
        again.cookies.clone_from(&ticket);
        let page = again.open(&back(&code, &state)).await;
        assert_eq!((page.status, again.session()), (401, None), "{}", page.text);
    }
    // A session that was there before is not the one that begins (fixation).
    let mut fixed = Browser::of(&gateway);
    fixed.cookies.push(("__Host-gateway-session".to_owned(), "gw_usr_chosen-by-somebody-else".to_owned()));
    assert_eq!(fixed.sign_in(&provider, "").await.status, 303);
    assert_ne!(fixed.session().as_deref(), Some("gw_usr_chosen-by-somebody-else"));
    // The provider says no, or nothing.
    for answer in ["error=access_denied", "session_state=x"] {
        let mut refused = Browser::of(&gateway);
        let asked = refused.leave("").await;
        let page = refused.open(&format!("/sso/callback?{answer}&state={}", self::state(&asked))).await;
        assert_eq!((page.status, refused.session()), (401, None));
    }
}

#[tokio::test]
async fn nobody_is_sent_to_a_place_that_is_not_ours() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({})).await;
    let mut browser = Browser::of(&gateway);
    for place in
        ["https://evil.example", "//evil.example", "/%5Cevil.example", "/%0d%0aset-cookie:a=b", "javascript:alert(1)"]
    {
        let page = browser.open(&format!("/sso/default/start?return_to={place}")).await;
        assert_eq!((page.status, page.location), (400, None), "{place}");
    }
    let asked = browser.leave("").await;
    let redirect = asked.query_pairs().find(|(name, _)| name == "redirect_uri").expect("an address").1.into_owned();
    assert_eq!(redirect, format!("{PUBLIC}/v1/sso/callback"), "and not the host that a request names");
    assert_eq!(browser.open("/sso/nobody/start").await.status, 404);
    gateway.admin().delete("/admin/organisation/sign-on").await.expect(200);
    assert_eq!(browser.open("/sso/default/start").await.status, 404);
}

#[tokio::test]
async fn pages_of_others_do_nothing_by_a_session() {
    let provider = OidcProvider::start().await;
    let roles = json!({ "role_claim": "groups", "roles": { "gw-admins": "admin" } });
    let gateway = gateway(&provider, roles).await;
    provider.says(ann(json!({ "groups": "gw-admins" })));
    let mut browser = Browser::of(&gateway);
    browser.sign_in(&provider, "").await;
    let cookie = format!("__Host-gateway-session={}", browser.session().expect("a session"));
    let write = async |name: &str, value: &str| {
        let call = gateway.admin().call("POST", "/configs").without("x-gateway-api-key").header("cookie", &cookie);
        let body = json!({ "name": "c", "config": { "provider": "mock" } });
        call.header(name, value).json(&body).send().await.status
    };
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "http://gateway.example.com"),
        ("origin", "null"),
    ] {
        assert_eq!(write(name, value).await, 401, "{name}: {value}");
    }
    assert_eq!(gateway.admin().get("/configs").await.expect(200).json()["total"], 0);
    for (name, value) in [("sec-fetch-site", "same-origin"), ("origin", PUBLIC), ("accept", "*/*")] {
        assert_eq!(write(name, value).await, 200, "{name}: {value}");
    }
}
