//! A template and values made into text, within bounds. As JSON it keeps track of where in the text it is: a value that
//! lands inside a string is escaped there, so that no value ends the string that it stands in.

use super::parse::{TemplatePart, parse};
use super::{BadTemplate, broken};
use serde_json::Value;
use std::borrow::Cow;

/// What rendering may cost.
#[derive(Clone, Copy, Debug)]
pub struct RenderBounds {
    /// Bytes of all that comes out.
    pub output: usize,
    /// Partials within partials.
    pub depth: usize,
    /// Bytes that are read and nodes that are walked.
    pub work: usize,
}

/// Where the texts of partials are.
pub trait Partials<'a>: Copy {
    /// Finds a partial by its name as it is written in a template.
    fn find(self, name: &str) -> Option<FoundPartial<'a, Self>>;
}

/// A partial, and where those are that it asks for itself.
#[derive(Clone, Copy, Debug)]
pub struct FoundPartial<'a, P> {
    pub text: &'a str,
    pub partials: P,
}

/// Where the text that is rendered lies: how many partials deep, and where the partials are that it asks for.
#[derive(Clone, Copy)]
struct PartialLevel<P> {
    depth: usize,
    partials: P,
}

/// Renders several texts with the same values, under one bound for all.
pub struct Renderer<'a, P> {
    values: &'a Value,
    partials: P,
    bounds: RenderBounds,
    written: usize,
    worked: usize,
}

impl<P> std::fmt::Debug for Renderer<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer").field("written", &self.written).finish_non_exhaustive()
    }
}

/// What is written so far, and whether its end lies inside a string of JSON.
struct RenderedText {
    text: String,
    json: bool,
    in_string: bool,
    escaped: bool,
}

impl<'a, P: Partials<'a>> Renderer<'a, P> {
    /// `values` is an object; names are looked for in it from the innermost section outwards.
    pub const fn new(values: &'a Value, partials: P, bounds: RenderBounds) -> Self {
        Self { values, partials, bounds, written: 0, worked: 0 }
    }

    pub fn text(&mut self, source: &str) -> Result<String, BadTemplate> {
        self.render(source, false)
    }

    /// Renders a template whose result is JSON: unlike in [`Self::text`], values inside of strings are escaped.
    pub fn json(&mut self, source: &str) -> Result<String, BadTemplate> {
        self.render(source, true)
    }

    fn render(&mut self, source: &str, json: bool) -> Result<String, BadTemplate> {
        let mut out = RenderedText { text: String::new(), json, in_string: false, escaped: false };
        let mut scopes = vec![self.values];
        self.work(source.len())?;
        let outside = PartialLevel { depth: 0, partials: self.partials };
        self.nodes(&parse(source)?, &mut scopes, outside, &mut out)?;
        Ok(out.text)
    }

    fn work(&mut self, units: usize) -> Result<(), BadTemplate> {
        self.worked = self.worked.saturating_add(units);
        if self.worked > self.bounds.work { broken("takes too long to render") } else { Ok(()) }
    }

    fn put(&mut self, out: &mut RenderedText, text: &str, is_value: bool) -> Result<(), BadTemplate> {
        let before = out.text.len();
        out.put(text, is_value);
        self.written += out.text.len() - before;
        if self.written > self.bounds.output {
            return broken(format!("renders to more than {} bytes", self.bounds.output));
        }
        Ok(())
    }

    fn nodes<'v>(
        &mut self,
        nodes: &[TemplatePart<'_>],
        scopes: &mut Vec<&'v Value>,
        level: PartialLevel<P>,
        out: &mut RenderedText,
    ) -> Result<(), BadTemplate>
    where
        'a: 'v,
    {
        for node in nodes {
            self.work(1)?;
            match node {
                TemplatePart::Text(text) => self.put(out, text, false)?,
                TemplatePart::Variable { name, plain } => {
                    let shown = find(scopes, name).map(shown).unwrap_or_default();
                    self.work(shown.len())?;
                    self.put(out, &shown, !plain)?;
                }
                TemplatePart::Section { name, inverted, inside } => {
                    let value = find(scopes, name).filter(|value| is_something(value));
                    match (value, inverted) {
                        (None, true) => self.nodes(inside, scopes, level, out)?,
                        (Some(Value::Array(items)), false) => {
                            for item in items {
                                self.within(item, inside, (scopes, level), out)?;
                            }
                        }
                        (Some(value), false) => self.within(value, inside, (scopes, level), out)?,
                        (None, false) | (Some(_), true) => {}
                    }
                }
                TemplatePart::Partial { name, indent } => self.partial((name, indent), scopes, level, out)?,
            }
        }
        Ok(())
    }

    fn within<'v>(
        &mut self,
        value: &'v Value,
        inside: &[TemplatePart<'_>],
        (scopes, level): (&mut Vec<&'v Value>, PartialLevel<P>),
        out: &mut RenderedText,
    ) -> Result<(), BadTemplate>
    where
        'a: 'v,
    {
        scopes.push(value);
        let done = self.nodes(inside, scopes, level, out);
        scopes.pop();
        done
    }

    fn partial<'v>(
        &mut self,
        (name, indent): (&str, &str),
        scopes: &mut Vec<&'v Value>,
        level: PartialLevel<P>,
        out: &mut RenderedText,
    ) -> Result<(), BadTemplate>
    where
        'a: 'v,
    {
        if level.depth == self.bounds.depth {
            return broken(format!("has more than {} partials within each other", self.bounds.depth));
        }
        let Some(FoundPartial { text, partials }) = level.partials.find(name) else {
            return broken(format!("asks for the partial `{name}`, which is not there"));
        };
        let source = if indent.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(indented(text, indent)) };
        self.work(source.len())?;
        let nodes =
            parse(&source).map_err(|BadTemplate(why)| BadTemplate(format!("has a partial `{name}` that {why}")))?;
        self.nodes(&nodes, scopes, PartialLevel { depth: level.depth + 1, partials }, out)
    }
}

impl RenderedText {
    fn put(&mut self, text: &str, is_value: bool) {
        if self.json && self.in_string && is_value {
            let quoted = Value::from(text).to_string();
            self.text.push_str(&quoted[1..quoted.len() - 1]);
            return;
        }
        if self.json {
            for byte in text.bytes() {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' if self.in_string => self.escaped = true,
                    b'"' => self.in_string = !self.in_string,
                    _ => {}
                }
            }
        }
        self.text.push_str(text);
    }
}

fn indented(source: &str, indent: &str) -> String {
    source.split_inclusive('\n').flat_map(|line| [indent, line]).collect()
}

/// Looks for the first part of a dotted name from the innermost scope outwards, and for the others inside what that is.
fn find<'v>(scopes: &[&'v Value], name: &str) -> Option<&'v Value> {
    if name == "." {
        return scopes.last().copied();
    }
    let mut parts = name.split('.').map(str::trim);
    let first = parts.next()?;
    let found = scopes.iter().rev().find_map(|scope| scope.get(first))?;
    parts.try_fold(found, |value, part| value.get(part))
}

/// Whether a section is shown for it: not for nothing, `false` and an empty list or text.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => true,
    }
}

fn shown(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Cow::Owned(value.to_string()),
    }
}
