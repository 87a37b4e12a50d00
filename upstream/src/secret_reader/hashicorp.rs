//! HashiCorp Vault and what speaks as it does: the key/value engine in both versions
//! (<https://developer.hashicorp.com/vault/api-docs/secret/kv>), signed in to by token, AppRole or a cluster's token.
//! What a login gives is kept until two thirds of its life are over, so that a vault does not fill with leases of ours.

use super::{SecretReader, Unread, json, refusal};
use crate::outbound::{OutboundAnswer, send};
use gateway_domain::Secret;
use gateway_domain::secret_source::{HashiCorp, VaultLogin};
use http::{HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Logins that are kept; all are dropped when there are more.
const MOST_LOGINS: usize = 1024;
/// How long a login holds that does not say so.
const UNSAID: Duration = Duration::from_secs(60);
const LONGEST: u64 = 86_400;

struct VaultToken {
    token: Secret<String>,
    until: Instant,
}

#[derive(Default)]
pub(super) struct VaultTokens(Mutex<HashMap<[u8; 32], VaultToken>>);

impl VaultTokens {
    fn get(&self, id: &[u8; 32]) -> Option<Secret<String>> {
        let held = self.0.lock();
        held.get(id).filter(|kept| kept.until > Instant::now()).map(|kept| kept.token.clone())
    }

    fn keep(&self, id: [u8; 32], token: VaultToken) {
        let mut held = self.0.lock();
        if held.len() >= MOST_LOGINS {
            held.clear();
        }
        held.insert(id, token);
    }

    fn forget(&self, id: &[u8; 32]) {
        self.0.lock().remove(id);
    }
}

pub(super) async fn read(reader: &SecretReader, vault: &HashiCorp) -> Result<String, Unread> {
    let login = vault.login_id();
    let known = login.and_then(|id| reader.vault_tokens.get(&id));
    let was_kept = known.is_some();
    let mut answer = ask(reader, vault, &token(reader, vault, known).await?).await?;
    if let Some(id) = login.filter(|_| answer.status == 403 && was_kept) {
        // It may have been taken back before its time.
        reader.vault_tokens.forget(&id);
        answer = ask(reader, vault, &token(reader, vault, None).await?).await?;
    }
    if answer.status != 200 {
        return Err(refusal(answer.status, None));
    }
    let told = json(&answer)?;
    let data = &told["data"];
    // Version 2 puts the secret beside what it tells of it.
    let is_second = data["data"].is_object() && data["metadata"].is_object();
    let secret = if is_second { &data["data"] } else { data };
    match secret {
        Value::Object(members) if !members.is_empty() => Ok(secret.to_string()),
        _ => Err(Unread::new("came in an answer without data")),
    }
}

/// The secret where the path says; else, where an engine of version 2 stands there, behind its `data`.
async fn ask(reader: &SecretReader, vault: &HashiCorp, token: &Secret<String>) -> Result<OutboundAnswer, Unread> {
    let answer = get(reader, vault, token, &vault.path).await?;
    match vault.path.split_once('/') {
        Some((mount, rest)) if answer.status == 404 && !rest.starts_with("data/") => {
            get(reader, vault, token, &format!("{mount}/data/{rest}")).await
        }
        _ => Ok(answer),
    }
}

async fn get(
    reader: &SecretReader,
    vault: &HashiCorp,
    token: &Secret<String>,
    path: &str,
) -> Result<OutboundAnswer, Unread> {
    let url = format!("{}/v1/{}", vault.addr, escaped(path));
    let request = reader.outbound.request(Method::GET, &url)?.header("x-vault-token", sensitive(token.expose())?);
    Ok(send(within(request, vault)?).await?)
}

fn within(request: reqwest::RequestBuilder, vault: &HashiCorp) -> Result<reqwest::RequestBuilder, Unread> {
    let request = request.header("x-vault-request", "true");
    Ok(match &vault.namespace {
        Some(namespace) => request.header("x-vault-namespace", sensitive(namespace)?),
        None => request,
    })
}

fn sensitive(text: &str) -> Result<HeaderValue, Unread> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Unread::new("could not be asked for: the token or the namespace cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn token(
    reader: &SecretReader,
    vault: &HashiCorp,
    known: Option<Secret<String>>,
) -> Result<Secret<String>, Unread> {
    if let Some(known) = known {
        return Ok(known);
    }
    let (engine, body) = match &vault.login {
        VaultLogin::Token(token) => return Ok(token.clone()),
        VaultLogin::AppRole { role, secret } => ("approle", json!({ "role_id": role, "secret_id": secret.expose() })),
        VaultLogin::Kubernetes { role } => {
            let file = &reader.places.kubernetes_token;
            let jwt = tokio::fs::read_to_string(file).await;
            let jwt =
                jwt.map_err(|e| Unread(format!("needs the cluster's token, which cannot be read: {}", e.kind())))?;
            ("kubernetes", json!({ "role": role, "jwt": jwt.trim() }))
        }
    };
    let request = reader.outbound.request(Method::POST, &format!("{}/v1/auth/{engine}/login", vault.addr))?;
    let answer = send(within(request, vault)?.json(&body)).await?;
    if answer.status != 200 {
        return Err(Unread(format!("needs a login, which the vault refused (status {})", answer.status)));
    }
    let told = json(&answer)?;
    let auth = &told["auth"];
    let token = auth["client_token"].as_str().filter(|token| !token.is_empty());
    let token = Secret::new(token.ok_or_else(|| Unread::new("needs a login, which gave no token"))?.to_owned());
    let lives = auth["lease_duration"].as_u64().filter(|secs| *secs > 0);
    let lives = lives.map_or(UNSAID, |secs| Duration::from_secs(secs.min(LONGEST)));
    if let Some(id) = vault.login_id() {
        reader.vault_tokens.keep(id, VaultToken { token: token.clone(), until: Instant::now() + lives * 2 / 3 });
    }
    Ok(token)
}

/// Every byte that could mean something else in a path; the slashes between its parts stay.
fn escaped(path: &str) -> String {
    path.bytes().fold(String::with_capacity(path.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
