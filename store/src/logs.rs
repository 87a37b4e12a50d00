//! Log records on either database: appended in batches by the record writer, read a page at a time by admins.
//! Nothing here is on the path of a request.

mod append;
pub(crate) mod columns;
mod label;

use crate::configs::workspace_value;
use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::{Lease, Value, failure};
use columns::{COLUMNS, clipped, decode};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, LogStore, StoreError};
use gateway_domain::record::{LogQuery, LogRecord, Page};
use std::sync::LazyLock;
use tokio::time::timeout;
use uuid::Uuid;

static SELECT: LazyLock<String> = LazyLock::new(|| select(|name| name));

/// A page of records comes without what is kept of their messages: a thousand of those are no list.
static SELECT_LIGHT: LazyLock<String> =
    LazyLock::new(|| select(|name| if name == "bodies" { "CAST(NULL AS TEXT)" } else { name }));

fn select(shown: fn(&'static str) -> &'static str) -> String {
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| shown(name)).collect();
    format!("SELECT {} FROM log_record", names.join(", "))
}

const NEWEST: &str = "created_at DESC, id DESC";

impl LogStore for Database {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut lease = self.lease(Side::Write).await?;
            let work = async {
                match &mut lease {
                    Lease::Sqlite(connection) => append::to_sqlite(connection, batch).await,
                    Lease::Postgres(connection) => append::to_postgres(connection, batch).await,
                }
            };
            let outcome = timeout(self.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
            lease.finish(outcome)
        })
    }

    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        Box::pin(self.page("log_record", (&SELECT_LIGHT, NEWEST), filter(query), (query.page, query.page_size), decode))
    }

    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        let mut filter = Filter::default();
        filter.and("id = ?", id).and_if("workspace = ?", workspace.map(|w| workspace_value(Some(w.0))));
        let (sql, values) = filter.page(&SELECT, NEWEST, 0, 1);
        Box::pin(async move { Ok(self.rows(sql, values, decode).await?.pop()) })
    }
}

fn filter(query: &LogQuery) -> Filter<'_> {
    let mut filter = Filter::default();
    filter
        .and_if("org = ?", query.org.map(|org| org.0))
        .and_if("workspace = ?", query.workspace.map(|workspace| workspace.0))
        .and_if("created_at >= ?", query.from)
        .and_if("created_at <= ?", query.to)
        .and_if("trace_id = ?", query.trace_id.as_deref().map(clipped))
        .and_in("status", query.statuses.iter().map(|status| i64::from(*status)))
        .and_in("provider", texts(&query.providers))
        .and_in("virtual_key", texts(&query.virtual_keys))
        .and_in("model", texts(&query.models))
        .and_in("config", texts(&query.configs))
        .and_in("key_id", query.keys.iter().map(|key| key.0))
        .and_in("operation", texts(&query.operations))
        .and_if("total_tokens >= ?", query.min_tokens.map(columns::whole))
        .and_if("total_tokens <= ?", query.max_tokens.map(columns::whole))
        .and_if("cost >= ?", query.min_cost.map(|cost| cost.0))
        .and_if("cost <= ?", query.max_cost.map(|cost| cost.0));
    for (key, value) in &query.metadata {
        // Both engines know `replace`, and it compares bytes: LIKE would ignore case on SQLite and read
        // wildcards. A quote inside a JSON text is always escaped, so the pair cannot hide in a value.
        filter.and("replace(metadata, ?, '') <> metadata", pair(key, value));
    }
    filter
}

fn texts(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}

/// The pair as it stands in compact JSON.
fn pair(key: &str, value: &str) -> Value<'static> {
    format!("{}:{}", serde_json::Value::from(key), serde_json::Value::from(value)).into()
}
