//! Sums that wait to be added to their rows. What a write of records comes to is set aside in one row of its day, in
//! the same transaction: adding it to the rows of hundreds of combinations costs several times what storing the records
//! does. It is added when much waits, when somebody asks for sums and when the day is over, and is as safe as the
//! records until then. Knows nothing of the rows that it is added to.

use super::HourSums;
use crate::filter::Filter;
use crate::logs::day::Day;
use crate::logs::shape::Table;
use crate::session::{Session, Value};
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Combination, CutValues, Sums};
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use sqlx::Error;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use uuid::Uuid;

/// Writes of one day that are set aside before they are added to its rows.
const MOST_WRITES: usize = 64;
/// Combinations in them, one that is in several counted each time.
const MOST_ROWS: usize = 20_000;
/// Combinations that are added in one transaction; the last write that is taken may bring more than that.
const AT_ONCE: usize = 4_000;
/// Writes that are read in one statement, so that few are in memory.
const PAGE: i64 = 8;

/// What one combination has in one hour of a write. A field that a later version adds is empty in what an older one
/// wrote.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SetAside {
    #[serde(rename = "h")]
    hour: i64,
    #[serde(rename = "o")]
    org: Uuid,
    #[serde(rename = "w")]
    workspace: Uuid,
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    key: Option<Uuid>,
    #[serde(rename = "u", skip_serializing_if = "SmolStr::is_empty")]
    user: SmolStr,
    #[serde(rename = "p", skip_serializing_if = "SmolStr::is_empty")]
    provider: SmolStr,
    #[serde(rename = "v", skip_serializing_if = "SmolStr::is_empty")]
    virtual_key: SmolStr,
    #[serde(rename = "m", skip_serializing_if = "SmolStr::is_empty")]
    model: SmolStr,
    #[serde(rename = "s")]
    status: u16,
    #[serde(rename = "c", skip_serializing_if = "SmolStr::is_empty")]
    config: SmolStr,
    #[serde(rename = "r", skip_serializing_if = "SmolStr::is_empty")]
    prompt: SmolStr,
    #[serde(rename = "d")]
    metadata: SmolStr,
    #[serde(rename = "x", skip_serializing_if = "is_zero")]
    cut: i64,
    /// The sums, in the order of [`Sums::NAMES`].
    #[serde(rename = "n")]
    numbers: Vec<i64>,
    #[serde(rename = "t")]
    seen: [i64; 2],
    #[serde(rename = "l", skip_serializing_if = "String::is_empty")]
    latency: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl SetAside {
    fn of(hour: i64, of: &Combination, sums: &Sums) -> Self {
        Self {
            hour,
            org: of.org.0,
            workspace: of.workspace.0,
            key: of.key.map(|key| key.0),
            user: of.user.clone(),
            provider: of.provider.clone(),
            virtual_key: of.virtual_key.clone(),
            model: of.model.clone(),
            status: of.status,
            config: of.config.clone(),
            prompt: of.prompt.clone(),
            metadata: of.metadata.clone(),
            cut: of.cut.0,
            numbers: sums.numbers().to_vec(),
            seen: [sums.first_seen, sums.last_seen],
            latency: sums.latency.text(),
        }
    }

    fn add_to(self, added: &mut HourSums) {
        let of = Combination {
            org: OrgId(self.org),
            workspace: WorkspaceId(self.workspace),
            key: self.key.map(KeyId),
            user: self.user,
            provider: self.provider,
            virtual_key: self.virtual_key,
            model: self.model,
            status: self.status,
            config: self.config,
            prompt: self.prompt,
            metadata: self.metadata,
            cut: CutValues(self.cut),
        };
        let [first_seen, last_seen] = self.seen;
        let mut sums = Sums { first_seen, last_seen, ..Sums::default() };
        sums.numbers_mut().into_iter().zip(self.numbers).for_each(|(sum, number)| *sum = number);
        sums.latency.add_text(&self.latency);
        added.entry((self.hour, of)).or_default().merge(&sums);
    }
}

#[derive(Clone, Copy, Default)]
struct SetAsideCount {
    writes: usize,
    rows: usize,
}

/// How much this process has set aside of each day, so that nobody has to count it.
#[derive(Default)]
pub(super) struct SetAsideCounts(Mutex<HashMap<Day, SetAsideCount>>);

impl SetAsideCounts {
    fn note(&self, day: Day, rows: usize) {
        let mut days = self.0.lock();
        let written = days.entry(day).or_default();
        written.writes += 1;
        written.rows += rows;
    }

    pub(super) fn all(&self) -> u64 {
        self.0.lock().values().map(|written| written.writes as u64).sum()
    }

    /// What waited of the days that begin in these times was added.
    pub(super) fn forget(&self, times: &Range<i64>) {
        self.0.lock().retain(|day, _| !times.contains(&day.times().start.max(0)));
    }

    /// Whether enough waits of this day. What waits is counted anew from here on.
    pub(super) fn is_much(&self, day: Day) -> bool {
        let mut days = self.0.lock();
        let is_much = |written: &mut SetAsideCount| written.writes >= MOST_WRITES || written.rows >= MOST_ROWS;
        let found = days.get_mut(&day).is_some_and(is_much);
        if found {
            days.remove(&day);
        }
        found
    }
}

/// Sets sums aside in the transaction that changes the records: one row for each day that is concerned.
pub(super) async fn set_aside(
    session: &mut Session<'_>,
    counts: &SetAsideCounts,
    sums: &HourSums,
) -> Result<(), Error> {
    let mut days: BTreeMap<Day, Vec<SetAside>> = BTreeMap::new();
    for ((hour, of), sums) in sums {
        days.entry(Day::of(Timestamp(*hour))).or_default().push(SetAside::of(*hour, of, sums));
    }
    for (day, rows) in days {
        let at = rows.iter().map(|row| row.hour).min().unwrap_or_default();
        let text = serde_json::to_string(&rows).map_err(|e| Error::Encode(e.into()))?;
        let insert = "INSERT INTO log_waiting (id, created_at, sums) VALUES ($1, $2, $3)";
        session.run(insert, vec![Uuid::now_v7().into(), at.into(), text.into()]).await?;
        counts.note(day, rows.len());
    }
    Ok(())
}

/// Whether anything waits in these times.
pub(in crate::logs) async fn is_any(session: &mut Session<'_>, times: &Range<i64>) -> Result<bool, Error> {
    let any =
        "SELECT COUNT(*) FROM (SELECT 1 FROM log_waiting WHERE created_at >= $1 AND created_at < $2 LIMIT 1) AS found";
    Ok(session.fetch_int(any, vec![times.start.into(), times.end.into()]).await? > 0)
}

pub(super) fn within(times: &Range<i64>) -> Filter<'static> {
    let mut filter = Filter::default();
    filter.and("created_at >= ?", times.start).and("created_at < ?", times.end);
    filter
}

pub(super) struct DueSums {
    pub(super) sums: HourSums,
    /// More may be waiting.
    pub(super) is_cut: bool,
}

/// Takes what waits in these times, the oldest first, up to what one transaction should add. The caller adds it in the
/// same transaction and has to be the only one at it.
pub(super) async fn take(session: &mut Session<'_>, times: &Range<i64>) -> Result<DueSums, Error> {
    let select = "SELECT id, sums FROM log_waiting WHERE created_at >= $1 AND created_at < $2 ORDER BY id LIMIT $3";
    let mut sums = HourSums::default();
    while sums.len() < AT_ONCE {
        let values: Vec<Value<'_>> = vec![times.start.into(), times.end.into(), PAGE.into()];
        let page = session.fetch(select, values, |row| {
            let mut c = row.columns();
            let id = c.uuid()?;
            let rows: Vec<SetAside> = serde_json::from_str(c.text()?).map_err(|e| Error::Decode(e.into()))?;
            Ok((id, rows))
        });
        let page = page.await?;
        if page.is_empty() {
            return Ok(DueSums { sums, is_cut: false });
        }
        let mut these = within(times);
        these.and_in("id", page.iter().map(|(id, _)| *id));
        let (sql, values) = these.delete(Table::Waiting.name());
        session.run(sql, values).await?;
        page.into_iter().flat_map(|(_, rows)| rows).for_each(|row| row.add_to(&mut sums));
    }
    Ok(DueSums { sums, is_cut: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::analytics::Sketch;
    use gateway_domain::record::LogRecord;

    fn blank() -> Combination {
        Combination { metadata: "".into(), ..Combination::of(&LogRecord::blank(), &[]) }
    }

    #[test]
    fn what_is_set_aside_comes_back_whole() {
        let of = Combination {
            key: Some(KeyId(Uuid::from_u128(7))),
            user: "a\0\"b".into(),
            model: "m".into(),
            prompt: "pp".into(),
            metadata: r#"{"team":null}"#.into(),
            cut: CutValues::USER,
            ..blank()
        };
        let mut latency = Sketch::default();
        [3, 5_000, 5_001, 9_000_000].into_iter().for_each(|micros| latency.add(micros));
        let sums = Sums {
            records: 4,
            cost: -3,
            unpriced: -1,
            miss_us: 9,
            first_seen: 5,
            last_seen: 6,
            latency,
            ..Sums::default()
        };
        let text = serde_json::to_string(&[SetAside::of(11, &of, &sums)]).unwrap();
        let mut added = HourSums::default();
        for _ in 0..2 {
            let rows: Vec<SetAside> = serde_json::from_str(&text).unwrap();
            rows.into_iter().for_each(|row| row.add_to(&mut added));
        }
        let mut twice = sums.clone();
        twice.merge(&sums);
        assert_eq!(added, HourSums::from_iter([((11, of), twice)]));
        assert!(!text.contains('\0'), "Postgres takes no zero byte: {text}");
    }

    #[test]
    fn a_row_of_an_older_version_lacks_what_it_did_not_know() {
        let rows: Vec<SetAside> = serde_json::from_str(r#"[{"h":3,"s":200,"n":[1,2],"later":"than this"}]"#).unwrap();
        let mut added = HourSums::default();
        rows.into_iter().for_each(|row| row.add_to(&mut added));
        let of = Combination { status: 200, ..blank() };
        assert_eq!(added, HourSums::from_iter([((3, of), Sums { records: 1, calls: 2, ..Sums::default() })]));
    }

    #[test]
    fn much_waits_by_writes_and_by_rows_of_a_day() {
        let (counts, day, other) = (SetAsideCounts::default(), Day::from_number(1), Day::from_number(2));
        for _ in 1..MOST_WRITES {
            counts.note(day, 1);
        }
        assert!(!counts.is_much(day));
        counts.note(other, 1);
        counts.note(day, 1);
        assert_eq!((counts.is_much(other), counts.is_much(day), counts.is_much(day)), (false, true, false));
        counts.note(day, MOST_ROWS);
        assert!(counts.is_much(day));
        assert_eq!(counts.all(), 1, "of the other day");
        counts.forget(&day.times());
        assert_eq!(counts.all(), 1);
        counts.forget(&other.times());
        assert_eq!(counts.all(), 0);
    }
}
