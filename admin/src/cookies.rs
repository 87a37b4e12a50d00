//! Cookies of browsers: those of sessions and of sign-ins on their way. Names and values only; what they open is not
//! known here.

use http::{HeaderMap, header};

/// Set for this host alone, over TLS alone: browsers hold names with this beginning to that.
const COOKIE: &str = "__Host-gateway-session";

/// A cookie by its name, where there is one of that name only.
pub(crate) fn named_cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(named, _)| *named == name).map(|(_, value)| value);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The session of a browser. Pages of others may not use it, though the browser would send it along: browsers say whose
/// page asks (Fetch Metadata), and those that do not yet say so name the page's origin. `ours`: where browsers reach
/// us.
pub(crate) fn session<'h>(headers: &'h HeaderMap, ours: Option<&str>) -> Option<&'h str> {
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_ours = match (said("sec-fetch-site"), said("origin")) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(page)) => ours.is_some_and(|url| origin(url).eq_ignore_ascii_case(page)),
        (None, None) => true,
    };
    named_cookie(headers, COOKIE).filter(|value| is_ours && !value.is_empty())
}

/// The session of a browser, whoever led it here: for pages that only show what can be decided.
pub(crate) fn session_secret(headers: &HeaderMap) -> Option<&str> {
    named_cookie(headers, COOKIE).filter(|value| !value.is_empty())
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url.get(host..).and_then(|rest| rest.find('/')).map_or(url, |at| &url[..host + at])
}

/// A cookie that lives as long as the session, for this host alone, and out of reach of scripts.
pub(crate) fn set_cookie(name: &str, value: &str, seconds: i64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; Secure; SameSite=Lax")
}

pub(crate) fn session_cookie(value: &str, seconds: i64) -> String {
    set_cookie(COOKIE, value, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn held(pairs: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        session(&headers, Some("https://gateway.example.com/base")).map(str::to_owned)
    }

    #[test]
    fn a_session_is_for_pages_of_this_very_origin() {
        let cookie = ("cookie", "a=b; __Host-gateway-session=s; c=d");
        let held = |name, value| held(&[cookie, (name, value)]).is_some();
        assert!(held("accept", "*/*") && held("sec-fetch-site", "same-origin") && held("sec-fetch-site", "none"));
        assert!(!held("sec-fetch-site", "same-site") && !held("sec-fetch-site", "cross-site"));
        assert!(!held("sec-fetch-site", ""));
        assert!(held("origin", "https://gateway.example.com"));
        for page in
            ["https://evil.example", "null", "", "http://gateway.example.com", "https://gateway.example.com:8443"]
        {
            assert!(!held("origin", page), "{page}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_nobodys() {
        assert_eq!(held(&[("cookie", "__Host-gateway-session=s")]).as_deref(), Some("s"));
        assert_eq!(held(&[("cookie", "__Host-gateway-session=s; __Host-gateway-session=t")]), None);
        assert_eq!(held(&[("cookie", "__Host-gateway-session=s"), ("cookie", "__Host-gateway-session=t")]), None);
        assert_eq!(held(&[("cookie", "__Host-gateway-session=")]), None);
        assert_eq!(held(&[("cookie", "x__Host-gateway-session=s; __host-gateway-session=t")]), None);
    }
}
