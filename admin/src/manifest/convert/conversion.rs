//! What comes of another gateway's file piece by piece, and the words that names are made of.

use crate::manifest::text::Manifest;
use gateway_domain::catalog::Catalog;
use gateway_domain::egress::Trusted;
use serde_json::{Map, Value};

/// What a file is read with.
#[derive(Clone, Copy)]
pub struct Conversion<'a> {
    pub catalog: &'a dyn Catalog,
    pub trusted: &'a Trusted,
    /// Where things go that are of a workspace.
    pub workspace: &'a str,
}

impl std::fmt::Debug for Conversion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversion").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// What comes of a file.
#[derive(Default)]
pub(super) struct CarriedParts {
    pub(super) manifest: Manifest,
    pub(super) notes: Vec<String>,
}

impl CarriedParts {
    pub(super) fn add(&mut self, section: &'static str, item: Value) {
        if let Value::Object(item) = item {
            self.manifest.sections.entry(section).or_default().push(item);
        }
    }

    pub(super) fn note(&mut self, place: impl std::fmt::Display, why: impl std::fmt::Display) {
        self.notes.push(format!("{place}: {why}"));
    }
}

/// Texts in which somebody put a name, so that they may stand in a slug.
pub(super) fn slug_of(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    text.chars().map(plain).collect()
}

/// The name of a secret for what another gateway reads from a variable of the environment.
pub(super) fn secret_of(variable: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = variable.chars().map(upper).collect();
    match name.strip_prefix("GATEWAY_SECRET_") {
        Some(rest) => format!("${{GATEWAY_SECRET_{rest}}}"),
        None => format!("${{GATEWAY_SECRET_{name}}}"),
    }
}

pub(super) fn text<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    fields.get(name)?.as_str()
}
