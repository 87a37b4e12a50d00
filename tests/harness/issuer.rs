//! An issuer of tokens: RSA keys made on the spot, a key set served over HTTP, tokens signed at will.

use super::reply;
use super::upstream::Upstream;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// One key pair, named in its set.
#[derive(Debug)]
pub(crate) struct Pair {
    kid: &'static str,
    pem: Vec<u8>,
    public: PairNumbers,
}

/// The numbers of a public key, in the base64 of URLs.
#[derive(Debug)]
enum PairNumbers {
    Modulus(String),
    Point { x: String, y: String },
}

impl Pair {
    fn make(kid: &'static str, bits: u32) -> Self {
        let pem = openssl(&["genrsa", &bits.to_string()], b"");
        let told = String::from_utf8(openssl(&["rsa", "-noout", "-modulus"], &pem)).expect("text");
        let hex = told.trim().strip_prefix("Modulus=").expect("a modulus");
        let bytes = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex"));
        let modulus = URL_SAFE_NO_PAD.encode(bytes.collect::<Vec<u8>>());
        Self { kid, pem, public: PairNumbers::Modulus(modulus) }
    }

    /// Makes a pair on the curve P-256.
    fn on_curve(kid: &'static str) -> Self {
        let pem = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], b"");
        let told = openssl(&["pkey", "-pubout", "-outform", "DER"], &pem);
        // The uncompressed point is the end of it (RFC 5480, 2.2).
        let (x, y) = told[told.len() - 64..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        Self { kid, pem, public: PairNumbers::Point { x, y } }
    }

    pub(crate) fn public(&self) -> Value {
        match &self.public {
            PairNumbers::Modulus(n) => {
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": n, "e": "AQAB" })
            }
            PairNumbers::Point { x, y } => {
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid, "x": x, "y": y })
            }
        }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    /// The private half, as an admin has it in a file.
    pub(crate) fn private(&self) -> String {
        String::from_utf8(self.pem.clone()).expect("text")
    }

    /// A certificate of it, in PEM, and the SHA-256 of its bytes as headers have that.
    pub(crate) fn certificate(&self) -> (String, String) {
        let made =
            openssl(&["req", "-x509", "-new", "-key", "/dev/stdin", "-subj", "/CN=gateway", "-days", "2"], &self.pem);
        let bytes = openssl(&["x509", "-outform", "DER"], &made);
        (String::from_utf8(made).expect("text"), URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)))
    }

    /// What a token says that this pair has signed, and named itself in.
    pub(crate) fn verified(&self, token: &str) -> Option<Value> {
        let key = match &self.public {
            PairNumbers::Modulus(n) => DecodingKey::from_rsa_components(n, "AQAB"),
            PairNumbers::Point { x, y } => DecodingKey::from_ec_components(x, y),
        };
        let header = self.header();
        let mut rules = Validation::new(header.alg);
        rules.validate_aud = false;
        let read = decode::<Value>(token, &key.expect("a public key"), &rules).ok()?;
        (read.header.kid == header.kid).then_some(read.claims)
    }

    pub(crate) fn header(&self) -> Header {
        let algorithm = match self.public {
            PairNumbers::Modulus(_) => Algorithm::RS256,
            PairNumbers::Point { .. } => Algorithm::ES256,
        };
        Header { kid: Some(self.kid.to_owned()), ..Header::new(algorithm) }
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        let key = match self.public {
            PairNumbers::Modulus(_) => EncodingKey::from_rsa_pem(&self.pem).expect("an RSA key"),
            PairNumbers::Point { .. } => EncodingKey::from_ec_pem(&self.pem).expect("a key on P-256"),
        };
        encode(header, claims, &key).expect("a token")
    }
}

fn openssl(args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("openssl is installed");
    child.stdin.take().expect("piped").write_all(input).expect("openssl reads");
    let done = child.wait_with_output().expect("openssl ends");
    assert!(done.status.success(), "openssl {args:?}");
    done.stdout
}

/// Made once for all tests: making them is slow.
pub(crate) static FIRST: LazyLock<Pair> = LazyLock::new(|| Pair::make("first", 2048));
pub(crate) static SECOND: LazyLock<Pair> = LazyLock::new(|| Pair::make("second", 2048));
pub(crate) static CURVE: LazyLock<Pair> = LazyLock::new(|| Pair::on_curve("curve"));
pub(crate) static SHORT: LazyLock<Pair> = LazyLock::new(|| Pair::make("short", 1024));

/// Publishes a key set that a test may change.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) server: Upstream,
    set: Arc<Mutex<Vec<u8>>>,
}

impl Issuer {
    pub(crate) async fn publishing(pairs: &[&Pair]) -> Self {
        let set = Arc::new(Mutex::new(published(pairs)));
        let served = set.clone();
        let server = Upstream::replying(move |_| served.lock().expect("no panic").clone()).await;
        Self { server, set }
    }

    pub(crate) fn publish(&self, pairs: &[&Pair]) {
        *self.set.lock().expect("no panic") = published(pairs);
    }

    pub(crate) fn fail(&self) {
        *self.set.lock().expect("no panic") = reply::json(500, &json!({}));
    }

    pub(crate) fn uri(&self) -> String {
        format!("{}/jwks", self.server.url())
    }
}

fn published(pairs: &[&Pair]) -> Vec<u8> {
    let keys: Vec<Value> = pairs.iter().map(|p| p.public()).collect();
    reply::json(200, &json!({ "keys": keys }))
}

/// Seconds since 1970, `ahead` of now.
pub(crate) fn in_seconds(ahead: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    i64::try_from(now).expect("in range") + ahead
}
