//! Texts put into the places of others, and members added to an object; every other byte stays as it came.

use super::{Content, JsonKind, Tape, TextLocation};
use bytes::Bytes;
use std::ops::Range;

/// What a check wants changed.
#[derive(Clone, Debug)]
pub(crate) enum Rewrite {
    /// Texts in the places of parts, by their position.
    Texts(Vec<(usize, String)>),
    /// Another body.
    Body(Bytes),
}

/// Replaces ranges; they must not overlap.
pub(crate) fn splice(body: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(body.len() + edits.iter().map(|(_, t)| t.len()).sum::<usize>());
    let mut done = 0;
    for (range, text) in edits {
        if range.start < done {
            continue;
        }
        out.push_str(&body[done..range.start]);
        out.push_str(&text);
        done = range.end;
    }
    out.push_str(&body[done..]);
    out
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Edits within the JSON that one string holds.
struct Nested {
    outer: Range<usize>,
    edits: Vec<(Range<usize>, String)>,
}

pub(super) fn with_texts(content: &Content, texts: Vec<(usize, String)>) -> Bytes {
    let Ok(body) = std::str::from_utf8(content.body()) else { return content.body().clone() };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    // Texts within one string of JSON are put there together.
    let mut nested: Vec<Nested> = Vec::new();
    for (at, text) in texts {
        let Some(part) = content.parts().get(at) else { continue };
        match &part.place {
            TextLocation { outer, inner: None } => edits.push((outer.clone(), quoted(&text))),
            TextLocation { outer, inner: Some(inner) } => {
                let edit = (inner.clone(), quoted(&text));
                match nested.iter_mut().find(|n| n.outer == *outer) {
                    Some(found) => found.edits.push(edit),
                    None => nested.push(Nested { outer: outer.clone(), edits: vec![edit] }),
                }
            }
        }
    }
    for Nested { outer, edits: within } in nested {
        let decoded: String = serde_json::from_str(&body[outer.clone()]).unwrap_or_default();
        edits.push((outer, quoted(&splice(&decoded, within))));
    }
    splice(body, edits).into()
}

/// The object with one member more as its last; nothing where it is no object.
pub(crate) fn with_last_member(body: &str, key: &str, value: &str) -> Option<String> {
    let tape = Tape::parse(body).ok()?;
    let root = tape.root().filter(|r| r.kind() == JsonKind::Object)?;
    let close = root.span().end - 1;
    let comma = if root.members().next().is_some() { "," } else { "" };
    Some(splice(body, vec![(close..close, format!("{comma}{}:{value}", quoted(key)))]))
}
