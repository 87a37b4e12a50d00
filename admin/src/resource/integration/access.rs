//! Which workspaces may borrow from an integration of the organisation: all, but for those that are told
//! otherwise, or none but those. Who is let in gets a managed provider along, unless told not to.

use super::scopes::{READ, UPDATE};
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad};
use crate::resource::limits::{self, AllowedLimits, LimitsEdit, LimitsInput};
use crate::resource::provider::AUTO;
use crate::resource::{NewRow, ResourceRow, Slug, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::{IntegrationId, WorkspaceId};
use gateway_domain::ports::{Batch, Holder};
use gateway_domain::resource::integration::{Access, Integration};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::provider::Provider;
use gateway_domain::snapshot::Snapshot;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Vec<AdminRoute> {
    const PATH: &str = "/integrations/{id}/workspaces";
    vec![
        authed(Method::GET, PATH, READ, "List the workspaces that were let in or shut out", list).asks(HERE),
        authed(Method::PUT, PATH, UPDATE, "Let workspaces in or shut them out", set)
            .takes::<PutIntegrationWorkspaces>()
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutIntegrationWorkspaces {
    workspaces: Option<Vec<Map<String, Value>>>,
    global_workspace_access: Option<Map<String, Value>>,
    #[serde(alias = "override_existing_workspaces_access")]
    override_existing_workspace_access: Option<Flag>,
    create_default_provider: Option<Flag>,
    default_provider_slug: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceAccessEdit {
    id: String,
    enabled: Flag,
    create_default_provider: Option<Flag>,
    default_provider_slug: Option<String>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    reset_usage: Option<Flag>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Global {
    enabled: Flag,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    reset_usage: Option<Flag>,
}

struct AccessChange {
    workspace: WorkspaceId,
    enabled: bool,
    limits: LimitsEdit,
    /// Where the limits stand in the body, with a dot at its end.
    under: String,
    reset: bool,
    /// The slug that its provider gets, where one is to be made.
    provider: Option<Option<String>>,
}

/// A workspace has at most one limit of each kind on an integration.
const SHAPE: AllowedLimits = AllowedLimits { rates: 1, budgets: 1, seconds: false };

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let snapshot = call.snapshot();
    let access = &row.doc.access;
    let none = ResourceLimits::default();
    let mut holders = Vec::new();
    let mut data = Vec::new();
    for (id, enabled) in &access.workspaces {
        let Some(workspace) = snapshot.workspace(*id) else { continue };
        let limits = access.workspace_limits.get(id).unwrap_or(&none);
        let mut view = shown(*enabled, limits, &call);
        view["id"] = json!(&*workspace.slug);
        holders.push((holder(&row, Some(*id)), limits));
        data.push(view);
    }
    holders.push((holder(&row, None), &access.limits));
    data.push(shown(row.workspace.is_none() && access.global, &access.limits, &call));
    limits::count_all(&call, &holders, &mut data).await?;
    let global = data.pop();
    Ok(AdminReply::json(json!({"total": data.len(), "workspaces": data, "global_workspace_access": global})))
}

const fn holder(row: &ResourceRow<Integration>, workspace: Option<WorkspaceId>) -> Holder {
    Holder::Integration(IntegrationId(row.id), workspace)
}

pub(super) fn shown(enabled: bool, limits: &ResourceLimits, call: &AdminCall) -> Value {
    let some = |list: Vec<Value>| if list.is_empty() { Value::Null } else { list.into() };
    let rates = limits.rate_limits.iter().map(|r| json!(r)).collect();
    json!({
        "enabled": enabled,
        "usage_limits": some(limits::views(limits, call.now)),
        "rate_limits": some(rates),
    })
}

fn seat(i: usize, given: Map<String, Value>) -> Result<WorkspaceAccessEdit, Problem> {
    JsonBody(given).read_under(&format!("workspaces[{i}]."))
}

fn changes(
    given: &mut PutIntegrationWorkspaces,
    call: &AdminCall,
    snapshot: &Snapshot,
) -> Result<Vec<AccessChange>, Problem> {
    let make = given.create_default_provider.is_none_or(|f| f.0);
    let mut out = Vec::new();
    for (i, item) in given.workspaces.take().unwrap_or_default().into_iter().enumerate() {
        let seat = seat(i, item)?;
        let found = call.actor.named(snapshot, Some(&seat.id)).ok().flatten();
        let workspace =
            found.ok_or_else(|| bad(format_args!("workspaces[{i}].id"), "names no workspace of this organisation"))?;
        let make = seat.enabled.0 && seat.create_default_provider.map_or(make, |f| f.0);
        let slug = seat.default_provider_slug.or_else(|| given.default_provider_slug.clone());
        out.push(AccessChange {
            workspace,
            enabled: seat.enabled.0,
            limits: LimitsEdit { rate_limits: seat.rate_limits, usage_limits: seat.usage_limits },
            under: format!("workspaces[{i}]."),
            reset: seat.reset_usage.is_some_and(|f| f.0),
            provider: make.then_some(slug),
        });
    }
    Ok(out)
}

async fn set(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    if row.workspace.is_some() {
        return Err(bad("workspaces", "cannot be set: the integration belongs to one workspace"));
    }
    let body = call.body()?;
    let told = body.0.clone();
    let mut given: PutIntegrationWorkspaces = body.read()?;
    let global = given.global_workspace_access.take();
    let global = global.map(|body| JsonBody(body).read_under::<Global>(GLOBAL)).transpose()?;
    let changes = changes(&mut given, &call, &snapshot)?;
    let mut along = Vec::new();
    for change in &changes {
        along.extend(provider(&call, &snapshot, &row, change).await?);
    }
    let resets: Vec<Holder> = resets(&row, &changes, global.as_ref());
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        if given.override_existing_workspace_access.is_some_and(|f| f.0) {
            row.doc.access.workspaces.clear();
            row.doc.access.workspace_limits.clear();
        }
        apply(&mut row.doc.access, changes, global, &call)?;
        row.touch(call.now);
        let mut rows = vec![row.stored()?];
        let mut audits = vec![audit(&call, Action::Update, &rows[0], &told)];
        let after = around.plus(&rows)?;
        for provider in &mut along {
            provider.enter(&after)?;
            let stored = provider.row.stored()?;
            audits.push(audit(&call, Action::Create, &stored, &told));
            rows.push(stored);
        }
        Ok(Batch { rows, audit: audits, ..Batch::default() })
    };
    let revision = call.commit(snapshot.revision, decide).await?;
    for holder in resets {
        limits::reset(&call, holder).await?;
    }
    Ok(AdminReply::json(json!({})).at(revision))
}

const GLOBAL: &str = "global_workspace_access.";

fn apply(
    access: &mut Access,
    changes: Vec<AccessChange>,
    global: Option<Global>,
    call: &AdminCall,
) -> Result<(), Problem> {
    if let Some(global) = global {
        access.global = global.enabled.0;
        let limits = LimitsEdit { rate_limits: global.rate_limits, usage_limits: global.usage_limits };
        put(&mut access.limits, limits, GLOBAL, call)?;
    }
    for change in changes {
        access.workspaces.insert(change.workspace, change.enabled);
        let mut limits = access.workspace_limits.remove(&change.workspace).unwrap_or_default();
        put(&mut limits, change.limits, &change.under, call)?;
        if !limits.is_empty() {
            access.workspace_limits.insert(change.workspace, limits);
        }
    }
    Ok(())
}

/// The workspaces that a file lets in or shuts out: these, and no others.
pub(super) fn declared(
    access: &mut Access,
    global: Option<Map<String, Value>>,
    seats: Vec<Map<String, Value>>,
    call: &AdminCall,
) -> Result<(), Problem> {
    let global = global.map(|body| JsonBody(body).read_under::<Global>(GLOBAL)).transpose()?;
    let mut given = PutIntegrationWorkspaces {
        workspaces: Some(seats),
        global_workspace_access: None,
        override_existing_workspace_access: None,
        create_default_provider: Some(Flag(false)),
        default_provider_slug: None,
    };
    let changes = changes(&mut given, call, &call.snapshot())?;
    apply(access, changes, global, call)
}

fn put(limits: &mut ResourceLimits, edit: LimitsEdit, under: &str, call: &AdminCall) -> Result<(), Problem> {
    edit.onto(under, limits, SHAPE, call.now)
}

/// The holders of limits whose counters are to begin anew once the change is stored.
fn resets(row: &ResourceRow<Integration>, changes: &[AccessChange], global: Option<&Global>) -> Vec<Holder> {
    let all = global.is_some_and(|g| g.reset_usage.is_some_and(|f| f.0)).then(|| holder(row, None));
    let each = changes.iter().filter(|c| c.reset).map(|c| holder(row, Some(c.workspace)));
    all.into_iter().chain(each).collect()
}

/// The provider to be made for a workspace that is let in and borrows nothing from the integration yet.
async fn provider(
    call: &AdminCall,
    snapshot: &Snapshot,
    of: &ResourceRow<Integration>,
    change: &AccessChange,
) -> Result<Option<NewRow<Provider>>, Problem> {
    let Some(slug) = &change.provider else { return Ok(None) };
    let borrows = |w: &gateway_domain::snapshot::WorkspaceEntry| w.providers().any(|p| p.integration.0 == of.id);
    if snapshot.workspace(change.workspace).is_none_or(|w| borrows(w)) {
        return Ok(None);
    }
    let mut rest = Map::new();
    rest.insert(AUTO.into(), "auto".into());
    let doc = Provider {
        integration_id: IntegrationId(of.id),
        note: None,
        expires_at: None,
        limits: ResourceLimits::default(),
        max_parallel: None,
        rest,
    };
    let mut row = ResourceRow::fresh(&call.app, of.org, Some(change.workspace), Some(call.actor.key.0), doc);
    row.name.clone_from(&of.name);
    let slug = Slug::given("default_provider_slug", slug.clone())?.unwrap_or_else(|| Slug::Derived(of.slug.clone()));
    let mut draft = NewRow { row, slug };
    draft.settle(call).await?;
    Ok(Some(draft))
}
