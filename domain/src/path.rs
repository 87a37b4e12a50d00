//! The one normal form of a request's path (RFC 3986, 6.2.2), made before any table looks at it, so that two spellings
//! of one address are never two routes. Knows no route, and changes no case: paths are case-sensitive.

use std::borrow::Cow;

/// Why a path has no normal form here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("The path must not have `.` or `..` as a segment, nor percent-encoded")]
    DotSegment,
    #[error("The path must not have an empty segment (`//`)")]
    EmptySegment,
}

/// `path` with its unreserved characters decoded. Segments that lead elsewhere than they say are refused rather than
/// resolved: whoever reads the path next may resolve them in another way. A slash at the end is kept.
pub fn normal(path: &str) -> Result<Cow<'_, str>, PathError> {
    if is_plain(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let path = if path.contains('%') { unreserved(path) } else { Cow::Borrowed(path) };
    if path.contains("//") {
        return Err(PathError::EmptySegment);
    }
    // Some servers take an encoded slash, or a backslash, for a slash.
    let seen = if path.contains(['%', '\\']) { decoded(&path) } else { Cow::Borrowed(&*path) };
    if seen.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
        return Err(PathError::DotSegment);
    }
    Ok(path)
}

/// Nothing in it could have another form: no segment is empty or begins with a dot, nothing is encoded. Most paths are
/// so.
fn is_plain(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && memchr::memchr2(b'%', b'\\', path).is_none()
        && !path.windows(2).any(|pair| matches!(pair, [b'/', b'/' | b'.']))
}

/// `text` with everything decoded that is percent-encoded. What is no UTF-8 then is replaced, and a `%` without two
/// digits behind it stands for itself.
pub fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = decode(text, |_| true);
    Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

fn unreserved(path: &str) -> Cow<'_, str> {
    let bytes = decode(path, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'));
    // Only ASCII took the place of ASCII.
    String::from_utf8(bytes).map_or(Cow::Borrowed(path), Cow::Owned)
}

fn decode(text: &str, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let byte = (first == b'%').then(|| escaped(after)).flatten().filter(|b| wanted(*b));
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

/// The byte that the two digits at the beginning stand for.
fn escaped(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_one_spelling() {
        for (path, expected) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/%63hat/c%6Fmpletions", "/v1/chat/completions"),
            ("/v1/Chat/completions", "/v1/Chat/completions"),
            ("/v1/chat/completions/", "/v1/chat/completions/"),
            ("/v1/model/a%3Ab%2Fc/invoke", "/v1/model/a%3Ab%2Fc/invoke"),
            ("/v1/a%20b%7e%zz%4", "/v1/a%20b~%zz%4"),
            ("/v1/a..b/...", "/v1/a..b/..."),
            ("/v1/%e4%bd%a0", "/v1/%e4%bd%a0"),
            ("/v1/%252e%252e", "/v1/%252e%252e"),
        ] {
            assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for path in [
            "/v1/../x",
            "/v1/x/..",
            "/v1/./chat/completions",
            "/v1/%2e%2E/x",
            "/v1/.%2e/x",
            "/v1/a%2f..%2Fb",
            "/v1/..%5cx",
            "/v1/a\\..\\b",
        ] {
            assert_eq!(normal(path), Err(PathError::DotSegment), "{path}");
        }
        for path in ["//v1/x", "/v1//chat/completions", "/v1/x//"] {
            assert_eq!(normal(path), Err(PathError::EmptySegment), "{path}");
        }
    }

    #[test]
    fn everything_is_decoded_once() {
        for (text, expected) in [
            ("arn%3Aaws%3Abedrock%2Fx", "arn:aws:bedrock/x"),
            ("%2541", "%41"),
            ("%ff", "\u{fffd}"),
            ("%", "%"),
            ("plain", "plain"),
        ] {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }
}
