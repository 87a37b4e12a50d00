//! Tokens by which a server behind the gateway knows who calls it: signed with the keys that sign access tokens, so
//! that one key set tells of both, and of another type, so that neither is taken for the other.

use super::signing;
use gateway_domain::ports::Vault;
use gateway_domain::snapshot::Snapshot;
use gateway_domain::time::Timestamp;
use jsonwebtoken::{Algorithm, Header, encode};
use serde_json::{Map, Value, json};

/// What such a token says.
#[derive(Debug)]
pub struct IdentityClaims<'a> {
    pub issuer: &'a str,
    /// The one server that it is for.
    pub audience: &'a str,
    /// Seconds.
    pub lasts: i64,
    /// `sub` and what else is told.
    pub claims: Map<String, Value>,
}

/// `Err`: the rest of a sentence.
pub fn sign_identity(
    snapshot: &Snapshot,
    vault: &dyn Vault,
    now: Timestamp,
    told: IdentityClaims<'_>,
) -> Result<String, &'static str> {
    let key = signing::current(snapshot, now).ok_or("there is no key to sign with yet")?;
    let opened = signing::opened_by(vault, key).ok_or("the key to sign with cannot be opened")?;
    let iat = now.micros() / 1_000_000;
    let mut claims = told.claims;
    let own = json!({"iss": told.issuer, "aud": told.audience, "iat": iat, "exp": iat + told.lasts});
    claims.extend(own.as_object().cloned().unwrap_or_default());
    let mut header = Header::new(Algorithm::ES256);
    (header.typ, header.kid) = (Some("JWT".to_owned()), Some(key.id.to_string()));
    encode(&header, &claims, &opened).map_err(|_| "a token could not be signed")
}
