//! One condition of a rule, made ready to be asked: lists sorted, ids parsed, wildcards cut into pieces.
//! Knows nothing of policies or counters.

use crate::subject::{Attribute, Seen, bare_model};
use gateway_domain::resource::policy::{Condition, OneOrMany};
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) attribute: Attribute,
    /// `None`: any value that is not excluded.
    pub(crate) among: Option<Values>,
    excludes: Option<Values>,
}

impl Test {
    /// `None` when the key is not one that a call to a model has.
    pub(crate) fn compile(condition: &Condition) -> Option<Self> {
        let attribute = Attribute::parse(&condition.key)?;
        let compile = |list: &Option<OneOrMany>| list.as_ref().map(|l| Values::compile(&attribute, l.as_slice()));
        let (among, excludes) = (compile(&condition.value), compile(&condition.excludes));
        Some(Self { attribute, among, excludes })
    }

    /// A missing value meets no condition; an unread one meets every condition.
    pub(crate) fn holds(&self, seen: Option<Seen<'_>>) -> bool {
        #[cfg(test)]
        EVALUATIONS.set(EVALUATIONS.get() + 1);
        match seen {
            None => false,
            Some(Seen::Unread) => true,
            Some(Seen::Id(id)) => self.admits(|values| values.have_id(id)),
            Some(Seen::Text(text)) => self.admits(|values| values.have_text(text)),
        }
    }

    fn admits(&self, within: impl Fn(&Values) -> bool) -> bool {
        self.among.as_ref().is_none_or(&within) && !self.excludes.as_ref().is_some_and(within)
    }
}

/// A list of values, any of which will do.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// `*` is among them: every value there is.
    pub(crate) any: bool,
    /// Sorted, each once.
    pub(crate) ids: Box<[Uuid]>,
    /// Sorted, each once.
    pub(crate) texts: Box<[Box<str>]>,
    /// Of models only.
    pub(crate) globs: Box<[Glob]>,
    of_model: bool,
}

impl Values {
    fn compile(attribute: &Attribute, list: &[String]) -> Self {
        let of_model = matches!(attribute, Attribute::Model);
        let any = list.iter().any(|v| v == "*");
        let rest = || list.iter().filter(|v| *v != "*");
        if attribute.is_id() {
            let mut ids: Vec<Uuid> = rest().filter_map(|v| Uuid::parse_str(v).ok()).collect();
            ids.sort_unstable();
            ids.dedup();
            return Self { any, ids: ids.into(), ..Self::default() };
        }
        let (globs, plain): (Vec<_>, Vec<_>) = rest().partition(|v| of_model && v.contains('*'));
        let mut texts: Vec<Box<str>> = plain.into_iter().map(|v| v.as_str().into()).collect();
        texts.sort_unstable();
        texts.dedup();
        Self {
            any,
            texts: texts.into(),
            globs: globs.into_iter().map(|v| Glob::compile(v)).collect(),
            of_model,
            ..Self::default()
        }
    }

    fn have_id(&self, id: Uuid) -> bool {
        self.any || self.ids.binary_search(&id).is_ok()
    }

    fn have_text(&self, text: &str) -> bool {
        // `gpt-4o` means the model however it is addressed; else `@slug/gpt-4o` would slip past.
        let bare = if self.of_model { bare_model(text) } else { None };
        self.any || self.have_name(text) || bare.is_some_and(|b| self.have_name(b))
    }

    fn have_name(&self, text: &str) -> bool {
        self.texts.binary_search_by(|t| (**t).cmp(text)).is_ok() || self.globs.iter().any(|g| g.matches(text))
    }
}

/// A pattern in which each `*` stands for any characters, also none.
#[derive(Debug)]
pub(crate) struct Glob {
    prefix: Box<str>,
    /// What must follow, in this order, before the suffix.
    inner: Box<[Box<str>]>,
    suffix: Box<str>,
}

impl Glob {
    fn compile(pattern: &str) -> Self {
        let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
        let (inner, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let inner = inner.split('*').filter(|p| !p.is_empty()).map(Into::into).collect();
        Self { prefix: prefix.into(), inner, suffix: suffix.into() }
    }

    /// What every match begins with; may be empty.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.prefix) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.suffix) else { return false };
        // The leftmost place of each piece leaves the most room for the next: no backtracking.
        self.inner.iter().all(|piece| match rest.find(&**piece) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
thread_local! {
    /// How many conditions this thread has looked at.
    pub(crate) static EVALUATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
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
            ("é*ü", &["éü", "é-ü"], &["e-ü", "é"]),
        ] {
            let glob = Glob::compile(pattern);
            assert!(yes.iter().all(|t| glob.matches(t)), "{pattern} must match {yes:?}");
            assert!(!no.iter().any(|t| glob.matches(t)), "{pattern} must not match {no:?}");
        }
    }
}
