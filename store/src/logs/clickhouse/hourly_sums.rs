//! Hours that are over have their sums made once, so that a question over months reads few rows. The engine has no
//! transaction that would hold a record and its sums, so sums are only believed where a count proves them: whoever
//! writes to an hour that may have sums leaves a touch before its write and another behind it, and sums are those of a
//! number of touches. Where there are more touches now than then, the records are read, until the sums are made anew;
//! and they are not made while a write is under way, or was cut a short while ago.

use super::ColumnStore;
use super::row_binary::{Cells, RowsOut};
use super::sums::{MARGIN_COLUMNS, numbers, rolled_columns};
use super::tables::{MARGINS, RECORDS, ROLLUPS, SEALS, TOUCHES};
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Grain, Margin, Sums};
use gateway_domain::ports::StoreError;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

const HOUR: i64 = Grain::Hour.micros();

/// Hours that ended less than this ago have no sums yet: those are made half an hour later at the earliest, which no
/// write and no two clocks are apart.
const OPEN: i64 = HOUR / 2;

/// What began so long ago and has not ended never will: its process was killed.
const GIVEN_UP: i64 = HOUR;

/// A day of many millions of records takes minutes.
const SUMMING: Duration = Duration::from_secs(1_800);

/// What is known of an hour.
struct HourStanding {
    /// Touches that its sums were made behind; less than none where there are no sums.
    sealed: i64,
    touches: i64,
    /// Somebody is writing to it.
    is_open: bool,
}

/// What a touch tells.
#[derive(Clone, Copy)]
pub(super) enum TouchMark {
    /// A write is about to begin.
    Begun,
    /// The write is over, and not confirmed yet.
    Ended,
}

impl ColumnStore {
    /// Notes that a write begins or is over, for those hours of `times` that may be sealed already.
    pub(super) async fn touch(
        &self,
        times: impl Iterator<Item = Timestamp> + Send,
        mark: TouchMark,
    ) -> Result<(), StoreError> {
        let now = super::micros_now();
        let hours: BTreeSet<i64> = times.map(|time| Grain::Hour.floor(time).micros()).collect();
        let mark = match mark {
            TouchMark::Begun => 1,
            TouchMark::Ended => -1,
        };
        let mut rows = RowsOut::default();
        for hour in hours.into_iter().filter(|hour| hour.saturating_add(HOUR + OPEN) <= now) {
            rows.touch(hour, mark, now.cast_unsigned());
        }
        if rows.is_empty() {
            return Ok(());
        }
        let put = self.link.insert(TOUCHES.insert(), rows).await;
        self.note_dropped(put).await
    }

    async fn standing(&self, from: i64, to: i64) -> Result<HashMap<i64, HourStanding>, StoreError> {
        let select = "SELECT hour, max(sealed), sum(touched), sum(mark) FROM (\
            SELECT created_at AS hour, if(margins = 1, toInt64(version), toInt64(-1)) AS sealed, toInt64(0) AS touched, toInt64(0) AS mark \
            FROM log_seal WHERE created_at >= $1 AND created_at < $2 UNION ALL \
            SELECT created_at, toInt64(-1), toInt64(1), if(toInt64(version) > $3, log_touch.mark, toInt64(0)) \
            FROM log_touch WHERE created_at >= $1 AND created_at < $2) GROUP BY hour";
        let values = [from.into(), to.into(), (super::micros_now() - GIVEN_UP).into()];
        let found = self.link.rows(select, &values).await;
        let found = self.note_dropped(found).await?;
        let mut cells = Cells::of(&found);
        let mut hours = HashMap::new();
        while !cells.is_at_end() {
            let mut next = || cells.i64().map_err(|e| StoreError::Broken(e.to_string()));
            let (hour, sealed, touches) = (next()?, next()?, next()?);
            hours.insert(hour, HourStanding { sealed, touches, is_open: next()? != 0 });
        }
        Ok(hours)
    }

    /// Hours within these bounds whose sums are those of their records.
    pub(super) async fn sealed_hours(&self, from: i64, to: i64) -> Result<BTreeSet<i64>, StoreError> {
        let standing = self.standing(from, to).await?;
        Ok(standing.into_iter().filter(|(_, hour)| hour.sealed == hour.touches).map(|(hour, _)| hour).collect())
    }

    /// Makes the sums of hours that ended before, and lack them.
    pub(super) async fn seal(&self, before: Timestamp) -> Result<(), StoreError> {
        self.shape().await?;
        let days = RECORDS.days(&self.link).await?;
        let bounds = days.iter().map(|day| day.bounds()).filter(|(start, _)| *start >= 0 && *start < before.micros());
        let mut bounds: Vec<(i64, i64)> = bounds.collect();
        bounds.sort_unstable();
        let (Some((from, _)), Some((_, to))) = (bounds.first(), bounds.last()) else { return Ok(()) };
        let standing = self.standing(*from, *to).await?;
        for (start, end) in bounds {
            let end = end.min(Grain::Hour.floor(before).micros());
            let mut due = Vec::new();
            let mut hour = start;
            while hour < end {
                match standing.get(&hour) {
                    None => due.push((hour, 0)),
                    Some(known) if known.sealed != known.touches && !known.is_open => due.push((hour, known.touches)),
                    Some(_) => {}
                }
                hour += HOUR;
            }
            if !due.is_empty() {
                self.seal_hours(&due).await?;
            }
        }
        Ok(())
    }

    async fn seal_hours(&self, due: &[(i64, i64)]) -> Result<(), StoreError> {
        let (Some((first, _)), Some((last, _))) = (due.first(), due.last()) else { return Ok(()) };
        let columns = rolled_columns().map(|(_, of_records)| of_records).join(", ");
        let sums: Vec<String> = numbers().iter().map(|number| format!("toInt64({number})")).collect();
        let sql = format!(
            "{} SELECT intDiv(created_at, {HOUR}) * {HOUR} AS hour, {columns}, {}, min(created_at), max(created_at), \
             ({} AS merged).1, merged.2, toUInt64(transform(hour, {{hours:Array(Int64)}}, {{touches:Array(Int64)}}, \
             toInt64(0))) FROM log_entry FINAL WHERE created_at >= $1 AND created_at < $2 \
             AND has({{hours:Array(Int64)}}, hour) GROUP BY hour, {columns}",
            ROLLUPS.head(),
            sums.join(", "),
            super::sums::BINS_OF_RECORDS.as_str(),
        );
        let (hours, touches): (Vec<i64>, Vec<i64>) = due.iter().copied().unzip();
        let values = [(*first).into(), (last + HOUR).into()];
        let copy = self.link.ask(&sql, &values).param("hours", &hours).param("touches", &touches);
        let made = self.link.copy_within(copy, SUMMING).await;
        self.note_dropped(made).await?;
        let copy = self.link.ask(&MARGIN_SUMS, &values).param("hours", hours).param("touches", touches);
        let made = self.link.copy_within(copy, SUMMING).await;
        self.note_dropped(made).await?;
        let mut rows = RowsOut::default();
        due.iter().for_each(|(hour, touches)| rows.seal(*hour, *touches));
        let put = self.link.insert(SEALS.insert(), rows).await;
        self.note_dropped(put).await
    }
}

/// Adds up margins from the sums that were just made. Another run may be making later ones of the same hours meanwhile:
/// what is read of those is told apart by its version, and stands behind the rows of that run.
static MARGIN_SUMS: LazyLock<String> = LazyLock::new(|| {
    let column = |(name, _): (&'static str, &'static str)| match MARGIN_COLUMNS.iter().find(|(_, of)| *of == name) {
        Some((margin, _)) => format!("if(kind = '{}', {name}, '') AS of_{name}", margin.name()),
        None => format!("{name} AS of_{name}"),
    };
    let kinds = MARGIN_COLUMNS.map(|(margin, _)| format!("'{}'", margin.name()));
    format!(
        "{} SELECT created_at AS hour, {}, {}, min(first_seen), max(last_seen), (sumMap(bins, counts) AS merged).1, \
         merged.2, kind, toUInt64(transform(hour, {{hours:Array(Int64)}}, {{touches:Array(Int64)}}, toInt64(0))) \
         FROM log_rollup FINAL ARRAY JOIN ['{}', {}] AS kind WHERE created_at >= $1 AND created_at < $2 \
         AND has({{hours:Array(Int64)}}, created_at) GROUP BY kind, hour, {}",
        MARGINS.head(),
        rolled_columns().map(column).join(", "),
        Sums::NAMES.map(|name| format!("sum({name})")).join(", "),
        Margin::Nothing.name(),
        kinds.join(", "),
        rolled_columns().map(|(name, _)| format!("of_{name}")).join(", "),
    )
});
