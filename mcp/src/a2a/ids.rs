//! Where ids of tasks and contexts stand in messages of A2A, in the spellings of both versions and of proto3's JSON.
//! What people and agents say (parts, metadata) is not looked into: an id there is a text like any other.

use crate::object::{RawObject, items};
use serde_json::Value;

/// Which kind of id it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum A2aId {
    Task,
    Context,
}

/// Sees an id, and says what goes in its place; `None`: there is no such thing.
pub type IdVisit<'v> = &'v mut dyn FnMut(A2aId, &str) -> Option<String>;

const NAMED: &[(&str, A2aId)] = &[
    ("taskId", A2aId::Task),
    ("task_id", A2aId::Task),
    ("contextId", A2aId::Context),
    ("context_id", A2aId::Context),
    // Versions before 0.3 call a context a session.
    ("sessionId", A2aId::Context),
];
const LISTED: &[&str] = &["referenceTaskIds", "reference_task_ids"];
/// Objects and lists of objects that hold ids again.
const INNER: &[&str] =
    &["task", "message", "status", "statusUpdate", "status_update", "artifactUpdate", "artifact_update"];
const LISTS: &[&str] = &["history", "tasks", "configs"];

/// `json` with other ids in the place of all that it holds. `None`: one of them leads nowhere. `own`: `id` of the
/// object itself is a task's, as parameters have it.
pub fn each(json: &str, own: bool, visit: IdVisit<'_>) -> Option<String> {
    if json.trim_start().starts_with('[') {
        return list(json, visit);
    }
    let Ok(mut object) = RawObject::parse(json) else { return Some(json.to_owned()) };
    for (name, kind) in NAMED {
        replace(&mut object, name, *kind, visit)?;
    }
    for name in LISTED {
        let Some(held) = object.raw(name).and_then(items) else { continue };
        let all = held.iter().map(|item| match serde_json::from_str::<String>(item) {
            Ok(id) => visit(A2aId::Task, &id).map(|other| Value::from(other).to_string()),
            Err(_) => Some((*item).to_owned()),
        });
        let all: Vec<String> = all.collect::<Option<_>>()?;
        object.set(name, format!("[{}]", all.join(",")));
    }
    // A task is told by its status; what else has one names its task.
    let is_task = object.contains("status") && !NAMED[..2].iter().any(|(name, _)| object.contains(name));
    if own || is_task {
        replace(&mut object, "id", A2aId::Task, visit)?;
    }
    for name in INNER {
        let Some(held) = object.raw(name).filter(|held| held.starts_with('{')).map(str::to_owned) else { continue };
        object.set(name, each(&held, false, visit)?);
    }
    for name in LISTS {
        let Some(held) = object.raw(name).filter(|held| held.starts_with('[')).map(str::to_owned) else { continue };
        object.set(name, list(&held, visit)?);
    }
    Some(object.to_json())
}

fn list(json: &str, visit: IdVisit<'_>) -> Option<String> {
    let Some(held) = items(json) else { return Some(json.to_owned()) };
    let all: Vec<String> = held.into_iter().map(|item| each(item, false, visit)).collect::<Option<_>>()?;
    Some(format!("[{}]", all.join(",")))
}

/// An empty id is none.
fn replace(object: &mut RawObject<'_>, name: &str, kind: A2aId, visit: IdVisit<'_>) -> Option<()> {
    if let Some(id) = object.text(name).filter(|id| !id.is_empty()) {
        let other = visit(kind, &id)?;
        object.set_text(name, &other);
    }
    Some(())
}

/// The addresses that an agent is asked to call: of a push notification's config, alone or within a message's.
pub fn webhooks(params: &str) -> Vec<String> {
    const CONFIGS: &[&str] = &[
        "pushNotificationConfig",
        "push_notification_config",
        "taskPushNotificationConfig",
        "task_push_notification_config",
        "pushNotification",
        "config",
    ];
    let mut found = Vec::new();
    let Ok(object) = RawObject::parse(params) else { return found };
    found.extend(object.text("url"));
    for name in CONFIGS.iter().chain(&["configuration"]) {
        let Some(held) = object.raw(name).filter(|held| held.starts_with('{')) else { continue };
        if *name != "configuration" && held.trim_matches(['{', '}']).trim().is_empty() {
            continue;
        }
        found.extend(webhooks(held));
        // A config without an address is one all the same.
        if *name != "configuration" && RawObject::parse(held).is_ok_and(|one| !one.contains("url")) {
            found.push(String::new());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marked(json: &str, own: bool) -> String {
        each(json, own, &mut |kind, id| Some(format!("{}:{id}", if kind == A2aId::Task { "t" } else { "c" })))
            .expect("ids")
    }

    #[test]
    fn ids_are_found_in_every_shape() {
        for (json, other) in [
            (
                r#"{"task":{"id":"1","contextId":"2","status":{"state":"x","message":{"taskId":"1","parts":[{"data":{"taskId":"k"}}]}}}}"#,
                r#"{"task":{"id":"t:1","contextId":"c:2","status":{"state":"x","message":{"taskId":"t:1","parts":[{"data":{"taskId":"k"}}]}}}}"#,
            ),
            (
                r#"{"kind":"status-update","taskId":"1","contextId":"2","status":{"state":"x"},"id":"own"}"#,
                r#"{"kind":"status-update","taskId":"t:1","contextId":"c:2","status":{"state":"x"},"id":"own"}"#,
            ),
            (
                r#"{"message":{"messageId":"m","task_id":"1","context_id":"2","referenceTaskIds":["3"],"metadata":{"taskId":"k"}}}"#,
                r#"{"message":{"messageId":"m","task_id":"t:1","context_id":"c:2","referenceTaskIds":["t:3"],"metadata":{"taskId":"k"}}}"#,
            ),
            (
                r#"{"configs":[{"taskId":"1","id":"own","url":"https://a"}]}"#,
                r#"{"configs":[{"taskId":"t:1","id":"own","url":"https://a"}]}"#,
            ),
            (r#"[{"taskId":"1"}]"#, r#"[{"taskId":"t:1"}]"#),
            (r#"{"statusUpdate":{"taskId":"1"},"n":1.50}"#, r#"{"statusUpdate":{"taskId":"t:1"},"n":1.50}"#),
            (r#"{"id":"own","contextId":""}"#, r#"{"id":"own","contextId":""}"#),
        ] {
            assert_eq!(marked(json, false), other);
        }
        assert_eq!(marked(r#"{"id":"1"}"#, true), r#"{"id":"t:1"}"#);
        assert_eq!(each(r#"{"message":{"taskId":"1"}}"#, false, &mut |_, _| None), None);
    }

    #[test]
    fn addresses_are_found_where_agents_would_find_them() {
        assert_eq!(webhooks(r#"{"taskId":"t","url":"https://a"}"#), ["https://a"]);
        assert_eq!(webhooks(r#"{"taskId":"t","pushNotificationConfig":{"url":"https://b"}}"#), ["https://b"]);
        for name in ["pushNotificationConfig", "taskPushNotificationConfig", "task_push_notification_config"] {
            let params = format!(r#"{{"message":{{}},"configuration":{{"{name}":{{"url":"https://c"}}}}}}"#);
            assert_eq!(webhooks(&params), ["https://c"]);
        }
        assert_eq!(webhooks(r#"{"message":{},"configuration":{"historyLength":1}}"#), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".{0,200}") {
            each(&text, true, &mut |_, id| Some(id.to_owned()));
            webhooks(&text);
        }
    }
}
