//! A pattern in which each `*` stands for any characters, also none. Made once, and asked without backtracking.

#[derive(Clone, Debug)]
pub struct Glob {
    prefix: Box<str>,
    /// `None`: there is no `*`, and the prefix is all of it.
    rest: Option<GlobTail>,
}

/// What must follow the prefix.
#[derive(Clone, Debug)]
struct GlobTail {
    /// Texts that must follow in this order, each behind the one before, ahead of the suffix.
    inner: Box<[Box<str>]>,
    suffix: Box<str>,
}

impl Glob {
    pub fn compile(pattern: &str) -> Self {
        let Some((prefix, rest)) = pattern.split_once('*') else { return Self { prefix: pattern.into(), rest: None } };
        let (inner, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let inner = inner.split('*').filter(|p| !p.is_empty()).map(Into::into).collect();
        Self { prefix: prefix.into(), rest: Some(GlobTail { inner, suffix: suffix.into() }) }
    }

    /// What every match begins with; may be empty.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn matches(&self, text: &str) -> bool {
        let Some(tail) = text.strip_prefix(&*self.prefix) else { return false };
        let Some(rest) = &self.rest else { return tail.is_empty() };
        let Some(mut tail) = tail.strip_suffix(&*rest.suffix) else { return false };
        // The leftmost place of each piece leaves the most room for the next: no backtracking.
        rest.inner.iter().all(|piece| match tail.find(&**piece) {
            Some(at) => {
                tail = &tail[at + piece.len()..];
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_all_else_for_itself() {
        for (pattern, yes, no) in [
            ("gpt-4*", &["gpt-4", "gpt-4o", "gpt-4*"][..], &["gpt-3", "xgpt-4", "gpt"][..]),
            ("*-mini", &["gpt-4o-mini", "-mini"], &["mini", "gpt-mini-2"]),
            ("gpt-*-mini", &["gpt-4o-mini", "gpt--mini"], &["gpt-mini", "gpt-4o"]),
            ("a*b*c", &["abc", "a1b2c", "abbc", "abcc"], &["acb", "ab", "ac", "abcd"]),
            ("a*ab*b", &["aabb", "axaabxb"], &["ab", "aab", "abb"]),
            ("@p/*", &["@p/gpt", "@p/"], &["@q/gpt", "p/gpt", "@p"]),
            ("@*/gpt-4o", &["@p/gpt-4o", "@a/b/gpt-4o"], &["gpt-4o", "@p/gpt-4"]),
            ("**", &["x", "gpt"], &[]),
            ("aa*aa", &["aaaa", "aaxaa"], &["aa", "aaa"]),
            ("gpt-4o", &["gpt-4o"], &["gpt-4", "gpt-4o-mini"]),
            ("é*ü", &["éü", "é-ü"], &["e-ü", "é"]),
        ] {
            let glob = Glob::compile(pattern);
            assert!(yes.iter().all(|t| glob.matches(t)), "{pattern} must match {yes:?}");
            assert!(!no.iter().any(|t| glob.matches(t)), "{pattern} must not match {no:?}");
        }
    }
}
