//! How a task stands, as results and events of either version tell it.

use crate::object::RawObject;

/// The state of the task in a result, as version 0.3 writes it: `input-required`. `None`: the result tells no state.
pub fn state_of(result: &str) -> Option<String> {
    let object = RawObject::parse(result).ok()?;
    let own = |object: &RawObject<'_>| object.object("status").and_then(|status| status.text("state"));
    let inner = ["task", "statusUpdate", "status_update"];
    let state = own(&object).or_else(|| inner.iter().find_map(|name| own(&object.object(name)?)))?;
    let state = state.strip_prefix("TASK_STATE_").unwrap_or(&state).to_ascii_lowercase().replace('_', "-");
    Some(state.chars().take(40).collect())
}

/// Whether a stream may end with this event: the task goes no further by itself, or the answer is a message.
pub fn may_end(result: &str) -> bool {
    const ENDS: &[&str] = &["completed", "failed", "canceled", "rejected", "input-required", "auth-required"];
    let Ok(object) = RawObject::parse(result) else { return false };
    object.contains("message")
        || object.text("kind").as_deref() == Some("message")
        || object.raw("final") == Some("true")
        || state_of(result).is_some_and(|state| ENDS.contains(&state.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_called_the_same_in_both_versions() {
        for (result, state, ends) in [
            (r#"{"task":{"status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}"#, Some("input-required"), true),
            (r#"{"kind":"task","status":{"state":"completed"}}"#, Some("completed"), true),
            (r#"{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING"}}}"#, Some("working"), false),
            (r#"{"kind":"status-update","final":true,"status":{"state":"working"}}"#, Some("working"), true),
            (r#"{"message":{"parts":[]}}"#, None, true),
            (r#"{"artifactUpdate":{}}"#, None, false),
            ("7", None, false),
        ] {
            assert_eq!((state_of(result).as_deref(), may_end(result)), (state, ends), "{result}");
        }
    }
}
