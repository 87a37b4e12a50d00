//! Managers of secrets that play by a script: HashiCorp Vault, Azure Key Vault with its tokens, and AWS Secrets
//! Manager, as their documents have them. What they hold can change, and they can be away.

use super::reply;
use super::upstream::{Seen, Upstream};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What a manager does when it is asked.
#[derive(Clone, Debug)]
enum Mood {
    Tells(Value),
    Refuses(u16),
}

#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) upstream: Upstream,
    mood: Arc<Mutex<Mood>>,
}

impl Manager {
    async fn playing(tell: impl Fn(&Seen, &Value) -> Vec<u8> + Send + Sync + 'static, first: Value) -> Self {
        let mood = Arc::new(Mutex::new(Mood::Tells(first)));
        let now = mood.clone();
        let upstream = Upstream::replying(move |seen| match now.lock().expect("unpoisoned").clone() {
            Mood::Tells(value) => tell(seen, &value),
            Mood::Refuses(status) => reply::json(status, &json!({ "errors": [format!("no, {}", seen.text())] })),
        });
        Self { upstream: upstream.await, mood }
    }

    /// The engine of version 2 at `secret/`, and a login of each kind.
    pub(crate) async fn vault(first: Value) -> Self {
        let tell = |seen: &Seen, value: &Value| match seen.target.as_str() {
            "/v1/auth/approle/login"
                if seen.json() == json!({ "role_id": "role", "secret_id": "secret-id-canary" }) =>
            {
                login()
            }
            "/v1/auth/kubernetes/login" if seen.json() == json!({ "role": "role", "jwt": "cluster-token-canary" }) => {
                login()
            }
            _ if !matches!(seen.header("x-vault-token"), Some("vault-token-canary" | "login-token")) => {
                reply::json(403, &json!({ "errors": ["permission denied"] }))
            }
            "/v1/secret/data/team/openai" => {
                let metadata = json!({ "version": 3, "destroyed": false });
                reply::json(200, &json!({ "lease_id": "", "data": { "data": value, "metadata": metadata } }))
            }
            "/v1/kv/openai" => reply::json(200, &json!({ "lease_duration": 2_764_800, "data": value })),
            _ => reply::json(404, &json!({ "errors": [] })),
        };
        Self::playing(tell, first).await
    }

    /// One secret, `openai`; tokens are asked of [`super::upstream::Upstream`]s of their own.
    pub(crate) async fn azure(first: Value) -> Self {
        let tell = |seen: &Seen, value: &Value| {
            if seen.header("authorization") != Some("Bearer t1") {
                return reply::json(401, &json!({ "error": { "code": "Unauthorized", "message": "canary" } }));
            }
            match seen.target.as_str() {
                "/secrets/openai?api-version=7.4" => {
                    reply::json(200, &json!({ "value": value, "id": "https://v/secrets/openai/1" }))
                }
                _ => reply::json(404, &json!({ "error": { "code": "SecretNotFound", "message": "canary" } })),
            }
        };
        Self::playing(tell, first).await
    }

    /// One secret, `prod/openai`, for whoever signs.
    pub(crate) async fn aws(first: Value) -> Self {
        let tell = |seen: &Seen, value: &Value| {
            let signed = seen.header("authorization").unwrap_or_default();
            // Keys of a role come with a token, which is signed too.
            let covered = match seen.header("x-amz-security-token") {
                None => "SignedHeaders=content-type;host;x-amz-date;x-amz-target",
                Some(_) => "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
            };
            let mine = signed.contains("/us-east-1/secretsmanager/aws4_request") && signed.contains(covered);
            let refused = |kind: &str| reply::json(400, &json!({ "__type": kind, "Message": "canary" }));
            if !mine || seen.header("x-amz-target") != Some("secretsmanager.GetSecretValue") {
                return refused("com.amazon.coral.service#InvalidSignatureException");
            }
            match seen.json()["SecretId"].as_str() {
                Some("prod/openai") => {
                    reply::json(200, &json!({ "Name": "prod/openai", "SecretString": value.to_string() }))
                }
                _ => refused("ResourceNotFoundException"),
            }
        };
        Self::playing(tell, first).await
    }

    /// Lets it hold this from now on.
    pub(crate) fn holds(&self, value: Value) {
        *self.mood.lock().expect("unpoisoned") = Mood::Tells(value);
    }

    /// Lets it answer nothing but this from now on, and say again what it was sent.
    pub(crate) fn refuses(&self, status: u16) {
        *self.mood.lock().expect("unpoisoned") = Mood::Refuses(status);
    }

    /// Its address, without a path.
    pub(crate) fn url(&self) -> String {
        self.upstream.url().trim_end_matches("/v1").to_owned()
    }

    /// How often it was asked for what stands there.
    pub(crate) fn asked(&self, target: &str) -> usize {
        self.upstream.seen().iter().filter(|seen| seen.target == target).count()
    }
}

fn login() -> Vec<u8> {
    reply::json(200, &json!({ "auth": { "client_token": "login-token", "lease_duration": 3600, "renewable": true } }))
}
