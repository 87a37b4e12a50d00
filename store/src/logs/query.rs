//! Questions about records that both backends ask in the same words.

use super::columns::{COLUMNS, decode};
use super::field::{clipped, whole};
use super::paging::{RecordSlice, RowsFound};
use super::rollup::Rollups;
use super::shape::Table;
use crate::configs::workspace_value;
use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::{DatabaseRow, Session, Value, failure};
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::StoreError;
use gateway_domain::record::{Costed, LogQuery, Trace, Unpriced};
use sqlx::Error;
use std::sync::LazyLock;
use tokio::time::timeout;
use uuid::Uuid;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    format!("SELECT {} FROM {}", names.join(", "), Table::Records.name())
});

/// SQLite keeps no statistics of a day's file, and takes an index by organisation or workspace to be as good: it would
/// read a whole day for one trace.
const BY_TRACE: &str = "log_entry INDEXED BY log_entry_trace";

static SELECT_BY_TRACE: LazyLock<String> = LazyLock::new(|| SELECT.replace(Table::Records.name(), BY_TRACE));

/// What clients decide the length of in a record, in bytes.
pub(super) static WEIGHT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT octet_length(metadata) + octet_length(path) AS bytes FROM {}", Table::Records.name())
});

static WEIGHT_BY_TRACE: LazyLock<String> = LazyLock::new(|| WEIGHT.replace(Table::Records.name(), BY_TRACE));

/// Where records of a day's file are looked for, and what is read of them.
pub(super) struct RecordLookup {
    pub(super) table: &'static str,
    pub(super) select: &'static str,
    pub(super) weight: &'static str,
}

impl RecordLookup {
    pub(super) fn of(query: &LogQuery) -> Self {
        match query.trace_id {
            Some(_) => Self { table: BY_TRACE, select: &SELECT_BY_TRACE, weight: &WEIGHT_BY_TRACE },
            None => Self { table: Table::Records.name(), select: &SELECT, weight: &WEIGHT },
        }
    }
}

/// The slice, unless what clients decide the length of in it is more than it may be: that is read before the rows are.
pub(super) async fn found_in(
    session: &mut Session<'_>,
    (select, weight): (&'static str, &'static str),
    query: &LogQuery,
    slice: RecordSlice,
) -> Result<RowsFound, Error> {
    let (offset, limit) = slice.place;
    let mut bytes = 0;
    if let Some(most) = slice.most_bytes {
        let (inner, values) = filter(query).slice(weight, NEWEST, offset, limit);
        let sum = format!("SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM ({inner}) AS slice");
        bytes = session.fetch_int(sum, values).await?.try_into().unwrap_or_default();
        if bytes > most {
            return Ok(RowsFound { rows: Vec::new(), bytes });
        }
    }
    let (sql, values) = filter(query).slice(select, NEWEST, offset, limit);
    Ok(RowsFound { rows: session.fetch(sql, values, decode).await?, bytes })
}

pub(super) const NEWEST: &str = "created_at DESC, id DESC";

/// What is kept of messages lies in another table: a thousand of those are no list.
pub(super) fn light_select() -> &'static str {
    &SELECT
}

pub(super) const UNPRICED_GROUPS: &str = "SELECT DISTINCT org, workspace, virtual_key, provider, model \
    FROM log_entry WHERE cost IS NULL AND total_tokens IS NOT NULL";

pub(super) static UNPRICED_OF: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} WHERE cost IS NULL AND total_tokens IS NOT NULL AND org = $1 AND workspace = $2 AND virtual_key = $3 \
         AND provider = $4 AND model = $5 AND (created_at, id) > ($6, $7) ORDER BY created_at, id LIMIT 1000",
        &**SELECT
    )
});

/// Gives back what it changed.
static SET_COST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE log_entry SET cost = $1 WHERE id = $2 AND created_at = $3 AND cost IS NULL RETURNING {}",
        Table::Records.names()
    )
});

pub(super) fn group(row: &DatabaseRow) -> Result<Unpriced, Error> {
    let mut c = row.columns();
    Ok(Unpriced {
        org: OrgId(c.uuid()?),
        workspace: WorkspaceId(c.uuid()?),
        virtual_key: c.text()?.to_owned(),
        provider: c.text()?.to_owned(),
        model: c.text()?.to_owned(),
    })
}

pub(super) fn unpriced_values(group: &Unpriced, after: Option<(Timestamp, Uuid)>) -> Vec<Value<'_>> {
    let (time, id) = after.unwrap_or((Timestamp(i64::MIN), Uuid::nil()));
    vec![
        group.org.0.into(),
        group.workspace.0.into(),
        group.virtual_key.as_str().into(),
        group.provider.as_str().into(),
        group.model.as_str().into(),
        time.into(),
        id.into(),
    ]
}

pub(super) async fn set_costs(database: &Database, costs: &[Costed], rollups: &Rollups) -> Result<(), StoreError> {
    let mut lease = database.lease(Side::Write).await?;
    let work = async {
        let mut session = lease.session();
        let mut transaction = session.begin().await?;
        let mut inside = transaction.session();
        let mut changed = Vec::new();
        for Costed { id, created_at, cost } in costs {
            let values = vec![cost.0.into(), (*id).into(), (*created_at).into()];
            changed.extend(inside.fetch(SET_COST.as_str(), values, decode).await?);
        }
        rollups.reprice(&mut inside, &changed.iter().collect::<Vec<_>>()).await?;
        transaction.commit().await
    };
    let outcome = timeout(database.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
    lease.finish(outcome)
}

pub(super) fn one(id: Uuid, workspace: Option<WorkspaceId>) -> (String, Vec<Value<'static>>) {
    let mut filter = Filter::default();
    filter.and("id = ?", id).and_if("workspace = ?", workspace.map(|w| workspace_value(Some(w.0))));
    filter.slice(light_select(), NEWEST, 0, 1)
}

/// Offset and length of a page within all that match.
pub(super) fn slice(query: &LogQuery) -> (u64, u64) {
    let want = query.page_size.min(1_000);
    (if query.cursor.is_some() { 0 } else { query.page.saturating_mul(want) }, want)
}

/// A page cut out of days that lie behind one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    skip: u64,
    want: u64,
    /// Bytes that the parts to come may have of what clients decide the length of.
    pub(super) left: Option<u64>,
}

impl Cut {
    pub(super) fn page(query: &LogQuery) -> Self {
        let (skip, want) = slice(query);
        Self { skip, want, left: query.most_bytes }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.want == 0
    }

    /// Takes off what is wanted the rows that came out of a part that was not counted.
    pub(super) fn took(&mut self, rows: usize) {
        self.want = self.want.saturating_sub(rows as u64);
    }

    /// What is still wanted of a part that nobody counted.
    pub(super) const fn rest(&self) -> (u64, u64) {
        (0, self.want)
    }

    /// Offset and limit within the next part, which has so many rows.
    pub(super) fn of(&mut self, rows: u64) -> Option<(u64, u64)> {
        let offset = self.skip.min(rows);
        let limit = self.want.min(rows - offset);
        self.skip -= offset;
        self.want -= limit;
        (limit > 0).then_some((offset, limit))
    }
}

/// What was refused or never sent has no usage, and used nothing: as the Admin API shows it.
macro_rules! nothing {
    () => {
        "CASE WHEN total_tokens IS NULL AND (status >= 400 OR provider = '') THEN 0 END"
    };
}

macro_rules! tokens {
    () => {
        concat!("COALESCE(total_tokens, ", nothing!(), ")")
    };
}

macro_rules! prompt {
    () => {
        concat!("COALESCE(input_tokens + cache_read_tokens + cache_write_tokens + audio_in_tokens, ", nothing!(), ")")
    };
}

macro_rules! completion {
    () => {
        concat!("COALESCE(output_tokens + reasoning_tokens + audio_out_tokens, ", nothing!(), ")")
    };
}

macro_rules! cost {
    () => {
        concat!("COALESCE(cost, ", nothing!(), ")")
    };
}

pub(super) fn filter(query: &LogQuery) -> Filter<'_> {
    let mut filter = Filter::default();
    filter
        .and_if("org = ?", query.org.map(|org| org.0))
        .and_in("workspace", query.workspaces.iter().map(|workspace| workspace.0))
        .and_if("created_at >= ?", query.from)
        .and_if("created_at <= ?", query.to)
        .and_if("trace_id = ?", query.trace_id.as_deref().map(clipped))
        .and_in("trace_id", query.trace_ids.iter().map(|trace| clipped(trace)))
        .and_in("COALESCE(cache_status, 'DISABLED')", query.cache_statuses.iter().map(|status| status.name()))
        .and_in("status", query.statuses.iter().map(|status| i64::from(*status)))
        .and_in("provider", texts(&query.providers))
        .and_in("virtual_key", texts(&query.virtual_keys))
        .and_in("model", texts(&query.models))
        .and_in("config", texts(&query.configs))
        .and_in("key_id", query.keys.iter().map(|key| key.0))
        .and_in("operation", texts(&query.operations))
        .and_if(concat!(tokens!(), " >= ?"), query.min_tokens.map(whole))
        .and_if(concat!(tokens!(), " <= ?"), query.max_tokens.map(whole))
        .and_if(concat!(prompt!(), " >= ?"), query.min_prompt_tokens.map(whole))
        .and_if(concat!(prompt!(), " <= ?"), query.max_prompt_tokens.map(whole))
        .and_if(concat!(completion!(), " >= ?"), query.min_completion_tokens.map(whole))
        .and_if(concat!(completion!(), " <= ?"), query.max_completion_tokens.map(whole))
        .and_if(concat!(cost!(), " >= ?"), query.min_cost.map(|cost| cost.0))
        .and_if(concat!(cost!(), " <= ?"), query.max_cost.map(|cost| cost.0));
    filter.and_any(query.span_ids.iter().flat_map(|span| spans(span)));
    filter.and_any(query.prompts.iter().map(|slug| {
        let pair = format!("\"slug\":{}", serde_json::Value::from(slug.as_str()));
        ("replace(prompt, ?, '') <> prompt", vec![pair.into()])
    }));
    if let Some(cursor) = query.cursor {
        filter.and_behind(cursor.created_at.micros(), cursor.id);
    }
    for (key, value) in &query.metadata {
        // Both engines know `replace`, and it compares bytes: LIKE would ignore case on SQLite and read
        // wildcards. A quote inside a JSON text is always escaped, so the pair cannot hide in a value.
        filter.and("replace(metadata, ?, '') <> metadata", pair(key, value));
    }
    filter
}

/// Targets of one request whose spans are told apart.
const ATTEMPTS: u32 = 32;

/// The ways in which a record may show this span: as its client named it, else as traces tell it, else by its own id.
fn spans(span: &str) -> Vec<(&'static str, Vec<Value<'static>>)> {
    const NAMED: &str = "replace(trace, ?, '') <> trace";
    const TRACED: &str =
        "(attempt = ? AND replace(trace, ?, '') <> trace AND replace(trace, '\"span_id\":', '') = trace)";
    const OWN: &str = "((trace IS NULL OR replace(trace, '\"span_id\":', '') = trace) AND id LIKE ?)";
    let pair = format!("\"span_id\":{}", serde_json::Value::from(span));
    let mut tests = vec![(NAMED, vec![pair.into()])];
    let is_made_here = span.len() == 16 && span.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if let Some(number) = u64::from_str_radix(span, 16).ok().filter(|_| is_made_here) {
        for attempt in 1..=ATTEMPTS {
            let pair = format!("\"span\":{},", Trace::request_of(number, attempt));
            tests.push((TRACED, vec![i64::from(attempt).into(), pair.into()]));
        }
        tests.push((OWN, vec![format!("%-{}-{}", &span[..4], &span[4..]).into()]));
    }
    tests
}

fn texts(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}

/// The pair as it stands in compact JSON.
fn pair(key: &str, value: &str) -> Value<'static> {
    format!("{}:{}", serde_json::Value::from(key), serde_json::Value::from(value)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{DatabaseOptions, open_later};
    use crate::url::DatabaseUrl;

    /// The query is one of the Admin API: always with the organisation, the workspace and how far back logs are shown.
    #[tokio::test]
    async fn a_trace_is_found_by_its_index() {
        let (url, options) = (DatabaseUrl::parse("sqlite::memory:").expect("a URL"), DatabaseOptions::default());
        let database = open_later(&url, &options).await.expect("a database");
        let mut lease = database.lease(Side::Write).await.expect("a connection");
        Table::Records.ensure(&mut lease.session()).await.expect("a table");
        let asked = LogQuery {
            org: Some(OrgId(Uuid::nil())),
            workspaces: vec![WorkspaceId(Uuid::nil())],
            from: Some(Timestamp(1)),
            trace_id: Some("t".to_owned()),
            ..LogQuery::default()
        };
        let look = RecordLookup::of(&asked);
        let (count, values) = filter(&asked).count(look.table);
        let (page, more) = filter(&asked).slice(look.select, NEWEST, 0, 50);
        for (sql, values) in [(count, values), (page, more)] {
            let mut session = lease.session();
            let plan = session.fetch(format!("EXPLAIN QUERY PLAN {sql}"), values, |row| {
                let mut c = row.columns();
                for _ in 0..3 {
                    c.int()?;
                }
                c.text().map(str::to_owned)
            });
            let plan = plan.await.expect("a plan").join("; ");
            assert!(plan.contains("log_entry_trace (trace_id=?)"), "{plan}");
        }
    }
}
