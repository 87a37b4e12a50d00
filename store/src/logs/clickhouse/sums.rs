//! Sums, added up by the server in the rules of `Sums::add`: from the sums of hours that are sealed, and from the
//! columns of records in all other time and for what those sums do not tell apart. No row but those of sums comes here,
//! so there is no bound of records: what a question has is its time, and a number of cells.

use super::super::query::filter;
use super::super::sums::{Gather, MOST_CELLS, SumSource, USER, is_in_rollups, stretches};
use super::ColumnStore;
use super::row_binary::Cells;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Dimension, Grain, Margin, SumPart, SumParts, SumQuery, Sums, SumsFound};
use gateway_domain::ports::{Fut, RecordSums, StoreError};
use gateway_domain::record::LogQuery;
use smol_str::SmolStr;
use sqlx::Error;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

/// A call is counted by its last record; whose client left waited for no answer.
const LAST: &str = "last <> 0";
const ANSWERED: &str = "last <> 0 AND status NOT IN (0, 499)";
const HIT: &str = "last <> 0 AND cache_status = 'HIT'";
const MISS: &str = "last <> 0 AND cache_status = 'MISS'";

/// More pieces of time than this are not worth telling apart: all is read from records then.
const MOST_PIECES: usize = 500;

pub(super) static BINS_OF_RECORDS: LazyLock<String> =
    LazyLock::new(|| format!("sumMapIf([latency_bin], [toUInt64(1)], {ANSWERED})"));

/// The SQL of each sum over records, in the order of [`Sums::NAMES`].
pub(super) fn numbers() -> [String; 16] {
    let count = |test: &str| format!("countIf({test})");
    let sum = |of: &str| format!("sum(ifNull({of}, 0))");
    let sum_if = |test: &str| format!("sumIf(ifNull(total_us, 0), {test})");
    [
        "count()".to_owned(),
        count(LAST),
        count(&format!("{LAST} AND status >= 400")),
        sum("input_tokens + cache_read_tokens + cache_write_tokens + audio_in_tokens"),
        sum("output_tokens + reasoning_tokens + audio_out_tokens"),
        sum("cost"),
        count("total_tokens IS NOT NULL AND cost IS NULL"),
        sum("saved"),
        count(&format!("{LAST} AND status < 400 AND retries > 0")),
        count(&format!("{LAST} AND status < 400 AND attempt > 1")),
        count(ANSWERED),
        sum_if(ANSWERED),
        count(HIT),
        sum_if(HIT),
        count(MISS),
        sum_if(MISS),
    ]
}

/// What sums of hours are told apart by, in the order of their columns, and how it is told of records.
pub(super) fn rolled_columns() -> [(&'static str, &'static str); 10] {
    [
        ("org", "org"),
        ("workspace", "ifNull(workspace, '')"),
        ("key_id", "ifNull(key_id, '')"),
        ("user_name", "user_name"),
        ("provider", "ifNull(provider, '')"),
        ("virtual_key", "ifNull(virtual_key, '')"),
        ("model", "ifNull(model, '')"),
        ("status", "ifNull(status, 0)"),
        ("config", "ifNull(config, '')"),
        ("prompt_slug", "prompt_slug"),
    ]
}

/// The one of them that stays in the rows of a margin. No sums of hours know metadata.
pub(super) const MARGIN_COLUMNS: [(Margin, &str); 7] = [
    (Margin::Key, "key_id"),
    (Margin::User, "user_name"),
    (Margin::Provider, "provider"),
    (Margin::VirtualKey, "virtual_key"),
    (Margin::Model, "model"),
    (Margin::Config, "config"),
    (Margin::Prompt, "prompt_slug"),
];

/// Where sums are read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SumsOf {
    Records,
    /// `None`: of all combinations.
    Hours(Option<Margin>),
}

impl SumsOf {
    const fn table(self) -> &'static str {
        match self {
            Self::Records => "log_entry",
            Self::Hours(None) => "log_rollup",
            Self::Hours(Some(_)) => "log_margin",
        }
    }

    fn column(self, by: &Dimension, keys: &mut Vec<String>) -> String {
        let name = match by {
            Dimension::Workspace => "workspace",
            Dimension::Key => "key_id",
            Dimension::User => "user_name",
            Dimension::Provider => "provider",
            Dimension::VirtualKey => "virtual_key",
            Dimension::Model => "model",
            Dimension::Status => return "toString(ifNull(status, 0))".to_owned(),
            Dimension::Config => "config",
            Dimension::Prompt => "prompt_slug",
            Dimension::Trace => "trace_id",
            Dimension::Metadata(key) => {
                keys.push(key.to_string());
                return format!("JSONExtractString(ifNull(metadata, ''), {{key{}:String}})", keys.len());
            }
        };
        format!("ifNull({name}, '')")
    }

    /// Adds the columns of the asked `parts` to a SELECT, in the order in which [`take`] reads them.
    fn select_parts(self, parts: SumParts, select: &mut String) {
        let numbers: Vec<String> = match self {
            Self::Records => numbers().into(),
            Self::Hours(_) => Sums::NAMES.iter().map(|name| format!("sum({name})")).collect(),
        };
        let asked: HashSet<&str> = parts.names().collect();
        for (number, _) in numbers.iter().zip(Sums::NAMES).filter(|(_, name)| asked.contains(name)) {
            let _ = write!(select, ", toInt64({number})");
        }
        if parts.has(SumPart::Seen) {
            let _ = write!(select, ", {}", self.seen());
        }
        if parts.has(SumPart::Latency) {
            let _ = write!(select, ", {}", self.latency());
        }
    }

    const fn seen(self) -> &'static str {
        match self {
            Self::Records => "min(created_at), max(created_at)",
            Self::Hours(_) => "min(first_seen), max(last_seen)",
        }
    }

    /// The SQL that gives latencies as `bin:count` with commas, which is how a sketch is told.
    fn latency(self) -> String {
        let bins = match self {
            Self::Records => BINS_OF_RECORDS.as_str(),
            Self::Hours(_) => "sumMap(bins, counts)",
        };
        format!(
            "arrayStringConcat(arrayMap((bin, n) -> concat(toString(bin), ':', toString(n)), \
             ({bins} AS merged).1, merged.2), ',')"
        )
    }

    /// Users and prompts are columns of the sums of hours, and stand in texts of records.
    fn filters(self, query: &SumQuery, ends: (i64, i64)) -> LogQuery {
        let (from, to) = (Some(Timestamp(ends.0)), Some(Timestamp(ends.1 - 1)));
        let mut of = LogQuery { from, to, ..query.of.clone() };
        if self != Self::Records {
            of.metadata.retain(|(key, _)| key != USER);
            of.prompts.clear();
        }
        of
    }
}

/// Pieces of time, each from a microsecond up to another that is not part of it; one behind the other.
#[derive(Default)]
struct TimePieces(Vec<(i64, i64)>);

impl TimePieces {
    fn push(&mut self, from: i64, to: i64) {
        match self.0.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.0.push((from, to)),
        }
    }

    fn ends(&self) -> Option<(i64, i64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    fn test(&self) -> String {
        let tests: Vec<String> =
            self.0.iter().map(|(from, to)| format!("created_at >= {from} AND created_at < {to}")).collect();
        format!(" AND ({})", tests.join(" OR "))
    }
}

impl ColumnStore {
    pub(super) async fn add_up(&self, query: &SumQuery) -> Result<SumsFound, StoreError> {
        let mut gather = Gather::of(query);
        if query.time.is_zero() || query.edges.len() < 2 {
            gather.miss();
            return Ok(gather.found());
        }
        let until = Instant::now() + query.time;
        self.shape().await?;
        let (hours, records) = self.pieces(query).await?;
        let margin = Some(Margin::of(query));
        let margin = margin.filter(|margin| !matches!(margin, Margin::Metadata | Margin::Everything));
        for (from, pieces) in [(SumsOf::Hours(margin), hours), (SumsOf::Records, records)] {
            let left = until.saturating_duration_since(Instant::now());
            if pieces.0.is_empty() {
                continue;
            }
            if left.is_zero() || !self.read(from, &pieces, (&mut gather, left)).await? {
                gather.miss();
                break;
            }
        }
        Ok(gather.found())
    }

    /// What is read from sums of hours, and what from records.
    async fn pieces(&self, query: &SumQuery) -> Result<(TimePieces, TimePieces), StoreError> {
        let (mut hours, mut records) = (TimePieces::default(), TimePieces::default());
        let (Some(first), Some(last)) = (query.edges.first(), query.edges.last()) else { return Ok((hours, records)) };
        let ends = (first.micros(), last.micros());
        let sealed = match is_in_rollups(query, &[]) {
            true => self.sealed_hours(ends.0, ends.1).await?,
            false => BTreeSet::new(),
        };
        for stretch in stretches(query, &[]) {
            let mut at = stretch.from;
            if stretch.source != SumSource::Records {
                for hour in sealed.range(stretch.from..stretch.to) {
                    if at < *hour {
                        records.push(at, *hour);
                    }
                    at = hour + Grain::Hour.micros();
                    hours.push(*hour, at);
                }
            }
            if at < stretch.to {
                records.push(at, stretch.to);
            }
        }
        if hours.0.len() + records.0.len() > MOST_PIECES {
            return Ok((TimePieces::default(), TimePieces(vec![ends])));
        }
        Ok((hours, records))
    }

    /// Whether there was time for all of it.
    async fn read(
        &self,
        from: SumsOf,
        pieces: &TimePieces,
        (gather, time): (&mut Gather<'_>, Duration),
    ) -> Result<bool, StoreError> {
        let query = gather.query;
        let Some(ends) = pieces.ends() else { return Ok(true) };
        let of = from.filters(query, ends);
        let mut wanted = filter(&of);
        if let SumsOf::Hours(margin) = from {
            wanted.and_if("margin = ?", margin.map(Margin::name));
            let users = query.of.metadata.iter().filter(|(key, _)| key == USER);
            for (_, user) in users {
                wanted.and("user_name = ?", user.as_str());
            }
            wanted.and_in("prompt_slug", query.of.prompts.iter().map(String::as_str));
        }
        wanted.check()?;
        let edges: Vec<i64> = query.edges[..query.edges.len() - 1].iter().map(|edge| edge.micros()).collect();
        let mut keys = Vec::new();
        let mut select = "SELECT roundDown(created_at, {edges:Array(Int64)}) AS span".to_owned();
        let mut groups = "span".to_owned();
        for (at, by) in query.by.iter().enumerate() {
            let _ = write!(select, ", {} AS by{at}", from.column(by, &mut keys));
            let _ = write!(groups, ", by{at}");
        }
        from.select_parts(query.parts, &mut select);
        let _ = write!(select, " FROM {} FINAL", from.table());
        let tail = format!("{} GROUP BY {groups} LIMIT {}", pieces.test(), MOST_CELLS + 1);
        let (sql, values) = wanted.grouped(&select, &tail);
        let asked = self.link.ask(&sql, &values);
        let asked = keys
            .iter()
            .enumerate()
            .fold(asked.param("edges", edges), |asked, (at, key)| asked.param(&format!("key{}", at + 1), key));
        // Beyond that many cells no further ones are begun, so that the server's memory is bounded as well.
        let asked = asked
            .with_setting("max_rows_to_group_by", (MOST_CELLS + 1).to_string())
            .with_setting("group_by_overflow_mode", "any");
        match self.link.answer(asked, time).await {
            Ok(answer) => take(&answer, query, gather).map(|()| true).map_err(|e| StoreError::Broken(e.to_string())),
            Err(refusal) if refusal.is_of_time() => Ok(false),
            Err(refusal) => self.note_dropped(Err(refusal)).await,
        }
    }
}

fn take(answer: &[u8], query: &SumQuery, gather: &mut Gather<'_>) -> Result<(), Error> {
    let mut cells = Cells::of(answer);
    while !cells.is_at_end() {
        let at = cells.i64()?;
        let mut values = Vec::with_capacity(query.by.len());
        for _ in &query.by {
            values.push(SmolStr::from(cells.text()?));
        }
        let mut sums = Sums::default();
        for number in query.parts.numbers_mut(&mut sums) {
            *number = cells.i64()?;
        }
        if query.parts.has(SumPart::Seen) {
            sums.first_seen = cells.i64()?;
            sums.last_seen = cells.i64()?;
        }
        if query.parts.has(SumPart::Latency) {
            sums.latency.add_text(cells.text()?);
        }
        gather.add(at, values, &sums, false);
    }
    Ok(())
}

impl RecordSums for ColumnStore {
    fn sums<'a>(&'a self, query: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>> {
        Box::pin(self.add_up(query))
    }

    /// Here the sums of hours that are over. It counts no days: there are none of an older version.
    fn make_up(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move { self.seal(ended_before).await.map(|()| 0) })
    }
}
