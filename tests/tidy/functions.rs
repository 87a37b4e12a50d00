//! Functions as they stand in the code: where the body begins and ends, and what it is given. Knows no rule.

use super::source::is_word;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Where `fn` stands.
    pub(crate) start: usize,
    /// Lines from `fn` to the closing brace.
    pub(crate) lines: usize,
    /// Members of each parameter but `self`: 1, or as many as its tuple has.
    pub(crate) parameters: Vec<usize>,
    /// Members of the largest tuple that it gives back, 0 for none.
    pub(crate) returns: usize,
}

/// Each function of blanked code that has a body.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        if is_word(bytes, start.wrapping_sub(1)) {
            continue;
        }
        let name: String = code[start + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let mut at = start + 3 + name.len();
        if name.is_empty() {
            continue;
        }
        if bytes.get(at) == Some(&b'<') {
            let Some(end) = closing(bytes, at) else { continue };
            at = end + 1;
        }
        let Some(end) = (bytes.get(at) == Some(&b'(')).then(|| closing(bytes, at)).flatten() else { continue };
        let parameters = split(&code[at + 1..end]).into_iter().filter(|p| !is_self(p)).map(members).collect();
        let Some(open) = body(bytes, end + 1) else { continue };
        let Some(close) = closing(bytes, open) else { continue };
        let (lines, returns) = (code[start..=close].lines().count(), returned(&code[end + 1..open]));
        found.push(Function { name, start, lines, parameters, returns });
    }
    found
}

/// The brace that opens a body behind the parameters; `None` where a semicolon ends the signature.
fn body(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = match bytes.get(at)? {
            b'{' => return Some(at),
            b';' => return None,
            b'(' | b'[' => closing(bytes, at)? + 1,
            _ => at + 1,
        };
    }
}

/// Where the bracket that opens at `open` is closed. In angles an arrow closes nothing.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let angles = bytes[open] == b'<';
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'<' if angles => depth += 1,
            b'>' if angles && bytes[at - 1] != b'-' && bytes[at - 1] != b'=' => depth = depth.checked_sub(1)?,
            _ => continue,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// What commas part, those within brackets left alone.
fn split(list: &str) -> Vec<&str> {
    let (bytes, mut parts, mut from, mut at) = (list.as_bytes(), Vec::new(), 0, 0);
    while at < bytes.len() {
        at = match bytes[at] {
            b'(' | b'[' | b'{' | b'<' => closing(bytes, at).unwrap_or(at) + 1,
            b',' => {
                parts.push(&list[from..at]);
                from = at + 1;
                from
            }
            _ => at + 1,
        };
    }
    parts.push(&list[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn is_self(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    name.trim_start_matches('&').split_whitespace().any(|word| word == "self")
}

/// How many things a parameter is: the members of its tuple, else one.
fn members(parameter: &str) -> usize {
    let bytes = parameter.as_bytes();
    // The colon of the pattern, which may be a tuple or a struct itself.
    let mut at = 0;
    while at < bytes.len() && bytes[at] != b':' {
        at = match bytes[at] {
            b'(' | b'[' | b'{' => closing(bytes, at).unwrap_or(at) + 1,
            _ => at + 1,
        };
    }
    let mut kind = parameter.get(at + 1..).unwrap_or_default().trim();
    while let Some(rest) = kind.strip_prefix('&') {
        let rest =
            rest.strip_prefix('\'').map_or(rest, |r| r.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
        let rest = rest.trim_start();
        kind = rest.strip_prefix("mut ").unwrap_or(rest).trim_start();
    }
    let inner = kind.strip_prefix('(').and_then(|k| k.strip_suffix(')'));
    inner.map_or(1, |inner| split(inner).len().max(1))
}

/// The members of the largest tuple in what stands between parameters and body.
fn returned(signature: &str) -> usize {
    let kind = signature.split("where").next().unwrap_or_default();
    let bytes = kind.as_bytes();
    let tuples = kind.match_indices('(').filter(|(at, _)| !is_word(bytes, at.wrapping_sub(1)));
    tuples.filter_map(|(at, _)| Some(split(&kind[at + 1..closing(bytes, at)?]).len())).max().unwrap_or(0)
}

/// The measures measure: without this, a mistake above would pass every rule.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::blanked;

    fn measured(code: &str) -> Vec<(String, usize, Vec<usize>)> {
        functions(&blanked(code)).into_iter().map(|f| (f.name, f.lines, f.parameters)).collect()
    }

    #[test]
    fn lengths_are_counted_past_braces_in_text() {
        let code = "fn a() {\n let b = \"}{\"; // }\n let c = '}'; let d = r#\"}\"#;\n 'x: loop { break 'x }\n}\nfn e();\nfn f() { }\n";
        assert_eq!(measured(code), [("a".to_owned(), 5, vec![]), ("f".to_owned(), 1, vec![])]);
    }

    #[test]
    fn a_destructured_parameter_is_no_body() {
        let code = "fn run(\n Start { a, b }: Start,\n c: u8,\n) {\n x();\n}\n";
        assert_eq!(measured(code), [("run".to_owned(), 6, vec![1, 1])]);
    }

    #[test]
    fn a_semicolon_within_the_signature_ends_nothing() {
        let code = "fn a(b: [u8; 8]) -> [u8; 4] {\n c()\n}\nfn d() -> [u8; 2];\nfn e<const N: usize, F: Fn(u8) -> u8>(f: F) {}\n";
        let (a, e) = (("a".to_owned(), 3, vec![1]), ("e".to_owned(), 1, vec![1]));
        assert_eq!(measured(code), [a, e]);
    }

    #[test]
    fn tuples_that_are_given_back_are_counted() {
        let code = "fn a() -> u8 {}\nfn b() -> Result<(A, B<C, D>, E), F> {}\nfn g() -> impl Fn(H, I, J) -> (K, L) {}";
        let returns: Vec<usize> = functions(code).into_iter().map(|f| f.returns).collect();
        assert_eq!(returns, [0, 3, 2]);
    }

    #[test]
    fn members_of_tuples_are_counted() {
        let code =
            "fn a(&mut self, (b, c): (&B, Vec<(u8, u8)>), d: &'a mut (E, F, G), h: Box<dyn Fn(I, J) -> K>, l: (M,)) {}";
        assert_eq!(measured(code), [("a".to_owned(), 1, vec![2, 3, 1, 1])]);
    }
}
