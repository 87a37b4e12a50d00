//! An OpenID provider that a test scripts: discovery, keys, and a token endpoint that holds to PKCE, gives each code
//! once, and signs with real keys. What it says of people, and what it gets wrong, is up to the test.

use super::issuer::{FIRST, Pair, in_seconds};
use super::reply;
use super::upstream::{Seen, Upstream};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub(crate) const CLIENT: &str = "gateway-client";
pub(crate) const CLIENT_SECRET: &str = "client-secret-canary-0001";

/// What it was asked for when a browser came.
#[derive(Clone, Debug)]
struct Granted {
    challenge: String,
    redirect: String,
    token: String,
}

pub(crate) type OidcSign = Box<dyn Fn(&Value) -> String + Send + Sync>;

struct OidcScript {
    /// Claims beside or in place of those that every token has; null takes one of those away.
    claims: Value,
    sign: OidcSign,
    codes: HashMap<String, Granted>,
    given: u32,
    keys: Vec<Value>,
    down: bool,
    /// The key whose statements it takes in the place of a secret (RFC 7523), and what they said.
    client_key: Option<&'static Pair>,
    asserted: Vec<Value>,
}

pub(crate) struct OidcProvider {
    pub(crate) server: Upstream,
    script: Arc<Mutex<OidcScript>>,
}

impl OidcProvider {
    pub(crate) async fn start() -> Self {
        let script = OidcScript {
            claims: json!({}),
            sign: Box::new(|claims| FIRST.sign(claims)),
            codes: HashMap::new(),
            given: 0,
            keys: vec![FIRST.public()],
            down: false,
            client_key: None,
            asserted: Vec::new(),
        };
        let script = Arc::new(Mutex::new(script));
        let served = script.clone();
        let server = Upstream::replying(move |seen| served.lock().expect("no panic").answer(seen)).await;
        Self { server, script }
    }

    /// What it says of whoever signs in next.
    pub(crate) fn says(&self, claims: Value) {
        self.script.lock().expect("no panic").claims = claims;
    }

    /// How it signs from now on.
    pub(crate) fn signs(&self, sign: impl Fn(&Value) -> String + Send + Sync + 'static) {
        self.script.lock().expect("no panic").sign = Box::new(sign);
    }

    pub(crate) fn publishes(&self, pairs: &[&Pair]) {
        self.script.lock().expect("no panic").keys = pairs.iter().map(|pair| pair.public()).collect();
    }

    /// From now on the client is known by this key, and by no secret.
    pub(crate) fn knows_client_by(&self, pair: &'static Pair) {
        self.script.lock().expect("no panic").client_key = Some(pair);
    }

    /// The claims of the statements that it took.
    pub(crate) fn asserted(&self) -> Vec<Value> {
        self.script.lock().expect("no panic").asserted.clone()
    }

    pub(crate) fn fails(&self, down: bool) {
        self.script.lock().expect("no panic").down = down;
    }

    /// Lets a browser in that came by this address; the code that it is sent back with.
    pub(crate) fn grant(&self, asked: &reqwest::Url) -> String {
        let pairs: HashMap<String, String> = asked.query_pairs().into_owned().collect();
        assert_eq!((&*pairs["response_type"], &*pairs["client_id"]), ("code", CLIENT));
        assert_eq!(pairs["code_challenge_method"], "S256");
        let mut script = self.script.lock().expect("no panic");
        let mut claims = json!({
            "iss": self.server.url(), "aud": CLIENT, "sub": "subject-1", "iat": in_seconds(0), "exp": in_seconds(300),
            "nonce": pairs["nonce"],
        });
        let said = script.claims.as_object().expect("claims").clone();
        for (name, value) in said {
            if value.is_null() {
                claims.as_object_mut().expect("claims").shift_remove(&name)
            } else {
                claims.as_object_mut().expect("claims").insert(name, value)
            };
        }
        script.given += 1;
        let (code, token) = (format!("code-{}", script.given), (script.sign)(&claims));
        let (challenge, redirect) = (pairs["code_challenge"].clone(), pairs["redirect_uri"].clone());
        script.codes.insert(code.clone(), Granted { challenge, redirect, token });
        code
    }
}

impl OidcScript {
    fn answer(&mut self, seen: &Seen) -> Vec<u8> {
        let host = seen.header("host").unwrap_or_default();
        // The address that `Upstream::url` gives.
        let base = format!("http://{host}/v1");
        if self.down {
            return reply::json(503, &json!({}));
        }
        match seen.target.as_str() {
            "/v1/.well-known/openid-configuration" => reply::json(
                200,
                &json!({
                    "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"), "jwks_uri": format!("{base}/jwks"),
                    "response_types_supported": ["code"], "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                }),
            ),
            "/v1/jwks" => reply::json(200, &json!({ "keys": self.keys })),
            "/v1/token" => self.exchange(seen),
            other => reply::json(404, &json!({ "path": other })),
        }
    }

    /// What it is to hold (RFC 7523, 3): one statement of the client about itself, for this very place, good once and
    /// now.
    fn takes(&mut self, pair: &Pair, form: &HashMap<String, String>, seen: &Seen) -> bool {
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let Some(mut claims) = pair.verified(field("client_assertion")) else { return false };
        let header = jsonwebtoken::decode_header(field("client_assertion")).expect("read before");
        claims["x5t#S256"] = json!(header.x5t_s256);
        let there = format!("http://{}/v1/token", seen.header("host").unwrap_or_default());
        let end = claims["exp"].as_i64().unwrap_or_default();
        let good = field("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            && field("client_id") == CLIENT
            && claims["iss"] == CLIENT
            && claims["sub"] == CLIENT
            && claims["aud"] == *there
            && (in_seconds(1)..=in_seconds(300)).contains(&end)
            && claims["jti"].is_string()
            && self.asserted.iter().all(|before| before["jti"] != claims["jti"]);
        if good {
            self.asserted.push(claims);
        }
        good
    }

    fn exchange(&mut self, seen: &Seen) -> Vec<u8> {
        let url = format!("http://form/?{}", seen.text());
        let form = reqwest::Url::parse(&url).expect("a form");
        let form: HashMap<String, String> = form.query_pairs().into_owned().collect();
        let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{CLIENT_SECRET}")));
        let known = match self.client_key {
            None => seen.header("authorization") == Some(&*basic),
            Some(pair) => seen.header("authorization").is_none() && self.takes(pair, &form, seen),
        };
        if !known {
            return reply::json(401, &json!({ "error": "invalid_client" }));
        }
        // A code is good once (RFC 6749, 4.1.2), and for whoever asked for it (RFC 7636, 4.6).
        let granted = self.codes.remove(&form["code"]);
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
        match granted {
            Some(granted) if granted.challenge == proof && granted.redirect == form["redirect_uri"] => {
                reply::json(200, &json!({ "access_token": "a", "token_type": "Bearer", "id_token": granted.token }))
            }
            _ => reply::json(400, &json!({ "error": "invalid_grant" })),
        }
    }
}
