//! Log records in ClickHouse, over its HTTP interface. Knows that one server's tables and the settings of its own
//! queries; not who asks, nor how records came here.
//!
//! A record is counted once however often it comes. All rows of a record have one sorting key, the engine keeps the one
//! with the highest version, and reads say FINAL, which holds before the parts are merged as well. Versions fall with
//! the time of writing, so that the first row of a record stands, as on the other engines, and the row that a price
//! came with stands above all without one.

mod client;
mod hourly_sums;
mod row_binary;
mod server_url;
mod sums;
mod tables;

pub use server_url::{BadColumnsUrl, ColumnsUrl};

use super::append::bodies_text;
use super::columns::encode;
use super::field::from_json;
use super::query::{filter, slice, unpriced_values};
use super::sums::{all_of, is_in_rollups};
use crate::configs::workspace_value;
use crate::database::DatabaseOptions;
use crate::filter::Filter;
use crate::session::Value;
use client::{ServerLink, ServerSays};
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Grain, SumPart, SumParts, SumQuery};
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{Fut, RecordAppend, RecordQuery, Repricing, Retention, StoreError};
use gateway_domain::record::{Costed, LogQuery, LogRecord, Page, Unpriced};
use hourly_sums::TouchMark;
use row_binary::{Cells, RowsOut, StoredRow};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tables::{BODIES, ColumnTable, MARGINS, RECORDS, ROLLUPS, SEALS, TOUCHES};
use tokio::sync::Mutex;
use tokio::time::timeout;
use uuid::Uuid;

/// Above it lie the versions of rows that a price came with, below it those of rows as they were stored.
const PRICED: u64 = 1 << 62;

/// What a client decides the length of, in bytes, within a page.
const WEIGHT: &str = "SELECT length(ifNull(metadata, '')) + length(ifNull(path, '')) AS bytes FROM log_entry FINAL";

/// Time for the total of a list whose query sets none.
const COUNTING: Duration = Duration::from_secs(30);

const NEWEST: &str = "created_at DESC, id DESC";

#[derive(Debug)]
pub struct ColumnStore {
    link: ServerLink,
    /// The tables are known to be there.
    shaped: Mutex<bool>,
}

/// The times from which records are looked at for a page, one after the other until it is full: the newest lie in the
/// newest days, and the engine sorts all that it looks at. The last is where the question itself begins.
fn beginnings(query: &LogQuery) -> Vec<Option<Timestamp>> {
    let now = Timestamp(micros_now());
    let end = query.to.into_iter().chain(query.cursor.map(|cursor| cursor.created_at)).fold(now, Timestamp::min);
    // A trace is found by its index.
    let windows: &[i64] = if query.trace_id.is_some() { &[] } else { &[1, 8] };
    let begun = windows.iter().map(|days| end.plus_micros(-days * Grain::Day.micros()));
    let begun = begun.filter(|from| query.from.is_none_or(|asked| asked < *from));
    begun.map(Some).chain([query.from]).collect()
}

fn micros_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or_default()
}

/// Falls with time.
fn version() -> u64 {
    PRICED - micros_now().cast_unsigned().min(PRICED)
}

impl ColumnStore {
    /// The server may be away: tables are looked at when it is first needed.
    pub fn open(url: &ColumnsUrl, options: &DatabaseOptions) -> Result<Self, BadColumnsUrl> {
        Ok(Self { link: ServerLink::open(url, options)?, shaped: Mutex::new(false) })
    }

    async fn shape(&self) -> Result<(), StoreError> {
        let mut shaped = self.shaped.lock().await;
        if !*shaped {
            for table in ColumnTable::ALL {
                table.ensure(&self.link).await?;
            }
            *shaped = true;
        }
        Ok(())
    }

    /// Somebody dropped a table that was there: the next call makes it.
    async fn note_dropped<T>(&self, outcome: Result<T, ServerSays>) -> Result<T, StoreError> {
        if outcome.as_ref().is_err_and(ServerSays::is_of_no_table) {
            *self.shaped.lock().await = false;
        }
        outcome.map_err(StoreError::from)
    }

    async fn put(&self, batch: &[LogRecord]) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.shape().await?;
        let version = version();
        let mut kept = RowsOut::default();
        for record in batch {
            if let Some(text) = bodies_text(record) {
                kept.body(record, &text, version);
            }
        }
        if !kept.is_empty() {
            let put = self.link.insert(BODIES.insert(), kept).await;
            self.note_dropped(put).await?;
        }
        let mut rows = RowsOut::default();
        for record in batch {
            encode(record, &mut rows.record());
            rows.derived(record, version);
        }
        let times = || batch.iter().map(|record| record.created_at);
        self.touch(times(), TouchMark::Begun).await?;
        let put = self.link.insert(RECORDS.insert(), rows).await;
        self.note_dropped(put).await?;
        self.touch(times(), TouchMark::Ended).await
    }

    async fn numbers(&self, filter: (String, Vec<Value<'_>>)) -> Result<u64, StoreError> {
        let (sql, values) = filter;
        let found = self.link.rows(&sql, &values).await;
        let found = self.note_dropped(found).await?;
        Cells::of(&found).u64().map_err(|e| StoreError::Broken(e.to_string()))
    }

    async fn records(&self, filter: (String, Vec<Value<'_>>)) -> Result<Vec<LogRecord>, StoreError> {
        let (sql, values) = filter;
        let found = self.link.rows(&sql, &values).await;
        let found = self.note_dropped(found).await?;
        StoredRow::all(&found).map_err(|e| StoreError::Broken(e.to_string()))
    }

    /// What is not found in its time is not shown: the server looks at all days at once.
    async fn page(&self, query: &LogQuery) -> Result<Page<LogRecord>, StoreError> {
        let Some(time) = query.time else { return self.whole_page(query).await };
        let late = Page { is_partial: true, ..Page::of(0) };
        timeout(time, self.whole_page(query)).await.unwrap_or(Ok(late))
    }

    async fn whole_page(&self, query: &LogQuery) -> Result<Page<LogRecord>, StoreError> {
        filter(query).check()?;
        self.shape().await?;
        let (offset, size) = slice(query);
        let mut page = Page::of(0);
        if size == 0 {
            page.total = self.total(query, 0).await?;
            return Ok(page);
        }
        for from in beginnings(query) {
            let is_last = from == query.from;
            let near = LogQuery { from, ..query.clone() };
            if let Some(most) = query.most_bytes {
                let (inner, values) = filter(&near).slice(WEIGHT, NEWEST, offset, size);
                let sum = format!("SELECT toUInt64(sum(bytes)) FROM ({inner})");
                if self.numbers((sum, values)).await? > most {
                    return Ok(Page { is_too_large: true, ..Page::of(0) });
                }
            }
            page.rows = self.records(filter(&near).slice(RECORDS.select(), NEWEST, offset, size)).await?;
            if is_last || page.rows.len() as u64 == size {
                break;
            }
        }
        page.total = self.total(query, page.rows.len() as u64).await?;
        Ok(page)
    }

    /// What is told beside a page of so many rows; behind a cursor nothing is. The last page tells by its length.
    async fn total(&self, query: &LogQuery, found: u64) -> Result<u64, StoreError> {
        let (offset, size) = slice(query);
        let is_last = found < size && (found > 0 || offset == 0);
        match query.cursor {
            Some(_) => Ok(0),
            None if is_last => Ok(offset + found),
            None => self.count(query).await,
        }
    }

    /// How many match: from the sums of hours where those know, and else from the records.
    async fn count(&self, query: &LogQuery) -> Result<u64, StoreError> {
        let parts = SumParts::of(&[SumPart::Records]);
        let asked = SumQuery { parts, time: query.time.unwrap_or(COUNTING), ..all_of(query) };
        if is_in_rollups(&asked, &[]) {
            let found = self.add_up(&asked).await?;
            if !found.is_partial {
                let total: i64 = found.cells.iter().map(|cell| cell.sums.records).sum();
                return Ok(total.try_into().unwrap_or_default());
            }
        }
        let (sql, values) = filter(query).grouped("SELECT count() FROM log_entry FINAL", "");
        self.numbers((sql, values)).await
    }

    async fn find(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Result<Option<LogRecord>, StoreError> {
        self.shape().await?;
        let mut one = Filter::default();
        one.and("id = ?", id).and_if("workspace = ?", workspace.map(|w| workspace_value(Some(w.0))));
        let found = self.records(one.slice(RECORDS.select(), NEWEST, 0, 1)).await?;
        let Some(mut record) = found.into_iter().next() else { return Ok(None) };
        let select = "SELECT bodies FROM log_body WHERE id = $1 ORDER BY version DESC LIMIT 1";
        let kept = self.link.rows(select, &[id.into()]).await;
        let kept = self.note_dropped(kept).await?;
        if !kept.is_empty() {
            let text = Cells::of(&kept).opt_text().map_err(|e| StoreError::Broken(e.to_string()))?;
            record.bodies = from_json(text).map(Box::new);
        }
        Ok(Some(record))
    }

    /// What a question for an id and a text that may be absent answers.
    pub(super) async fn texts_by_id(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<(Uuid, Option<String>)>, StoreError> {
        self.shape().await?;
        let found = self.link.rows(sql, values).await;
        let found = self.note_dropped(found).await?;
        let mut cells = Cells::of(&found);
        let mut all = Vec::new();
        while !cells.is_at_end() {
            let row = cells.uuid().and_then(|id| Ok((id, cells.opt_text()?.map(str::to_owned))));
            all.push(row.map_err(|e| StoreError::Broken(e.to_string()))?);
        }
        Ok(all)
    }

    async fn groups(&self) -> Result<Vec<Unpriced>, StoreError> {
        self.shape().await?;
        let select = "SELECT DISTINCT org, ifNull(workspace, ''), ifNull(virtual_key, ''), ifNull(provider, ''), \
                      ifNull(model, '') FROM log_entry FINAL WHERE cost IS NULL AND total_tokens IS NOT NULL";
        let found = self.link.rows(select, &[]).await;
        let found = self.note_dropped(found).await?;
        let mut cells = Cells::of(&found);
        let mut groups = Vec::new();
        while !cells.is_at_end() {
            groups.push(group(&mut cells).map_err(|e| StoreError::Broken(e.to_string()))?);
        }
        Ok(groups)
    }

    async fn page_of(&self, group: &Unpriced, after: Option<(Timestamp, Uuid)>) -> Result<Vec<LogRecord>, StoreError> {
        self.shape().await?;
        let select = format!(
            "{} WHERE cost IS NULL AND total_tokens IS NOT NULL AND org = $1 AND workspace = $2 AND virtual_key = $3 \
             AND provider = $4 AND model = $5 AND (created_at, id) > ($6, $7) ORDER BY created_at, id LIMIT 1000",
            RECORDS.select()
        );
        self.records((select, unpriced_values(group, after))).await
    }

    /// Rows as they are, but for cost and version, are written beside the old ones: the server copies them, so that a
    /// column that only a newer program knows comes along.
    async fn price(&self, costs: &[Costed]) -> Result<(), StoreError> {
        self.shape().await?;
        let version = PRICED + version();
        for some in costs.chunks(1_000) {
            self.touch(some.iter().map(|cost| cost.created_at), TouchMark::Begun).await?;
            let mut first: HashMap<Uuid, i64> = HashMap::new();
            for cost in some {
                first.entry(cost.id).or_insert(cost.cost.0);
            }
            let times = || some.iter().map(|cost| cost.created_at.micros());
            let mut of = Filter::default();
            of.and("created_at >= ?", times().min().unwrap_or_default());
            of.and("created_at <= ?", times().max().unwrap_or_default());
            of.and_in("id", first.keys().copied());
            of.literal("cost IS NULL");
            let (inner, values) = of.grouped("SELECT * FROM log_entry FINAL", "");
            let (ids, amounts): (Vec<String>, Vec<i64>) =
                first.into_iter().map(|(id, cost)| (id.to_string(), cost)).unzip();
            let copy = format!(
                "INSERT INTO log_entry SELECT * REPLACE (transform(id, {{ids:Array(String)}}, \
                 {{amounts:Array(Int64)}}, toInt64(0)) AS cost, toUInt64({version}) AS version) FROM ({inner})"
            );
            let copy = self.link.ask(&copy, &values).param("ids", ids).param("amounts", amounts);
            let copied = self.link.copy(copy).await;
            self.note_dropped(copied).await?;
            self.touch(some.iter().map(|cost| cost.created_at), TouchMark::Ended).await?;
        }
        Ok(())
    }

    /// Partitions are days; those that ended before are dropped as a whole.
    async fn drop_before(&self, table: &ColumnTable, before: Timestamp) -> Result<u64, StoreError> {
        let mut dropped = 0;
        for day in table.days(&self.link).await? {
            if !day.is_over_at(before) {
                continue;
            }
            table.drop_day(&self.link, day).await?;
            dropped += 1;
        }
        Ok(dropped)
    }
}

fn group(cells: &mut Cells<'_>) -> Result<Unpriced, sqlx::Error> {
    Ok(Unpriced {
        org: OrgId(cells.uuid()?),
        workspace: WorkspaceId(cells.uuid()?),
        virtual_key: cells.text()?.to_owned(),
        provider: cells.text()?.to_owned(),
        model: cells.text()?.to_owned(),
    })
}

impl RecordAppend for ColumnStore {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.put(batch))
    }
}

impl RecordQuery for ColumnStore {
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        Box::pin(self.page(query))
    }

    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        Box::pin(self.find(id, workspace))
    }
}

impl Repricing for ColumnStore {
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>> {
        Box::pin(self.groups())
    }

    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>> {
        Box::pin(self.page_of(group, after))
    }

    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.price(costs))
    }
}

impl Retention for ColumnStore {
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            let bodies = self.drop_before(&BODIES, bodies).await?;
            let dropped = self.drop_before(&RECORDS, records).await?;
            // Seals before what they vouch for.
            for table in [&SEALS, &MARGINS, &ROLLUPS, &TOUCHES] {
                self.drop_before(table, records).await?;
            }
            Ok(bodies + dropped)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::record::LogCursor;

    const DAY: i64 = Grain::Day.micros();

    #[test]
    fn the_newest_days_are_looked_at_first_and_the_whole_question_last() {
        let to = |to: i64| LogQuery { to: Some(Timestamp(to)), ..LogQuery::default() };
        let told = |query: &LogQuery| beginnings(query).into_iter().map(|from| from.map(|at| at.0)).collect::<Vec<_>>();
        assert_eq!(told(&to(20 * DAY)), [Some(19 * DAY), Some(12 * DAY), None]);
        let cursor = LogCursor { created_at: Timestamp(10 * DAY), id: Uuid::nil() };
        assert_eq!(told(&LogQuery { cursor: Some(cursor), ..to(20 * DAY) }), [Some(9 * DAY), Some(2 * DAY), None]);
        let from = Some(Timestamp(15 * DAY));
        assert_eq!(told(&LogQuery { from, ..to(20 * DAY) }), [Some(19 * DAY), Some(15 * DAY)]);
        let trace_id = Some("t".to_owned());
        assert_eq!(told(&LogQuery { trace_id, ..to(20 * DAY) }), [None]);
        // Whoever comes from the newest end has a place that lies in no time.
        assert_eq!(told(&LogQuery { cursor: Some(LogCursor::START), ..to(20 * DAY) }).len(), 3);
    }
}
