//! The audit trail as Admin keys read it: who did what, when, from where and with which request. Read only;
//! rows are written with the change that they tell of; a change that was refused has one of its own.

use crate::input::QueryString;
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::resource::{Audit, AuditQuery};
use gateway_domain::scope::Scope;
use gateway_domain::time::Timestamp;
use http::Method;
use serde_json::{Value, json};

const MOST: u64 = 100;

static KNOWN: &[&str] = &[
    "start_time",
    "end_time",
    "organisation_id",
    "method",
    "uri",
    "user_id",
    "user_type",
    "workspace_id",
    "response_status_code",
    "resource_type",
    "action",
    "client_ip",
    "request_id",
    "country",
    "current_page",
    "page_size",
];

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("audit_logs.list")];
    vec![authed(Method::GET, "/audit-logs", LIST, "List what was changed, newest first", list).asks(KNOWN)]
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let Some(query) = read(&call)? else { return Ok(answer(0, &[])) };
    let page = call.app.history.audit(&query).await?;
    Ok(answer(page.total, &page.rows))
}

fn answer(total: u64, rows: &[Audit]) -> AdminReply {
    let records: Vec<Value> = rows.iter().map(record).collect();
    AdminReply::json(json!({"object": "analytics-graph", "total": total, "records": records}))
}

/// `None`: asks for a country, which no row has.
fn read(call: &AdminCall) -> Result<Option<AuditQuery>, Problem> {
    let q = &call.query;
    let org = q.text("organisation_id").ok_or_else(|| bad("organisation_id", "is required"))?;
    if org != call.actor.org.to_string() {
        return Err(missing("organisation"));
    }
    let (from, to) = (time(q, "start_time")?, time(q, "end_time")?);
    if from > to {
        return Err(bad("end_time", "must not be before start_time"));
    }
    let workspace = q.text("workspace_id").map(|w| call.actor.named(&call.snapshot(), Some(w))).transpose()?.flatten();
    let paging = q.paging_by("current_page", "page_size", MOST)?;
    let text = |name: &str| q.text(name).map(str::to_owned);
    let query = AuditQuery {
        org: Some(call.actor.org.0),
        workspace: workspace.map(|w| w.0),
        from: Some(from),
        to: Some(to),
        actor: text("user_id"),
        actor_kind: q.one_of("user_type", &["user", "api_key", "system"])?.map(str::to_owned),
        action: text("action"),
        resource_kind: text("resource_type"),
        method: q.one_of("method", &["POST", "PUT", "DELETE"])?.map(str::to_owned),
        uri: text("uri"),
        client_ip: text("client_ip"),
        status: q.parsed("response_status_code", "must be a status code")?,
        request_id: q.parsed("request_id", "must be a UUID")?,
        page: paging.page,
        page_size: paging.size,
    };
    // Nobody here knows countries of addresses: every record's is empty.
    let elsewhere = q.text("country").is_some();
    Ok(Some(query).filter(|_| !elsewhere))
}

fn time(q: &QueryString, name: &str) -> Result<Timestamp, Problem> {
    let text = q.text(name).ok_or_else(|| bad(name, "is required"))?;
    text.parse().map_err(|rule: String| bad(name, rule))
}

fn record(row: &Audit) -> Value {
    let details: Value = serde_json::from_str(&row.details).unwrap_or_default();
    let request = details.get("request").map_or_else(String::new, Value::to_string);
    let headers = details.get("headers").map_or_else(String::new, Value::to_string);
    json!({
        "id": row.id,
        "timestamp": row.at,
        "method": row.method,
        "uri": row.uri,
        "request_id": details.get("request_id"),
        "request_body": request,
        "query_params": row.uri.split_once('?').map_or("", |(_, query)| query),
        "request_headers": headers,
        "user_id": row.actor,
        "user_type": row.actor_kind,
        "user_name": details.pointer("/by/name"),
        "user_email": details.pointer("/by/email"),
        "api_key_id": row.api_key,
        "api_key_name": details.pointer("/by/key"),
        "changes": details.get("changes").unwrap_or(&Value::Null),
        "organisation_id": row.org,
        "workspace_id": row.workspace,
        "response_status_code": row.status,
        "resource_type": row.resource_kind,
        "resource_id": row.resource_id,
        "resource_name": details.get("name"),
        "resource_slug": details.get("slug"),
        "refused": details.get("refused"),
        "action": row.action,
        "client_ip": row.client_ip,
        "country": "",
    })
}
