//! What a path of the Admin API is about: the kind of resource that it shows or changes.

use gateway_domain::resource::Kind;

/// The first that fits: what a path changes.
const SUBJECTS: &[(&str, Kind)] = &[
    ("/configs", Kind::Config),
    ("/configuration", Kind::Organisation),
    ("/integrations", Kind::Integration),
    ("/providers", Kind::Provider),
    ("/virtual-keys", Kind::Provider),
    ("/api-keys", Kind::ApiKey),
    ("/guardrails", Kind::Guardrail),
    ("/plugins", Kind::Plugin),
    ("/secret-references", Kind::SecretReference),
    ("/deployments", Kind::Deployment),
    ("/oauth-clients", Kind::OauthClient),
    ("/alerts", Kind::Alert),
    ("/prompts/partials", Kind::PromptPartial),
    ("/prompts", Kind::Prompt),
    ("/collections", Kind::Collection),
    ("/labels", Kind::Label),
    ("/mcp-integrations", Kind::McpIntegration),
    ("/mcp-servers", Kind::McpServer),
    ("/agent-integrations", Kind::AgentIntegration),
    ("/agent-servers", Kind::AgentServer),
    ("/workspace-exclusions", Kind::Workspace),
    ("/policies/rate-limits", Kind::RateLimitPolicy),
    ("/policies/usage-limits", Kind::UsageLimitPolicy),
    ("/admin/organisation/sign-on", Kind::SignOn),
    ("/admin/organisation", Kind::Organisation),
    ("/admin/users/invites", Kind::Invite),
    ("/admin/users", Kind::User),
    ("/admin/workspaces/{id}/users", Kind::Member),
    ("/workspaces/{id}/users", Kind::Member),
    ("/scim/Users", Kind::User),
    ("/scim/Groups", Kind::DirectoryGroup),
    ("/scim/workspaces", Kind::GroupMapping),
    ("/admin/workspaces", Kind::Workspace),
    ("/workspaces", Kind::Workspace),
];

/// Whether it judges or compares something only.
pub(crate) fn changes_nothing(path: &str) -> bool {
    path.ends_with("/invoke") || ["/configuration/diff", "/configs/explain", "/gateway/tokenize"].contains(&path)
}

/// `None`: nothing that is configured, or nothing that it changes.
pub(crate) fn subject(path: &str) -> Option<Kind> {
    if changes_nothing(path) {
        return None;
    }
    SUBJECTS.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, kind)| *kind)
}

/// Whether it is of a protocol that has rules of its own for states and for what is sent again (SCIM, RFC 7644).
pub(crate) fn has_own_rules(path: &str) -> bool {
    path.starts_with("/scim")
}

/// Whether it names one thing that has a state.
pub(crate) fn names_one(path: &str) -> bool {
    if has_own_rules(path) {
        return false;
    }
    let variable = match subject(path) {
        None => return false,
        Some(Kind::Member) => "{user_id}",
        Some(_) => "{id}",
    };
    path.contains(variable) || (path.starts_with("/admin/organisation") && path != "/admin/organisations")
}
