//! Tools that were seen to say something else of themselves than what somebody accepted. What a list showed to be so is
//! refused at once, on this node; on the others from when the server was asked again.

use gateway_domain::resource::mcp_tool_headers::McpToolHeaders;
use gateway_domain::snapshot::McpUpstream;
use gateway_mcp::filter::McpKind;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Names in all. Beyond it the integrations that were seen first are forgotten, until they are listed again.
const MOST: usize = 20_000;

/// The revision and the id of an integration: a change of it begins anew.
type DriftKey = (i64, Uuid);

#[derive(Debug, Default)]
pub(super) struct ToolDrift(Mutex<BTreeMap<DriftKey, BTreeSet<String>>>);

impl ToolDrift {
    /// Whether an item of a list may be seen; where it may not, its name may not be called any more either.
    pub(super) fn sees(&self, upstream: &McpUpstream, kind: McpKind, name: &str, item: &str) -> bool {
        if kind != McpKind::Tool {
            return true;
        }
        // No client could call it; that it is refused as well is what the last sync says.
        if McpToolHeaders::of_json(item).is_err() {
            return false;
        }
        if upstream.accepts(name, item) {
            return true;
        }
        self.note((upstream.revision, upstream.id.0), name);
        false
    }

    fn note(&self, key: DriftKey, name: &str) {
        let mut all = self.0.lock();
        let names = all.entry(key).or_default();
        // A server may make names up; one that nobody accepted cannot be called anyhow.
        if names.len() < MOST {
            names.insert(name.to_owned());
        }
        while all.len() > 1 && all.values().map(BTreeSet::len).sum::<usize>() > MOST {
            all.pop_first();
        }
    }

    /// Names in all.
    pub(super) fn len(&self) -> usize {
        self.0.lock().values().map(BTreeSet::len).sum()
    }

    pub(super) fn has(&self, upstream: &McpUpstream, kind: McpKind, name: &str) -> bool {
        if kind != McpKind::Tool || !upstream.pins() {
            return false;
        }
        self.0.lock().get(&(upstream.revision, upstream.id.0)).is_some_and(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_are_remembered_are_bounded() {
        let drift = ToolDrift::default();
        let key = |n: i64| (n, Uuid::from_u128(1));
        for integration in 1..=5 {
            for tool in 0..5_000 {
                drift.note(key(integration), &format!("tool-{tool}"));
            }
        }
        assert_eq!(drift.len(), MOST);
        for tool in 0..MOST + 10 {
            drift.note(key(9), &format!("tool-{tool}"));
        }
        assert_eq!(drift.len(), MOST, "one server has no more than all");
        let drift = ToolDrift::default();
        for integration in 1..=5 {
            for tool in 0..5_000 {
                drift.note(key(integration), &format!("tool-{tool}"));
            }
        }
        let all = drift.0.lock();
        assert!(!all.contains_key(&key(1)) && all.contains_key(&key(2)), "those that were seen first go first");
    }
}
