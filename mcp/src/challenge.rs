//! What a server says of how to sign in (RFC 6750, 3; RFC 9728, 5.1), as far as a client of it needs to know. Knows no
//! socket: it is handed the header's text.

/// What one challenge of the scheme `Bearer` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    pub error: Option<String>,
    pub scope: Option<String>,
    /// Where the server's metadata lies.
    pub resource_metadata: Option<String>,
}

/// The longest value of a parameter that is kept, in bytes.
const LONGEST: usize = 2_000;

impl BearerChallenge {
    /// Reads the values of `WWW-Authenticate`. `None`: none of them is a challenge for bearer tokens.
    pub fn read<'v>(values: impl Iterator<Item = &'v str>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for value in values {
            let mut rest = value.trim_start();
            while let Some(at) = scheme(rest) {
                let challenge = found.get_or_insert_default();
                rest = challenge.fill(&rest[at..]);
            }
        }
        found
    }

    /// Whether the server refused because the token covers less than the request needs.
    pub fn wants_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Reads parameters until there are no more; what follows may be another challenge.
    fn fill<'v>(&mut self, mut rest: &'v str) -> &'v str {
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let Some(after) = after.trim_start().strip_prefix('=').filter(|_| !name.is_empty()) else { return rest };
            let (value, after) = value(after.trim_start());
            let place = match name.to_ascii_lowercase().as_str() {
                "error" => Some(&mut self.error),
                "scope" => Some(&mut self.scope),
                "resource_metadata" => Some(&mut self.resource_metadata),
                _ => None,
            };
            if let Some(place) = place
                && place.is_none()
                && !value.is_empty()
                && value.len() <= LONGEST
            {
                *place = Some(value);
            }
            rest = after;
        }
    }
}

/// Where the text behind the next scheme `Bearer` begins.
fn scheme(text: &str) -> Option<usize> {
    const NAME: &str = "bearer";
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower[from..].find(NAME) {
        let (start, end) = (from + at, from + at + NAME.len());
        let begins = start == 0 || matches!(lower.as_bytes()[start - 1], b' ' | b',' | b'\t');
        let ends = lower.as_bytes().get(end).is_none_or(|b| matches!(b, b' ' | b'\t'));
        if begins && ends {
            return Some(end);
        }
        from = end;
    }
    None
}

/// A quoted text or a plain one, and what follows.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut out, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                out.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (out, &quoted[at + 1..]),
            c => out.push(c),
        }
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<BearerChallenge> {
        BearerChallenge::read(std::iter::once(text))
    }

    #[test]
    fn a_challenge_tells_where_and_for_what() {
        let told = read(
            r#"Bearer realm="x, y", resource_metadata="https://a.example/.well-known/x", error="insufficient_scope", scope="files:read files:write""#,
        )
        .expect("a challenge");
        assert_eq!(told.resource_metadata.as_deref(), Some("https://a.example/.well-known/x"));
        assert_eq!(told.scope.as_deref(), Some("files:read files:write"));
        assert!(told.wants_scope());
        let plain = read("bearer error=invalid_token,scope=a").expect("a challenge");
        assert_eq!((plain.error.as_deref(), plain.scope.as_deref()), (Some("invalid_token"), Some("a")));
        assert!(!plain.wants_scope());
    }

    #[test]
    fn other_schemes_and_odd_texts_are_no_challenge_or_an_empty_one() {
        assert_eq!(read("Basic realm=\"bearer\""), None);
        assert_eq!(read(""), None);
        assert_eq!(read("Bearer"), Some(BearerChallenge::default()));
        assert_eq!(
            read("Bearer scope=\"unended"),
            Some(BearerChallenge { scope: Some("unended".into()), ..BearerChallenge::default() })
        );
        let behind = read("Basic realm=\"x\", Bearer scope=\"b\"").expect("a challenge");
        assert_eq!(behind.scope.as_deref(), Some("b"));
        let long = format!("Bearer scope=\"{}\"", "x".repeat(LONGEST + 1));
        assert_eq!(read(&long), Some(BearerChallenge::default()));
        let escaped = read(r#"Bearer scope="a\"b""#).expect("a challenge");
        assert_eq!(escaped.scope.as_deref(), Some("a\"b"));
    }
}
