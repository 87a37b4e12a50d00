//! Which scopes each kind of key can hold, as one table.

use crate::problem::{Problem, bad};
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::{SCOPES, Scope, Scopes};

/// Who may hold what a row names.
#[derive(Clone, Copy)]
enum Holders {
    Admin,
    /// Admin keys and service keys of workspaces.
    Managers,
    /// Service and user keys of workspaces.
    Workspace,
}

/// Resource, actions (none listed: all), holders. What no row names, every kind may hold.
/// The first row that fits decides.
static TABLE: &[(&str, &[&str], Holders)] = &[
    ("organisations", &[], Holders::Admin),
    ("organisation_users", &[], Holders::Admin),
    ("organisation_service_api_keys", &[], Holders::Admin),
    ("organisation_settings", &[], Holders::Admin),
    ("organisation_guardrails", &[], Holders::Admin),
    ("organisation_exclusions", &[], Holders::Admin),
    ("audit_logs", &[], Holders::Admin),
    ("plugins", &[], Holders::Admin),
    ("deployments", &[], Holders::Admin),
    ("oauth_clients", &[], Holders::Admin),
    ("secret_references", &[], Holders::Admin),
    ("scim", &[], Holders::Admin),
    ("workspaces", &["create", "delete"], Holders::Admin),
    ("workspace_service_api_keys", &[], Holders::Managers),
    ("workspace_user_api_keys", &[], Holders::Managers),
    ("organisation_integrations", &["create", "read", "update", "delete"], Holders::Admin),
    ("organisation_mcp_integrations", &["create", "read", "update", "delete"], Holders::Admin),
    ("organisation_agent_integrations", &["create", "read", "update", "delete"], Holders::Admin),
    ("prompts", &["render"], Holders::Workspace),
    ("guardrails", &["invoke"], Holders::Workspace),
    ("logs", &["write"], Holders::Workspace),
    ("completions", &[], Holders::Workspace),
    ("mcp", &[], Holders::Workspace),
    ("agents", &[], Holders::Workspace),
    ("feedbacks", &[], Holders::Workspace),
];

fn holders(scope: &str) -> Option<Holders> {
    let (resource, action) = scope.split_once('.')?;
    let fits = |(r, actions, _): &&(&str, &[&str], Holders)| {
        *r == resource && (actions.is_empty() || actions.contains(&action))
    };
    TABLE.iter().find(fits).map(|(_, _, holders)| *holders)
}

fn may_hold(kind: KeyKind, scope: &str) -> bool {
    match holders(scope) {
        None => true,
        Some(Holders::Admin) => kind == KeyKind::OrganisationService,
        Some(Holders::Managers) => kind != KeyKind::WorkspaceUser,
        Some(Holders::Workspace) => kind != KeyKind::OrganisationService,
    }
}

/// Every scope that a key of `kind` can hold.
pub(crate) fn all(kind: KeyKind) -> Scopes {
    SCOPES.iter().filter(|s| may_hold(kind, s)).filter_map(|s| Scope::parse(s)).collect()
}

/// Scopes of the organisation of the first start, which no other's keys hold.
pub(crate) fn of_first_only() -> impl Iterator<Item = Scope> {
    SCOPES.iter().filter(|name| name.starts_with("organisations.")).filter_map(|name| Scope::parse(name))
}

/// Scopes that act on the data plane, which Admin keys never reach.
pub(crate) fn data_plane() -> Vec<Scope> {
    let on_it = SCOPES.iter().filter(|s| matches!(holders(s), Some(Holders::Workspace)));
    on_it.filter_map(|s| Scope::parse(s)).collect()
}

/// Names to a set; an unknown one, one that this kind of key cannot hold and one that stands twice are named.
pub(crate) fn parse(kind: KeyKind, names: &[String]) -> Result<Scopes, Problem> {
    let mut scopes = Scopes::default();
    for name in names {
        let scope =
            Scope::parse(name).ok_or_else(|| bad("scopes", format_args!("holds `{name}`, which is not a scope")))?;
        if !may_hold(kind, scope.name()) {
            let rule = format!("holds `{name}`, which is not available to {} keys", kind.name());
            return Err(bad("scopes", rule));
        }
        if scopes.has(scope) {
            return Err(bad("scopes", format_args!("holds `{name}` twice")));
        }
        scopes.insert(scope);
    }
    Ok(scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_a_resource_and_actions_that_exist() {
        for (resource, actions, _) in TABLE {
            let named: Vec<&str> = SCOPES
                .iter()
                .filter_map(|s| s.split_once('.'))
                .filter(|(r, _)| r == resource)
                .map(|(_, a)| a)
                .collect();
            assert!(!named.is_empty(), "{resource}");
            assert!(actions.iter().all(|a| named.contains(a)), "{resource}");
        }
    }

    #[test]
    fn kinds_differ_as_documented() {
        let parse = |kind, name: &str| parse(kind, &[name.to_owned()]);
        assert!(parse(KeyKind::OrganisationService, "workspaces.create").is_ok());
        assert!(parse(KeyKind::OrganisationService, "completions.write").is_err());
        assert!(parse(KeyKind::WorkspaceService, "workspaces.create").is_err());
        assert!(parse(KeyKind::WorkspaceService, "workspaces.list").is_ok());
        assert!(parse(KeyKind::WorkspaceService, "workspace_user_api_keys.create").is_ok());
        assert!(parse(KeyKind::WorkspaceUser, "workspace_user_api_keys.create").is_err());
        assert!(parse(KeyKind::WorkspaceUser, "organisation_integrations.list").is_ok());
        assert!(parse(KeyKind::WorkspaceUser, "no.such").is_err());
        let twice = super::parse(KeyKind::WorkspaceUser, &["logs.view".to_owned(), "logs:view".to_owned()]);
        assert_eq!(twice.expect_err("given twice").message, "scopes holds `logs:view` twice");
        assert!(data_plane().iter().all(|s| !all(KeyKind::OrganisationService).has(*s)));
    }
}
