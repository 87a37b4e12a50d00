//! Keys of a config document in either casing, and the place of a value in it, as problems name it.

use super::cost::quoted;

/// snake_case of a key that may be camelCase.
pub(super) fn canonical(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    // Two more spellings of one key are about, and camelCase of an acronym is one of them.
    match out.as_str() {
        "strict_openai_compliance" | "strict_open_a_i_compliance" => "strict_open_ai_compliance".to_owned(),
        _ => out,
    }
}

/// Where in the document we are, as keys and indices.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) parent: Option<&'a At<'a>>,
    pub(super) step: &'a str,
}

impl<'a> At<'a> {
    pub(super) const ROOT: At<'static> = At { parent: None, step: "" };

    pub(super) const fn then(&'a self, step: &'a str) -> Self {
        At { parent: Some(self), step }
    }

    pub(super) fn path(&self) -> String {
        match self.parent {
            Some(p) if !p.step.is_empty() => format!("{},{}", p.path(), quoted(self.step)),
            _ => quoted(self.step).to_owned(),
        }
    }
}
