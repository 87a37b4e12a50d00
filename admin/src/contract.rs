//! The control plane's contract as data: each path, what of it is served, and what is not in this version. None of it
//! ever goes to a provider, whoever asks and by whatever method. Knows no handler: those are in the route table, and a
//! test holds the two together.

use crate::route::PREFIXES;
use gateway_domain::path::normal;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One path of the contract, below the version prefix; `{name}` stands for one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    pub(crate) path: &'static str,
    /// Methods with a row in the route table.
    pub(crate) built: &'static str,
    /// Methods of the contract that are not in this version.
    pub(crate) missing: &'static str,
    /// The path is the control plane's below `/v2` and `/v1/v2` only: below `/v1` a provider has a path of this name.
    second_only: bool,
    /// POST of it is a call of a model, and served on the proxy port.
    pub(crate) proxied: bool,
}

const fn path(path: &'static str, built: &'static str, missing: &'static str) -> Template {
    Template { path, built, missing, second_only: false, proxied: false }
}

const fn second(path: &'static str, built: &'static str, missing: &'static str) -> Template {
    Template { path, built, missing, second_only: true, proxied: false }
}

const fn proxied(path: &'static str) -> Template {
    Template { path, built: "", missing: "", second_only: false, proxied: true }
}

const CRUD: &str = "GET PUT DELETE";
const LIST: &str = "GET POST";

#[rustfmt::skip]
pub(crate) static TEMPLATES: &[Template] = &[
    path("/configs", LIST, ""),
    path("/configs/explain", "POST", ""),
    path("/configs/{id}", CRUD, ""),
    path("/configs/{id}/versions", "GET", ""),
    path("/configs/{id}/versions/{version}", "GET", ""),
    path("/configs/{id}/diff", "GET", ""),
    path("/configs/{id}/rollback", "POST", ""),
    path("/configs/{id}/circuit-breakers", "GET", ""),
    path("/configuration", "GET", ""),
    path("/configuration/import", "POST", ""),
    path("/configuration/diff", "POST", ""),
    path("/configuration/prune", "POST", ""),
    path("/integrations", LIST, ""),
    path("/integrations/{id}", CRUD, ""),
    path("/integrations/{id}/versions", "GET", ""),
    path("/integrations/{id}/versions/{version}", "GET", ""),
    path("/integrations/{id}/rollback", "POST", ""),
    path("/integrations/{id}/models", CRUD, ""),
    path("/integrations/{id}/integration-models", "PUT", ""),
    path("/integrations/{id}/workspaces", "GET PUT", ""),
    path("/integrations/{id}/test", "POST", ""),
    path("/providers", LIST, ""),
    path("/providers/{id}", CRUD, ""),
    path("/providers/{id}/test", "POST", ""),
    path("/virtual-keys", LIST, ""),
    path("/virtual-keys/{id}", CRUD, ""),
    path("/api-keys", "GET", ""),
    path("/api-keys/self/details", "GET", ""),
    path("/api-keys/self/limits", "GET", ""),
    path("/api-keys/{id}/limits", "GET", ""),
    path("/alerts", LIST, ""),
    path("/alerts/{id}", CRUD, ""),
    path("/alerts/{id}/test", "POST", ""),
    path("/api-keys/{id}", CRUD, ""),
    path("/api-keys/{id}/versions", "GET", ""),
    path("/api-keys/{id}/versions/{version}", "GET", ""),
    path("/api-keys/{id}/rollback", "POST", ""),
    path("/api-keys/{id}/rotate", "POST", ""),
    path("/api-keys/{type}/{sub_type}", "POST", ""),
    path("/admin/api-keys", "", "POST"),
    path("/admin/organisation", "GET PUT", ""),
    path("/admin/organisations", LIST, ""),
    path("/admin/organisations/{id}", CRUD, ""),
    path("/admin/organisations/{id}/admin-keys", "POST", ""),
    path("/admin/organisation/defaults", "GET PUT", ""),
    path("/admin/users", "GET", ""),
    path("/admin/users/invites", LIST, ""),
    path("/admin/users/invites/{id}", "GET DELETE", ""),
    path("/admin/users/invites/{id}/resend", "POST", ""),
    path("/admin/users/{id}", CRUD, ""),
    path("/admin/workspaces", LIST, ""),
    path("/admin/workspaces/{id}", CRUD, ""),
    path("/admin/workspaces/{id}/users", LIST, ""),
    path("/admin/workspaces/{id}/users/{user_id}", CRUD, ""),
    path("/workspaces", LIST, ""),
    path("/workspaces/{id}", CRUD, ""),
    path("/workspaces/{id}/users", LIST, ""),
    path("/workspaces/{id}/users/{user_id}", CRUD, ""),
    path("/workspace-exclusions/input-guardrails", "GET PUT", ""),
    path("/workspace-exclusions/output-guardrails", "GET PUT", ""),
    path("/invites/accept", "POST", ""),
    path("/organisation/{id}/sync/{timestamp}", "", LIST),
    path("/organisation/{id}/resync", "", LIST),
    path("/auth/self", "", "GET"),
    path("/admin/organisation/sign-on", CRUD, ""),
    path("/api-keys/self/session", "DELETE", ""),
    path("/sso/{id}/start", "GET", ""),
    path("/sso/callback", "GET", ""),
    path("/scim/workspaces", LIST, ""),
    path("/scim/workspaces/{id}", "DELETE", ""),
    path("/scim/groups", "GET", ""),
    path("/scim/Users", LIST, ""),
    path("/scim/Users/{id}", "GET PUT PATCH DELETE", ""),
    path("/scim/Groups", LIST, ""),
    path("/scim/Groups/{id}", "GET PUT PATCH DELETE", ""),
    path("/scim/Me", "", "GET POST PUT PATCH DELETE"),
    path("/scim/Bulk", "", "POST"),
    path("/scim/ServiceProviderConfig", "GET", ""),
    path("/scim/ResourceTypes", "GET", ""),
    path("/scim/ResourceTypes/{id}", "GET", ""),
    path("/scim/Schemas", "GET", ""),
    path("/scim/Schemas/{id}", "GET", ""),
    path("/policies/rate-limits", LIST, ""),
    path("/policies/rate-limits/{id}", CRUD, ""),
    path("/policies/rate-limits/{id}/versions", "GET", ""),
    path("/policies/rate-limits/{id}/versions/{version}", "GET", ""),
    path("/policies/rate-limits/{id}/rollback", "POST", ""),
    path("/policies/usage-limits", LIST, ""),
    path("/policies/usage-limits/{id}", CRUD, ""),
    path("/policies/usage-limits/{id}/versions", "GET", ""),
    path("/policies/usage-limits/{id}/versions/{version}", "GET", ""),
    path("/policies/usage-limits/{id}/rollback", "POST", ""),
    path("/policies/usage-limits/{id}/entities", "GET", ""),
    path("/policies/usage-limits/{id}/entities/{entity}/reset", "PUT", ""),
    path("/policies/rate-limits/{id}/entities", "", "GET"),
    path("/guardrails", LIST, ""),
    path("/guardrails/{id}", CRUD, ""),
    path("/guardrails/{id}/versions", "GET", ""),
    path("/guardrails/{id}/invoke", "POST", ""),
    path("/plugins", LIST, ""),
    path("/plugins/{id}", CRUD, ""),
    path("/secret-references", LIST, ""),
    path("/secret-references/{id}", CRUD, ""),
    path("/oauth-clients", LIST, ""),
    path("/oauth-clients/{id}", CRUD, ""),
    path("/deployments", LIST, ""),
    path("/deployments/{id}", CRUD, ""),
    path("/prompts", LIST, ""),
    path("/prompts/{id}", CRUD, ""),
    path("/prompts/{id}/versions", "GET", ""),
    path("/prompts/{id}/versions/{version}", "GET PUT", ""),
    path("/prompts/{id}/makeDefault", "PUT", ""),
    proxied("/prompts/{id}/completions"),
    proxied("/prompts/{id}/render"),
    proxied("/prompts/{id}/generate"),
    path("/prompts/{id}/share", "POST PUT DELETE", ""),
    path("/prompts/{id}/fork", "POST", ""),
    path("/prompts/{id}/unshare", "POST DELETE", ""),
    path("/prompts/partials", LIST, ""),
    path("/prompts/partials/{id}", CRUD, ""),
    path("/prompts/partials/{id}/versions", "GET", ""),
    path("/prompts/partials/{id}/makeDefault", "PUT", ""),
    path("/prompts/partials/{id}/share", "POST PUT DELETE", ""),
    path("/prompts/partials/{id}/fork", "POST", ""),
    path("/prompts/partials/{id}/unshare", "POST DELETE", ""),
    path("/collections", LIST, ""),
    path("/collections/{id}", CRUD, ""),
    path("/labels", LIST, ""),
    path("/labels/{id}", CRUD, ""),
    path("/analytics/graphs/requests", "GET", ""),
    path("/analytics/graphs/requests/rescued", "GET", ""),
    path("/analytics/graphs/cost", "GET", ""),
    path("/analytics/graphs/latency", "GET", ""),
    path("/analytics/graphs/tokens", "GET", ""),
    path("/analytics/graphs/users", "GET", ""),
    path("/analytics/graphs/users/requests", "GET", ""),
    path("/analytics/graphs/errors", "GET", ""),
    path("/analytics/graphs/errors/rate", "GET", ""),
    path("/analytics/graphs/errors/stacks", "GET", ""),
    path("/analytics/graphs/errors/status-codes", "GET", ""),
    path("/analytics/graphs/cache/hit-rate", "GET", ""),
    path("/analytics/graphs/cache/latency", "GET", ""),
    path("/analytics/graphs/feedbacks", "GET", ""),
    path("/analytics/graphs/feedbacks/scores", "GET", ""),
    path("/analytics/graphs/feedbacks/weighted", "GET", ""),
    path("/analytics/graphs/feedbacks/ai-models", "GET", ""),
    path("/analytics/summary/cache", "GET", ""),
    path("/analytics/groups/{group_by}", "GET", ""),
    path("/analytics/groups/metadata/{key}", "GET", ""),
    path("/logs", LIST, ""),
    path("/logs/{id}", "GET", ""),
    path("/logs/groups/{group_by}", "GET", ""),
    path("/logs/exports", LIST, ""),
    path("/logs/exports/field-restrictions", "GET", ""),
    path("/logs/exports/{id}", CRUD, ""),
    path("/logs/exports/{id}/start", "POST", ""),
    path("/logs/exports/{id}/cancel", "POST", ""),
    path("/logs/exports/{id}/download", "GET", ""),
    path("/logs/exports/{id}/file", "GET", ""),
    path("/audit-logs", "GET", ""),
    path("/feedback", "POST", ""),
    path("/feedback/{id}", "PUT", ""),
    path("/mcp-integrations", LIST, ""),
    path("/mcp-integrations/test", "POST", ""),
    path("/mcp-integrations/{id}", CRUD, ""),
    path("/mcp-integrations/{id}/test", "POST", ""),
    path("/mcp-integrations/{id}/workspaces", "GET PUT", ""),
    path("/mcp-integrations/{id}/capabilities", "GET PUT", ""),
    path("/mcp-integrations/{id}/metadata", "GET", ""),
    path("/mcp-servers", LIST, ""),
    path("/mcp-servers/{id}", CRUD, ""),
    path("/mcp-servers/{id}/test", "POST", ""),
    path("/mcp-servers/{id}/capabilities", "GET PUT", ""),
    path("/mcp-servers/{id}/user-access", "GET PUT", ""),
    path("/mcp-servers/{id}/connections", "GET DELETE", ""),
    path("/mcp-servers/{id}/metadata", "GET", ""),
    path("/mcp-servers/{id}/grants", "GET DELETE", ""),
    path("/agent-integrations", LIST, ""),
    path("/agent-integrations/fetch-agent-card", "POST", ""),
    path("/agent-integrations/{id}", CRUD, ""),
    path("/agent-integrations/{id}/test", "POST", ""),
    path("/agent-integrations/{id}/workspaces", "GET PUT", ""),
    path("/agent-integrations/{id}/capabilities", "GET PUT", ""),
    path("/agent-integrations/{id}/skills", "GET PUT", ""),
    path("/agent-servers", LIST, ""),
    path("/agent-servers/{id}", CRUD, ""),
    path("/agent-servers/{id}/agent-card", "GET", ""),
    path("/agent-servers/{id}/capabilities", "GET PUT", ""),
    path("/agent-servers/{id}/skills", "GET PUT", ""),
    path("/agent-servers/{id}/user-access", "GET PUT", ""),
    path("/gateway/tokenize", "POST", ""),
    path("/dp/metrics", "", "POST"),
    path("/nodes", "GET", ""),
    path("/nodes/settings", "GET", ""),
    path("/model-prices/unpriced", "GET", ""),
    second("/batches/{id}", "PUT", ""),
    second("/models", "", "GET"),
];

/// First segments that providers use as well: of these only the templates are the control plane's. Azure has
/// `/deployments/{name}/…`, Qdrant `/collections/{name}/points`, OpenRouter `/auth/keys`.
static SHARED: &[&str] = &["deployments", "collections", "batches", "models", "auth"];
/// Reserved though nothing below has a version prefix.
static ALONE: &[&str] = &["model-configs"];

impl Template {
    /// The version prefixes that it stands below.
    pub(crate) fn prefixes(&self) -> &'static [&'static str] {
        if self.second_only { &["/v1/v2", "/v2"] } else { &PREFIXES }
    }

    /// Whether the contract has this method here, and this version has not.
    pub(crate) fn misses(&self, method: &str) -> bool {
        let get = if method == "HEAD" { "GET" } else { method };
        !self.proxied && (self.built.is_empty() || self.missing.split(' ').any(|m| m == get))
    }

    /// How many of its segments are written out, when it fits.
    fn fits(&self, prefix: &str, rest: &str) -> Option<usize> {
        let mut have = rest.split('/');
        let mut exact = 0;
        for want in self.path[1..].split('/') {
            let segment = have.next()?;
            match want.starts_with('{') {
                true if segment.is_empty() => return None,
                true => {}
                false if want != segment => return None,
                false => exact += 1,
            }
        }
        (have.next().is_none() && self.prefixes().contains(&prefix)).then_some(exact)
    }
}

/// What a path is to the control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reserved {
    Template(&'static Template),
    /// Nothing, but its first segment is the control plane's alone.
    Unknown,
}

/// The templates by the first segment of their path, so that an inference request is told apart by one look-up.
static FIRST: LazyLock<HashMap<&'static str, Vec<&'static Template>>> = LazyLock::new(|| {
    let mut out: HashMap<&str, Vec<&Template>> = ALONE.iter().map(|first| (*first, Vec::new())).collect();
    for template in TEMPLATES {
        out.entry(template.path[1..].split('/').next().unwrap_or_default()).or_default().push(template);
    }
    out
});

/// What the control plane has at a path in its [normal form](straight). `None`: it is not the control plane's.
pub(crate) fn find(path: &str) -> Option<Reserved> {
    let (prefix, rest) = PREFIXES.iter().find_map(|p| Some((*p, path.strip_prefix(p)?.strip_prefix('/')?)))?;
    let first = rest.split('/').next().unwrap_or_default();
    let here = FIRST.get(first)?;
    let fitting = here.iter().filter_map(|t| Some((t.fits(prefix, rest)?, *t)));
    match fitting.max_by_key(|(exact, _)| *exact) {
        Some((_, template)) => Some(Reserved::Template(template)),
        None if SHARED.contains(&first) => None,
        None => Some(Reserved::Unknown),
    }
}

/// What one of the clients that know this API calls graphs, and what the public API calls them.
static SPELLINGS: &[(&str, &str)] = &[
    ("/analytics/graphs/cache-hit-rate", "/analytics/graphs/cache/hit-rate"),
    ("/analytics/graphs/cache-latency", "/analytics/graphs/cache/latency"),
    ("/analytics/graphs/errors-rate", "/analytics/graphs/errors/rate"),
    ("/analytics/graphs/errors-stack", "/analytics/graphs/errors/stacks"),
    ("/analytics/graphs/errors-status-code", "/analytics/graphs/errors/status-codes"),
    ("/analytics/graphs/feedbacks/score", "/analytics/graphs/feedbacks/scores"),
    ("/analytics/graphs/requests-rescued", "/analytics/graphs/requests/rescued"),
    ("/analytics/graphs/users-requests", "/analytics/graphs/users/requests"),
];

/// The normal form of a path, without a slash at its end and in the spelling of the contract; `None` for one that has
/// no such form.
pub(crate) fn straight(path: &str) -> Option<String> {
    let normal = normal(path).ok()?;
    let bare = normal.strip_suffix('/').filter(|bare| !bare.is_empty()).unwrap_or(&normal);
    let spelled = SPELLINGS.iter().find_map(|(other, own)| {
        let prefix = bare.strip_suffix(other).filter(|prefix| PREFIXES.contains(prefix))?;
        Some(format!("{prefix}{own}"))
    });
    Some(spelled.unwrap_or_else(|| bare.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::MountPoint;
    use crate::router::table;
    use std::collections::BTreeSet;

    /// A row says what the route table says, and every route stands below a row.
    #[test]
    fn the_contract_and_the_route_table_are_one() {
        for template in TEMPLATES {
            let here = table().iter().filter(|r| r.place == MountPoint::Api && r.path == template.path);
            let served: BTreeSet<&str> = here.map(|r| r.method.as_str()).collect();
            let said: BTreeSet<&str> = template.built.split(' ').filter(|m| !m.is_empty()).collect();
            assert_eq!(served, said, "{}", template.path);
            assert!(!template.missing.split(' ').any(|m| said.contains(m)), "{template:?}");
            assert_eq!(template.built.is_empty() && template.missing.is_empty(), template.proxied, "{template:?}");
        }
        for route in table().iter().filter(|r| r.place == MountPoint::Api) {
            let rows = TEMPLATES.iter().filter(|t| t.path == route.path).count();
            assert_eq!(rows, 1, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn other_spellings_lead_to_paths_of_the_contract() {
        for (other, own) in SPELLINGS {
            let there = straight(&format!("/v1{other}/")).expect("a normal form");
            assert_eq!(there, format!("/v1{own}"));
            assert!(table().iter().any(|route| route.path == *own), "{own}");
            assert!(!table().iter().any(|route| route.path == *other), "{other}");
        }
        assert_eq!(
            straight("/v1/proxy/analytics/graphs/errors-rate").as_deref(),
            Some("/v1/proxy/analytics/graphs/errors-rate")
        );
    }

    #[test]
    fn what_is_the_control_planes_and_what_is_a_providers() {
        let what = |path: &str| match find(path) {
            Some(Reserved::Template(template)) => template.path,
            Some(Reserved::Unknown) => "unknown",
            None => "a provider's",
        };
        for (path, expected) in [
            ("/v1/configs/pc-1", "/configs/{id}"),
            ("/v1/configs/pc-1/x", "unknown"),
            ("/v1/logs/exports", "/logs/exports"),
            ("/v1/logs/0194", "/logs/{id}"),
            ("/v1/v2/prompts/p/completions", "/prompts/{id}/completions"),
            ("/v1/prompts/partials", "/prompts/partials"),
            ("/v1/prompts/p/anything", "unknown"),
            ("/v1/analytics", "unknown"),
            ("/v1/model-configs/pricing/openai/gpt-4o", "unknown"),
            ("/v1/deployments", "/deployments"),
            ("/v1/deployments/d", "/deployments/{id}"),
            ("/v1/deployments/d/chat/completions", "a provider's"),
            ("/v1/collections/c/points/search", "a provider's"),
            ("/v1/collections/c", "/collections/{id}"),
            ("/v1/auth/self", "/auth/self"),
            ("/v1/auth/keys", "a provider's"),
            ("/v1/batches/b", "a provider's"),
            ("/v2/batches/b", "/batches/{id}"),
            ("/v1/v2/models", "/models"),
            ("/v1/models", "a provider's"),
            ("/v1/v2/models/m/infer", "a provider's"),
            ("/v1/chat/completions", "a provider's"),
            ("/v1/proxy/logs", "a provider's"),
            ("/configs", "a provider's"),
            ("/v1", "a provider's"),
        ] {
            assert_eq!(what(path), expected, "{path}");
        }
    }
}
