//! A client that signs somebody in at the gateway itself, and the browser that goes along: each step by itself, so that
//! a test can do it wrong.

use crate::harness::{Answer, Gateway};
use crate::mcp_script::{Script, Served, initialize};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const PUBLIC: &str = "https://ai.example.com/gw";
pub(crate) const BACK: &str = "https://app.example.com/cb";
pub(crate) const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters-0001";

/// The parameters of a request for authorisation, or of a form.
pub(crate) type Pairs = Vec<(String, String)>;

pub(crate) fn pairs(all: &[(&str, &str)]) -> Pairs {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The pairs with other values for some names; an empty value takes the name out.
pub(crate) fn but(mut all: Pairs, others: &[(&str, &str)]) -> Pairs {
    for (name, value) in others {
        all.retain(|(known, _)| known != name);
        if !value.is_empty() {
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    all
}

pub(crate) fn encoded(all: &Pairs) -> String {
    let mut url = reqwest::Url::parse("http://x/").expect("a URL");
    url.query_pairs_mut().extend_pairs(all);
    url.query().unwrap_or_default().to_owned()
}

pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// A gateway that signs people in, with `files`, and Ann, who has a key that may call it.
pub(crate) struct SignedIn {
    pub(crate) served: Served,
    pub(crate) ann: String,
    pub(crate) key: String,
}

pub(crate) async fn signing_in(flags: &[&str]) -> SignedIn {
    let flags = [&["--public-url", PUBLIC], flags].concat();
    let served = Served::with(Script::default(), &flags).await;
    let (ann, key) = person(&served.gateway, "ann@example.com").await;
    SignedIn { served, ann, key }
}

/// Somebody with a seat in the default workspace, and a key of theirs.
pub(crate) async fn person(gateway: &Gateway, email: &str) -> (String, String) {
    person_who_may(gateway, email, &["mcp.invoke", "completions.write"]).await
}

/// Somebody with a seat in the default workspace, and a key of theirs with these scopes.
pub(crate) async fn person_who_may(gateway: &Gateway, email: &str, scopes: &[&str]) -> (String, String) {
    let invite = json!({"email": email, "role": "member", "workspaces": [{"id": "default", "role": "member"}],
        "workspace_api_key_details": {"scopes": scopes}});
    let made = gateway.admin().post("/admin/users/invites", &invite).await.expect(200).json();
    let token = made["invite_link"].as_str().expect("a link").split_once('#').expect("a token").1.to_owned();
    let accept = json!({"token": token, "first_name": "Ann", "last_name": "Lee"});
    let user = gateway.admin().call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let user = user.expect(200).json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    (text(&user["id"]), text(&user["api_keys"][0]["key"]))
}

/// A browser that keeps cookies, and follows nothing by itself.
pub(crate) struct PageBrowser<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) cookies: Vec<(String, String)>,
    /// The address that a proxy in front says it comes from.
    pub(crate) from: Option<String>,
}

impl<'g> PageBrowser<'g> {
    pub(crate) const fn of(gateway: &'g Gateway) -> Self {
        Self { gateway, cookies: Vec::new(), from: None }
    }

    fn held(&self) -> String {
        self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    fn keep(&mut self, answer: &Answer) {
        for cookie in answer.headers.get_all("set-cookie") {
            let cookie = cookie.to_str().expect("text");
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value").to_owned();
            self.cookies.retain(|(known, _)| known != name);
            if !cookie.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value));
            }
        }
    }

    pub(crate) async fn open(&mut self, path: &str) -> Answer {
        let mut call = self.gateway.get(path).without("x-gateway-api-key");
        if !self.cookies.is_empty() {
            call = call.header("cookie", &self.held());
        }
        let answer = call.send().await;
        self.keep(&answer);
        answer
    }

    pub(crate) async fn authorize(&mut self, asked: &Pairs) -> Answer {
        self.open(&format!("/oauth/authorize?{}", encoded(asked))).await
    }

    /// Presses a button of a page.
    pub(crate) async fn press(&mut self, page: &Answer, more: &[(&str, &str)]) -> Answer {
        let form = but(pairs(&[("ticket", &field(page, "ticket"))]), more);
        self.send("/oauth/authorize", &form).await
    }

    /// Sends a form of a page of ours.
    pub(crate) async fn send(&mut self, path: &str, form: &Pairs) -> Answer {
        let mut call = self.gateway.call("POST", path).without("x-gateway-api-key");
        if let Some(from) = &self.from {
            call = call.header("x-forwarded-for", from);
        }
        call = call.header("cookie", &self.held()).header("sec-fetch-site", "same-origin");
        let answer = call.body("application/x-www-form-urlencoded", encoded(form)).send().await;
        self.keep(&answer);
        answer
    }

    /// All the way to the client: what it is told.
    pub(crate) async fn allow(&mut self, asked: &Pairs, key: &str) -> Pairs {
        let page = self.authorize(asked).await.expect(200);
        let page = self.press(&page, &[("step", "key"), ("key", key)]).await.expect(200);
        let workspace = field(&page, "workspace");
        let left = self.press(&page, &[("step", "allow"), ("workspace", &workspace)]).await;
        redirect_params(&left)
    }
}

/// The value of a hidden field of a page.
pub(crate) fn field(page: &Answer, name: &str) -> String {
    let text = page.text();
    let at = text.find(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("no {name}: {text}"));
    let rest = text[at..].split_once("value=\"").expect("a value").1.to_owned();
    rest.split('"').next().expect("an end").to_owned()
}

/// What a browser brings to the client.
pub(crate) fn redirect_params(left: &Answer) -> Pairs {
    assert_eq!(left.status, 303, "{}", left.text());
    let location = left.header("location").expect("a place");
    let url = reqwest::Url::parse(location).expect("a URL");
    url.query_pairs().into_owned().collect()
}

pub(crate) fn get<'p>(all: &'p Pairs, name: &str) -> &'p str {
    all.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

impl SignedIn {
    /// A client that registers by itself: its name.
    pub(crate) async fn register(&self, redirect: &str) -> String {
        let body =
            json!({"client_name": "Inspector", "redirect_uris": [redirect], "token_endpoint_auth_method": "none"});
        let call = self.served.gateway.call("POST", "/oauth/register").without("x-gateway-api-key").json(&body);
        call.send().await.expect(201).json()["client_id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn asked(&self, client: &str) -> Pairs {
        pairs(&[
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", BACK),
            ("code_challenge", &challenge(VERIFIER)),
            ("code_challenge_method", "S256"),
            ("resource", &format!("{PUBLIC}/files/mcp")),
            ("scope", "mcp"),
            ("state", "state-1"),
        ])
    }

    pub(crate) async fn form(&self, path: &str, form: &Pairs) -> Answer {
        let call = self.served.gateway.call("POST", path).without("x-gateway-api-key");
        call.body("application/x-www-form-urlencoded", encoded(form)).send().await
    }

    pub(crate) fn exchange(&self, client: &str, code: &str) -> Pairs {
        pairs(&[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", BACK),
            ("code_verifier", VERIFIER),
            ("resource", &format!("{PUBLIC}/files/mcp")),
        ])
    }

    pub(crate) fn refreshing(&self, client: &str, token: &str) -> Pairs {
        pairs(&[("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)])
    }

    /// A fresh code for a client.
    pub(crate) async fn code(&self, client: &str) -> String {
        let told = PageBrowser::of(&self.served.gateway).allow(&self.asked(client), &self.key).await;
        get(&told, "code").to_owned()
    }

    /// All the way: the answer with the tokens.
    pub(crate) async fn tokens(&self, client: &str, scope: &str) -> Value {
        let asked = but(self.asked(client), &[("scope", scope)]);
        let told = PageBrowser::of(&self.served.gateway).allow(&asked, &self.key).await;
        self.form("/oauth/token", &self.exchange(client, get(&told, "code"))).await.expect(200).json()
    }

    pub(crate) async fn call(&self, path: &str, token: &str, body: &Value) -> Answer {
        let call = self.served.gateway.call("POST", path).without("x-gateway-api-key").json(body);
        let call = call.header("authorization", &format!("Bearer {token}"));
        call.header("accept", "application/json, text/event-stream").send().await
    }

    pub(crate) async fn opens(&self, token: &str) -> u16 {
        self.call("/files/mcp", token, &initialize("2025-06-18")).await.status
    }
}

/// The access token of an answer.
pub(crate) fn access(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap_or_else(|| panic!("no token: {tokens}"))
}

pub(crate) fn refresh(tokens: &Value) -> &str {
    tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("no token: {tokens}"))
}

/// What a token claims.
pub(crate) fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("claims");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}
