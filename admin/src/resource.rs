//! What every stored resource shares: the typed row, finding it, and list, create, get, update, delete with
//! paging, masking, scopes, slugs and audit. What differs is one file per resource below this one.
//! The day this file would ask which kind it holds, that resource writes its own handler.

pub(crate) mod agent_capabilities;
pub(crate) mod agent_integration;
pub(crate) mod agent_server;
pub(crate) mod alert;
pub(crate) mod api_key;
pub(crate) mod collection;
pub(crate) mod config;
pub(crate) mod declared;
pub(crate) mod deployment;
mod edition;
pub(crate) mod exclusion;
mod export_settings;
pub(crate) mod guardrail;
pub(crate) mod history;
pub(crate) mod integration;
mod integration_rows;
pub(crate) mod invite;
pub(crate) mod label;
mod last_use;
mod limits;
pub(crate) mod mcp_capabilities;
pub(crate) mod mcp_grants;
pub(crate) mod mcp_integration;
pub(crate) mod mcp_server;
pub(crate) mod member;
pub(crate) mod oauth_client;
pub(crate) mod organisation;
pub(crate) mod outbound;
pub(crate) mod partial;
pub(crate) mod plugin;
mod policy;
pub(crate) mod prompt;
pub(crate) mod provider;
pub(crate) mod rate_limit;
mod row;
pub(crate) mod secret_reference;
mod server_rows;
mod sharing;
mod shelf;
mod unknown_fields;
pub(crate) mod usage_limit;
pub(crate) mod user;
mod user_access;
mod versions;
pub(crate) mod virtual_key;
pub(crate) mod workspace;
mod workspace_seats;

pub(crate) use row::{NewRow, NumberedState, Resource, ResourceRow, Slug};

use crate::app::App;
use crate::change::{Action, WriteView, audit};
use crate::input::JsonBody;
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Batch, ResourceQuery, Revision};
use gateway_domain::resource::agent::AgentIntegration;
use gateway_domain::resource::alert::AlertRule;
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::mcp::McpIntegration;
use gateway_domain::resource::sign_on::SignOn;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::snapshot::Snapshot;
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(crate) async fn list<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let home = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging()?;
    let query = ResourceQuery { page: paging.page, page_size: paging.size, ..searched::<R>(&call, Some(Some(home))) };
    let page = call.app.directory.list(&query).await?;
    let data = views::<R>(&page.rows, &call).await?;
    Ok(AdminReply::json(R::listed(page.total, data)))
}

pub(crate) async fn create<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let (row, revision) = insert::<R>(&call, call.body()?).await?;
    Ok(AdminReply::json(R::created(&row)).at(revision))
}

pub(crate) async fn get<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let view = render_rows(std::slice::from_ref(&row), &call).await?.pop().unwrap_or_default();
    Ok(AdminReply::json(R::shown(view)))
}

pub(crate) async fn update<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let reset = limits::wants_reset(&body)?;
    let (row, revision) = edit::<R>(&call, body).await?;
    if let Some((holder, _)) = R::budgets(&row).filter(|_| reset) {
        limits::reset(&call, holder).await?;
    }
    Ok(AdminReply::json(R::updated(&row)).at(revision))
}

pub(crate) async fn delete<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Delete).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        R::check_unused(&row, around)?;
        let gone = row.tombstone(call.now)?;
        let audit = vec![audit(&call, Action::Delete, &gone, &Map::new())];
        Ok(Batch { rows: vec![gone], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// A query for every row of a kind; `shelf` as [`ResourceQuery::workspace`].
pub(crate) fn everything<R: Resource>(call: &AdminCall, shelf: Option<Option<WorkspaceId>>) -> ResourceQuery {
    ResourceQuery { workspace: shelf, ..ResourceQuery::all(R::KIND, call.actor.org) }
}

/// A query for the rows that have the `search` of the request in their name or slug; for all rows without a `search`.
pub(crate) fn searched<R: Resource>(call: &AdminCall, shelf: Option<Option<WorkspaceId>>) -> ResourceQuery {
    ResourceQuery { search: call.query.text("search").map(str::to_owned), ..everything::<R>(call, shelf) }
}

/// Every row that matches, for lists whose filters the store does not know.
pub(crate) async fn collect<R: Resource>(
    call: &AdminCall,
    query: ResourceQuery,
) -> Result<Vec<ResourceRow<R>>, Problem> {
    pages(&call.app, query).await?.iter().map(ResourceRow::read).collect()
}

/// The rows of this page and of all behind it.
pub(crate) async fn pages(app: &App, mut query: ResourceQuery) -> Result<Vec<Stored>, Problem> {
    let mut rows = Vec::new();
    loop {
        let page = app.directory.list(&query).await?.rows;
        let more = page.len() as u64 == query.page_size;
        rows.extend(page);
        if !more {
            return Ok(rows);
        }
        query.page += 1;
    }
}

pub(crate) async fn views<R: Resource>(rows: &[Stored], call: &AdminCall) -> Result<Vec<Value>, Problem> {
    let rows = rows.iter().map(ResourceRow::read).collect::<Result<Vec<ResourceRow<R>>, _>>()?;
    render_rows(&rows, call).await
}

/// Views with what was used of each budget.
pub(crate) async fn render_rows<R: Resource>(rows: &[ResourceRow<R>], call: &AdminCall) -> Result<Vec<Value>, Problem> {
    let mut views: Vec<Value> = rows.iter().map(|row| R::view(row, call)).collect();
    limits::count(call, rows, &mut views).await?;
    last_use::show(call, rows, &mut views).await?;
    Ok(views)
}

/// The tombstone of a row that goes along with another.
pub(crate) fn tombstone(row: Stored, now: Timestamp) -> Result<Stored, Problem> {
    match Kind::parse(&row.kind) {
        Some(Kind::Integration) => ResourceRow::<Integration>::read(&row)?.tombstone(now),
        Some(Kind::McpIntegration) => ResourceRow::<McpIntegration>::read(&row)?.tombstone(now),
        Some(Kind::AgentIntegration) => ResourceRow::<AgentIntegration>::read(&row)?.tombstone(now),
        Some(Kind::ApiKey) => ResourceRow::<ApiKey>::read(&row)?.tombstone(now),
        Some(Kind::Alert) => ResourceRow::<AlertRule>::read(&row)?.tombstone(now),
        Some(Kind::Guardrail) => ResourceRow::<GuardrailDocument>::read(&row)?.tombstone(now),
        Some(Kind::SignOn) => ResourceRow::<SignOn>::read(&row)?.tombstone(now),
        _ => Ok(Stored { version: row.version + 1, updated_at: now, deleted_at: Some(now), ..row }),
    }
}

/// Reads a new row from a body, and says what the audit trail keeps of that body.
pub(crate) fn draft<R: Resource>(
    call: &AdminCall,
    mut body: JsonBody,
) -> Result<(NewRow<R>, Map<String, Value>), Problem> {
    let mut told = body.0.clone();
    R::mask(&mut told);
    let snapshot = call.snapshot();
    let by_organisation = check_organisation(call, &mut body)?;
    let given = body.take_text("workspace_id")?;
    let named = call.actor.named(&snapshot, given.as_deref())?;
    body.refuse_later("", R::LATER)?;
    let home = match given {
        None if R::LEVELS && by_organisation => None,
        _ => R::home(named, call.actor.default_workspace(&snapshot)?),
    };
    let draft = R::create(body.read()?, home, call)?;
    R::allow(&draft.row, &call.actor, Action::Create)?;
    Ok((draft, told))
}

/// Clients may name the organisation; only their own exists for them. Says whether they did.
pub(crate) fn check_organisation(call: &AdminCall, body: &mut JsonBody) -> Result<bool, Problem> {
    match body.take_text("organisation_id")? {
        Some(id) if id != call.actor.org.to_string() => Err(missing("organisation")),
        given => Ok(given.is_some()),
    }
}

pub(crate) async fn insert<R: Resource>(
    call: &AdminCall,
    body: JsonBody,
) -> Result<(ResourceRow<R>, Revision), Problem> {
    insert_with(call, body, |_, _| Ok(Vec::new())).await
}

/// `along`: rows that change with the new one.
pub(crate) async fn insert_with<R, F>(
    call: &AdminCall,
    body: JsonBody,
    along: F,
) -> Result<(ResourceRow<R>, Revision), Problem>
where
    R: Resource,
    F: FnOnce(&ResourceRow<R>, &WriteView<'_>) -> Result<Vec<Stored>, Problem> + Send,
{
    let seen = call.snapshot().revision;
    let (mut draft, told) = draft::<R>(call, body)?;
    draft.settle(call).await?;
    let decide = |around: &WriteView<'_>| {
        draft.enter(around)?;
        let (stored, versions) = (draft.row.stored()?, draft.row.version(call.actor.key.0)?);
        let mut rows = vec![stored];
        let mut audits = vec![audit(call, Action::Create, &rows[0], &told)];
        for other in along(&draft.row, around)? {
            audits.push(audit(call, Action::Update, &other, &told));
            rows.push(other);
        }
        call.promise(|| R::created(&draft.row));
        Ok(Batch { rows, versions, audit: audits, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok((draft.row, revision))
}

pub(crate) async fn edit<R: Resource>(call: &AdminCall, body: JsonBody) -> Result<(ResourceRow<R>, Revision), Problem> {
    edit_with(call, body, |_, _| Ok(Vec::new())).await
}

/// `along`: rows that change with this one.
pub(crate) async fn edit_with<R, F>(
    call: &AdminCall,
    mut body: JsonBody,
    along: F,
) -> Result<(ResourceRow<R>, Revision), Problem>
where
    R: Resource,
    F: FnOnce(&ResourceRow<R>, &WriteView<'_>) -> Result<Vec<Stored>, Problem> + Send,
{
    let seen = call.snapshot().revision;
    let mut told = body.0.clone();
    R::mask(&mut told);
    let given = body.take_text("workspace_id")?;
    check_organisation(call, &mut body)?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<R>(call, given, Action::Update).await?;
    body.refuse_later("", R::LATER)?;
    let input = body.read()?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let before = row.doc.version_id();
        R::patch(&mut row, input, call)?;
        R::check(&row, around)?;
        row.touch(call.now);
        let changed = row.doc.version_id() != before;
        let versions = if changed { row.version(call.actor.key.0)? } else { Vec::new() };
        let mut rows = vec![row.stored()?];
        let mut audits = vec![audit(call, Action::Update, &rows[0], &told)];
        for other in along(&row, around)? {
            audits.push(audit(call, Action::Update, &other, &told));
            rows.push(other);
        }
        call.promise(|| R::updated(&row));
        done = Some(row);
        Ok(Batch { rows, versions, audit: audits, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    done.map(|row| (row, revision)).ok_or_else(|| missing(R::NOUN))
}

/// The row that the path names, if this actor may see it there. `given`: the workspace that the request names.
pub(crate) async fn locate<R: Resource>(
    call: &AdminCall,
    given: Option<&str>,
    action: Action,
) -> Result<ResourceRow<R>, Problem> {
    let name = call.var("id");
    let snapshot = call.snapshot();
    let named = call.actor.named(&snapshot, given)?;
    let shelf = match named {
        _ if R::SHARED => None,
        None if Uuid::parse_str(name).is_ok() => None,
        None => Some(holder::<R>(call, &snapshot, name)?),
        named => named,
    };
    let found = call.app.directory.get(R::KIND, call.actor.org, shelf, name).await?;
    let found = found.ok_or_else(|| missing(R::NOUN))?;
    call.subject.found(&found);
    let row = ResourceRow::read(&found)?;
    let seen_from = |ws: WorkspaceId| row.workspace.map_or(R::SHARED, |own| own == ws);
    if !named.is_none_or(seen_from) {
        return Err(missing(R::NOUN));
    }
    R::allow(&row, &call.actor, action)?;
    Ok(row)
}

/// The workspace that an Admin key means by a bare slug: the default one if it holds it, else the only one.
fn holder<R: Resource>(call: &AdminCall, snapshot: &Snapshot, slug: &str) -> Result<WorkspaceId, Problem> {
    let default = call.actor.default_workspace(snapshot)?;
    let ours = snapshot.workspaces().filter(|w| w.org == call.actor.org && R::held(w, slug));
    let holders: Vec<WorkspaceId> = ours.map(|w| w.id).collect();
    match holders.as_slice() {
        [one] => Ok(*one),
        [] => Ok(default),
        many if many.contains(&default) => Ok(default),
        _ => {
            Err(bad("workspace_id", format_args!("is required, since several workspaces have a {} `{slug}`", R::NOUN)))
        }
    }
}
