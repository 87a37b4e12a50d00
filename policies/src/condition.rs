//! One condition of a rule, made ready to be asked: lists sorted, ids parsed, wildcards cut into pieces.
//! Knows nothing of policies or counters.

use crate::subject::{Attribute, AttributeValue, bare_model};
use gateway_domain::glob::Glob;
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
    pub(crate) fn holds(&self, seen: Option<AttributeValue<'_>>) -> bool {
        #[cfg(test)]
        EVALUATIONS.set(EVALUATIONS.get() + 1);
        match seen {
            None => false,
            Some(AttributeValue::Unread) => true,
            Some(AttributeValue::Id(id)) => self.admits(|values| values.have_id(id)),
            Some(AttributeValue::Text(text)) => self.admits(|values| values.have_text(text)),
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
    /// Patterns with `*`, in lists of models only.
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

#[cfg(test)]
thread_local! {
    /// How many conditions this thread has looked at.
    pub(crate) static EVALUATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
