//! Texts inside JSON that people or models wrote: the arguments of a call, and what a result says. Each is shown to
//! whoever asks, who may put another in its place; everything else stays as it was written.

use crate::object::{RawObject, items};
use serde_json::Value;

/// Sees a text, and says what goes in its place, if anything.
pub type TextVisit<'v> = &'v mut dyn FnMut(&str) -> Option<String>;

/// All texts that are values, in their order; names of members are none. `None`: nothing was changed.
pub fn each_value(json: &str, visit: TextVisit<'_>) -> Option<String> {
    let bytes = json.as_bytes();
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let start = at + found;
        let Some(end) = end_of_text(bytes, start) else { break };
        at = end;
        let next = bytes[end..].iter().find(|b| !b.is_ascii_whitespace());
        if next == Some(&b':') {
            continue;
        }
        let Ok(text) = serde_json::from_str::<String>(&json[start..end]) else { continue };
        if let Some(other) = visit(&text) {
            out.push_str(&json[kept..start]);
            out.push_str(&Value::from(other).to_string());
            kept = end;
        }
    }
    if kept == 0 {
        return None;
    }
    out.push_str(&json[kept..]);
    Some(out)
}

/// The place behind the quote that ends the text which begins at `start`.
fn end_of_text(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at + found] == b'"' {
            return Some(at + found + 1);
        }
        at += found + 2;
    }
}

/// The texts of a tool's result: its content, embedded resources, and what it says in a structure. `None`: nothing was
/// changed.
pub fn each_of_result(result: &str, visit: TextVisit<'_>) -> Option<String> {
    let mut object = RawObject::parse(result).ok()?;
    let mut changed = false;
    if let Some(content) = object.raw("content").and_then(items) {
        let mut any = false;
        let all: Vec<String> = content
            .iter()
            .map(|item| {
                let other = each_of_item(item, visit);
                any |= other.is_some();
                other.unwrap_or_else(|| (*item).to_owned())
            })
            .collect();
        if any {
            object.set("content", format!("[{}]", all.join(",")));
            changed = true;
        }
    }
    if let Some(other) = object.raw("structuredContent").and_then(|json| each_value(json, visit)) {
        object.set("structuredContent", other);
        changed = true;
    }
    changed.then(|| object.to_json())
}

fn each_of_item(item: &str, visit: TextVisit<'_>) -> Option<String> {
    let mut object = RawObject::parse(item).ok()?;
    let mut changed = false;
    if let Some(other) = object.text("text").and_then(|text| visit(&text)) {
        object.set_text("text", &other);
        changed = true;
    }
    if let Some(held) = object.raw("resource").map(str::to_owned)
        && let Ok(mut resource) = RawObject::parse(&held)
        && let Some(other) = resource.text("text").and_then(|text| visit(&text))
    {
        resource.set_text("text", &other);
        let resource = resource.to_json();
        object.set("resource", resource);
        changed = true;
    }
    changed.then(|| object.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(json: &str) -> Vec<String> {
        let mut all = Vec::new();
        assert_eq!(
            each_value(json, &mut |text| {
                all.push(text.to_owned());
                None
            }),
            None
        );
        all
    }

    #[test]
    fn values_are_texts_and_names_are_not() {
        let json = r#"{"a": "one", "b\"": ["two", {"c" : "thr\"ee"}], "n": 1.50, "d": "\u00e9"}"#;
        assert_eq!(seen(json), ["one", "two", "thr\"ee", "é"]);
        let other = each_value(json, &mut |text| (text == "two").then(|| "zw\"ei".to_owned())).expect("changed");
        assert_eq!(other, r#"{"a": "one", "b\"": ["zw\"ei", {"c" : "thr\"ee"}], "n": 1.50, "d": "\u00e9"}"#);
        assert_eq!(seen("\"bare\""), ["bare"]);
        assert_eq!(seen("12"), [""; 0]);
    }

    #[test]
    fn results_say_things_in_three_places() {
        let result = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"b"},
            {"type":"resource","resource":{"uri":"u:1","text":"c"}}],"structuredContent":{"k":"d","n":9007199254740993}}"#;
        let mut all = Vec::new();
        each_of_result(result, &mut |text| {
            all.push(text.to_owned());
            None
        });
        assert_eq!(all, ["a", "c", "d"]);
        let other = each_of_result(result, &mut |text| Some(text.to_uppercase())).expect("changed");
        assert!(other.contains(r#""text":"A""#) && other.contains(r#""text":"C""#), "{other}");
        assert!(other.contains(r#""structuredContent":{"k":"D","n":9007199254740993}"#), "{other}");
        assert!(other.contains(r#""data":"b""#) && other.contains(r#""uri":"u:1""#), "{other}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".{0,200}") {
            each_value(&text, &mut |_| Some("x".to_owned()));
            each_of_result(&text, &mut |_| None);
        }
    }
}
