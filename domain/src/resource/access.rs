//! Who may use what an integration leads to: workspaces, the people of one, and what of it is switched off for
//! everybody. The same of MCP servers and of agents; knows no protocol.

use crate::id::{UserId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is switched off, or on again, by kind (`tool`, `prompt`, `resource`, `skill`) and name; everything else is as
/// its reader takes it to be, which is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Switches(pub BTreeMap<String, BTreeMap<String, bool>>);

impl Switches {
    /// More are no list that somebody keeps.
    pub const MOST: usize = 5000;

    pub fn allows(&self, kind: &str, name: &str) -> bool {
        self.said(kind, name).unwrap_or(true)
    }

    /// What somebody said of it; `None`: nobody did.
    pub fn said(&self, kind: &str, name: &str) -> Option<bool> {
        self.0.get(kind).and_then(|names| names.get(name)).copied()
    }

    /// Whether anybody has switched it, either way.
    pub fn says(&self, kind: &str, name: &str) -> bool {
        self.said(kind, name).is_some()
    }

    pub fn set(&mut self, kind: &str, name: String, enabled: bool) {
        self.0.entry(kind.to_owned()).or_default().insert(name, enabled);
    }

    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }
}

/// Which workspaces may use an integration of the organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceAccess {
    /// Whether a workspace that `workspaces` does not name may use it.
    pub global: bool,
    #[serde(default)]
    pub workspaces: BTreeMap<WorkspaceId, bool>,
}

impl Default for WorkspaceAccess {
    fn default() -> Self {
        Self { global: true, workspaces: BTreeMap::new() }
    }
}

impl WorkspaceAccess {
    pub fn allow(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.get(&workspace).copied().unwrap_or(self.global)
    }
}

/// Which people may use a server. A key of nobody's is a service's, which the default speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAccess {
    pub default_allow: bool,
    #[serde(default)]
    pub users: BTreeMap<UserId, bool>,
}

impl Default for UserAccess {
    fn default() -> Self {
        Self { default_allow: true, users: BTreeMap::new() }
    }
}

impl UserAccess {
    pub const MOST: usize = 10_000;

    pub fn allows(&self, user: Option<UserId>) -> bool {
        user.and_then(|user| self.users.get(&user)).copied().unwrap_or(self.default_allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn everything_is_on_until_it_is_switched_off() {
        let mut switches = Switches::default();
        switches.set("tool", "send".into(), false);
        assert!(
            !switches.allows("tool", "send") && switches.allows("prompt", "send") && switches.allows("tool", "read")
        );
        switches.set("tool", "send".into(), true);
        assert!(switches.allows("tool", "send") && switches.count() == 1);
    }

    #[test]
    fn people_are_told_one_by_one_and_services_by_the_default() {
        let (one, other) = (UserId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let access = UserAccess { default_allow: false, users: [(one, true)].into() };
        assert!(access.allows(Some(one)) && !access.allows(Some(other)) && !access.allows(None));
        assert!(UserAccess::default().allows(None));
    }
}
