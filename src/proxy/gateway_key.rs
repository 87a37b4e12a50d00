//! Where the gateway key stands in a head, and what beside it is meant for the upstream. What a key opens is not known
//! here.

use super::handshake;
use super::headers::suffix_of;
use super::refusal::Refused;
use crate::runtime_config::ConfigHandle;
use gateway_domain::denied_caller::{Stranger, Unwelcome};
use gateway_domain::keys::KeyHash;
use http::{HeaderMap, HeaderValue, header};
use uuid::Uuid;

/// Where official SDKs put a key when it is no bearer token: Anthropic's, Azure's and Google's, whose clients work
/// unchanged that way.
const KEY_HEADERS: &[&str] = &["x-api-key", "api-key", "x-goog-api-key"];

/// Where [`credentials`] looks.
const NO_KEY: &str =
    "No gateway key: send it in x-gateway-api-key, Authorization: Bearer, x-api-key, api-key or x-goog-api-key";

/// The gateway key, and what is meant for the upstream: with `x-gateway-api-key` present the other
/// places hold the upstream's credential (see `docs/security.md`).
pub(crate) fn credentials<'a>(
    headers: &'a HeaderMap,
    aliases: &[String],
) -> Result<(&'a str, Option<&'a str>), Refused> {
    let text = |value: &'a HeaderValue| value.to_str().ok().map(str::trim);
    let bearer = headers.get(header::AUTHORIZATION).and_then(text).map(|v| {
        let cut = v.get(..7).filter(|p| p.eq_ignore_ascii_case("bearer "));
        cut.map_or(v, |_| v[7..].trim())
    });
    // One walk: to look for names that are not standard ones costs more than to see what there is.
    let mut places = [None; KEY_HEADERS.len()];
    let (mut own, mut aliased, mut opens_socket) = (None, None, false);
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().ends_with("key")) {
        let name = name.as_str();
        if let Some(place) = KEY_HEADERS.iter().position(|known| *known == name) {
            places[place] = places[place].or(Some(value));
        } else if name == "x-gateway-api-key" {
            own = own.or(Some(value));
        } else if suffix_of(name, aliases) == Some("api-key") {
            aliased = aliased.or(Some(value));
        } else {
            opens_socket |= name == "sec-websocket-key";
        }
    }
    let named = places.into_iter().flatten().find_map(|value| text(value).filter(|k| !k.is_empty()));
    // Browsers can send a header of none of these names with a handshake.
    let named = named.or_else(|| opens_socket.then(|| handshake::key(headers)).flatten());
    match own.or(aliased) {
        Some(own) => {
            let own = own.to_str().map_err(|_| {
                let why = "The gateway key must be visible ASCII";
                Refused::unauthenticated(why, Stranger::unknown(Unwelcome::UnknownKey))
            })?;
            Ok((own.trim(), bearer.filter(|b| !b.is_empty()).or(named)))
        }
        None => match bearer.filter(|b| !b.is_empty()).or(named) {
            Some(key) => Ok((key, None)),
            None => Err(Refused::unauthenticated(NO_KEY, Stranger::unknown(Unwelcome::NoKey))),
        },
    }
}

/// The key of a request by its id, where it is one of ours and no token.
pub(crate) fn known_key(live: &ConfigHandle, headers: &HeaderMap, aliases: &[String]) -> Option<Uuid> {
    let (text, _) = credentials(headers, aliases).ok()?;
    live.current().snapshot.key(&KeyHash::of(text)).map(|key| key.id.0)
}

/// What a caller signs in with.
pub(crate) fn key_text(headers: &HeaderMap, aliases: &[String]) -> Option<String> {
    credentials(headers, aliases).ok().map(|(text, _)| text.to_owned())
}
