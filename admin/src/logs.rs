//! Request logs as admins read them: the list with its filters, and one record; and those that clients tell of
//! themselves.

mod client_records;
mod exports;
pub(crate) mod feedback_filter;
pub(crate) mod filter;
pub(crate) mod restricted;
mod view;

pub use exports::{EXPORT_LEASE, run_export};

use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::export::LogField;
use gateway_domain::feedback::{FeedbackQuery, MOST_OF_TRACE};
use gateway_domain::record::{LogCursor, LogQuery, LogRecord};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Snapshot;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes that clients wrote into the records of one page; the answer made of them takes several times as much.
const MOST_SHOWN: u64 = 8 << 20;

/// How long records are searched by what no index knows; what was found by then is shown as a partial answer.
const LOOKED_FOR: Duration = Duration::from_millis(1_500);

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("logs.list")];
    const READ: &[Scope] =
        &[Scope::named("logs.view"), Scope::named("logs.read"), Scope::named("logs.write"), Scope::COMPLETIONS_WRITE];
    const WRITE: &[Scope] = &[Scope::named("logs.write")];
    let logs = vec![
        authed(Method::POST, "/logs", WRITE, "Tell of calls that went another way", client_records::insert)
            .takes::<client_records::OwnCall>()
            .asks(HERE),
        authed(Method::GET, "/logs", LIST, "List request logs, newest first", list).asks(&filter::OF_LIST),
        authed(Method::GET, "/logs/{id}", READ, "Show one request log", get).asks(HERE),
    ];
    logs.into_iter().chain(exports::routes()).collect()
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let Some(query) = filter::read(&call).await? else {
        return Ok(AdminReply::json(
            json!({"object": "list", "total": 0, "data": [], "partial": false, "next_cursor": null}),
        ));
    };
    let query = LogQuery { most_bytes: Some(MOST_SHOWN), time: Some(LOOKED_FOR), ..query };
    let page = call.app.logs.query(&query).await?;
    if page.is_too_large {
        let most = MOST_SHOWN >> 20;
        return Err(bad(
            "page_size",
            format_args!("asks for records with more than {most} MiB of metadata: ask for fewer"),
        ));
    }
    let snapshot = call.snapshot();
    let reader = reader(&call, &snapshot);
    let data: Vec<Value> = page.rows.iter().map(|r| view::record(r, &reader)).collect();
    let full = !page.rows.is_empty() && page.rows.len() as u64 == query.page_size;
    let next = page.rows.last().filter(|_| full).map(|r| LogCursor { created_at: r.created_at, id: r.id });
    let next = next.or(page.resume).map(|place| place.to_string());
    let partial = page.is_partial || !page.missing.is_empty();
    let mut list =
        json!({"object": "list", "total": page.total, "data": data, "partial": partial, "next_cursor": next});
    if query.cursor.is_some() {
        // Nobody counted.
        list["total"] = Value::Null;
    }
    if !page.missing.is_empty() {
        list["missing"] = json!(page.missing);
    }
    Ok(AdminReply::json(list))
}

async fn get(call: AdminCall) -> Result<AdminReply, Problem> {
    let id = call.var("id").parse().map_err(|_| bad("id", "must be a UUID"))?;
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let found = call.app.logs.get(id, named).await?.filter(|r| r.org == call.actor.org);
    let since = filter::shown_since(&call);
    let found = found.filter(|r| since.is_none_or(|since| r.created_at >= since));
    let found = found.filter(|r| call.actor.sees_all || r.owner == call.actor.user);
    let record = found.ok_or_else(|| missing("log"))?;
    let snapshot = call.snapshot();
    let mut shown = view::record(&record, &reader(&call, &snapshot));
    shown["feedback"] = Value::Array(feedback(&call, &record).await?);
    Ok(AdminReply::json(shown))
}

/// What was said of the call's trace, the newest first.
async fn feedback(call: &AdminCall, record: &LogRecord) -> Result<Vec<Value>, Problem> {
    let query = FeedbackQuery {
        org: Some(record.org),
        workspaces: vec![record.workspace],
        trace_ids: vec![record.trace_id.to_string()],
        most: MOST_OF_TRACE,
        ..FeedbackQuery::default()
    };
    let found = call.app.feedbacks.feedbacks(&query).await?;
    let open = call.actor.sees_metadata && !restricted::hidden(call).contains(LogField::Metadata);
    Ok(found.iter().map(|told| view::feedback(told, open)).collect())
}

fn reader<'a>(call: &'a AdminCall, snapshot: &'a Snapshot) -> view::LogViewer<'a> {
    let organisation = snapshot.org(call.actor.org).map_or("", |org| &org.name);
    let (open, own, hidden) = (call.actor.sees_metadata, &*call.app.header_aliases, restricted::hidden(call));
    view::LogViewer { organisation, open, own, hidden }
}
