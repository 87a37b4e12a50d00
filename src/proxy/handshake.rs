//! What the handshake of a WebSocket says besides its path (RFC 6455, 4.2): protocols, among which browsers hide a key
//! since they can send no header, and extensions, which would make frames unreadable. Knows no provider.

use crate::upstream::http1::Framing;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::{Fault, FaultKind, Operation};
use http::{HeaderMap, HeaderValue, header};

/// What official clients in browsers put before their key.
const KEY: &str = "openai-insecure-api-key.";
/// The protocol that goes with it.
const SPOKEN: &str = "realtime";

/// A request opens a session whose events are read, by its operation and by how its body streams up.
pub(crate) fn is_session(operation: Operation, upload: Option<Framing>) -> bool {
    operation.facts().opens_session && upload == Some(Framing::WebSocket)
}

/// Why it is no handshake (RFC 6455, 4.2.1): refused here, as not every provider looks.
pub(crate) fn broken(client: &HeaderMap) -> Option<Fault> {
    let told = |name| client.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default().trim();
    let wrong = |name: &'static str, why: &str| {
        Some(Fault::new(FaultKind::BadHeader, format!("{name} {why} of a WebSocket's handshake")).on(name))
    };
    let hops = client.get_all(header::CONNECTION).into_iter().filter_map(|list| list.to_str().ok());
    if !hops.flat_map(|list| list.split(',')).any(|hop| hop.trim().eq_ignore_ascii_case("upgrade")) {
        return wrong("connection", "must name upgrade at the head");
    }
    if told(header::SEC_WEBSOCKET_VERSION) != "13" {
        return wrong("sec-websocket-version", "must be 13 at the head");
    }
    if STANDARD.decode(told(header::SEC_WEBSOCKET_KEY)).ok().is_none_or(|key| key.len() != 16) {
        return wrong("sec-websocket-key", "must be 16 bytes in base64 at the head");
    }
    None
}

/// All that the client offers to speak.
fn offered(client: &HeaderMap) -> impl Iterator<Item = &str> {
    let lists = client.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty())
}

/// The key among the protocols.
pub(crate) fn key(client: &HeaderMap) -> Option<&str> {
    offered(client).find_map(|name| name.strip_prefix(KEY)).filter(|key| !key.is_empty())
}

/// The protocols among them, in one header; `None`: there is none.
pub(crate) fn protocols(client: &HeaderMap) -> Option<HeaderValue> {
    let spoken: Vec<&str> = offered(client).filter(|name| !name.starts_with(KEY)).collect();
    (!spoken.is_empty()).then(|| HeaderValue::from_str(&spoken.join(", ")).ok()).flatten()
}

/// The protocol that the client is told. Browsers end a connection for which none of theirs was chosen, and providers
/// do not always choose one.
pub(crate) fn chosen(client: &HeaderMap, provider: &HeaderMap) -> Option<HeaderValue> {
    let told = provider.get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|name| name.to_str().ok());
    let told = told.filter(|told| offered(client).any(|offer| offer == *told && !offer.starts_with(KEY)));
    let name = told.or_else(|| offered(client).find(|offer| *offer == SPOKEN))?;
    HeaderValue::from_str(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(lists: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(list));
        }
        headers
    }

    #[test]
    fn a_handshake_has_all_that_one_has() {
        let good = [
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let with = |name: &str, value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for (told, usual) in good {
                let Some(value) = (if told == name { value } else { Some(usual) }) else { continue };
                headers.insert(told, HeaderValue::from_static(value));
            }
            broken(&headers).map(|fault| fault.message().to_owned())
        };
        assert_eq!(with("", None), None);
        for (name, wrong) in [
            ("connection", "keep-alive"),
            ("sec-websocket-version", "12"),
            ("sec-websocket-key", "dGhl"),
            ("sec-websocket-key", "?"),
        ] {
            for value in [None, Some(wrong)] {
                assert!(with(name, value).is_some_and(|why| why.starts_with(name)), "{name} {value:?}");
            }
        }
    }

    #[test]
    fn a_key_is_no_protocol() {
        let browser = offering(&["realtime, openai-insecure-api-key.gw_1", "openai-beta.realtime-v1"]);
        assert_eq!(key(&browser), Some("gw_1"));
        assert_eq!(protocols(&browser), Some(HeaderValue::from_static("realtime, openai-beta.realtime-v1")));
        let bare = offering(&["openai-insecure-api-key.gw_1"]);
        assert_eq!((key(&bare), protocols(&bare)), (Some("gw_1"), None));
        assert_eq!((key(&HeaderMap::new()), protocols(&HeaderMap::new())), (None, None));
        assert_eq!(key(&offering(&["openai-insecure-api-key."])), None);
    }

    #[test]
    fn the_client_is_told_one_of_its_own_protocols() {
        let browser = offering(&["realtime, openai-insecure-api-key.gw_1, other"]);
        for (told, chosen_one) in [
            (&[][..], Some("realtime")),
            (&["other"], Some("other")),
            (&["foreign"], Some("realtime")),
            (&["openai-insecure-api-key.gw_1"], Some("realtime")),
        ] {
            let chosen = chosen(&browser, &offering(told));
            assert_eq!(chosen.as_ref().and_then(|name| name.to_str().ok()), chosen_one, "{told:?}");
        }
        assert_eq!(chosen(&HeaderMap::new(), &offering(&["realtime"])), None);
    }
}
