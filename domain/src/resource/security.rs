//! What the roles of people may see and do: thirty-five switches of the organisation, which a workspace may set
//! for itself in the sections that the organisation opened. Scopes are bounded by them, never widened.

use super::person::{OrgRole, WorkspaceRole};
use crate::scope::{Scope, Scopes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// The people whose right a switch grants or takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Members,
    Managers,
    OrgAdmins,
}

#[derive(Debug)]
struct Switch {
    name: &'static str,
    section: &'static str,
    of: Of,
    default: bool,
    scopes: &'static [Scope],
}

macro_rules! switches {
    ($($name:literal $section:literal $of:ident $default:literal [$($scope:literal)*])+) => {
        &[$(Switch {
            name: $name,
            section: $section,
            of: Of::$of,
            default: $default,
            scopes: &[$(Scope::named($scope)),*],
        }),+]
    };
}

static SWITCHES: &[Switch] = switches! {
    "members_view_logs" "logs" Members true ["logs.list" "logs.view" "logs.read" "logs.export"]
    "members_view_log_metadata" "logs" Members true []
    "members_view_all_data" "data_visibility" Members true []
    "members_view_analytics" "analytics" Members true ["analytics.view"]
    "members_view_api_keys" "api_keys" Members true ["workspace_user_api_keys.list" "workspace_user_api_keys.read"
        "workspace_service_api_keys.list" "workspace_service_api_keys.read"]
    "members_view_configs" "configs" Members true ["configs.list" "configs.read"]
    "members_view_prompts" "prompts" Members true ["prompts.list" "prompts.read"]
    "members_view_guardrails" "guardrails" Members true ["guardrails.list" "guardrails.read"]
    "members_view_virtual_keys" "virtual_keys" Members true ["virtual_keys.list" "virtual_keys.read"
        "providers.list" "providers.read"]
    "members_write_api_keys" "api_keys" Members false ["workspace_user_api_keys.create"
        "workspace_user_api_keys.update" "workspace_user_api_keys.delete" "workspace_user_api_keys.rotate"]
    "members_write_configs" "configs" Members false ["configs.create" "configs.update" "configs.delete"]
    "members_write_prompts" "prompts" Members false ["prompts.create" "prompts.update" "prompts.delete"
        "prompts.publish"]
    "members_write_guardrails" "guardrails" Members false ["guardrails.create" "guardrails.update"
        "guardrails.delete"]
    "members_write_virtual_keys" "virtual_keys" Members false ["virtual_keys.create" "virtual_keys.update"
        "virtual_keys.delete" "virtual_keys.duplicate" "virtual_keys.copy" "providers.create" "providers.update"
        "providers.delete"]
    "managers_view_logs" "logs" Managers true ["logs.list" "logs.view" "logs.read" "logs.export"]
    "managers_view_log_metadata" "logs" Managers true []
    "managers_view_all_data" "data_visibility" Managers true []
    "managers_view_analytics" "analytics" Managers true ["analytics.view"]
    "managers_view_api_keys" "api_keys" Managers true ["workspace_user_api_keys.list" "workspace_user_api_keys.read"
        "workspace_service_api_keys.list" "workspace_service_api_keys.read"]
    "managers_view_configs" "configs" Managers true ["configs.list" "configs.read"]
    "managers_view_prompts" "prompts" Managers true ["prompts.list" "prompts.read"]
    "managers_view_guardrails" "guardrails" Managers true ["guardrails.list" "guardrails.read"]
    "managers_view_virtual_keys" "virtual_keys" Managers true ["virtual_keys.list" "virtual_keys.read"
        "providers.list" "providers.read"]
    "managers_write_api_keys" "api_keys" Managers true ["workspace_user_api_keys.create"
        "workspace_user_api_keys.update" "workspace_user_api_keys.delete" "workspace_user_api_keys.rotate"
        "workspace_service_api_keys.create" "workspace_service_api_keys.update"
        "workspace_service_api_keys.delete" "workspace_service_api_keys.rotate"]
    "managers_write_configs" "configs" Managers true ["configs.create" "configs.update" "configs.delete"]
    "managers_write_prompts" "prompts" Managers true ["prompts.create" "prompts.update" "prompts.delete"
        "prompts.publish"]
    "managers_write_guardrails" "guardrails" Managers true ["guardrails.create" "guardrails.update"
        "guardrails.delete"]
    "managers_write_virtual_keys" "virtual_keys" Managers true ["virtual_keys.create" "virtual_keys.update"
        "virtual_keys.delete" "virtual_keys.duplicate" "virtual_keys.copy" "providers.create" "providers.update"
        "providers.delete"]
    "managers_write_ws_users" "workspace_users" Managers true ["workspace_users.create" "workspace_users.update"
        "workspace_users.delete"]
    "managers_write_ws_integrations" "integrations" Managers true ["workspace_integrations.create"
        "workspace_integrations.update" "workspace_integrations.delete"]
    "managers_write_mcp_servers" "mcp" Managers true ["mcp_servers.create" "mcp_servers.update"
        "mcp_servers.delete" "agent_servers.create" "agent_servers.update" "agent_servers.delete"]
    "managers_write_ws_mcp_integrations" "mcp" Managers true ["workspace_mcp_integrations.create"
        "workspace_mcp_integrations.update" "workspace_mcp_integrations.delete" "workspace_agent_integrations.create"
        "workspace_agent_integrations.update" "workspace_agent_integrations.delete"]
    "managers_update_ws" "workspace" Managers true ["workspaces.update"]
    "organisation_admins_view_logs" "logs" OrgAdmins true ["logs.list" "logs.view" "logs.read" "logs.export"]
    "organisation_admins_view_log_metadata" "logs" OrgAdmins true []
};

/// The state of every switch, one bit each in the order of the table; stored and shown by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security(u64);

/// Why a set of switches cannot be taken as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadSecurity {
    Unknown(String),
    Missing(&'static str),
}

impl Default for Security {
    fn default() -> Self {
        let on = SWITCHES.iter().enumerate().filter(|(_, s)| s.default);
        Self(on.fold(0, |bits, (i, _)| bits | 1 << i))
    }
}

impl Security {
    pub fn names() -> impl Iterator<Item = &'static str> {
        SWITCHES.iter().map(|s| s.name)
    }

    /// The sections that can be opened to workspaces, each once.
    pub fn sections() -> BTreeSet<&'static str> {
        SWITCHES.iter().map(|s| s.section).collect()
    }

    pub fn is_on(self, name: &str) -> bool {
        SWITCHES.iter().position(|s| s.name == name).is_some_and(|i| self.0 & (1 << i) != 0)
    }

    /// These switches with `changes` made to them.
    pub fn with(self, changes: &BTreeMap<String, bool>) -> Result<Self, BadSecurity> {
        let mut bits = self.0;
        for (name, on) in changes {
            let i = SWITCHES.iter().position(|s| s.name == name).ok_or_else(|| BadSecurity::Unknown(name.clone()))?;
            bits = if *on { bits | 1 << i } else { bits & !(1 << i) };
        }
        Ok(Self(bits))
    }

    /// Reads a set that must name every switch.
    pub fn whole(all: &BTreeMap<String, bool>) -> Result<Self, BadSecurity> {
        match Self::names().find(|name| !all.contains_key(*name)) {
            Some(name) => Err(BadSecurity::Missing(name)),
            None => Self::default().with(all),
        }
    }

    /// The first switch outside `open` sections that differs from the organisation's.
    pub fn closed_change(self, organisation: Self, open: &BTreeSet<String>) -> Option<(&'static str, &'static str)> {
        let differs = |i: &usize| (self.0 ^ organisation.0) & (1 << *i) != 0;
        let changed = SWITCHES.iter().enumerate().filter(|(i, _)| differs(i)).map(|(_, s)| s);
        changed.filter(|s| !open.contains(s.section)).map(|s| (s.name, s.section)).next()
    }

    /// What is in force in a workspace: its own switches in the open sections, the organisation's in the others.
    #[must_use]
    pub fn over(self, organisation: Self, open: &BTreeSet<String>) -> Self {
        let open = SWITCHES.iter().enumerate().filter(|(_, s)| open.contains(s.section));
        let mask = open.fold(0, |mask, (i, _)| mask | 1 << i);
        Self(organisation.0 & !mask | self.0 & mask)
    }

    /// The most that a person may do in a workspace. `None` as workspace role: no member of it.
    pub fn bound(self, org: OrgRole, workspace: Option<WorkspaceRole>) -> Scopes {
        let (mut scopes, of) = match (org, workspace) {
            (OrgRole::Owner | OrgRole::Admin, _) => (Scopes::all(), Some(Of::OrgAdmins)),
            (OrgRole::Member, Some(WorkspaceRole::Admin)) => (Scopes::all(), None),
            (OrgRole::Member, Some(WorkspaceRole::Manager)) => (Scopes::all(), Some(Of::Managers)),
            (OrgRole::Member, Some(WorkspaceRole::Member)) => (Scopes::for_reading(), Some(Of::Members)),
            (OrgRole::Member, None) => (Scopes::default(), None),
        };
        for (i, switch) in SWITCHES.iter().enumerate().filter(|(_, s)| Some(s.of) == of) {
            let on = self.0 & (1 << i) != 0;
            for scope in switch.scopes {
                if on { scopes.insert(*scope) } else { scopes.remove(*scope) }
            }
        }
        scopes
    }

    /// Whether a person sees the logs of others in the workspace.
    pub fn sees_all(self, org: OrgRole, workspace: Option<WorkspaceRole>) -> bool {
        match (org, workspace) {
            (OrgRole::Member, Some(WorkspaceRole::Manager)) => self.is_on("managers_view_all_data"),
            (OrgRole::Member, Some(WorkspaceRole::Member)) => self.is_on("members_view_all_data"),
            (OrgRole::Member, None) => false,
            _ => true,
        }
    }

    /// Whether a person sees the metadata of logs.
    pub fn sees_metadata(self, org: OrgRole, workspace: Option<WorkspaceRole>) -> bool {
        match (org, workspace) {
            (OrgRole::Member, Some(WorkspaceRole::Manager)) => self.is_on("managers_view_log_metadata"),
            (OrgRole::Member, Some(WorkspaceRole::Member)) => self.is_on("members_view_log_metadata"),
            (OrgRole::Member, Some(WorkspaceRole::Admin)) => true,
            (OrgRole::Member, None) => false,
            _ => self.is_on("organisation_admins_view_log_metadata"),
        }
    }
}

impl Serialize for Security {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(SWITCHES.iter().enumerate().map(|(i, w)| (w.name, self.0 & (1 << i) != 0)))
    }
}

/// A switch that a newer node stored is left out, one that it did not know yet has its default.
impl<'de> Deserialize<'de> for Security {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut stored = BTreeMap::<String, bool>::deserialize(d)?;
        stored.retain(|name, _| Self::names().any(|known| known == name));
        Ok(Self::default().with(&stored).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(changes: &[(&str, bool)]) -> Security {
        let changes = changes.iter().map(|(n, on)| ((*n).to_owned(), *on)).collect();
        Security::default().with(&changes).expect("known names")
    }

    #[test]
    fn the_table_is_the_documented_one() {
        assert_eq!(SWITCHES.len(), 35);
        let names: BTreeSet<&str> = Security::names().collect();
        assert_eq!(names.len(), 35);
        let text = serde_json::to_string(&with(&[("managers_update_ws", false)])).expect("json");
        let back: Security = serde_json::from_str(&text).expect("a set");
        assert!(!back.is_on("managers_update_ws") && back.is_on("managers_view_logs"));
    }

    #[test]
    fn roles_are_bounded() {
        let may = |s: Security, org, ws, scope| s.bound(org, ws).has(Scope::named(scope));
        let plain = Security::default();
        let (member, manager) = (Some(WorkspaceRole::Member), Some(WorkspaceRole::Manager));
        assert!(may(plain, OrgRole::Member, member, "configs.read"));
        assert!(may(plain, OrgRole::Member, member, "completions.write"));
        assert!(!may(plain, OrgRole::Member, member, "configs.create"));
        assert!(may(with(&[("members_write_configs", true)]), OrgRole::Member, member, "configs.create"));
        assert!(!may(with(&[("members_view_logs", false)]), OrgRole::Member, member, "logs.list"));
        assert!(may(plain, OrgRole::Member, manager, "configs.create"));
        assert!(!may(with(&[("managers_write_configs", false)]), OrgRole::Member, manager, "configs.create"));
        assert!(!may(plain, OrgRole::Member, None, "completions.write"));
        assert!(may(plain, OrgRole::Admin, None, "configs.delete"));
        assert!(!may(with(&[("organisation_admins_view_logs", false)]), OrgRole::Owner, member, "logs.view"));
    }

    #[test]
    fn a_workspace_overrides_what_was_opened() {
        let org = with(&[("members_view_logs", false), ("members_write_configs", false)]);
        let own = with(&[("members_view_logs", true), ("members_write_configs", true)]);
        let open = BTreeSet::from(["configs".to_owned()]);
        let force = own.over(org, &open);
        assert!(!force.is_on("members_view_logs") && force.is_on("members_write_configs"));
        assert_eq!(own.closed_change(org, &open), Some(("members_view_logs", "logs")));
        assert_eq!(force.closed_change(org, &open), None);
        let sparse = BTreeMap::from([("members_view_logs".to_owned(), true)]);
        assert!(matches!(Security::whole(&sparse), Err(BadSecurity::Missing(_))));
        let unknown = BTreeMap::from([("everything".to_owned(), true)]);
        assert_eq!(Security::default().with(&unknown), Err(BadSecurity::Unknown("everything".to_owned())));
    }
}
