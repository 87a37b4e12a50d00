//! Checks and actions as answers show them.

use serde_json::Value;

/// The checks as they were written, with `is_enabled` where it was left out.
pub(super) fn render_checks(checks: &Value) -> Value {
    let mut checks = checks.clone();
    for check in checks.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        let camel = check.contains_key("isEnabled");
        if !camel {
            check.entry("is_enabled").or_insert(Value::Bool(true));
        }
    }
    checks
}

pub(super) fn render_actions(actions: &Value) -> Value {
    let mut actions = actions.clone();
    if let Some(map) = actions.as_object_mut() {
        for name in ["deny", "async"] {
            map.entry(name).or_insert(Value::Bool(false));
        }
    }
    actions
}
