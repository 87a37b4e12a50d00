//! Takes secrets out of what records keep. Headers are shown by a list of names that are known to be harmless:
//! a name nobody thought of is hashed, never shown. Bodies lose the values of fields that are named like secrets.

use crate::secret::Secret;
use sha2::{Digest, Sha256};

const MASK: &str = "***";
/// Shorter texts would be found in innocent places.
const WORTH_LOOKING_FOR: usize = 8;

/// Headers of requests and answers that say nothing secret.
static OPEN: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "age",
    "allow",
    "anthropic-beta",
    "anthropic-organization-id",
    "anthropic-version",
    "cache-control",
    "cf-ray",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "host",
    "keep-alive",
    "last-modified",
    "openai-beta",
    "openai-model",
    "openai-organization",
    "openai-processing-ms",
    "openai-project",
    "openai-version",
    "origin",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "server",
    "traceparent",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

static OPEN_FAMILIES: &[&str] = &["x-ratelimit-", "anthropic-ratelimit-", "x-stainless-"];

/// Headers of the gateway's own that say nothing secret, by what stands behind their prefix.
static OPEN_OWN: &[&str] = &[
    "adjusted-params",
    "cache-force-refresh",
    "cache-namespace",
    "cache-status",
    "debug",
    "fetch-integrated-models",
    "forward-headers",
    "gateway-exception",
    "last-used-option-index",
    "metadata",
    "models-endpoint",
    "parent-span-id",
    "processing-us",
    "provider",
    "request-timeout",
    "retry-attempt-count",
    "sensitive-headers",
    "span-id",
    "span-name",
    "strict-open-ai-compliance",
    "strict-openai-compliance",
    "trace-id",
    "virtual-key",
];

/// Parts of header names whose values are never shown, not even hashed.
static SECRET_PARTS: &[&str] =
    &["auth", "key", "token", "secret", "passw", "cookie", "credential", "signature", "session", "jwt", "assertion"];

/// What the operator says of headers, in lower case: names to be hashed though harmless, and to be shown though
/// unknown. A name in both, or one that smells of a secret, is not shown.
#[derive(Clone, Debug, Default)]
pub struct MaskRules {
    pub hashed: Vec<String>,
    pub shown: Vec<String>,
}

/// A header's value as a record may hold it. `own` is what stands behind the gateway's prefix, if it is one of its
/// headers; `sensitive` is the request's own list, in lower case.
pub fn header(name: &str, own: Option<&str>, value: &[u8], rules: &MaskRules, sensitive: &[String]) -> String {
    let text = || lossy(value);
    if sensitive.iter().chain(&rules.hashed).any(|s| s == name) {
        return hashed(value);
    }
    if let Some(own) = own {
        return match own {
            "config" => config(&text()),
            "custom-host" => address(&text()),
            _ if OPEN_OWN.binary_search(&own).is_ok() => text(),
            _ if is_secret_header(own) => MASK.to_owned(),
            _ => hashed(value),
        };
    }
    if OPEN.binary_search(&name).is_ok() || OPEN_FAMILIES.iter().any(|f| name.starts_with(f)) {
        return text();
    }
    if is_secret_header(name) {
        MASK.to_owned()
    } else if rules.shown.iter().any(|s| s == name) {
        text()
    } else {
        hashed(value)
    }
}

/// Letters, digits, hyphens and underscores: what slugs and ids are made of.
pub fn is_name(text: &str) -> bool {
    (1..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The slug of a saved config, or an object without its secrets.
fn config(text: &str) -> String {
    if is_name(text) {
        return text.to_owned();
    }
    let is_json = text.trim_start().starts_with(['{', '[']);
    let masked = is_json.then(|| body(text, &[]).map_or_else(|| text.to_owned(), lossy));
    masked.unwrap_or_else(|| hashed(text.as_bytes()))
}

/// A URL without credentials and without the values of its query.
pub fn address(text: &str) -> String {
    if !text.contains("://") {
        return MASK.to_owned();
    }
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    without_logins(path.as_bytes()).map_or_else(|| url(path, query), |path| url(&lossy(path), query))
}

fn is_secret_header(name: &str) -> bool {
    SECRET_PARTS.iter().any(|part| name.contains(part))
}

fn lossy(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// Enough of a hash to tell values apart.
fn hashed(value: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::from("sha256:");
    for byte in &Sha256::digest(value)[..8] {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Parameters of a query whose values are shown; of all others only the names are.
static OPEN_QUERY: &[&str] =
    &["after", "alt", "api-version", "before", "beta", "include", "limit", "order", "stream", "workspace_id"];

/// Path and query with the values of the query masked.
pub fn url(path: &str, query: Option<&str>) -> String {
    let Some(query) = query.filter(|q| !q.is_empty()) else { return path.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !OPEN_QUERY.contains(&name) => format!("{name}={MASK}"),
        Some(_) => pair.to_owned(),
        // A lone word may be anything.
        None => MASK.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

/// The body without `secrets`, without the values of JSON fields named like secrets, at any depth, in whole
/// JSON, events of a stream, or what a cut left of them, and without what stands before the `@` of an address or
/// behind a name of its query that smells of a secret.
/// `None`: there is nothing to take out.
pub fn body(text: &str, secrets: &[Secret<String>]) -> Option<Vec<u8>> {
    let named = without_named(text.as_bytes());
    let from = named.as_deref().unwrap_or(text.as_bytes());
    let masked = without_logins(from).or(named);
    let from = masked.as_deref().unwrap_or(text.as_bytes());
    without(from, secrets).or(masked)
}

/// The text with every one of `secrets` blotted out; `None`: there is none in it.
pub fn without(text: &[u8], secrets: &[Secret<String>]) -> Option<Vec<u8>> {
    let mut masked: Option<Vec<u8>> = None;
    for secret in secrets.iter().map(Secret::expose).filter(|s| s.len() >= WORTH_LOOKING_FOR) {
        let from = masked.as_deref().unwrap_or(text);
        if memchr::memmem::find(from, secret.as_bytes()).is_some() {
            masked = Some(replaced(from, secret.as_bytes()));
        }
    }
    masked
}

/// `https://user:password@host/?token=x` as `https://***@host/?token=***`.
fn without_logins(text: &[u8]) -> Option<Vec<u8>> {
    /// Longer is no authority of an address.
    const LONGEST: usize = 1024;
    let mut out: Option<Vec<u8>> = None;
    let mut copied = 0;
    for found in memchr::memmem::find_iter(text, b"://") {
        let start = found + 3;
        let rest = &text[start..text.len().min(start + LONGEST)];
        let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'?' | b'#' | b'"' | b'\\' | b'<' | b'>');
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let mut blot = |from: usize, to: usize| {
            let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
            out.extend_from_slice(&text[copied..from]);
            out.extend_from_slice(MASK.as_bytes());
            copied = to;
        };
        if let Some(at) = memchr::memrchr(b'@', &rest[..end]).filter(|at| *at > 0) {
            blot(start, start + at);
        }
        for (from, to) in secret_parameters(text, start + end) {
            blot(from, to);
        }
    }
    if let Some(out) = &mut out {
        out.extend_from_slice(&text[copied..]);
    }
    out
}

/// Where the values stand of those parameters of the address behind `from` whose names smell of a secret.
fn secret_parameters(text: &[u8], from: usize) -> Vec<(usize, usize)> {
    /// Longer is no address that anybody calls.
    const LONGEST: usize = 8 * 1024;
    let rest = &text[from..text.len().min(from + LONGEST)];
    let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\\' | b'<' | b'>' | b'`' | b'\'' | b')' | b']');
    let address = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    let Some(query) = memchr::memchr(b'?', address) else { return Vec::new() };
    let mut found = Vec::new();
    let mut at = query + 1;
    for pair in address[query + 1..].split(|b| matches!(b, b'&' | b';' | b'#')) {
        if let Some(sign) = memchr::memchr(b'=', pair)
            && sign + 1 < pair.len()
            && is_secret_parameter(&pair[..sign])
        {
            found.push((from + at + sign + 1, from + at + pair.len()));
        }
        at += pair.len() + 1;
    }
    found
}

/// Signatures of links open what they link to; a key of a query is nearly always a secret one.
fn is_secret_parameter(name: &[u8]) -> bool {
    let plain = name.to_ascii_lowercase();
    let has = |part: &[u8]| memchr::memmem::find(&plain, part).is_some();
    is_secret_field(name)
        || [&b"key"[..], b"sig", b"code", b"jwt", b"pwd"].contains(&plain.as_slice())
        || has(b"token")
        || has(b"signature")
}

fn replaced(from: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(from.len());
    let mut at = 0;
    for found in memchr::memmem::find_iter(from, secret) {
        out.extend_from_slice(&from[at..found]);
        out.extend_from_slice(MASK.as_bytes());
        at = found + secret.len();
    }
    out.extend_from_slice(&from[at..]);
    out
}

/// Field names that hold secrets, without their hyphens and underscores.
fn is_secret_field(name: &[u8]) -> bool {
    if name.is_empty() || name.len() > 48 {
        return false;
    }
    let plain: Vec<u8> = name.iter().filter(|b| !matches!(b, b'_' | b'-')).map(u8::to_ascii_lowercase).collect();
    // Headers that a tool is to be called with hold its credentials.
    let whole: &[&[u8]] = &[b"token", b"headers", b"auth", b"cookie"];
    let parts: &[&[u8]] = &[
        b"apikey",
        b"secret",
        b"passw",
        b"authorization",
        b"accesstoken",
        b"authtoken",
        b"bearertoken",
        b"refreshtoken",
        b"sessiontoken",
        b"securitytoken",
        b"idtoken",
        b"oauthtoken",
        b"accesskey",
        b"privatekey",
        b"masterkey",
        b"credential",
        b"connectionstring",
    ];
    whole.contains(&plain.as_slice()) || parts.iter().any(|p| memchr::memmem::find(&plain, p).is_some())
}

fn without_named(text: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(quote) = memchr::memchr(b'"', &text[at..]) {
        let start = at + quote + 1;
        let end = string_end(text, start);
        at = (end + 1).min(text.len());
        let colon = skip_blanks(text, at);
        if text.get(colon) != Some(&b':') {
            continue;
        }
        let value = skip_blanks(text, colon + 1);
        if !matches!(text.get(value), Some(b'"' | b'{' | b'[')) || !is_secret_field(&text[start..end]) {
            at = value;
            continue;
        }
        let after = value_end(text, value);
        let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
        out.extend_from_slice(&text[copied..value]);
        out.extend_from_slice(b"\"***\"");
        (at, copied) = (after, after);
    }
    if let Some(out) = &mut out {
        out.extend_from_slice(&text[copied..]);
    }
    out
}

fn skip_blanks(text: &[u8], from: usize) -> usize {
    let blanks = text.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_whitespace()).count();
    from + blanks
}

/// Where the closing quote stands, or the end of what there is.
fn string_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        if text[at + found] == b'"' {
            return at + found;
        }
        at += found + 2;
    }
    text.len()
}

/// The place behind the JSON value that starts at `from`.
fn value_end(text: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_u32);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        assert!(OPEN.is_sorted() && OPEN_OWN.is_sorted());
    }

    #[test]
    fn headers_are_shown_by_list() {
        let sensitive = ["user-agent".to_owned()];
        let rules = MaskRules { hashed: vec!["via".into()], shown: vec!["x-team".into(), "x-token".into()] };
        for (name, own, value, shown) in [
            ("content-type", None, "application/json", "application/json"),
            ("x-ratelimit-remaining-tokens", None, "7", "7"),
            ("authorization", None, "Bearer x", "***"),
            ("x-goog-api-key", None, "x", "***"),
            ("set-cookie", None, "a=b", "***"),
            ("x-gateway-api-key", Some("api-key"), "x", "***"),
            ("x-acme-aws-session-token", Some("aws-session-token"), "x", "***"),
            ("x-team", None, "blue", "blue"),
            ("x-token", None, "x", "***"),
            ("x-gateway-provider", Some("provider"), "@main", "@main"),
            ("x-gateway-config", Some("config"), "pc-a", "pc-a"),
            ("x-gateway-config", Some("config"), r#"{"api_key":"k","a":1}"#, r#"{"api_key":"***","a":1}"#),
            ("x-gateway-config", Some("config"), r#" [{"api_key":"k"}]"#, r#" [{"api_key":"***"}]"#),
            ("x-gateway-custom-host", Some("custom-host"), "https://u:p@h/v1?k=v", "https://***@h/v1?k=***"),
            ("x-gateway-custom-host", Some("custom-host"), "https://h:8443/v1", "https://h:8443/v1"),
            ("x-gateway-custom-host", Some("custom-host"), "whatever", "***"),
        ] {
            assert_eq!(header(name, own, value.as_bytes(), &rules, &sensitive), shown, "{name}");
        }
        for (name, own) in [("user-agent", None), ("via", None), ("x-whatever", None), ("x-gateway-new", Some("new"))] {
            let shown = header(name, own, b"value", &rules, &sensitive);
            assert!(shown.starts_with("sha256:") && shown.len() == 23, "{name}: {shown}");
        }
    }

    #[test]
    fn addresses_in_bodies_lose_what_opens_them() {
        let masked = |text: &str| body(text, &[]).map(|b| String::from_utf8(b).expect("text"));
        for (text, want) in [
            (
                r#"{"server_url":"https://mcp.example/sse?team=a&token=X1y2&b=c"}"#,
                r#"{"server_url":"https://mcp.example/sse?team=a&token=***&b=c"}"#,
            ),
            (
                "see https://u:p@h.example/x?api_key=abc#top and on",
                "see https://***@h.example/x?api_key=***#top and on",
            ),
            (
                "[a](https://s3.example/o?X-Amz-Signature=ff00&X-Amz-Date=1)",
                "[a](https://s3.example/o?X-Amz-Signature=***&X-Amz-Date=1)",
            ),
            (r#""https://h/?q=1\nkey=2""#, r#""https://h/?q=1\nkey=2""#),
        ] {
            assert_eq!(masked(text).as_deref().unwrap_or(text), want);
        }
        assert_eq!(masked("https://h.example/search?q=cats&page=2 http:// ?token=x"), None);
        assert_eq!(masked("https://h.example/?token="), None);
    }

    #[test]
    fn queries_show_names() {
        assert_eq!(url("/v1/x", Some("api-version=1&key=abc&lone")), "/v1/x?api-version=1&key=***&***");
        assert_eq!(url("/v1/x", None), "/v1/x");
    }

    #[test]
    fn secret_fields_lose_their_values() {
        for (given, masked) in [
            (r#"{"model":"m","api_key":"k","n":1}"#, r#"{"model":"m","api_key":"***","n":1}"#),
            (r#"{"a":{"Client-Secret" : "x\"y"},"b":2}"#, r#"{"a":{"Client-Secret" : "***"},"b":2}"#),
            (r#"{"tools":[{"headers":{"X-T":"s","u":["]"]}}],"z":1}"#, r#"{"tools":[{"headers":"***"}],"z":1}"#),
            (r#"data: {"password":"p"}"#, r#"data: {"password":"***"}"#),
            (r#"{"authorization":"Bearer cut off he"#, r#"{"authorization":"***""#),
            (r#"{"authorization":{"a":"cut"#, r#"{"authorization":"***""#),
            (r#"{"u":"ftp://a:b@h/c@d","v":"http://x@y"}"#, r#"{"u":"ftp://***@h/c@d","v":"http://***@y"}"#),
            (r#"{"u":"http://a:b@h","password":"p"}"#, r#"{"u":"http://***@h","password":"***"}"#),
        ] {
            assert_eq!(body(given, &[]).map(lossy).as_deref(), Some(masked));
        }
        for given in [
            r#"{"max_tokens":5,"top_token":"a","say":"api_key","see":"http://h/@a b@c"}"#,
            "plain \"text\": \"x\"",
            "",
            "\"",
            "{\"a\\",
        ] {
            assert_eq!(body(given, &[]), None, "{given}");
        }
    }
}
