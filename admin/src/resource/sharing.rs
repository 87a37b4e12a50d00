//! What prompts and partials are to other workspaces than their own: shared, they are read and called there and changed
//! by nobody; forked, they are others, which begin with the same text and know nothing of the first.

use super::declared::{Assuming, Declaring, take};
use super::edition::{HasEditions, KeptVersion, history, pick};
use super::shelf::UPDATE;
use super::{ResourceRow, collect, everything, locate};
use crate::change::{Action, WriteView, audit};
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::Kind;
use gateway_domain::resource::prompt::Sharing;
use gateway_domain::snapshot::{ShelfView, WorkspaceEntry};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// Workspaces that one body may name.
const MOST: usize = 1000;

/// Rows that are fetched at once by their ids.
const PAGE: usize = 500;

/// What the lists of shared things take beside their own.
pub(super) const SHOW_SHARE: &str = "show_prompt_share";

pub(super) trait Shareable: HasEditions {
    fn sharing(&self) -> Option<&Sharing>;
    fn set_sharing(&mut self, sharing: Option<Sharing>);
    /// One that others share with this workspace, by slug or id.
    fn lent(view: ShelfView<'_>, name: &str) -> Option<Uuid>;
    fn all_lent(view: ShelfView<'_>) -> Vec<Uuid>;
    /// Nobody whom it is taken away from asks for it.
    fn check_withdrawn(
        _row: &ResourceRow<Self>,
        _next: Option<&Sharing>,
        _around: &WriteView<'_>,
    ) -> Result<(), Problem> {
        Ok(())
    }
}

/// The workspaces that it is taken away from.
pub(super) fn losing<'a, R: Shareable>(
    row: &'a ResourceRow<R>,
    next: Option<&'a Sharing>,
    around: &'a WriteView<'_>,
) -> impl Iterator<Item = &'a Arc<WorkspaceEntry>> {
    let ours = around.snapshot.workspaces().filter(|w| w.org == row.org && row.workspace != Some(w.id));
    let had = ours.filter(|w| row.doc.sharing().is_some_and(|before| before.reaches(w.id)));
    had.filter(move |w| !next.is_some_and(|next| next.reaches(w.id)))
}

/// Where one of them is shared, and where it is not shared any more.
pub(super) struct SharePaths {
    pub(super) share: &'static str,
    pub(super) unshare: &'static str,
}

pub(super) fn routes<R: Shareable>(at: &SharePaths) -> Vec<AdminRoute> {
    let (share, unshare) = (at.share, at.unshare);
    vec![
        authed(Method::POST, share, UPDATE, "Share it with more workspaces, or with all", add::<R>)
            .takes::<ShareWith>()
            .and(HERE)
            .asks(HERE),
        authed(Method::PUT, share, UPDATE, "Share it with these workspaces, and with no others", replace::<R>)
            .takes::<ShareWith>()
            .and(HERE)
            .asks(HERE),
        authed(Method::DELETE, share, UPDATE, "Share it with nobody any more", end::<R>).asks(HERE),
        authed(Method::POST, unshare, UPDATE, "Share it with these workspaces no more, or with nobody", remove::<R>)
            .takes::<SharedNoMore>()
            .and(HERE)
            .asks(HERE),
        authed(Method::DELETE, unshare, UPDATE, "Share it with nobody any more", end::<R>).asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareWith {
    access: Option<String>,
    workspaces: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedNoMore {
    workspaces: Option<Vec<String>>,
}

impl ShareWith {
    fn read(self, call: &AdminCall) -> Result<Sharing, Problem> {
        match (self.access.as_deref(), self.workspaces) {
            (Some("organisation"), None) => Ok(Sharing::Organisation),
            (Some("organisation"), Some(_)) => Err(bad("workspaces", "cannot be given where access is organisation")),
            (None | Some("workspaces"), Some(names)) => named(call, &names).map(Sharing::Workspaces),
            (None | Some("workspaces"), None) => {
                Err(bad("workspaces", "is required, unless access is organisation: slugs or ids of workspaces"))
            }
            (Some(_), _) => Err(bad("access", "must be organisation or workspaces")),
        }
    }
}

/// Ids of workspaces of the organisation.
fn named(call: &AdminCall, names: &[String]) -> Result<BTreeSet<WorkspaceId>, Problem> {
    if names.is_empty() || names.len() > MOST {
        return Err(bad("workspaces", format_args!("must name 1..{MOST} workspaces")));
    }
    let snapshot = call.snapshot();
    let find = |(at, name): (usize, &String)| {
        let found = call.actor.find(&snapshot, name).map(|w| w.id);
        found.ok_or_else(|| bad(format_args!("workspaces[{at}]"), "is not a workspace of this organisation"))
    };
    names.iter().enumerate().map(find).collect()
}

async fn add<R: Shareable>(call: AdminCall) -> Result<AdminReply, Problem> {
    let asked = |call: &AdminCall, body: crate::input::JsonBody| body.read::<ShareWith>()?.read(call);
    alter::<R, _>(call, asked, |asked, before| {
        Ok(Some(match (asked, before) {
            (Sharing::Workspaces(more), Some(Sharing::Workspaces(mut known))) => {
                known.extend(more);
                Sharing::Workspaces(known)
            }
            (_, Some(Sharing::Organisation)) => Sharing::Organisation,
            (asked, _) => asked,
        }))
    })
    .await
}

async fn replace<R: Shareable>(call: AdminCall) -> Result<AdminReply, Problem> {
    let asked = |call: &AdminCall, body: crate::input::JsonBody| body.read::<ShareWith>()?.read(call);
    alter::<R, _>(call, asked, |asked, _| Ok(Some(asked))).await
}

async fn remove<R: Shareable>(call: AdminCall) -> Result<AdminReply, Problem> {
    let asked = |call: &AdminCall, body: crate::input::JsonBody| {
        body.read::<SharedNoMore>()?.workspaces.map(|names| named(call, &names)).transpose()
    };
    alter::<R, _>(call, asked, |asked, before| match (asked, before) {
        (None, _) | (_, None) => Ok(None),
        (Some(_), Some(Sharing::Organisation)) => Err(bad(
            "workspaces",
            "cannot be named while it is shared with the organisation: share it with some instead",
        )),
        (Some(less), Some(Sharing::Workspaces(known))) => {
            let left: BTreeSet<WorkspaceId> = known.difference(&less).copied().collect();
            Ok((!left.is_empty()).then_some(Sharing::Workspaces(left)))
        }
    })
    .await
}

async fn end<R: Shareable>(call: AdminCall) -> Result<AdminReply, Problem> {
    alter::<R, _>(call, |_, _| Ok(()), |(), _| Ok(None)).await
}

async fn alter<R: Shareable, A: Send>(
    call: AdminCall,
    read: impl FnOnce(&AdminCall, crate::input::JsonBody) -> Result<A, Problem> + Send,
    next: impl FnOnce(A, Option<Sharing>) -> Result<Option<Sharing>, Problem> + Send,
) -> Result<AdminReply, Problem> {
    let (seen, mut body) = (call.snapshot().revision, call.body()?);
    let told = body.0.clone();
    let given = body.take_text("workspace_id")?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<R>(&call, given, Action::Update).await?;
    let asked = read(&call, body)?;
    let mut answer = Value::Null;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let next = next(asked, row.doc.sharing().cloned())?;
        if let Some(Sharing::Workspaces(named)) = &next
            && row.workspace.is_some_and(|home| named.contains(&home))
        {
            return Err(bad("workspaces", "names the workspace that it lies in"));
        }
        R::check_withdrawn(&row, next.as_ref(), around)?;
        row.doc.set_sharing(next);
        row.touch(call.now);
        answer = json!({"id": row.id, "slug": row.slug, "prompt_share": shown(row.doc.sharing())});
        call.promise(|| answer.clone());
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(answer).at(revision))
}

fn shown(sharing: Option<&Sharing>) -> Value {
    match sharing {
        None => Value::Null,
        Some(Sharing::Organisation) => json!({"access": "organisation", "workspaces": []}),
        Some(Sharing::Workspaces(named)) => json!({"access": "workspaces", "workspaces": named}),
    }
}

/// How a file says whom something is shared with: by the word for all, or by a list of workspaces.
pub(super) fn declare_sharing(sharing: Option<&Sharing>, to: &Declaring<'_>) -> Option<Value> {
    Some(match sharing? {
        Sharing::Organisation => json!("organisation"),
        Sharing::Workspaces(named) => {
            // A workspace that is gone has no name any more, so it is left out.
            let known = named.iter().filter(|id| to.names.knows(Kind::Workspace, id.0));
            let mut names: Vec<String> = known.map(|id| to.names.name(id.0)).collect();
            if names.is_empty() {
                return None;
            }
            names.sort();
            json!(names)
        }
    })
}

pub(super) fn take_sharing(fields: &mut Map<String, Value>, from: &Assuming<'_>) -> Result<Option<Sharing>, Problem> {
    const FIELD: &str = "shared_with";
    match take::<Value>(fields, FIELD)? {
        None => Ok(None),
        Some(Value::String(all)) if all == "organisation" => Ok(Some(Sharing::Organisation)),
        Some(listed) => {
            let names: Vec<String> = serde_json::from_value(listed)
                .map_err(|_| bad(FIELD, "must be organisation or a list of workspaces"))?;
            let find = |name: &String| from.find(Kind::Workspace, None, FIELD, name).map(WorkspaceId);
            let named: BTreeSet<WorkspaceId> = names.iter().map(find).collect::<Result<_, _>>()?;
            Ok((!named.is_empty()).then_some(Sharing::Workspaces(named)))
        }
    }
}

/// The row that the path names: one that the actor may change, or one that is shared with the workspace acted on.
pub(super) async fn locate_readable<R: Shareable>(
    call: &AdminCall,
    given: Option<&str>,
) -> Result<ResourceRow<R>, Problem> {
    match locate::<R>(call, given, Action::Read).await {
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
        done => return done,
    }
    let snapshot = call.snapshot();
    let home = snapshot.workspace(call.actor.home(&snapshot, given)?).ok_or_else(|| missing("workspace"))?;
    let id = R::lent(snapshot.shelf_of(home), call.var("id")).ok_or_else(|| missing(R::NOUN))?;
    let found = call.app.directory.get(R::KIND, call.actor.org, None, &id.to_string()).await?;
    let found = found.ok_or_else(|| missing(R::NOUN))?;
    call.subject.found(&found);
    ResourceRow::read(&found)
}

/// What the path names and the version of it that is asked for, to be made into another.
pub(super) async fn locate_source<R: Shareable>(
    call: &AdminCall,
    version: Option<u64>,
) -> Result<(ResourceRow<R>, KeptVersion<R::Content>), Problem> {
    let row = locate_readable::<R>(call, call.query.text("workspace_id")).await?;
    let number = version.unwrap_or_else(|| row.doc.editions().default.into());
    let found = pick(history(call, &row).await?, &number.to_string());
    let kept = found.map_err(|_| bad("version", "is not the number of a version"))?;
    Ok((row, kept))
}

/// The rows of a list, by what its `type` asks for: of the workspace, or of others that share them with it.
pub(super) async fn listed<R: Shareable>(
    call: &AdminCall,
    home: &Arc<WorkspaceEntry>,
) -> Result<Vec<ResourceRow<R>>, Problem> {
    let (own, lent) = match call.query.text("type") {
        None | Some("own") => (true, false),
        Some("shared") => (false, true),
        Some("all") => (true, true),
        Some(_) => return Err(bad("type", "must be own, shared or all")),
    };
    let mut rows = Vec::new();
    if own {
        rows = collect::<R>(call, everything::<R>(call, Some(Some(home.id)))).await?;
    }
    if lent {
        let snapshot = call.snapshot();
        for some in R::all_lent(snapshot.shelf_of(home)).chunks(PAGE) {
            let query = ResourceQuery { ids: some.to_vec(), ..everything::<R>(call, None) };
            rows.extend(collect::<R>(call, query).await?);
        }
    }
    Ok(rows)
}

/// Adds to a view what the workspace may do with it, and for its owner with whom it is shared.
pub(super) fn show_sharing<R: Shareable>(
    view: &mut Value,
    row: &ResourceRow<R>,
    call: &AdminCall,
) -> Result<(), Problem> {
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let elsewhere = named.is_some_and(|here| row.workspace != Some(here));
    if let Value::Object(fields) = view {
        fields.insert("is_read_only".to_owned(), elsewhere.into());
        if !elsewhere && wants_share(call)? {
            fields.insert("prompt_share".to_owned(), shown(row.doc.sharing()));
        }
    }
    Ok(())
}

fn wants_share(call: &AdminCall) -> Result<bool, Problem> {
    Ok(call.query.parsed::<bool>(SHOW_SHARE, "must be true or false")?.unwrap_or_default())
}
