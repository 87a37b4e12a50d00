//! Which client asks at an endpoint that clients call by themselves, and whether it proves that. Those that an admin
//! made with a secret must bring it, in a header or in the form (RFC 6749, 2.3.1); all others have none.

use super::fault::OauthFault;
use super::form::OauthForm;
use super::known_client::LONGEST_ID;
use super::request_context::OauthVisit;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::keys::KeyHash;
use gateway_domain::snapshot::SavedOauthClient;
use http::header;
use std::borrow::Cow;
use std::sync::Arc;
use url::form_urlencoded;

const LONGEST: usize = 2_000;

/// What was brought of a client.
struct BroughtClient {
    id: String,
    secret: Option<String>,
    by_header: bool,
}

/// Whether a header says who asks as a client does.
pub(super) fn has_header(visit: &OauthVisit) -> bool {
    basic(visit).is_some()
}

fn basic(visit: &OauthVisit) -> Option<&str> {
    let value = visit.visit.headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then_some(rest.trim())
}

/// The client that an admin made by this name.
pub(super) fn made(visit: &OauthVisit, id: &str) -> Option<Arc<SavedOauthClient>> {
    visit.app().live.snapshot().oauth_client(id.parse().ok()?).cloned()
}

/// The name of the client that asks. One that has a secret has brought it.
pub(super) fn client(visit: &OauthVisit, form: &OauthForm) -> Result<String, OauthFault> {
    let brought = brought(visit, form)?;
    match made(visit, &brought.id).map(|client| client.secret) {
        Some(Some(hash)) => {
            let is_good = brought.secret.as_deref().is_some_and(|secret| is_same(&KeyHash::of(secret), &hash));
            if is_good { Ok(brought.id) } else { Err(OauthFault::client()) }
        }
        // Whoever names a secret in a header believes to have one.
        _ if brought.by_header => Err(OauthFault::client()),
        Some(None) if brought.secret.is_some() => Err(OauthFault::client()),
        _ => Ok(brought.id),
    }
}

fn brought(visit: &OauthVisit, form: &OauthForm) -> Result<BroughtClient, OauthFault> {
    let named = form.at_most("client_id", LONGEST_ID)?;
    let Some(encoded) = basic(visit) else {
        let id = named.ok_or_else(|| OauthFault::request("client_id is required"))?.to_owned();
        let secret = form.at_most("client_secret", LONGEST)?.map(str::to_owned);
        return Ok(BroughtClient { id, secret, by_header: false });
    };
    if encoded.len() > LONGEST || form.text("client_secret").is_some() {
        return Err(OauthFault::request("a client proves itself in one way"));
    }
    let plain = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let plain = plain.ok_or_else(OauthFault::client)?;
    let (id, secret) = plain.split_once(':').ok_or_else(OauthFault::client)?;
    let (id, secret) = (decoded(id), decoded(secret));
    if named.is_some_and(|named| named != id) {
        return Err(OauthFault::request("client_id is not the one that the header names"));
    }
    Ok(BroughtClient { id, secret: Some(secret), by_header: true })
}

/// Decodes the id or the secret in the header, each of which is encoded as in a form.
fn decoded(text: &str) -> String {
    let form = format!("x={}", text.replace('&', "%26").replace(';', "%3B"));
    let value = form_urlencoded::parse(form.as_bytes()).next().map(|(_, value)| value);
    value.map(Cow::into_owned).unwrap_or_default()
}

/// Compares in constant time: how long it takes does not tell where the two differ.
fn is_same(one: &KeyHash, other: &KeyHash) -> bool {
    one.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_secrets_stand_in_the_header_as_in_a_form() {
        assert_eq!(
            (decoded("a%3Ab+c"), decoded("a&b;c"), decoded("")),
            ("a:b c".into(), "a&b;c".into(), String::new())
        );
    }

    #[test]
    fn hashes_are_compared_whole() {
        let of = KeyHash::of;
        assert!(is_same(&of("a"), &of("a")) && !is_same(&of("a"), &of("b")));
    }
}
