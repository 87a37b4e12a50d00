//! Sign-on of people at a provider of OpenID Connect: real sockets, real signatures, and everything that an attacker may try.

use crate::harness::issuer::{CURVE, FIRST, SECOND, in_seconds};
use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider, OidcSign};
use crate::harness::{Answer, Gateway, eventually, hello, with};
use crate::turned_away::{count, lines, rows};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_testing::Postgres;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use std::time::Instant;

const PUBLIC: &str = "https://gateway.example.com";

/// A browser: it keeps cookies, and follows nothing by itself.
pub(crate) struct Browser<'g> {
    gateway: &'g Gateway,
    client: reqwest::Client,
    cookies: Vec<(String, String)>,
}

pub(crate) struct BrowserPage {
    pub(crate) status: u16,
    location: Option<String>,
    cookies: Vec<String>,
    pub(crate) text: String,
}

impl<'g> Browser<'g> {
    pub(crate) fn of(gateway: &'g Gateway) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { gateway, client, cookies: Vec::new() }
    }

    async fn open(&mut self, path: &str) -> BrowserPage {
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

    /// To the provider: where it is sent, taken apart.
    async fn leave(&mut self, query: &str) -> reqwest::Url {
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
    async fn sign_in(&mut self, provider: &OidcProvider, query: &str) -> BrowserPage {
        self.sign_in_at("default", provider, query).await
    }

    pub(crate) async fn sign_in_at(&mut self, org: &str, provider: &OidcProvider, query: &str) -> BrowserPage {
        let asked = self.leave_for(org, query).await;
        let code = provider.grant(&asked);
        self.open(&back(&code, &state(&asked))).await
    }
}

fn state(asked: &reqwest::Url) -> String {
    asked.query_pairs().find(|(name, _)| name == "state").expect("a state").1.into_owned()
}

fn back(code: &str, state: &str) -> String {
    format!("/sso/callback?code={code}&state={state}")
}

async fn gateway(provider: &OidcProvider, fields: Value) -> Gateway {
    let gateway = Gateway::with(&["--public-url", PUBLIC]).await;
    let body = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "makes_users": true, "new_user_role": "member" });
    gateway.admin().put("/admin/organisation/sign-on", &with(body, fields)).await.expect(200);
    gateway
}

fn ann(more: Value) -> Value {
    with(json!({ "email": "ann@example.com", "email_verified": true, "given_name": "Ann", "family_name": "Lee" }), more)
}

async fn as_session(gateway: &Gateway, session: &str, method: &str, path: &str) -> Answer {
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
    // By cookie, and as a bearer token.
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
    // With a ticket of its own the state does not fit.
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
    // The same ticket once more, with the code that was used, and with a fresh one.
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
async fn people_are_linked_and_made_as_the_settings_say() {
    let provider = OidcProvider::start().await;
    let roles = json!({ "role_claim": "groups", "roles": { "gw-admins": "admin", "gw-users": "member" },
        "email_domains": ["example.com"] });
    let gateway = gateway(&provider, roles).await;
    let admin = gateway.admin();
    let sign_in = async |claims: Value| {
        provider.says(claims);
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        (page.status, browser.session())
    };
    // An address that nobody vouches for, and one of elsewhere.
    assert_eq!(sign_in(ann(json!({ "email_verified": false }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "email_verified": null }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "email": "ann@evil.example" }))).await.0, 403);
    assert_eq!(sign_in(ann(json!({ "groups": ["gw-admins", "other"] }))).await.0, 303);
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!((&user["role"], &user["first_name"]), (&json!("admin"), &json!("Ann")));
    // Known by the provider's name from now on: a changed address is the same person, whoever has the old one is not.
    assert_eq!(sign_in(ann(json!({ "email": "lee@example.com", "groups": ["gw-users"] }))).await.0, 303);
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!(
        (&user["role"], admin.get("/admin/users").await.expect(200).json()["total"].clone()),
        (&json!("member"), json!(1))
    );
    assert_eq!(sign_in(ann(json!({ "sub": "subject-2" }))).await.0, 403);
    // Switched off by a directory: no session begins, and those that were there open nothing.
    let (_, session) = sign_in(ann(json!({}))).await;
    let session = session.expect("a session");
    as_session(&gateway, &session, "GET", "/configs").await.expect(200);
    let off = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    let path = format!("/scim/Users/{}", user["id"].as_str().expect("an id"));
    admin.call("PATCH", &path).json(&off).send().await.expect(200);
    as_session(&gateway, &session, "GET", "/configs").await.expect(401);
    assert_eq!(sign_in(ann(json!({}))).await.0, 403);
    // Where nobody is made, only those who are there come in.
    admin.put("/admin/organisation/sign-on", &json!({ "makes_users": false, "new_user_role": null })).await.expect(200);
    let bob = json!({ "sub": "subject-3", "email": "bob@example.com", "email_verified": true });
    assert_eq!(sign_in(bob).await.0, 403);
    assert_eq!(admin.get("/admin/users").await.expect(200).json()["total"], 1);
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
    // Of ten the oldest ends when another begins.
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

#[tokio::test]
async fn seats_follow_the_claims() {
    let provider = OidcProvider::start().await;
    let gateway = gateway(&provider, json!({ "new_user_role": null })).await;
    let admin = gateway.admin();
    for name in ["Red", "Blue", "Green"] {
        admin.post("/admin/workspaces", &json!({ "name": name, "slug": name.to_lowercase() })).await.expect(200);
    }
    let seats = json!([
        { "value": "reds", "workspace_id": "red", "role": "member" },
        { "value": "leads", "workspace_id": "red", "role": "manager" },
        { "value": "blues", "workspace_id": "blue", "role": "member" },
    ]);
    let sign_on = "/admin/organisation/sign-on";
    let wrong = json!({ "role_claim": "groups", "workspace_roles": [{ "value": "x", "workspace_id": "none", "role": "member" }] });
    let told = admin.put(sign_on, &wrong).await.expect(400).text();
    assert!(told.contains("workspace_roles[0].workspace_id"), "{told}");
    let told = admin.put(sign_on, &json!({ "workspace_roles": seats })).await.expect(400).text();
    assert!(told.contains("role_claim"), "{told}");
    admin.put(sign_on, &json!({ "role_claim": "groups", "workspace_roles": seats })).await.expect(200);
    let enter = async |groups: Value| {
        provider.says(ann(json!({ "groups": groups })));
        let mut browser = Browser::of(&gateway);
        let page = browser.sign_in(&provider, "").await;
        (page.status, browser.session())
    };
    let seat = async |workspace: &str| {
        let all = admin.get(&format!("/admin/workspaces/{workspace}/users")).await.expect(200).json();
        all["data"].as_array().expect("seats").first().map_or(Value::Null, |seat| seat["role"].clone())
    };
    assert_eq!(enter(json!([])).await.0, 403, "no seat anywhere");
    let (status, session) = enter(json!(["reds", "leads", "blues"])).await;
    assert_eq!((status, seat("red").await, seat("blue").await), (303, json!("manager"), json!("member")));
    let user = admin.get("/admin/users/ann@example.com").await.expect(200).json();
    assert_eq!(user["role"], "member", "claims say nothing of the organisation");
    let user = user["id"].as_str().expect("an id").to_owned();
    let body = json!({ "name": "k", "scopes": ["configs.list"], "workspace_id": "red", "user_id": user });
    let made = admin.post("/api-keys/workspace/user", &body).await.expect(200).json();
    let key = made["key"].as_str().expect("a key").to_owned();
    admin.with_key(&key).get("/configs").await.expect(200);
    // Less is said the next time: role, seat and what hung on it follow.
    assert_eq!(enter(json!(["reds", "blues"])).await.0, 303);
    assert_eq!(seat("red").await, "member");
    assert_eq!(enter(json!(["blues"])).await.0, 303);
    assert_eq!((seat("red").await, seat("blue").await), (Value::Null, json!("member")));
    admin.with_key(&key).get("/configs").await.expect(401);
    let _ = session;
    // What somebody gave by hand is theirs.
    let by_hand = json!({ "users": [{ "id": user, "role": "admin" }] });
    admin.post("/admin/workspaces/green/users", &by_hand).await.expect(200);
    admin.put(&format!("/admin/workspaces/blue/users/{user}"), &json!({ "role": "admin" })).await.expect(200);
    assert_eq!(enter(json!(["reds"])).await.0, 303);
    assert_eq!((seat("green").await, seat("blue").await), (json!("admin"), json!("admin")));
    // A group gives what the claims give no more.
    let group = json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Reds",
        "members": [{ "value": user }] });
    admin.post("/scim/Groups", &group).await.expect(201);
    let mapping = json!({ "workspace_id": "red", "scim_group_name": "reds", "role": "manager" });
    admin.post("/scim/workspaces", &mapping).await.expect(200);
    assert_eq!(seat("red").await, "member", "it was there already");
    assert_eq!(enter(json!([])).await.0, 303);
    assert_eq!(seat("red").await, "manager");
}

#[tokio::test]
async fn an_organisation_moves_to_another_provider() {
    let (old, new) = (OidcProvider::start().await, OidcProvider::start().await);
    let gateway = gateway(&old, json!({})).await;
    let admin = gateway.admin();
    old.says(ann(json!({})));
    assert_eq!(Browser::of(&gateway).sign_in(&old, "").await.status, 303);
    let mut late = Browser::of(&gateway);
    let asked = late.leave("").await;
    // The secret is for the one whom it was given for, and goes to nobody else.
    let issuer = json!({ "issuer": new.server.url() });
    let sign_on = "/admin/organisation/sign-on";
    for masked in [json!({}), json!({ "client_secret": "****0001" })] {
        let told = admin.put(sign_on, &with(issuer.clone(), masked)).await.expect(400).text();
        assert!(told.contains("client_secret"), "{told}");
    }
    admin.put(sign_on, &with(issuer, json!({ "client_secret": CLIENT_SECRET }))).await.expect(200);
    assert_eq!(late.open(&back(&old.grant(&asked), &state(&asked))).await.status, 401);
    // The same person by address, under another name; whoever else brings that address is not.
    new.says(ann(json!({ "sub": "another-name" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 303);
    assert_eq!(admin.get("/admin/users").await.expect(200).json()["total"], 1);
    new.says(ann(json!({ "sub": "somebody-else" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 403);
    // Domains hold those who are known too.
    admin.put(sign_on, &json!({ "email_domains": ["example.org"] })).await.expect(200);
    new.says(ann(json!({ "sub": "another-name" })));
    assert_eq!(Browser::of(&gateway).sign_in(&new, "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_switched_off_is_signed_out_on_every_node() {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("signed_out"))).await;
    let (_postgres, url) = made.expect("no panic");
    let provider = OidcProvider::start().await;
    let one = Gateway::with(&["--database-url", &url, "--public-url", PUBLIC]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key, "--public-url", PUBLIC]).await;
    let body = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "makes_users": true, "new_user_role": "member" });
    one.admin().put("/admin/organisation/sign-on", &body).await.expect(200);
    eventually("the settings", || async {
        let status = Browser::of(&two).open("/sso/default/start").await.status;
        (status == 303).then_some(())
    })
    .await;
    provider.says(ann(json!({})));
    // Begun on one node, ended on the other.
    let mut browser = Browser::of(&one);
    let asked = browser.leave("").await;
    let (code, state) = (provider.grant(&asked), state(&asked));
    let mut there = Browser::of(&two);
    there.cookies.clone_from(&browser.cookies);
    assert_eq!(there.open(&back(&code, &state)).await.status, 303);
    let session = there.session().expect("a session");
    as_session(&two, &session, "GET", "/configs").await.expect(200);
    let status = async |node: &Gateway| as_session(node, &session, "GET", "/configs").await.status;
    eventually("the session", || async { (status(&one).await == 200).then_some(()) }).await;
    // An answer that one node took is taken nowhere else.
    assert_eq!(browser.open(&back(&provider.grant(&asked), &state)).await.status, 401);
    let user = one.admin().get("/admin/users/ann@example.com").await.expect(200).json();
    let off = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    let path = format!("/scim/Users/{}", user["id"].as_str().expect("an id"));
    one.admin().call("PATCH", &path).json(&off).send().await.expect(200);
    assert_eq!(status(&one).await, 401);
    eventually("the other node", || async { (status(&two).await == 401).then_some(()) }).await;
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
