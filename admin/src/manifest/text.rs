//! The document as text: YAML, lists in the order in which things build on each other, and what is in them in the order
//! of their names, so that the same configuration is the same text.

use super::item::Portable;
use super::kinds::KINDS;
use crate::problem::{Problem, bad, internal, unreadable};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The form that this version writes and reads.
const VERSION: u64 = 1;
const HEAD: &str =
    "# Configuration of a gateway: see docs/configuration-as-code.md. Values of secrets are not in it.\n";

/// How much a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentBounds {
    /// Bounds for what a client sends to the Admin API.
    Client,
    /// Bounds for a file of whoever runs the gateway.
    Operator,
}

/// What a document declares, by list.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) sections: BTreeMap<&'static str, Vec<Map<String, Value>>>,
}

impl Manifest {
    pub(super) fn is_told(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }
}

fn options(bounds: DocumentBounds) -> serde_saphyr::Options {
    let (nodes, scalars) = match bounds {
        DocumentBounds::Client => (500_000, 16 << 20),
        DocumentBounds::Operator => (50_000_000, 1 << 30),
    };
    let budget = serde_saphyr::budget! {
        max_nodes: nodes,
        max_events: 2 * nodes,
        max_total_scalar_bytes: scalars,
        max_documents: 1,
        max_depth: 100,
    };
    serde_saphyr::options! {
        budget: budget,
        strict_booleans: true,
        // What stands in a document may be a secret, so no error shows any of it.
        with_snippet: false,
    }
}

/// Any YAML as a value.
pub(super) fn parse_yaml(text: &str, bounds: DocumentBounds) -> Result<Value, Problem> {
    serde_saphyr::from_str_with_options(text, options(bounds)).map_err(|error| {
        let place = error.location().map(|at| format!(" (line {}, column {})", at.line(), at.column()));
        unreadable(format!("the document is no YAML that can be read{}", place.unwrap_or_default()))
    })
}

pub(super) fn parse(text: &str, bounds: DocumentBounds) -> Result<Manifest, Problem> {
    let Value::Object(mut document) = parse_yaml(text, bounds)? else {
        return Err(unreadable("the document must be a mapping of lists"));
    };
    if document.shift_remove("version").and_then(|version| version.as_u64()) != Some(VERSION) {
        return Err(bad("version", format_args!("must be {VERSION}, the form that this gateway reads")));
    }
    let mut manifest = Manifest::default();
    for (name, value) in document {
        let Some(kind) = KINDS.iter().find(|kind| kind.section == name) else {
            return Err(bad(name, "is not a known list"));
        };
        let items = match value {
            Value::Null => Vec::new(),
            Value::Object(one) if kind.is_single() => vec![one],
            Value::Array(items) if !kind.is_single() => {
                items.into_iter().map(object).collect::<Option<_>>().ok_or_else(|| bad(&name, "must hold mappings"))?
            }
            _ if kind.is_single() => return Err(bad(name, "must be a mapping")),
            _ => return Err(bad(name, "must be a list")),
        };
        if items.iter().any(|item| item.values().any(holds_nul)) {
            return Err(bad(name, "must not hold the character U+0000"));
        }
        manifest.sections.insert(kind.section, items);
    }
    Ok(manifest)
}

fn object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(map) = value { Some(map) } else { None }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What stands before all lists.
pub(super) fn head_text() -> String {
    format!("{HEAD}version: {VERSION}\n")
}

/// One declaration. `begins`: it is the first of its list.
pub(super) fn item_text(kind: &Portable, fields: Map<String, Value>, begins: bool) -> Result<String, Problem> {
    let item = Value::Object(fields);
    let list = if kind.is_single() { item } else { Value::Array(vec![item]) };
    let text = yaml(&Value::Object(Map::from_iter([(kind.section.to_owned(), list)])))?;
    // A list that goes on is written as one that begins, without the line of its name.
    Ok(match text.split_once('\n').filter(|_| !begins) {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    })
}

fn yaml(value: &Value) -> Result<String, Problem> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).map_err(internal)
}

pub(super) fn write(manifest: &Manifest) -> Result<String, Problem> {
    let mut document = head_text();
    for kind in KINDS {
        let items = manifest.sections.get(kind.section).into_iter().flatten();
        let most = if kind.is_single() { 1 } else { usize::MAX };
        for (at, item) in items.take(most).enumerate() {
            document.push_str(&item_text(kind, item.clone(), at == 0)?);
        }
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(config: &Value) -> Manifest {
        let item = json!({"workspace": "default", "slug": "pc-a", "config": config});
        let item = item.as_object().cloned().unwrap_or_default();
        Manifest { sections: [("configs", vec![item])].into() }
    }

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        let texts = [
            "",
            " ",
            "a",
            "yes",
            "no",
            "on",
            "off",
            "null",
            "~",
            "true",
            "1",
            "1.5",
            "0x10",
            "0o7",
            "1e3",
            ".inf",
            "-",
            "- a",
            "? a",
            "a: b",
            "a #b",
            "#a",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a`",
            "'a'",
            "\"a\"",
            "{a}",
            "[a]",
            "a,b",
            "2026-01-01",
            "12:30:45",
            "a\nb",
            "a\n",
            "\na",
            "\n",
            "a\n\n",
            "  a\nb",
            "a \n b ",
            "\ta",
            "a\tb",
            "a\r\nb",
            "\u{85}",
            "\u{2028}a",
            "\u{feff}a",
            "ü 漢 🙂",
            "\u{1}",
            "\u{7f}",
            "<<",
            "=",
            "---",
            "...",
            "--- a",
            "a\n---\nb",
            "${X}",
            "{{#a}}\n  {{.}}\n{{/a}}\n",
            "0123",
            "+1",
            "_1",
            "1_000",
            "NaN",
            "a: |\n  b",
            "trailing ",
            "x: ",
            ": x",
            "-1",
        ];
        let long = "word ".repeat(100);
        for text in texts.into_iter().chain([long.as_str(), long.trim_end()]) {
            let value = json!({"text": text, "list": [text, [text]], text: {"inner": text}});
            let written = write(&config(&value)).expect("written");
            let read = parse(&written, DocumentBounds::Client)
                .unwrap_or_else(|p| panic!("{text:?}: {} in\n{written}", p.message));
            assert_eq!(read.sections["configs"][0]["config"], value, "{text:?} in\n{written}");
            assert_eq!(write(&read).expect("written"), written, "{text:?}");
        }
        let numbers = json!([0, -1, u64::MAX, i64::MIN, 0.1, 1.0, 1e300, -2.5e-7, true, null, {}, [], [[]], [{}]]);
        let written = write(&config(&numbers)).expect("written");
        assert_eq!(
            parse(&written, DocumentBounds::Client).expect("read").sections["configs"][0]["config"],
            numbers,
            "{written}"
        );
    }

    #[test]
    fn what_is_written_item_by_item_is_what_is_written_at_once() {
        let items = [
            json!({"slug": "a", "name": "A", "config": {"targets": [{"provider": "@a"}, {}], "text": "one\ntwo\n"}}),
            json!({}),
            json!({"slug": "b", "list": [[], [[1]], {"x": null}], "deep": {"er": {"and": ["er"]}}}),
        ];
        let items = items.map(|item| item.as_object().cloned().unwrap_or_default());
        let organisation = json!({"name": "Acme", "settings": {"a": [1, 2]}});
        let sections = [
            ("organisation", vec![organisation.as_object().cloned().unwrap_or_default()]),
            ("configs", items.to_vec()),
            ("labels", items[..1].to_vec()),
        ];
        let whole = json!({"version": 1, "organisation": organisation, "configs": items, "labels": [items[0]]});
        let manifest = Manifest { sections: sections.into() };
        assert_eq!(write(&manifest).expect("written"), format!("{HEAD}{}", yaml(&whole).expect("written")));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_showing_it() {
        for (text, wanted) in [
            ("", "mapping"),
            ("[]", "mapping"),
            ("configs: []", "version"),
            ("version: 2", "version"),
            ("version: 1\nrouters: []", "routers is not a known list"),
            ("version: 1\nconfigs: {}", "configs must be a list"),
            ("version: 1\nconfigs: [secret-word]", "configs must hold mappings"),
            ("version: 1\norganisation: []", "organisation must be a mapping"),
            ("version: 1\nconfigs: [\nsecret-word: }", "line"),
            ("version: 1\nversion: 1", "line"),
            ("version: 1\n---\nversion: 1", "no YAML"),
            ("version: 1\nconfigs: [{a: \"\\0\"}]", "U+0000"),
        ] {
            let problem = parse(text, DocumentBounds::Client).expect_err(text);
            assert!(problem.message.contains(wanted), "{text}: {}", problem.message);
            assert!(!problem.message.contains("secret-word"), "{}", problem.message);
        }
    }

    #[test]
    fn aliases_do_not_unfold_without_end() {
        let mut bomb = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let many = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb.push_str(&format!("a{i}: &a{i} [{many}]\n"));
        }
        assert!(parse(&bomb, DocumentBounds::Client).is_err());
    }
}
