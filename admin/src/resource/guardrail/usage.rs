//! Who names a saved guardrail: configs, and the defaults of workspaces and of the organisation. And the other way
//! round: that defaults name what is there.

use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use gateway_domain::config::Config;
use gateway_domain::config::hooks::HookList;
use gateway_domain::egress::Trusted;
use gateway_domain::resource::guardrail::{DefaultGuardrails, GuardrailDocument};
use gateway_domain::snapshot::{Org, SavedGuardrail, Snapshot, WorkspaceEntry};
use gateway_guardrails::MOST_GUARDRAILS;
use gateway_guardrails::definition::{self, CompileContext};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Names what uses a guardrail, but stops a little above the number that is ever told.
pub(super) fn users(row: &ResourceRow<GuardrailDocument>, snapshot: &Snapshot) -> Vec<String> {
    const ENOUGH: usize = 12;
    let id = row.id.to_string();
    let meant = |name: &str| name == row.slug || name == id;
    let listed = |lists: &DefaultGuardrails| lists.input.iter().chain(&lists.output).any(|name| meant(name));
    let mut users = Vec::new();
    if snapshot.org(row.org).is_some_and(|org| listed(&org.default_guardrails)) {
        users.push("the defaults of the organisation".to_owned());
    }
    let may_name = |w: &&Arc<WorkspaceEntry>| w.org == row.org && row.workspace.is_none_or(|own| own == w.id);
    for workspace in snapshot.workspaces().filter(may_name) {
        if listed(&workspace.default_guardrails) {
            users.push(format!("the defaults of workspace `{}`", workspace.slug));
        }
        let naming = workspace.configs().filter(|c| lists(&c.config).flat_map(saved_names).any(meant));
        let configs = naming.map(|config| format!("the config `{}` of workspace `{}`", config.slug, workspace.slug));
        users.extend(configs.take(ENOUGH));
        if users.len() >= ENOUGH {
            break;
        }
    }
    users
}

fn lists(config: &Config) -> impl Iterator<Item = &HookList> {
    config.hooks.iter().flat_map(|set| &set.lists)
}

/// Saved ones that a list names: texts, and objects that are nothing but an id.
fn saved_names(list: &HookList) -> impl Iterator<Item = &str> {
    list.value.as_array().into_iter().flatten().filter_map(|item| match item {
        Value::String(name) => Some(name.as_str()),
        Value::Object(map) if map.len() == 1 => map.get("id")?.as_str(),
        _ => None,
    })
}

/// What a list of defaults is resolved by.
pub(crate) struct KnownGuardrails<'s> {
    pub(crate) org: &'s Org,
    /// `None`: of the organisation, or of a workspace that is being made.
    pub(crate) workspace: Option<&'s WorkspaceEntry>,
}

impl<'s> KnownGuardrails<'s> {
    fn find(&self, name: &str) -> Option<&'s Arc<SavedGuardrail>> {
        self.workspace.and_then(|w| w.guardrail(name)).or_else(|| self.org.guardrail(name))
    }

    /// Names by slug or id, or as lists show them; what comes out are slugs.
    pub(crate) fn resolve(&self, field: &str, given: &[Value]) -> Result<Vec<String>, Problem> {
        if given.len() > MOST_GUARDRAILS {
            return Err(bad(field, format_args!("must have at most {MOST_GUARDRAILS} entries")));
        }
        let mut out: Vec<String> = Vec::with_capacity(given.len());
        for (at, given) in given.iter().enumerate() {
            let name = given.as_str().or_else(|| given["id"].as_str()).or_else(|| given["slug"].as_str());
            let field = format!("{field}[{at}]");
            let name = name.ok_or_else(|| bad(&field, "must be the slug or the id of a guardrail"))?;
            let found = self.find(name).ok_or_else(|| unknown(&field, name))?;
            if out.iter().any(|slug| **slug == *found.slug) {
                return Err(bad(&field, format_args!("names `{}` again", found.slug)));
            }
            out.push(found.slug.to_string());
        }
        Ok(out)
    }

    /// They may be gone since they were resolved.
    pub(crate) fn check(&self, under: &str, lists: &DefaultGuardrails) -> Result<(), Problem> {
        let both = [("input_guardrails", &lists.input), ("output_guardrails", &lists.output)];
        for (name, slugs) in both {
            if let Some(gone) = slugs.iter().find(|slug| self.find(slug).is_none()) {
                return Err(unknown(&format!("{under}{name}"), gone));
            }
        }
        Ok(())
    }
}

fn unknown(field: &str, name: &str) -> Problem {
    bad(field, format_args!("names `{name}`, which is no guardrail in use here"))
}

/// What names a check of this partner and cannot run as the snapshot is.
pub(crate) fn broken_with(snapshot: &Snapshot, org: &Org, partner: &str, trusted: &Trusted) -> Vec<String> {
    let credentials = |namespace: &str| credentials_of(org, namespace);
    let setup = CompileContext { credentials: &credentials, trusted };
    let prefix = format!("\"{partner}.").to_ascii_lowercase();
    // Ids of checks stand in quotes, wherever they stand.
    let names = |value: &Value| value.to_string().to_ascii_lowercase().contains(&prefix);
    let broken = |g: &&Arc<SavedGuardrail>| {
        let (checks, actions) = (&g.definition["checks"], &g.definition["actions"]);
        names(checks) && definition::saved(&g.slug, checks, actions, &setup).is_err()
    };
    let workspaces = || snapshot.workspaces().filter(|w| w.org == org.id);
    let guardrails = org.guardrails().chain(workspaces().flat_map(|w| w.guardrails()));
    let mut out: Vec<String> = guardrails.filter(broken).map(|g| format!("the guardrail `{}`", g.slug)).collect();
    for workspace in workspaces() {
        let stuck = |list: &HookList| names(&list.value) && definition::of_config(list, &setup).is_err();
        let configs = workspace.configs().filter(|c| lists(&c.config).any(stuck));
        out.extend(configs.map(|c| format!("the config `{}` of workspace `{}`", c.slug, workspace.slug)));
    }
    out
}

/// What the organisation has saved for a partner.
pub(super) fn credentials_of(org: &Org, namespace: &str) -> Option<Map<String, Value>> {
    org.partners().get(namespace).map(|partner| partner.plain())
}
