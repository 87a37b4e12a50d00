//! Managed providers: what a workspace calls `@slug`. Each borrows credential and host of an integration.

mod declared;

use super::limits::{self, AllowedLimits, LimitsEdit, LimitsInput};
use super::{NewRow, Resource, ResourceRow, Slug, create, delete, get, list, prompt, update};
use crate::change::WriteView;
use crate::input::{Edit, Flag, WholeNumber};
use crate::problem::{Problem, bad, conflict};
use crate::resource::config;
use crate::route::{AdminCall, AdminRoute, HERE, SEARCHED, authed};
use gateway_domain::id::{IntegrationId, ProviderId, WorkspaceId};
use gateway_domain::ports::Holder;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::provider::Provider;
use gateway_domain::resource::{Kind, check_name, slugify};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Snapshot, Upstream, WorkspaceEntry};
use gateway_domain::time::Timestamp;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Marks a managed provider that was made with its integration and never touched since: it goes with it.
pub(super) const AUTO: &str = "creation_mode";

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("providers.list"), Scope::named("virtual_keys.list")];
    const CREATE: &[Scope] = &[Scope::named("providers.create"), Scope::named("virtual_keys.create")];
    const READ: &[Scope] = &[Scope::named("providers.read"), Scope::named("virtual_keys.read")];
    const UPDATE: &[Scope] = &[Scope::named("providers.update"), Scope::named("virtual_keys.update")];
    const DELETE: &[Scope] = &[Scope::named("providers.delete"), Scope::named("virtual_keys.delete")];
    vec![
        authed(Method::GET, "/providers", LIST, "List the managed providers of a workspace", list::<Provider>)
            .asks(SEARCHED),
        authed(Method::POST, "/providers", CREATE, "Give a workspace a provider of an integration", create::<Provider>)
            .takes::<NewProvider>()
            .and(&["workspace_id"]),
        authed(Method::GET, "/providers/{id}", READ, "Show a managed provider by slug or id", get::<Provider>)
            .asks(HERE),
        authed(Method::PUT, "/providers/{id}", UPDATE, "Change a managed provider", update::<Provider>)
            .takes::<ProviderPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(
            Method::DELETE,
            "/providers/{id}",
            DELETE,
            "Delete a managed provider that no config names",
            delete::<Provider>,
        )
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewProvider {
    name: String,
    integration_id: String,
    slug: Option<String>,
    note: Option<String>,
    expires_at: Option<Timestamp>,
    tags: Option<BTreeMap<String, String>>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    #[serde(default)]
    max_parallel: Edit<WholeNumber>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    note: Edit<String>,
    #[serde(default)]
    expires_at: Edit<Timestamp>,
    #[serde(default)]
    tags: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    #[serde(default)]
    max_parallel: Edit<WholeNumber>,
    /// Acted on once the change is stored.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that it is not refused")]
    reset_usage: Edit<Flag>,
}

/// How many limits of each kind a provider may have.
const SHAPE: AllowedLimits = AllowedLimits { rates: 10, budgets: 1, seconds: false };

impl Resource for Provider {
    const KIND: Kind = Kind::Provider;
    const NOUN: &'static str = "provider";
    const LATER: &'static [&'static str] = &["secret_mappings"];
    type Create = NewProvider;
    type Patch = ProviderPatch;

    fn create(input: NewProvider, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_future(input.expires_at, call.now)?;
        let integration_id = integration(call, home, &input.integration_id)?;
        let rest = tagged(Map::new(), Some(input.tags.unwrap_or_default()))?;
        let mut limits = ResourceLimits::default();
        let given = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        given.onto("", &mut limits, SHAPE, call.now)?;
        let mut max_parallel = None;
        limits::parallel(&input.max_parallel, &mut max_parallel)?;
        let doc = Self { integration_id, note: input.note, expires_at: input.expires_at, limits, max_parallel, rest };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let slug = Slug::given("slug", input.slug)?.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "provider")));
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: ProviderPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Edit::Set(at) = input.expires_at {
            check_future(Some(at), call.now)?;
        }
        input.expires_at.onto(&mut row.doc.expires_at);
        input.note.onto(&mut row.doc.note);
        let limits = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        limits.onto("", &mut row.doc.limits, SHAPE, call.now)?;
        limits::parallel(&input.max_parallel, &mut row.doc.max_parallel)?;
        row.doc.rest = tagged(std::mem::take(&mut row.doc.rest), input.tags.or_default())?;
        row.doc.rest.shift_remove(AUTO);
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        // One that was shut out since can still be renamed and limited.
        let found = around.snapshot.upstream(row.doc.integration_id).filter(|u| !row.is_new() || usable(u, row));
        found.map(|_| ()).ok_or_else(|| no_integration(&row.doc.integration_id.to_string()))
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let (workspace, id) = (around.workspace(row.workspace)?, row.id.to_string());
        let configs = config::naming(workspace, &row.slug, &id);
        if !configs.is_empty() {
            return Err(conflict(format!("the provider is named by the configs {}", configs.join(", "))));
        }
        let prompts = prompt::naming(workspace, &row.slug, &id);
        if prompts.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the provider is named by the prompts {}", prompts.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let snapshot = call.snapshot();
        let upstream = snapshot.upstream(row.doc.integration_id);
        let mut view = row.common("provider");
        if row.doc.expires_at.is_some_and(|at| at <= call.now) {
            view.insert("status".into(), "expired".into());
        }
        let more = json!({
            "integration_id": row.doc.integration_id,
            "integration_slug": upstream.map(|u| &*u.slug),
            "ai_provider_id": upstream.map(|u| u.provider.slug),
            "ai_provider_name": upstream.map(|u| u.provider.slug),
            "model_config": {},
            "note": row.doc.note,
            "tags": row.doc.rest.get("tags").cloned().unwrap_or_else(|| json!({})),
            "usage_limits": limits::only(&row.doc.limits, call.now),
            "rate_limits": (!row.doc.limits.rate_limits.is_empty()).then_some(&row.doc.limits.rate_limits),
            "max_parallel": row.doc.max_parallel,
            "reset_usage": null,
            "expires_at": row.doc.expires_at,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.provider(slug).is_some()
    }

    fn budgets(row: &ResourceRow<Self>) -> Option<(Holder, &ResourceLimits)> {
        Some((Holder::Provider(ProviderId(row.id)), &row.doc.limits))
    }

    fn updated(row: &ResourceRow<Self>) -> Value {
        Self::created(row)
    }
}

fn usable(upstream: &Upstream, row: &ResourceRow<Provider>) -> bool {
    upstream.org == row.org && row.workspace.is_some_and(|w| upstream.open_to(w))
}

fn no_integration(name: &str) -> Problem {
    bad("integration_id", format_args!("names `{name}`, which is no integration that this workspace can use"))
}

/// The integration that is meant: an id is taken as it is, a slug is looked for among those that the workspace can use.
fn integration(call: &AdminCall, home: Option<WorkspaceId>, name: &str) -> Result<IntegrationId, Problem> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let found = by_slug(&call.snapshot(), call, home, name);
    found.ok_or_else(|| no_integration(name))
}

fn by_slug(snapshot: &Snapshot, call: &AdminCall, home: Option<WorkspaceId>, name: &str) -> Option<IntegrationId> {
    let fits = |u: &&Arc<Upstream>| u.org == call.actor.org && *u.slug == *name && home.is_some_and(|w| u.open_to(w));
    snapshot.upstreams().find(fits).map(|u| u.integration)
}

/// A slug from a name; `fallback` when the name has no letter or digit that may stand in one.
pub(crate) fn slug_of(name: &str, fallback: &str) -> String {
    let slug = slugify(name);
    if slug.is_empty() { fallback.to_owned() } else { slug }
}

pub(crate) fn check_future(at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    if at.is_some_and(|at| at <= now) { Err(bad("expires_at", "must be in the future")) } else { Ok(()) }
}

/// Maps of names and values stay small: some of them ride on every request.
pub(crate) fn check_count(field: &str, count: usize) -> Result<(), Problem> {
    const MOST: usize = 64;
    if count > MOST { Err(bad(field, format_args!("must hold at most {MOST} items"))) } else { Ok(()) }
}

/// Puts key-value tags among the fields that a document carries along; they mean nothing to the gateway.
pub(crate) fn tagged(
    mut rest: Map<String, Value>,
    tags: Option<BTreeMap<String, String>>,
) -> Result<Map<String, Value>, Problem> {
    let Some(tags) = tags else { return Ok(rest) };
    check_count("tags", tags.len())?;
    for (key, value) in &tags {
        check_name("tags", key)?;
        if value.chars().count() > 255 {
            return Err(bad(format_args!("tags.{key}"), "must be at most 255 characters"));
        }
    }
    rest.insert("tags".into(), json!(tags));
    Ok(rest)
}
