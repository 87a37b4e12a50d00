//! Exports of logs: asked for, made by a job on any node, fetched by a link that ends. What becomes of one is what its
//! job tells; nothing here writes its file.

mod definition;
mod file;
mod lines;
mod parquet_file;
mod run;

pub use run::{EXPORT_LEASE, run_export};

use super::restricted;
use crate::change::{AuditedThing, ChangeOrigin};
use crate::problem::{Problem, bad, conflict, limited, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, MountPoint, PAGES, authed, guest};
use definition::{ExportAsked, NewExport};
use gateway_domain::export::{EXPORT_KIND, ExportOrder, ExportProgress, ExportQuery, ExportState, LogExport};
use gateway_domain::ports::{Batch, Enqueued, ExportPlace, JobBounds, MOST_JOB_BYTES, NewJob};
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

/// Exports that one organisation may have, whatever became of them.
const MOST_EXPORTS: u64 = 1_000;
/// Exports of one organisation that may be waiting or being made.
const MOST_OPEN: u32 = 4;
const TRIES: u32 = 5;
/// How long a file is there to be fetched.
const FILE_MICROS: i64 = 7 * 86_400 * 1_000_000;

pub(super) fn routes() -> Vec<AdminRoute> {
    const EXPORT: &[Scope] = &[Scope::named("logs.export")];
    const ONE: &str = "/logs/exports/{id}";
    const RESTRICTED: &str = "/logs/exports/field-restrictions";
    vec![
        authed(Method::GET, RESTRICTED, EXPORT, "Show which fields no export may have", restricted::show).asks(HERE),
        authed(Method::GET, "/logs/exports", EXPORT, "List exports of logs, newest first", list).asks(PAGES),
        authed(Method::POST, "/logs/exports", EXPORT, "Ask for an export of logs", create)
            .takes::<NewExport>()
            .asks(HERE),
        authed(Method::GET, ONE, EXPORT, "Show an export", show).asks(HERE),
        authed(Method::PUT, ONE, EXPORT, "Ask for something else", change).takes::<NewExport>().asks(HERE),
        authed(Method::DELETE, ONE, EXPORT, "Remove an export and its file", remove).asks(HERE),
        authed(Method::POST, "/logs/exports/{id}/start", EXPORT, "Have an export made", start).asks(HERE),
        authed(Method::POST, "/logs/exports/{id}/cancel", EXPORT, "Stop making an export", cancel).asks(HERE),
        authed(Method::GET, "/logs/exports/{id}/download", EXPORT, "Make a link to the file", download).asks(HERE),
        guest(Method::GET, MountPoint::Api, "/logs/exports/{id}/file", "Fetch a file by its link", file::fetch)
            .asks(&["token"]),
    ]
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let workspace = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let (org, workspaces) = (call.actor.org, vec![workspace]);
    let created_by = call.actor.user;
    let query = ExportQuery { org, workspaces, id: None, created_by, page: paging.page, page_size: paging.size };
    let found = call.app.exports.exports(&query).await?;
    let data: Vec<Value> = found.rows.iter().map(shown).collect();
    Ok(AdminReply::json(json!({"object": "list", "total": found.total, "data": data})))
}

/// Whoever asks with a key of their own has their own exports only.
async fn find(call: &AdminCall) -> Result<LogExport, Problem> {
    let id: Uuid = call.var("id").parse().map_err(|_| missing("export"))?;
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let (org, created_by) = (call.actor.org, call.actor.user);
    let workspaces = named.into_iter().collect();
    let query = ExportQuery { org, workspaces, id: Some(id), created_by, page: 0, page_size: 1 };
    call.app.exports.exports(&query).await?.rows.pop().ok_or_else(|| missing("export"))
}

const fn place(export: &LogExport) -> ExportPlace {
    ExportPlace { org: export.org, id: export.id, job: export.job }
}

fn changed_meanwhile() -> Problem {
    conflict("this export was changed meanwhile: look at it again")
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let given: NewExport = call.body()?.read()?;
    let asked = ExportAsked::read(&call, given, None).await?;
    let request = asked.counted(&call).await?;
    let export = LogExport {
        id: call.app.id(),
        org: call.actor.org,
        workspace: asked.workspace,
        created_by: call.actor.user.unwrap_or(call.actor.key.0),
        request,
        job: None,
        state: ExportState::Draft,
        progress: ExportProgress::default(),
        note: String::new(),
        created_at: call.now,
        updated_at: call.now,
    };
    if !call.app.exports.create(&export, MOST_EXPORTS).await? {
        return Err(limited(format!("an organisation has at most {MOST_EXPORTS} exports: remove some")));
    }
    audit(&call, "create", &export).await;
    Ok(AdminReply::json(json!({"id": export.id, "total": export.request.total, "object": "export"})))
}

/// Writes to the audit trail what was done: who takes logs away, which of them, and where to.
async fn audit(call: &AdminCall, action: &'static str, export: &LogExport) {
    let told = json!({
        "filters": serde_json::from_str::<Value>(&export.request.filters).unwrap_or_default(),
        "requested_data": export.request.fields.iter().map(|field| field.name()).collect::<Vec<_>>(),
        "format": export.request.format,
    });
    let Value::Object(told) = told else { return };
    let name = export.request.description.as_str();
    let thing = AuditedThing { kind: "log_export", id: export.id, org: export.org, workspace: export.workspace, name };
    let audit = vec![ChangeOrigin::of_call(call).audit_of(action, &thing, &told)];
    let seen = call.snapshot().revision;
    if let Err(problem) = call.commit(seen, |_| Ok(Batch { audit, ..Batch::default() })).await {
        tracing::warn!(export = %export.id, action, why = problem.message, "an export is missing in the audit trail");
    }
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    Ok(AdminReply::json(shown(&find(&call).await?)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let given: NewExport = call.body()?.read()?;
    let export = find(&call).await?;
    if export.state == ExportState::InProgress {
        return Err(in_progress());
    }
    let asked = ExportAsked::read(&call, given, Some(&export)).await?;
    let request = asked.counted(&call).await?;
    if !call.app.exports.change(place(&export), &request, call.now).await? {
        return Err(changed_meanwhile());
    }
    drop_file(&call, &export).await?;
    let total = request.total;
    audit(&call, "update", &LogExport { request, ..export.clone() }).await;
    Ok(AdminReply::json(json!({"id": export.id, "total": total, "object": "export"})))
}

fn in_progress() -> Problem {
    conflict("this export is in progress: cancel it first")
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let export = find(&call).await?;
    if export.state == ExportState::InProgress {
        return Err(in_progress());
    }
    if !call.app.exports.remove(place(&export)).await? {
        return Err(changed_meanwhile());
    }
    drop_file(&call, &export).await?;
    audit(&call, "delete", &export).await;
    Ok(AdminReply::json(json!({})))
}

/// What its last job wrote.
async fn drop_file(call: &AdminCall, export: &LogExport) -> Result<(), Problem> {
    let Some(job) = export.job else { return Ok(()) };
    for part in export.progress.parts(job) {
        call.app.blobs.delete(export.org, part).await?;
    }
    Ok(())
}

async fn start(call: AdminCall) -> Result<AdminReply, Problem> {
    let export = find(&call).await?;
    match export.state {
        ExportState::InProgress => return Err(conflict("this export is in progress already")),
        ExportState::Success => return Err(conflict("this export is made: change it, or ask for another")),
        ExportState::Draft | ExportState::Failed | ExportState::Stopped => {}
    }
    let query = definition::question_of(&call, &export).await?;
    let until = query.to.map_or(call.now, |to| to.min(call.now));
    let order = ExportOrder {
        export: export.id,
        workspace: export.workspace,
        from: query.from.map(|from| from.micros()),
        to: until.micros(),
        query,
        fields: export.request.fields.clone(),
        format: export.request.format,
        expires_at: call.now.plus_micros(FILE_MICROS).micros(),
    };
    let payload = serde_json::to_string(&order).map_err(crate::problem::internal)?;
    if payload.len() > MOST_JOB_BYTES {
        return Err(bad("filters", format_args!("must take at most {MOST_JOB_BYTES} bytes")));
    }
    let progress = match begun(&call, &export).await? {
        Some(begun) => serde_json::to_string(&begun).map_err(crate::problem::internal)?,
        None => String::new(),
    };
    let (id, org) = (call.app.id(), export.org);
    if !call.app.exports.hand_to(place(&export), id, call.now).await? {
        return Err(changed_meanwhile());
    }
    let (kind, wait, bounds) = (EXPORT_KIND, Duration::ZERO, JobBounds::default());
    let job = NewJob { id, kind, org, payload, progress, wait, most_tries: TRIES, most_open: MOST_OPEN, bounds };
    match call.app.jobs.enqueue(&job).await? {
        Enqueued::New | Enqueued::Known => {
            audit(&call, "start", &export).await;
            Ok(message("Export started"))
        }
        Enqueued::Full => Err(limited(format!("{MOST_OPEN} exports are in progress: wait for one, or cancel it"))),
    }
}

/// What a cancelled run has left, as far as its file is still there.
async fn begun(call: &AdminCall, export: &LogExport) -> Result<Option<ExportProgress>, Problem> {
    let is_left = export.state == ExportState::Stopped && export.request.format.is_resumable();
    let Some(job) = export.job.filter(|_| is_left) else { return Ok(None) };
    let Some(begun) = export.progress.handed_on(job) else { return Ok(None) };
    for part in begun.parts(job) {
        let blob = call.app.blobs.blob(export.org, part).await?;
        if blob.is_none_or(|blob| blob.expires_at.is_some_and(|end| end <= call.now)) {
            return Ok(None);
        }
    }
    Ok(Some(begun))
}

fn message(text: &str) -> AdminReply {
    AdminReply::json(json!({"message": text, "object": "export"}))
}

async fn cancel(call: AdminCall) -> Result<AdminReply, Problem> {
    let export = find(&call).await?;
    let Some(job) = export.job.filter(|_| export.state == ExportState::InProgress) else {
        return Err(conflict("this export is not in progress"));
    };
    // One that ended at this very moment needs nothing.
    call.app.jobs.cancel(export.org, job).await?;
    audit(&call, "cancel", &export).await;
    Ok(message("Export cancelled"))
}

async fn download(call: AdminCall) -> Result<AdminReply, Problem> {
    let export = find(&call).await?;
    let Some(job) = export.job.filter(|_| export.state == ExportState::Success) else {
        return Err(conflict("this export is not made yet"));
    };
    let there = call.app.blobs.blob(export.org, export.progress.part_of(job, export.progress.first)).await?;
    if there.is_none_or(|blob| !blob.is_whole || blob.expires_at.is_some_and(|end| end <= call.now)) {
        return Err(missing("file of this export, whose time is over: start it again"));
    }
    audit(&call, "download", &export).await;
    Ok(AdminReply::json(json!({"signed_url": file::link(&call, &export, job)})))
}

fn shown(export: &LogExport) -> Value {
    let request = &export.request;
    let names: Vec<&str> = request.fields.iter().map(|field| field.name()).collect();
    json!({
        "object": "export",
        "id": export.id,
        "organisation_id": export.org,
        "workspace_id": export.workspace,
        "filters": serde_json::from_str::<Value>(&request.filters).unwrap_or_default(),
        "requested_data": names,
        "format": request.format,
        "status": export.state.name(),
        "description": request.description,
        "total_records": request.total,
        "exported_records": export.progress.rows,
        "bytes": export.progress.bytes,
        "truncated": export.progress.is_cut,
        "error": (!export.note.is_empty()).then_some(&export.note),
        "created_by": export.created_by,
        "created_at": export.created_at,
        "last_updated_at": export.updated_at,
    })
}
