//! Sums of records, by spans of time and whatever else was asked for: from rollups as far as those go, from the records
//! themselves at the ragged ends of a range, and where a filter asks for what no rollup knows. Both come out alike,
//! since both are made by the same rules.

mod accumulator;
mod files;
mod partitions;
mod settlement;
mod stretch;

pub(super) use accumulator::{Gather, MOST_CELLS, value_in};
pub(super) use settlement::settle_written;
pub(super) use stretch::{Stretch, SumSource, is_in_rollups, stretches};

use super::query::filter;
use super::rollup::{self, margins};
use super::shape::Table;
use crate::filter::Filter;
use crate::session::{DatabaseRow, Session};
use gateway_domain::analytics::{CutValues, Dimension, Fact, Grain, Margin, SumPart, SumParts, SumQuery};
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::record::{CacheStatus, LogQuery, RecordedPrompt};
use gateway_domain::{NanoUsd, Timestamp};
use parking_lot::Mutex;
use smol_str::SmolStr;
use sqlx::Error;
use std::collections::BTreeSet;
use std::time::Duration;

/// Metadata by which a user is told, a column of its own in rollups.
pub(super) const USER: &str = "_user";

/// The end of the year 9999.
const FAR_FUTURE: i64 = 253_402_300_800_000_000;

/// Reads a stretch into what is gathered.
pub(super) async fn read(
    session: &mut Session<'_>,
    stretch: &Stretch,
    table: &'static str,
    gather: &mut Gather<'_>,
) -> Result<(), Error> {
    let SumSource::Rollup(grain) = stretch.source else { return read_records(session, stretch, table, gather).await };
    for kept in kept(session, stretch, grain, gather).await? {
        if rows_know_all(session, &kept, gather).await? {
            read_kept(session, &kept, gather).await?;
        } else {
            read_records(session, &kept.stretch, table, gather).await?;
        }
    }
    Ok(())
}

/// Everything that a list would show, as a question for sums.
pub(super) fn all_of(query: &LogQuery) -> SumQuery {
    let from = query.from.map_or(0, Timestamp::micros);
    let to = query.to.map_or(FAR_FUTURE, |to| to.micros().saturating_add(1));
    SumQuery {
        of: query.clone(),
        edges: vec![Timestamp(from), Timestamp(to.max(from))],
        by: Vec::new(),
        parts: SumParts::NONE,
        most_records: 0,
        time: Duration::MAX,
    }
}

/// How many records match in these parts: from sums where those know, since counting millions takes seconds.
pub(super) async fn count(
    session: &mut Session<'_>,
    parts: &[Stretch],
    table: &'static str,
    query: &LogQuery,
) -> Result<u64, Error> {
    let asked = all_of(query);
    let gather = Gather::of(&asked);
    let mut total = 0;
    for part in parts {
        let kept = match part.source {
            SumSource::Rollup(grain) => kept(session, part, grain, &gather).await?,
            SumSource::Records => Vec::new(),
        };
        let mut uncounted = if part.source == SumSource::Records { vec![*part] } else { Vec::new() };
        for kept in kept {
            if !rows_know_all(session, &kept, &gather).await? {
                uncounted.push(kept.stretch);
                continue;
            }
            let select = format!("SELECT CAST(COALESCE(SUM(records), 0) AS BIGINT) FROM {}", kept.table());
            let of = within(&kept.stretch, &gather, true);
            let (sql, values) = kept.filter(&of, named_in(&gather)).grouped(&select, "");
            total += session.fetch_int(sql, values).await?;
        }
        for stretch in uncounted {
            let of = within(&stretch, &gather, false);
            let (sql, values) = filter(&of).count(table);
            total += session.fetch_int(sql, values).await?;
        }
    }
    Ok(total.try_into().unwrap_or_default())
}

/// A stretch of sums that were kept, and in which rows.
struct KeptRows {
    stretch: Stretch,
    grain: Grain,
    /// `None`: those of all combinations.
    margin: Option<Margin>,
}

impl KeptRows {
    const fn table(&self) -> &'static str {
        match self.margin {
            Some(_) => Table::Margins.name(),
            None => Table::Rollups.name(),
        }
    }

    fn filter<'q>(&self, of: &'q LogQuery, named: NamedInRows<'q>) -> Filter<'q> {
        let mut filter = filter(of);
        filter.and_if("margin = ?", self.margin.map(Margin::name)).and("grain = ?", self.grain.micros());
        for user in named.users {
            filter.and("user_name = ?", user);
        }
        filter.and_in("prompt_slug", named.prompts.iter().map(String::as_str));
        filter
    }
}

/// Newest first, as what is read has to be when there is not room for all.
async fn kept(
    session: &mut Session<'_>,
    stretch: &Stretch,
    grain: Grain,
    gather: &Gather<'_>,
) -> Result<Vec<KeptRows>, Error> {
    let margin = Some(Margin::of(gather.query)).filter(|margin| margin.has_hours() || grain == Grain::Day);
    let days = match margin {
        Some(margin) => margins::days(session, margin, (stretch.from, stretch.to)).await?,
        None => BTreeSet::new(),
    };
    let kept = |(stretch, has)| KeptRows { stretch, grain, margin: margin.filter(|_| has) };
    Ok(stretch.cut(&days).into_iter().rev().map(kept).collect())
}

/// The filters within a stretch; users are a column of rollups and stand in the metadata of records.
fn within(stretch: &Stretch, gather: &Gather<'_>, is_rollup: bool) -> LogQuery {
    let mut of = gather.query.of.clone();
    of.from = Some(Timestamp(stretch.from));
    of.to = Some(Timestamp(stretch.to - 1));
    if is_rollup {
        of.metadata.retain(|(key, _)| key != USER);
        of.prompts.clear();
    }
    of
}

/// What columns of rollups tell, and records in another way.
#[derive(Default)]
struct NamedInRows<'q> {
    users: Vec<&'q str>,
    prompts: &'q [String],
}

fn named_in<'q>(gather: &Gather<'q>) -> NamedInRows<'q> {
    let of = &gather.query.of;
    let users = of.metadata.iter().filter(|(key, _)| key == USER).map(|(_, value)| value.as_str()).collect();
    NamedInRows { users, prompts: &of.prompts }
}

/// Whether what is filtered by was kept apart in every row of a stretch: a key of metadata that was named later, or
/// values that were cut, are only in the records.
async fn rows_know_all(session: &mut Session<'_>, kept: &KeptRows, gather: &Gather<'_>) -> Result<bool, Error> {
    let mut of = within(&kept.stretch, gather, true);
    let by_metadata = std::mem::take(&mut of.metadata);
    let models = !std::mem::take(&mut of.models).is_empty();
    let mut cut = CutValues::default();
    for (asked, bit) in [
        (!named_in(gather).users.is_empty(), CutValues::USER),
        (models, CutValues::MODEL),
        (!by_metadata.is_empty(), CutValues::METADATA),
    ] {
        cut = if asked { cut.with(bit) } else { cut };
    }
    if !cut.is_none() {
        let mut filter = kept.filter(&of, NamedInRows::default());
        filter.and("(cut & ?) <> 0", cut.0);
        if any(session, kept.table(), filter).await? {
            return Ok(false);
        }
    }
    // Rows that an older version wrote do not tell of prompts.
    if !gather.query.of.prompts.is_empty() || gather.query.by.contains(&Dimension::Prompt) {
        let mut filter = kept.filter(&of, NamedInRows::default());
        filter.literal("prompt_slug IS NULL");
        if any(session, kept.table(), filter).await? {
            return Ok(false);
        }
    }
    let by_keys = gather.query.by.iter().filter_map(|by| match by {
        Dimension::Metadata(key) => Some(key.as_str()),
        _ => None,
    });
    let keys: Vec<&str> = by_metadata.iter().map(|(key, _)| key.as_str()).chain(by_keys).collect();
    for key in keys {
        let mut filter = kept.filter(&of, NamedInRows::default());
        filter.and("replace(metadata, ?, '') = metadata", format!("{}:", serde_json::Value::from(key)));
        filter.and("(cut & ?) = 0", CutValues::METADATA.0);
        if any(session, kept.table(), filter).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn any(session: &mut Session<'_>, table: &str, filter: Filter<'_>) -> Result<bool, Error> {
    let (inner, values) = filter.grouped(&format!("SELECT 1 FROM {table}"), " LIMIT 1");
    Ok(session.fetch_int(format!("SELECT COUNT(*) FROM ({inner}) AS found"), values).await? > 0)
}

fn column(by: &Dimension) -> &'static str {
    match by {
        Dimension::Workspace => "workspace",
        Dimension::Key => "key_id",
        Dimension::User => "user_name",
        Dimension::Provider => "provider",
        Dimension::VirtualKey => "virtual_key",
        Dimension::Model => "model",
        Dimension::Status => "CAST(status AS TEXT)",
        Dimension::Config => "config",
        Dimension::Prompt => "prompt_slug",
        // Only records have it, not sums that are kept.
        Dimension::Trace => "''",
        Dimension::Metadata(_) => "metadata",
    }
}

/// What of a row's names may have been cut, as bits.
fn cut_of(by: &[Dimension]) -> CutValues {
    by.iter().fold(CutValues::default(), |cut, by| match by {
        Dimension::User => cut.with(CutValues::USER),
        Dimension::Model => cut.with(CutValues::MODEL),
        Dimension::Metadata(_) => cut.with(CutValues::METADATA),
        _ => cut,
    })
}

async fn read_kept(session: &mut Session<'_>, kept: &KeptRows, gather: &mut Gather<'_>) -> Result<(), Error> {
    let by = &gather.query.by;
    let at = if gather.is_of_one_span(&kept.stretch) { "MIN(created_at)" } else { "created_at" };
    let mut names: Vec<&str> = by.iter().map(column).collect();
    names.dedup();
    let cut = cut_of(by).0;
    let mut select = format!("SELECT {at}, CAST(MAX(CASE WHEN (cut & {cut}) <> 0 THEN 1 ELSE 0 END) AS BIGINT)");
    by.iter().map(column).for_each(|name| select += &format!(", {name}"));
    let parts = gather.query.parts;
    parts.names().for_each(|name| select += &format!(", CAST(SUM({name}) AS BIGINT)"));
    if parts.has(SumPart::Seen) {
        select += ", MIN(first_seen), MAX(last_seen)";
    }
    if parts.has(SumPart::Latency) {
        select += ", string_agg(latency, ',')";
    }
    select += &format!(" FROM {}", kept.table());
    if at == "created_at" {
        names.push(at);
    }
    let tail = if names.is_empty() { String::new() } else { format!(" GROUP BY {}", names.join(", ")) };
    let of = within(&kept.stretch, gather, true);
    let (sql, values) = kept.filter(&of, named_in(gather)).grouped(&select, &tail);
    let query = gather.query;
    let gathered = Mutex::new(gather);
    let take = |row: &DatabaseRow| {
        let mut c = row.columns();
        // A sum of nothing at all is one row without a time.
        let Some(at) = c.opt_int()? else { return Ok(()) };
        let is_cut = c.opt_int()? == Some(1);
        let mut values = Vec::with_capacity(query.by.len());
        for by in &query.by {
            let text = c.opt_text()?.unwrap_or_default();
            values.push(match by {
                Dimension::Metadata(key) => value_in(text, key),
                _ => SmolStr::from(text),
            });
        }
        let sums = rollup::read_sums(row, 2 + query.by.len(), parts)?;
        gathered.lock().add(at, values, &sums, is_cut);
        Ok(())
    };
    session.fetch(sql, values, take).await.map(drop)
}

/// What is read of a record to be summed.
const RECORD: &str = "created_at, last, attempt, retries, status, cache_status, total_tokens, \
    COALESCE(input_tokens + cache_read_tokens + cache_write_tokens + audio_in_tokens, 0), \
    COALESCE(output_tokens + reasoning_tokens + audio_out_tokens, 0), cost, saved, total_us, \
    workspace, key_id, metadata, provider, virtual_key, model, config, prompt, trace_id";

/// The newest first, as many as there is room for.
async fn read_records(
    session: &mut Session<'_>,
    stretch: &Stretch,
    table: &'static str,
    gather: &mut Gather<'_>,
) -> Result<(), Error> {
    let of = within(stretch, gather, false);
    let select = format!("SELECT {RECORD} FROM {table}");
    let room = i64::try_from(gather.room()).unwrap_or(i64::MAX);
    // One more shows that there are more.
    let tail = format!(" ORDER BY created_at DESC LIMIT {}", room.saturating_add(1));
    let (sql, values) = filter(&of).grouped(&select, &tail);
    let query = gather.query;
    let gathered = Mutex::new(gather);
    let take = |row: &DatabaseRow| {
        let mut gather = gathered.lock();
        if !gather.takes_one_more() {
            return Ok(());
        }
        let (fact, values) = record(row, &query.by)?;
        gather.add_fact(&fact, values);
        Ok(())
    };
    session.fetch(sql, values, take).await.map(drop)
}

fn slug(prompt: &str) -> SmolStr {
    serde_json::from_str::<RecordedPrompt>(prompt).map_or_else(|_| SmolStr::default(), |prompt| prompt.slug)
}

fn record(row: &DatabaseRow, by: &[Dimension]) -> Result<(Fact, Vec<SmolStr>), Error> {
    let mut c = row.columns();
    let whole = |n: i64| u64::try_from(n).unwrap_or_default();
    let fact = Fact {
        created_at: c.time()?,
        last: c.int()? != 0,
        attempt: u32::try_from(c.int()?).unwrap_or_default(),
        retries: i32::try_from(c.int()?).unwrap_or_default(),
        status: u16::try_from(c.int()?).unwrap_or_default(),
        cache: CacheStatus::parse(c.opt_text()?.unwrap_or_default()).unwrap_or_default(),
        has_usage: c.opt_int()?.is_some(),
        input_tokens: whole(c.int()?),
        output_tokens: whole(c.int()?),
        cost: c.opt_int()?.map(NanoUsd),
        saved: c.opt_int()?.map(NanoUsd),
        total_us: whole(c.opt_int()?.unwrap_or_default()),
    };
    let workspace = WorkspaceId(c.uuid()?);
    let key = c.opt_uuid()?.map(KeyId);
    let metadata = c.opt_text()?.unwrap_or_default();
    let [provider, virtual_key, model, config] = [c.opt_text()?, c.opt_text()?, c.opt_text()?, c.opt_text()?];
    let [prompt, trace] = [c.opt_text()?, c.opt_text()?];
    let text = |given: Option<&str>| SmolStr::from(given.unwrap_or_default());
    let value = |by: &Dimension| match by {
        Dimension::Workspace => workspace.to_string().into(),
        Dimension::Key => key.map_or_else(SmolStr::default, |key| key.to_string().into()),
        Dimension::User => value_in(metadata, USER),
        Dimension::Provider => text(provider),
        Dimension::VirtualKey => text(virtual_key),
        Dimension::Model => text(model),
        Dimension::Status => fact.status.to_string().into(),
        Dimension::Config => text(config),
        Dimension::Prompt => prompt.map(slug).unwrap_or_default(),
        Dimension::Trace => text(trace),
        Dimension::Metadata(key) => value_in(metadata, key),
    };
    let values = by.iter().map(value).collect();
    Ok((fact, values))
}
