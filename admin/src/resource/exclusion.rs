//! Which workspaces are free of the guardrails that the organisation gives to all, by direction.

use super::{ResourceRow, check_organisation, collect, everything};
use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad, conflict, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::guardrail::Exclusions;
use gateway_domain::resource::workspace::Workspace;
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{self, Snapshot};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Workspaces that one body may name.
const MOST: usize = 1000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("organisation_exclusions.list")];
    const UPDATE: &[Scope] = &[Scope::named("organisation_exclusions.update")];
    const INPUT: &str = "/workspace-exclusions/input-guardrails";
    const OUTPUT: &str = "/workspace-exclusions/output-guardrails";
    const PAGES: &[&str] = &["organisation_id", "current_page", "page_size"];
    let list = |path, side: ExclusionSide| {
        let tells = "List the workspaces that default guardrails of the organisation do not judge";
        authed(Method::GET, path, LIST, tells, move |call| shown(call, side)).asks(PAGES)
    };
    let change = |path, side: ExclusionSide| {
        let tells = "Say which workspaces default guardrails of the organisation do not judge";
        authed(Method::PUT, path, UPDATE, tells, move |call| update(call, side))
            .takes::<ExclusionChange>()
            .and(&["organisation_id"])
    };
    vec![
        list(INPUT, ExclusionSide::INPUT),
        change(INPUT, ExclusionSide::INPUT),
        list(OUTPUT, ExclusionSide::OUTPUT),
        change(OUTPUT, ExclusionSide::OUTPUT),
    ]
}

/// One of the two directions.
#[derive(Clone, Copy)]
struct ExclusionSide(fn(&mut Exclusions) -> &mut bool);

impl ExclusionSide {
    const INPUT: Self = Self(|all| &mut all.input);
    const OUTPUT: Self = Self(|all| &mut all.output);

    fn of(self, mut all: Exclusions) -> bool {
        *(self.0)(&mut all)
    }

    fn set(self, all: &mut Exclusions, excluded: bool) {
        *(self.0)(all) = excluded;
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExclusionChange {
    workspaces: Vec<ExcludedWorkspace>,
    /// Those that are not named are not excluded any more.
    #[serde(default)]
    override_existing: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExcludedWorkspace {
    /// Id or slug.
    workspace_id: String,
    #[serde(default = "yes")]
    excluded: Flag,
}

const fn yes() -> Flag {
    Flag(true)
}

async fn shown(call: AdminCall, side: ExclusionSide) -> Result<AdminReply, Problem> {
    if call.query.text("organisation_id").is_some_and(|id| id != call.actor.org.to_string()) {
        return Err(missing("organisation"));
    }
    let paging = call.query.paging()?;
    let snapshot = call.snapshot();
    let mut excluded: Vec<_> = excluded(&snapshot, &call, side).collect();
    excluded.sort_by(|a, b| a.slug.cmp(&b.slug));
    let data: Vec<Value> = paging
        .cut(&excluded)
        .iter()
        .map(|w| json!({"object": "workspace-exclusion", "workspace_id": w.id, "slug": *w.slug, "name": *w.name, "excluded": true}))
        .collect();
    Ok(AdminReply::json(json!({"object": "list", "total": excluded.len(), "data": data})))
}

fn excluded<'s>(
    snapshot: &'s Snapshot,
    call: &AdminCall,
    side: ExclusionSide,
) -> impl Iterator<Item = &'s Arc<snapshot::WorkspaceEntry>> {
    let org = call.actor.org;
    snapshot.workspaces().filter(move |w| w.org == org && side.of(w.exclusions))
}

async fn update(call: AdminCall, side: ExclusionSide) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let mut body = call.body()?;
    let told = body.0.clone();
    check_organisation(&call, &mut body)?;
    let change: ExclusionChange = body.read()?;
    let wanted = wanted(&change, &call, side)?;
    let rows = rows(&call, wanted.keys().copied()).await?;
    let decide = |around: &WriteView<'_>| {
        let mut batch = Batch::default();
        for row in rows {
            let mut row = around.newest(row)?;
            let Some(excluded) = wanted.get(&WorkspaceId(row.id)) else { continue };
            if side.of(row.doc.exclusions) == *excluded {
                continue;
            }
            side.set(&mut row.doc.exclusions, *excluded);
            row.touch(call.now);
            batch.rows.push(row.stored()?);
        }
        batch.audit = batch.rows.iter().map(|row| audit(&call, Action::Update, row, &told)).collect();
        let meanwhile = |w: &snapshot::WorkspaceEntry| !wanted.contains_key(&w.id);
        if change.override_existing.0 && excluded(&around.snapshot, &call, side).any(|w| meanwhile(w)) {
            return Err(conflict("another workspace was excluded meanwhile: try again"));
        }
        Ok(batch)
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Every workspace that the change is about, and whether it is to be excluded.
fn wanted(
    change: &ExclusionChange,
    call: &AdminCall,
    side: ExclusionSide,
) -> Result<BTreeMap<WorkspaceId, bool>, Problem> {
    if change.workspaces.len() > MOST {
        return Err(bad("workspaces", format_args!("must have at most {MOST} entries")));
    }
    let snapshot = call.snapshot();
    let mut named = BTreeMap::new();
    for (at, given) in change.workspaces.iter().enumerate() {
        let field = format!("workspaces[{at}].workspace_id");
        let found = call.actor.named(&snapshot, Some(&given.workspace_id));
        let id = found.ok().flatten().ok_or_else(|| bad(&field, "names no workspace of this organisation"))?;
        if named.insert(id, given.excluded.0).is_some() {
            return Err(bad(&field, "is given twice"));
        }
    }
    if change.override_existing.0 {
        for workspace in excluded(&snapshot, call, side) {
            named.entry(workspace.id).or_insert(false);
        }
    }
    Ok(named)
}

async fn rows(
    call: &AdminCall,
    ids: impl Iterator<Item = WorkspaceId>,
) -> Result<Vec<ResourceRow<Workspace>>, Problem> {
    let ids: Vec<_> = ids.map(|id| id.0).collect();
    let mut rows = Vec::with_capacity(ids.len());
    for ids in ids.chunks(1000) {
        let query = ResourceQuery { ids: ids.to_vec(), ..everything::<Workspace>(call, None) };
        rows.extend(collect::<Workspace>(call, query).await?);
    }
    Ok(rows)
}
