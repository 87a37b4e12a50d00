//! What people and agents say in messages of A2A: texts and structures of parts, wherever parts stand. Each is shown to
//! whoever asks, who may put another in its place; everything else stays as it was written.

use crate::object::{RawObject, items};
use crate::texts::{TextVisit, each_value};

/// Objects and lists of objects that hold parts, or hold such again.
const INNER: &[&str] = &[
    "message",
    "task",
    "status",
    "artifact",
    "statusUpdate",
    "status_update",
    "artifactUpdate",
    "artifact_update",
    "result",
];
const LISTS: &[&str] = &["artifacts", "history", "tasks"];

/// Lets `visit` change every text in parameters, in a result, or in a list of such. `None`: nothing was changed.
pub fn each_said(json: &str, visit: TextVisit<'_>) -> Option<String> {
    if json.trim_start().starts_with('[') {
        return list(json, &mut |item| each_said(item, visit));
    }
    let mut object = RawObject::parse(json).ok()?;
    let mut changed = false;
    if let Some(other) = object.raw("parts").and_then(|parts| list(parts, &mut |part| each_of_part(part, visit))) {
        object.set("parts", other);
        changed = true;
    }
    for name in INNER.iter().chain(LISTS) {
        let held = object.raw(name).filter(|held| held.starts_with(['{', '[']));
        if let Some(other) = held.and_then(|held| each_said(held, visit)) {
            object.set(name, other);
            changed = true;
        }
    }
    changed.then(|| object.to_json())
}

fn list(json: &str, one: &mut dyn FnMut(&str) -> Option<String>) -> Option<String> {
    let held = items(json)?;
    let mut changed = false;
    let all: Vec<String> = held
        .into_iter()
        .map(|item| {
            let other = one(item);
            changed |= other.is_some();
            other.unwrap_or_else(|| item.to_owned())
        })
        .collect();
    changed.then(|| format!("[{}]", all.join(",")))
}

fn each_of_part(part: &str, visit: TextVisit<'_>) -> Option<String> {
    let mut object = RawObject::parse(part).ok()?;
    let mut changed = false;
    if let Some(other) = object.text("text").and_then(|text| visit(&text)) {
        object.set_text("text", &other);
        changed = true;
    }
    if let Some(other) = object.raw("data").and_then(|data| each_value(data, visit)) {
        object.set("data", other);
        changed = true;
    }
    changed.then(|| object.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_wherever_they_stand() {
        let json = r#"[{"task":{"id":"t","artifacts":[{"parts":[{"text":"a"},{"data":{"k":"b","n":1.50}}]}],
            "history":[{"parts":[{"kind":"text","text":"c"}]}],"status":{"message":{"parts":[{"text":"d"}]}}}},
            {"artifactUpdate":{"artifact":{"name":"no","parts":[{"text":"e"},{"raw":"xx"}]}}}]"#;
        let mut all = Vec::new();
        assert_eq!(
            each_said(json, &mut |text| {
                all.push(text.to_owned());
                None
            }),
            None
        );
        all.sort();
        assert_eq!(all, ["a", "b", "c", "d", "e"]);
        let other = each_said(json, &mut |text| Some(text.to_uppercase())).expect("changed");
        assert!(other.contains(r#"{"k":"B","n":1.50}"#) && other.contains(r#""text":"E""#), "{other}");
        assert!(other.contains(r#""name":"no""#) && other.contains(r#""id":"t""#), "{other}");
    }
}
