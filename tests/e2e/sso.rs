//! Sign-on of people at a provider of OpenID Connect: real sockets, real signatures, sessions from their beginning to
//! their end, and the keys of provider and client. The browser here serves what people may and what attackers try as
//! well.

use crate::harness::issuer::{CURVE, FIRST, SECOND};
use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider, OidcSign};
use crate::harness::{Answer, Gateway, eventually, hello, with};
use jsonwebtoken::{Algorithm, Header};
use serde_json::{Value, json};
use std::time::Instant;

pub(crate) const PUBLIC: &str = "https://gateway.example.com";

/// A browser: it keeps cookies, and follows nothing by itself.
pub(crate) struct Browser<'g> {
    gateway: &'g Gateway,
    client: reqwest::Client,
    pub(crate) cookies: Vec<(String, String)>,
}

pub(crate) struct BrowserPage {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    cookies: Vec<String>,
    pub(crate) text: String,
}

impl<'g> Browser<'g> {
    pub(crate) fn of(gateway: &'g Gateway) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { gateway, client, cookies: Vec::new() }
    }

    pub(crate) async fn open(&mut self, path: &str) -> BrowserPage {
        let held: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = self.client.get(self.gateway.admin_url(&format!("/v1{path}")));
        if !held.is_empty() {
            request = request.header("cookie", held.join("; "));
        }
        let answer = request.send().await.expect("an answer");
        let text = |value: &reqwest::header::HeaderValue| value.to_str().expect("text").to_owned();
        let cookies: Vec<String> = answer.headers().get_all("set-cookie").iter().map(text).collect();
        for cookie in &cookies {
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value").to_owned();
            self.cookies.retain(|(known, _)| known != name);
            if !cookie.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value));
            }
        }
        let location = answer.headers().get("location").map(text);
        BrowserPage { status: answer.status().as_u16(), location, cookies, text: answer.text().await.expect("text") }
    }

    pub(crate) fn session(&self) -> Option<String> {
        self.cookies.iter().find(|(name, _)| name == "__Host-gateway-session").map(|(_, value)| value.clone())
    }

    /// Begins to sign in, and gives the address of the provider that the browser is sent to.
    pub(crate) async fn leave(&mut self, query: &str) -> reqwest::Url {
        self.leave_for("default", query).await
    }

    async fn leave_for(&mut self, org: &str, query: &str) -> reqwest::Url {
        let page = self.open(&format!("/sso/{org}/start{query}")).await;
        assert_eq!(page.status, 303, "{}", page.text);
        let cookie = page.cookies.first().expect("a ticket");
        assert!(cookie.ends_with("; HttpOnly; Secure; SameSite=Lax") && cookie.contains("; Path=/; "), "{cookie}");
        reqwest::Url::parse(&page.location.expect("a place")).expect("a URL")
    }

    /// All the way, and back with the code that the provider gives.
    pub(crate) async fn sign_in(&mut self, provider: &OidcProvider, query: &str) -> BrowserPage {
        self.sign_in_at("default", provider, query).await
    }

    pub(crate) async fn sign_in_at(&mut self, org: &str, provider: &OidcProvider, query: &str) -> BrowserPage {
        let asked = self.leave_for(org, query).await;
        let code = provider.grant(&asked);
        self.open(&back(&code, &state(&asked))).await
    }
}

pub(crate) fn state(asked: &reqwest::Url) -> String {
    asked.query_pairs().find(|(name, _)| name == "state").expect("a state").1.into_owned()
}

pub(crate) fn back(code: &str, state: &str) -> String {
    format!("/sso/callback?code={code}&state={state}")
}

pub(crate) async fn gateway(provider: &OidcProvider, fields: Value) -> Gateway {
    let gateway = Gateway::with(&["--public-url", PUBLIC]).await;
    let body = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "makes_users": true, "new_user_role": "member" });
    gateway.admin().put("/admin/organisation/sign-on", &with(body, fields)).await.expect(200);
    gateway
}

pub(crate) fn ann(more: Value) -> Value {
    with(json!({ "email": "ann@example.com", "email_verified": true, "given_name": "Ann", "family_name": "Lee" }), more)
}

pub(crate) async fn as_session(gateway: &Gateway, session: &str, method: &str, path: &str) -> Answer {
    let call = gateway.admin().call(method, path).without("x-gateway-api-key");
    call.header("cookie", &format!("__Host-gateway-session={session}")).send().await
}

#[tokio::test]
async fn somebody_signs_in_works_and_signs_out() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({ "session_seconds": 900 })).await;
    provider.says(ann(json!({})));
    let mut browser = Browser::of(&gateway);
    let page = browser.sign_in(&provider, "?return_to=/console%3Fa%3Db").await;
    assert_eq!((page.status, page.location.as_deref()), (303, Some("/console?a=b")), "{}", page.text);
    let cookie = page.cookies.iter().find(|cookie| cookie.starts_with("__Host-gateway-session=")).expect("a session");
    assert!(cookie.ends_with("; Path=/; Max-Age=900; HttpOnly; Secure; SameSite=Lax"), "{cookie}");
    let session = browser.session().expect("a session");
    // The session counts as a cookie, and as a bearer token.
    let own = as_session(&gateway, &session, "GET", "/api-keys/self/details").await.expect(200).json();
    assert!(own["expires_at"].is_string() && own["organisation"]["slug"] == "default", "{own}");
    let plain = gateway.admin().call("GET", "/configs").without("x-gateway-api-key");
    plain.header("authorization", &format!("Bearer {session}")).send().await.expect(200);
    // It may what a member may, and calls no models.
    as_session(&gateway, &session, "POST", "/configs").await.expect(403);
    as_session(&gateway, &session, "GET", "/admin/organisation").await.expect(403);
    assert_eq!(gateway.chat().key(&session).provider("mock").json(&hello()).send().await.status, 403);
    // Not for pages of others, and not beside another cookie of its name.
    let call = || gateway.admin().call("GET", "/configs").without("x-gateway-api-key");
    let cookie = format!("__Host-gateway-session={session}");
    call().header("cookie", &cookie).header("sec-fetch-site", "cross-site").send().await.expect(401);
    call().header("cookie", &format!("{cookie}; __Host-gateway-session=other")).send().await.expect(401);
    // Again: the same person.
    let users = gateway.admin().get("/admin/users").await.expect(200).json();
    assert_eq!((&users["total"], &users["data"][0]["email"]), (&json!(1), &json!("ann@example.com")));
    let mut second = Browser::of(&gateway);
    second.sign_in(&provider, "").await;
    assert_eq!(gateway.admin().get("/admin/users").await.expect(200).json()["total"], 1);
    assert_ne!(second.session(), browser.session());
    let out = as_session(&gateway, &session, "DELETE", "/api-keys/self/session").await.expect(200);
    assert_eq!(out.json()["ended"], true);
    as_session(&gateway, &session, "GET", "/configs").await.expect(401);
    as_session(&gateway, &second.session().expect("another"), "GET", "/configs").await.expect(200);
}

#[tokio::test]
async fn a_provider_may_sign_with_es256() {
    let provider = OidcProvider::start().await;
    provider.publishes(&[&CURVE, &FIRST]);
    let gateway = gateway(&provider, json!({})).await;
    provider.says(ann(json!({})));
    let sign: Vec<(u16, OidcSign)> = vec![
        (303, Box::new(|claims| CURVE.sign(claims))),
        (303, Box::new(|claims| FIRST.sign(claims))),
        // What a key is good for is its own to say.
        (401, Box::new(|claims| CURVE.sign_as(&Header { alg: Algorithm::ES256, ..FIRST.header() }, claims))),
        (401, Box::new(|claims| FIRST.sign_as(&Header { alg: Algorithm::RS256, ..CURVE.header() }, claims))),
    ];
    for (at, (status, sign)) in sign.into_iter().enumerate() {
        provider.signs(sign);
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        assert_eq!((page.status, browser.session().is_some()), (status, status == 303), "{at}: {}", page.text);
    }
}

#[tokio::test]
async fn keys_of_the_provider_change_and_the_last_good_ones_stay() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({ "trusts_unverified_emails": true })).await;
    provider.says(json!({ "email": "ann@example.com" }));
    assert_eq!(Browser::of(&gateway).sign_in(&provider, "").await.status, 303);
    let mut browser = Browser::of(&gateway);
    let asked = browser.leave("").await;
    // Its keys cannot be fetched: those that are known still count, and so does what it signed before.
    let fetched = provider.server.seen().iter().filter(|seen| seen.target == "/v1/jwks").count();
    assert_eq!(browser.open(&back(&provider.grant(&asked), &state(&asked))).await.status, 303);
    assert_eq!(
        provider.server.seen().iter().filter(|seen| seen.target == "/v1/jwks").count(),
        fetched,
        "not for each sign-in"
    );
    provider.fails(true);
    let mut waiting = Browser::of(&gateway);
    let asked = waiting.leave("").await;
    let page = waiting.open(&back(&provider.grant(&asked), &state(&asked))).await;
    assert_eq!(page.status, 503, "{}", page.text);
    // The secret of the client is told to the provider alone.
    let shown = gateway.admin().get("/admin/organisation/sign-on").await.expect(200);
    assert_eq!(shown.json()["client_secret"], "****0001");
    assert!(!shown.text().contains(CLIENT_SECRET));
    assert!(!gateway.process.output().contains(CLIENT_SECRET));
    // It signs with another key from now on, which nobody has seen yet.
    provider.fails(false);
    provider.publishes(&[&SECOND]);
    provider.signs(|claims| SECOND.sign(claims));
    eventually("the new key", || async {
        let page = Browser::of(&gateway).sign_in(&provider, "").await;
        (page.status == 303).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_is_away_is_not_asked_by_everybody() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({})).await;
    provider.fails(true);
    let since = Instant::now();
    let start = || async { Browser::of(&gateway).open("/sso/default/start").await.status };
    let statuses = futures_util::future::join_all((0..30).map(|_| start())).await;
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    let most = 2 + since.elapsed().as_secs() / 5;
    let asked = provider.server.seen().len() as u64;
    assert!(asked <= most, "asked {asked} times by 30 browsers");
    provider.fails(false);
    eventually("it is back", || async { (start().await == 303).then_some(()) }).await;
}

#[tokio::test]
async fn a_session_is_ended_and_never_changed() {
    let provider = OidcProvider::start().await;
    let roles = json!({ "role_claim": "groups", "roles": { "gw-admins": "admin" } });
    let gateway = gateway(&provider, roles).await;
    provider.says(ann(json!({ "groups": "gw-admins" })));
    let mut browser = Browser::of(&gateway);
    browser.sign_in(&provider, "").await;
    let session = browser.session().expect("a session");
    let own = as_session(&gateway, &session, "GET", "/api-keys/self/details").await.expect(200).json();
    let path = format!("/api-keys/{}", own["id"].as_str().expect("an id"));
    let admin = gateway.admin();
    let shown = admin.get(&path).await.expect(200).json();
    assert_eq!(shown["creation_mode"], "sign-on", "{shown}");
    let change = json!({ "expires_at": "2100-01-01T00:00:00Z" });
    let told = admin.put(&path, &change).await.expect(403).text();
    assert!(told.contains("session"), "{told}");
    admin.post(&format!("{path}/rotate"), &json!({})).await.expect(403);
    // It is no configuration that would be carried elsewhere.
    let carried = admin.get("/configuration").await.expect(200).text();
    assert!(!carried.contains("Session") && carried.contains("users"), "{carried}");
    // A person has ten sessions at most: the oldest ends when another begins.
    for _ in 0..10 {
        assert_eq!(Browser::of(&gateway).sign_in(&provider, "").await.status, 303);
    }
    as_session(&gateway, &session, "GET", "/configs").await.expect(401);
    admin.get(&path).await.expect(404);
    let mut last = Browser::of(&gateway);
    last.sign_in(&provider, "").await;
    let session = last.session().expect("a session");
    let own = as_session(&gateway, &session, "GET", "/api-keys/self/details").await.expect(200).json();
    admin.delete(&format!("/api-keys/{}", own["id"].as_str().expect("an id"))).await.expect(200);
    as_session(&gateway, &session, "GET", "/configs").await.expect(401);
}

/// The client is told by a key of its own: no secret is sent, each statement counts once, and the key is shown nowhere.
#[tokio::test]
async fn a_client_with_a_key_signs_in_the_place_of_a_secret() {
    for pair in [&*SECOND, &*CURVE] {
        let provider = OidcProvider::start().await;
        provider.knows_client_by(pair);
        provider.says(json!({ "email": "ann@example.com", "email_verified": true }));
        let kid = pair.public()["kid"].clone();
        let (certificate, print) = pair.certificate();
        let key = json!({ "client_secret": null, "client_private_key": pair.private(), "client_key_id": kid,
            "client_certificate": certificate });
        let gateway = gateway(&provider, key).await;
        for _ in 0..2 {
            let page = Browser::of(&gateway).sign_in(&provider, "").await;
            assert_eq!(page.status, 303, "{}", page.text);
        }
        let said = provider.asserted();
        assert!(said.len() == 2 && said[0]["jti"] != said[1]["jti"], "{said:?}");
        assert_eq!(said[0]["x5t#S256"], json!(print), "by which the provider finds the certificate");
        let admin = gateway.admin();
        let shown = admin.get("/admin/organisation/sign-on").await.expect(200);
        assert_eq!((&shown.json()["client_private_key"], &shown.json()["client_key_id"]), (&json!("****"), &kid));
        let line = pair.private().lines().nth(2).expect("a line").to_owned();
        for text in [shown.text(), gateway.process.output(), admin.get("/configuration").await.expect(200).text()] {
            assert!(!text.contains(&line), "{text}");
        }
        // What was shown is sent back as it is, and stands for what is stored.
        admin
            .put("/admin/organisation/sign-on", &json!({ "client_private_key": "****", "session_seconds": 900 }))
            .await
            .expect(200);
        assert_eq!(Browser::of(&gateway).sign_in(&provider, "").await.status, 303);
        // Another key than the provider knows is refused there, and so is the sign-in here.
        provider.knows_client_by(&FIRST);
        assert_eq!(Browser::of(&gateway).sign_in(&provider, "").await.status, 401);
        assert!(provider.asserted().len() == 3, "what is not taken does not count");
    }
}

#[tokio::test]
async fn keys_of_clients_that_cannot_be_used_are_refused_by_name() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({})).await;
    let (path, admin) = ("/admin/organisation/sign-on", gateway.admin());
    let (good, short) = (SECOND.private(), crate::harness::issuer::SHORT.private());
    for (body, told) in [
        (json!({ "client_private_key": good }), "client_private_key must not stand beside client_secret"),
        (
            json!({ "client_secret": null, "client_private_key": "nonsense" }),
            "client_private_key must be a private key",
        ),
        (
            json!({ "client_secret": null, "client_private_key": short }),
            "client_private_key must be of 2048 to 4096 bits",
        ),
        (
            json!({ "client_secret": null, "client_private_key": "x".repeat(5000) }),
            "client_private_key must be at most",
        ),
        (json!({ "client_secret": null, "client_private_key": "****" }), "client_private_key"),
        (json!({ "client_key_id": "k" }), "client_key_id is of no use without client_private_key"),
        (json!({ "client_certificate": "x" }), "client_certificate must be a certificate in PEM"),
        (
            json!({ "client_secret": null, "client_private_key": good, "client_key_id": "" }),
            "client_key_id must be of 1..255",
        ),
    ] {
        let answer = admin.put(path, &body).await.expect(400);
        assert!(answer.text().contains(told), "{told} in {}", answer.text());
        assert!(!answer.text().contains("PRIVATE KEY"), "{}", answer.text());
    }
    admin.put(path, &json!({ "client_secret": null, "client_private_key": good })).await.expect(200);
    let moved = admin.put(path, &json!({ "client_id": "another" })).await.expect(400);
    assert!(moved.text().contains("client_private_key must be given anew"), "{}", moved.text());
}
