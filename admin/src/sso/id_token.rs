//! An id token, checked (OpenID Connect Core 1.0, 3.1.3.7): signed with RS256 or ES256 by a key of the provider, issued
//! by it for this client, now, and for the very sign-in that was started here. The algorithm is the key's to say, not
//! the token's.

use crate::signature::signed_by;
use gateway_domain::time::Timestamp;
use gateway_domain::token::KeySet;
use jsonwebtoken::{Algorithm, decode_header};
use serde_json::{Map, Value};

const LONGEST: usize = 64 * 1024;
/// How far clocks may differ.
const LEEWAY_SECONDS: i64 = 60;

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadIdToken {
    /// Nobody knows the key that it names.
    UnknownKey,
    Wrong(&'static str),
}

/// What it must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

pub(super) fn claims(token: &str, keys: &KeySet, expected: &Expected<'_>) -> Result<Map<String, Value>, BadIdToken> {
    if token.len() > LONGEST {
        return Err(BadIdToken::Wrong("is too long"));
    }
    let header = decode_header(token).map_err(|_| BadIdToken::Wrong("cannot be read"))?;
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256) || header.crit.is_some() {
        return Err(BadIdToken::Wrong("must be signed with RS256 or ES256, without critical extensions"));
    }
    let kid = header.kid.ok_or(BadIdToken::Wrong("names no key"))?;
    let mut named = keys.named(&kid).peekable();
    if named.peek().is_none() {
        return Err(BadIdToken::UnknownKey);
    }
    let claims = named.find_map(|key| signed_by(token, key));
    let claims = claims.ok_or(BadIdToken::Wrong("is not signed by the provider"))?;
    check(&claims, expected).map_err(BadIdToken::Wrong)?;
    Ok(claims)
}

fn check(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), &'static str> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("is issued by another provider");
    }
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !audience.contains(&expected.client_id) {
        return Err("is issued for another client");
    }
    if (audience.len() > 1 || claims.contains_key("azp")) && text("azp") != Some(expected.client_id) {
        return Err("is issued for several, and not to this client");
    }
    if text("nonce") != Some(expected.nonce) {
        return Err("answers another sign-in");
    }
    if text("sub").is_none_or(|sub| sub.is_empty() || sub.len() > 255) {
        return Err("names nobody");
    }
    let now = expected.now.micros() / 1_000_000;
    // A number with a fraction is one too (RFC 7519, 2).
    let whole = |at: &Value| at.as_i64().or_else(|| at.as_f64()?.floor().to_string().parse().ok());
    let seconds = |name: &str| claims.get(name).and_then(whole);
    match seconds("exp") {
        Some(at) if at > now => {}
        _ => return Err("is over"),
    }
    if seconds("nbf").is_some_and(|at| at > now + LEEWAY_SECONDS)
        || seconds("iat").is_none_or(|at| at > now + LEEWAY_SECONDS)
    {
        return Err("is not good yet");
    }
    Ok(())
}
