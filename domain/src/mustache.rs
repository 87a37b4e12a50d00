//! Mustache, as saved prompts are written in it: variables, sections, inverted sections, comments, partials and changed
//! delimiters. What is deliberately absent: lambdas, inheritance and HTML escapes, since what comes out is text or JSON
//! and no page. Whoever renders bounds what comes out, how deep it goes and how much work it is; a template is a
//! tenant's.

mod parse;
mod render;
#[cfg(test)]
mod tests;

pub use render::{FoundPartial, Partials, RenderBounds, Renderer};

use std::fmt;

/// Why a template cannot be read or rendered, in words that follow its name: "has a section `x` that is not closed".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTemplate(pub String);

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTemplate {}

fn broken<T>(why: impl Into<String>) -> Result<T, BadTemplate> {
    Err(BadTemplate(why.into()))
}

/// Reads a template, and gives the names of the partials that it asks for, each as it is written.
pub fn partials_of(source: &str) -> Result<Vec<&str>, BadTemplate> {
    let mut names = Vec::new();
    let mut open = parse::parse(source)?;
    while let Some(node) = open.pop() {
        match node {
            parse::TemplatePart::Partial { name, .. } => names.push(name),
            parse::TemplatePart::Section { inside, .. } => open.extend(inside),
            parse::TemplatePart::Text(_) | parse::TemplatePart::Variable { .. } => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
