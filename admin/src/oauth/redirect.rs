//! Where browsers are sent back to: an address that the client named beforehand, byte for byte. Of an address of the
//! browser's own machine the port is the client's to choose each time (RFC 8252, 7.3).

use url::{Host, Url};

/// Short enough for all that is carried beside it.
pub(super) const LONGEST_REDIRECT: usize = 900;
/// Schemes that browsers act on themselves, or that carry contents.
const NEVER: [&str; 14] = [
    "javascript",
    "data",
    "vbscript",
    "file",
    "about",
    "blob",
    "filesystem",
    "view-source",
    "ws",
    "wss",
    "ftp",
    "mailto",
    "jar",
    "chrome",
];

/// `Err`: the rule that it breaks.
pub(crate) fn check_redirect(text: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b';' | b',');
    if text.len() > LONGEST_REDIRECT || !text.bytes().all(plain) {
        return Err("must be at most 900 plain characters");
    }
    let url = Url::parse(text).map_err(|_| "must be an absolute URL")?;
    if text.contains('#') || !url.username().is_empty() || url.password().is_some() {
        return Err("must have no fragment and no user");
    }
    match url.scheme() {
        "https" if url.host().is_some() => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "https" | "http" => Err("must be https, or http on a loopback address"),
        scheme if NEVER.contains(&scheme) || !text.starts_with(scheme) => Err("must not have this scheme"),
        _ => Ok(()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

pub(super) fn fits(registered: &str, asked: &str) -> bool {
    if registered == asked {
        return true;
    }
    let (Ok(mut one), Ok(mut other)) = (Url::parse(registered), Url::parse(asked)) else { return false };
    if one.scheme() != "http" || !is_loopback(&one) || !is_loopback(&other) {
        return false;
    }
    // What is compared is the rest as it is written, so that no spelling passes for another.
    let bare = |url: &mut Url| url.set_port(None).is_ok();
    let rest = |text: &str| text.find("://").and_then(|at| text[at + 3..].find(['/', '?']).map(|to| at + 3 + to));
    let tail = |text: &str| rest(text).map_or("", |at| &text[at..]).to_owned();
    bare(&mut one)
        && bare(&mut other)
        && one.scheme() == other.scheme()
        && one.host() == other.host()
        && tail(registered) == tail(asked)
}

/// What a person is shown of it.
pub(super) fn shown(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if is_loopback(&url) => "a program on this computer".to_owned(),
        Ok(url) => match (url.scheme(), url.host_str()) {
            ("https", Some(host)) => host.to_owned(),
            (scheme, _) => format!("the program that opens {scheme}: on this computer"),
        },
        Err(_) => "an unknown place".to_owned(),
    }
}

/// The address as a source of a content security policy, since a form of ours may lead there.
pub(super) fn policy_source(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return "'none'".to_owned() };
    match (url.scheme(), url.host()) {
        ("http" | "https", Some(Host::Ipv6(_))) => format!("{}:", url.scheme()),
        ("http" | "https", Some(_)) => url.origin().ascii_serialization(),
        (scheme, _) => format!("{scheme}:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_a_browser_may_be_sent_to() {
        for good in [
            "https://app.example.com/cb",
            "https://app.example.com/cb?x=1",
            "http://127.0.0.1:1234/cb",
            "http://localhost/cb",
            "http://[::1]:9/",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
            "com.example.app:/cb",
        ] {
            assert_eq!(check_redirect(good), Ok(()), "{good}");
        }
        let long = format!("https://a.example/{}", "x".repeat(LONGEST_REDIRECT));
        for bad in [
            "",
            "cb",
            "/cb",
            "http://app.example.com/cb",
            "http://127.0.0.1.evil.example/cb",
            "https://a.example/cb#x",
            "https://u:p@a.example/cb",
            "https://u@a.example/",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://a.example/<x>",
            "https://a.example/ b",
            "https://a.example/\n",
            "https://",
            "http://localhost.evil.example/",
            "https://a.example/;x",
            &long,
        ] {
            assert!(check_redirect(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_port_of_a_loopback_address_is_free() {
        for (registered, asked, fit) in [
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb", "https://a.example/cb/", false),
            ("https://a.example/cb", "https://a.example:8443/cb", false),
            ("https://a.example/cb", "https://a.example/cb?x", false),
            ("https://a.example/cb", "https://A.example/cb", false),
            ("https://a.example/cb", "https://a.example.evil.example/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5555/cb", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5555/other", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5555/cb?x=1", false),
            ("http://127.0.0.1/cb", "http://localhost:5555/cb", false),
            ("http://localhost:7/cb", "http://localhost:8/cb", true),
            ("http://127.0.0.1/cb", "https://127.0.0.1:5555/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5555/x/../cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1@evil.example/cb", false),
            ("app://cb", "app://cb/", false),
            ("http://127.0.0.1", "http://127.0.0.1:5?x", false),
        ] {
            assert_eq!(fits(registered, asked), fit, "{registered} {asked}");
        }
    }

    #[test]
    fn people_and_browsers_are_told_where_it_leads() {
        assert_eq!(shown("https://app.example.com/cb"), "app.example.com");
        assert_eq!(shown("http://127.0.0.1:9/cb"), "a program on this computer");
        assert!(shown("cursor://x/y").contains("cursor:"));
        assert_eq!(policy_source("https://app.example.com:8443/cb?x"), "https://app.example.com:8443");
        assert_eq!(policy_source("http://127.0.0.1:9/cb"), "http://127.0.0.1:9");
        assert_eq!(policy_source("cursor://x/y"), "cursor:");
        assert_eq!(policy_source("http://[::1]:9/"), "http:");
    }
}
