//! Sums by one thing at a time, of days that are over: made from the rollups of a day in one go, so that nothing is
//! paid for them while records are stored, and dropped in the write that stores another record of the day or changes
//! its cost. A day without them is answered from its rollups.

use super::rows::{NamedRow, RowKey, insert, read};
use crate::filter::Filter;
use crate::logs::day::Day;
use crate::logs::shape::Table;
use crate::session::{DatabaseRow, Session};
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Combination, CutValues, Grain, Margin, Sums};
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use parking_lot::Mutex;
use sqlx::Error;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// Rows of one kind in one hour or day. Where there are more, they are no fewer than those that they are made from, and
/// the kind is left out for the day.
const MOST_ROWS: usize = 5_000;

/// What one span of time comes to.
#[derive(Default)]
struct SpanShares {
    rows: HashMap<(Margin, Combination), Sums>,
    count: HashMap<Margin, usize>,
    /// Kinds that have too many rows, or whose values some row does not tell.
    left_out: HashSet<Margin>,
}

impl SpanShares {
    fn add(&mut self, of: &Combination, sums: &Sums) {
        for margin in Margin::ALL {
            if self.left_out.contains(&margin) {
                continue;
            }
            let share = (margin, margin.share_of(of));
            if let Some(sum) = self.rows.get_mut(&share) {
                sum.merge(sums);
                continue;
            }
            let count = self.count.entry(margin).or_default();
            *count += 1;
            if *count > MOST_ROWS {
                self.left_out.insert(margin);
                self.rows.retain(|(other, _), _| *other != margin);
            } else {
                self.rows.insert(share, sums.clone());
            }
        }
    }
}

/// Makes those of a day, unless it has them. Nobody else may write to the day.
pub(in crate::logs) async fn ensure(session: &mut Session<'_>, day: Day) -> Result<(), Error> {
    let times = day.times();
    if has_any(session, &times).await? {
        return Ok(());
    }
    let mut left_out = HashSet::new();
    // The day comes before its hours: a kind that is too much for an hour is too much for the day.
    for grain in [Grain::Day, Grain::Hour] {
        if grain == Grain::Hour {
            left_out.extend(Margin::ALL.into_iter().filter(|margin| !margin.has_hours()));
        }
        let mut filter = Filter::default();
        filter.and("grain = ?", grain.micros());
        filter.and("created_at >= ?", times.start).and("created_at < ?", times.end);
        let (sql, values) = filter.grouped(&format!("SELECT DISTINCT created_at FROM {}", Table::Rollups.name()), "");
        for start in session.fetch(sql, values, |row| row.columns().int()).await? {
            let span = SpanShares { left_out: left_out.clone(), ..SpanShares::default() };
            let span = add_up(session, span, (grain, start)).await?;
            left_out.extend(&span.left_out);
            let of = span.rows.into_iter().filter(|((margin, _), _)| !left_out.contains(margin));
            let of = of.map(|((margin, of), sums)| NamedRow::share((RowKey { start, grain, of }, sums), margin));
            insert(session, &of.collect::<Vec<_>>()).await?;
        }
    }
    Ok(())
}

/// Reads the rows themselves and not only their index: after a start they so are in the memory of the machine when the
/// first question about months comes.
pub(in crate::logs) async fn has_any(session: &mut Session<'_>, times: &Range<i64>) -> Result<bool, Error> {
    let mut filter = Filter::default();
    filter.and("grain = ?", Grain::Day.micros());
    filter.and("created_at >= ?", times.start).and("created_at < ?", times.end);
    let select = format!("SELECT COUNT(latency) + COUNT(margin) FROM {}", Table::Margins.name());
    let (sql, values) = filter.grouped(&select, "");
    Ok(session.fetch_int(sql, values).await? > 0)
}

async fn add_up(
    session: &mut Session<'_>,
    span: SpanShares,
    (grain, start): (Grain, i64),
) -> Result<SpanShares, Error> {
    let mut filter = Filter::default();
    filter.and("created_at = ?", start).and("grain = ?", grain.micros());
    let select = format!(
        "SELECT org, workspace, key_id, user_name, provider, virtual_key, model, status, config, metadata, cut, prompt_slug, {}, \
         first_seen, last_seen, latency FROM {}",
        Sums::NAMES.join(", "),
        Table::Rollups.name()
    );
    let (sql, values) = filter.grouped(&select, "");
    let span = Mutex::new(span);
    let take = |row: &DatabaseRow| {
        let (of, knows_prompt) = combination(row)?;
        let mut span = span.lock();
        if !knows_prompt {
            span.left_out.extend([Margin::Prompt, Margin::Everything]);
        }
        span.add(&of, &read(row, 12)?);
        Ok(())
    };
    session.fetch(sql, values, take).await?;
    Ok(span.into_inner())
}

/// Reads the combination of a row, and whether the row was written by a version that tells of prompts.
fn combination(row: &DatabaseRow) -> Result<(Combination, bool), Error> {
    let mut c = row.columns();
    let of = Combination {
        org: OrgId(c.uuid()?),
        workspace: WorkspaceId(c.uuid()?),
        key: Some(c.text()?).filter(|key| !key.is_empty()).and_then(|key| key.parse().ok()).map(KeyId),
        user: c.text()?.into(),
        provider: c.text()?.into(),
        virtual_key: c.text()?.into(),
        model: c.text()?.into(),
        status: u16::try_from(c.int()?).unwrap_or_default(),
        config: c.text()?.into(),
        metadata: c.text()?.into(),
        cut: CutValues(c.int()?),
        prompt: "".into(),
    };
    let prompt = c.opt_text()?;
    Ok((Combination { prompt: prompt.unwrap_or_default().into(), ..of }, prompt.is_some()))
}

/// Those of the days of these times are no longer true.
pub(in crate::logs) async fn forget(
    session: &mut Session<'_>,
    times: impl IntoIterator<Item = i64>,
) -> Result<(), Error> {
    let days: BTreeSet<Day> = times.into_iter().map(|time| Day::of(Timestamp(time))).collect();
    for day in days {
        let (mut of_day, times) = (Filter::default(), day.times());
        of_day.and("created_at >= ?", times.start).and("created_at < ?", times.end);
        let (sql, values) = of_day.delete(Table::Margins.name());
        session.run(sql, values).await?;
    }
    Ok(())
}

/// Days between two times that have rows of a kind.
pub(in crate::logs) async fn days(
    session: &mut Session<'_>,
    margin: Margin,
    (from, to): (i64, i64),
) -> Result<BTreeSet<Day>, Error> {
    let mut filter = Filter::default();
    filter.and("margin = ?", margin.name()).and("grain = ?", Grain::Day.micros());
    // The first day has no beginning.
    let first = Grain::Day.floor(Timestamp(from.max(i64::MIN / 2)));
    filter.and("created_at >= ?", first).and("created_at < ?", to);
    let (sql, values) = filter.grouped(&format!("SELECT DISTINCT created_at FROM {}", Table::Margins.name()), "");
    let found = session.fetch(sql, values, |row| row.columns().time()).await?;
    Ok(found.into_iter().map(Day::of).collect())
}
