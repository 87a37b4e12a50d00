//! What limits have counted, on disk: sums of the charges of records, and how far in each node's journal they were
//! added up. Both change in one transaction, so that a replay from there counts nothing twice. Bumps no revision.
//! Knows no limit: how much is allowed is told by whoever asks.

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session, Value};
use gateway_domain::Timestamp;
use gateway_domain::counters::{CounterKey, Keep, Measured, Owner, Slot};
use gateway_domain::ports::{EntityQuery, Holder, StoreError, Which};
use gateway_domain::record::{Page, Position};
use sqlx::Error;
use std::sync::Arc;

/// A sum of charges, to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeSum {
    pub slot: Slot,
    pub ends: Timestamp,
    pub measured: Measured,
    pub keep: Keep,
    /// Negative when an admin set a budget back.
    pub used: i64,
    pub owner: Option<Arc<Owner>>,
}

/// A counter as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub slot: Slot,
    pub ends: Timestamp,
    pub measured: Measured,
    pub keep: Keep,
    /// What was used; below zero for a moment, when a budget was set back before all of its charges were added.
    pub used: i64,
    pub owner: Option<Arc<Owner>>,
    /// The alert that was sent last: 0 none, 1 of the threshold, 2 of the limit.
    pub told: i64,
    pub reset_at: Option<Timestamp>,
    pub tick: i64,
}

const CLOCK: &str = "UPDATE counter_clock SET tick = tick + 1 WHERE id = 1 RETURNING tick";
const ADD: &str = "INSERT INTO counter (id, began, node, ends, measured, used, holder, value_key, told, tick) VALUES ";
const ADDED: &str = " ON CONFLICT (id, began, node) DO UPDATE SET used = counter.used + excluded.used, \
    ends = excluded.ends, tick = excluded.tick";
/// Rows of one statement: few enough for any engine, and a hundred thousand groups still fit into a second or two.
const ROWS: usize = 100;
/// Holders that one question names.
const HOLDERS: usize = 500;
const PLACE: &str = "INSERT INTO counter_place (node, segment, place) VALUES ($1, $2, $3) \
    ON CONFLICT (node, segment) DO UPDATE SET place = excluded.place";
const PLACES: &str = "SELECT segment, place FROM counter_place WHERE node = $1";
const LEAVE_PLACE: &str = "DELETE FROM counter_place WHERE node = $1 AND segment = $2";
const COLUMNS: &str = "SELECT c.id, c.began, c.node, c.ends, c.measured, c.used, c.holder, c.value_key, c.told, \
    c.reset_at, c.tick FROM counter c ";
const CHANGED: &str = "WHERE c.tick > $1 AND c.ends > $2 AND (c.node = '' OR c.node = $3)";
const RESET_AT: &str = "UPDATE counter SET reset_at = $1 WHERE id = $2 AND began = $3 AND node = ''";
const TELL: &str =
    "UPDATE counter SET told = $1 WHERE id = $2 AND began = $3 AND node = '' AND told = $4 RETURNING told";
const FORGET: &str = "DELETE FROM counter WHERE ends < $1";
/// Keeps of the running counters of one group only the one that was used last: a policy whose conditions changed began
/// another.
const LIVE: &str = "c.began <= $2 AND c.ends > $2 AND NOT EXISTS (SELECT 1 FROM counter d WHERE d.holder = c.holder \
    AND d.value_key = c.value_key AND d.measured = c.measured AND d.began <= $2 AND d.ends > $2 AND d.tick > c.tick)";

impl Database {
    /// Adds sums, and notes how far they go, all or nothing.
    pub async fn add_counts(&self, node: &str, parts: &[ChargeSum], places: &[Position]) -> Result<(), StoreError> {
        self.on(Side::Write, async |mut session| {
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            // Whoever has the clock writes alone, so that ticks are committed in their order.
            let tick = inside.fetch_int(CLOCK, vec![]).await?;
            for some in parts.chunks(ROWS) {
                let rows: Vec<String> = (0..some.len()).map(|row| placeholders(row * 10, 10)).collect();
                let values = some.iter().flat_map(|part| values(part, node, tick)).collect();
                inside.run(format!("{ADD}{}{ADDED}", rows.join(", ")), values).await?;
            }
            for place in places {
                inside.run(PLACE, vec![node.into(), whole(place.segment), whole(place.offset)]).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// How far each segment of a node's journal was added up.
    pub async fn count_places(&self, node: &str) -> Result<Vec<Position>, StoreError> {
        let place = |row: &DatabaseRow| {
            let mut columns = row.columns();
            let mut number = || columns.int().map(i64::cast_unsigned);
            Ok(Position { segment: number()?, offset: number()? })
        };
        self.on(Side::Read, async |mut session| session.fetch(PLACES, vec![node.into()], place).await).await
    }

    /// Segments that are gone need no place.
    pub async fn forget_places(&self, node: &str, segments: &[u64]) -> Result<(), StoreError> {
        self.on(Side::Write, async |mut session| {
            for segment in segments {
                session.run(LEAVE_PLACE, vec![node.into(), whole(*segment)]).await?;
            }
            Ok(())
        })
        .await
    }

    /// Counts of this node and of all nodes together that changed behind `tick` and were not over before `after`.
    pub async fn counts(&self, node: &str, tick: i64, after: Timestamp) -> Result<Vec<Count>, StoreError> {
        let sql = [COLUMNS, CHANGED].concat();
        let asked = || vec![tick.into(), after.into(), node.into()];
        self.on(Side::Read, async |mut session| session.fetch(sql.clone(), asked(), count).await).await
    }

    /// The counts of a holder's running periods.
    pub async fn counts_of(&self, holder: Holder, which: Which<'_>, now: Timestamp) -> Result<Vec<Count>, StoreError> {
        let (filter, value) = match which {
            Which::All => ("", None),
            Which::Id(id) => (" AND c.id = $3", Some(id)),
            Which::ValueKey(key) => (" AND c.value_key = $3", Some(key)),
        };
        let sql = format!("{COLUMNS}WHERE c.holder = $1 AND {LIVE}{filter}");
        let mut asked: Vec<Value<'_>> = vec![holder.to_string().into(), now.into()];
        asked.extend(value.map(Into::into));
        self.on(Side::Read, async |mut session| session.fetch(sql, asked, count).await).await
    }

    /// The counts of the running periods of many holders, some hundreds with each question.
    pub async fn counts_of_all(&self, holders: &[Holder], now: Timestamp) -> Result<Vec<Count>, StoreError> {
        let mut found = Vec::new();
        for some in holders.chunks(HOLDERS) {
            // The first two values are those of `LIVE`, which has its own numbers.
            let places: Vec<String> = (0..some.len()).map(|n| format!("${}", n + 3)).collect();
            let sql = format!("{COLUMNS}WHERE $1 = $1 AND c.holder IN ({}) AND {LIVE}", places.join(", "));
            let asked = || {
                let holders = some.iter().map(|holder| holder.to_string().into());
                [0.into(), now.into()].into_iter().chain(holders).collect::<Vec<Value<'_>>>()
            };
            let part = self.on(Side::Read, async |mut session| session.fetch(sql.clone(), asked(), count).await);
            found.extend(part.await?);
        }
        Ok(found)
    }

    /// One page of the counters of a holder's running periods.
    pub async fn count_page(&self, query: &EntityQuery, now: Timestamp) -> Result<Page<Count>, StoreError> {
        let exhausted = match query.exhausted {
            None => "AND c.used >= 0 AND $3 = $3",
            Some(true) => "AND c.used >= $3",
            Some(false) => "AND c.used < $3",
        };
        let filter = format!("WHERE c.holder = $1 AND {LIVE} {exhausted} AND c.value_key LIKE $4 ESCAPE '\\'");
        let page = format!("{COLUMNS}{filter} ORDER BY c.value_key, c.id LIMIT $5 OFFSET $6");
        let asked = || -> Vec<Value<'static>> {
            let search = query.search.as_deref().unwrap_or_default();
            vec![query.holder.to_string().into(), now.into(), whole(query.limit), pattern(search).into()]
        };
        let paged = || {
            let mut values = asked();
            values.extend([whole(query.page_size), whole(query.page.saturating_mul(query.page_size))]);
            values
        };
        self.on(Side::Read, async |mut session| {
            let total = session.fetch_int(format!("SELECT COUNT(*) FROM counter c {filter}"), asked()).await?;
            let rows = session.fetch(page.clone(), paged(), count).await?;
            Ok(Page { rows, ..Page::of(total.cast_unsigned()) })
        })
        .await
    }

    /// An admin set these back.
    pub async fn note_reset(&self, slots: &[Slot], at: Timestamp) -> Result<(), StoreError> {
        self.on(Side::Write, async |mut session| {
            for slot in slots {
                session.run(RESET_AT, vec![at.into(), slot.key.to_string().into(), slot.began.into()]).await?;
            }
            Ok(())
        })
        .await
    }

    /// Notes which alert was sent; false when another node was first.
    pub async fn mark_alerted(&self, slot: Slot, from: i64, to: i64) -> Result<bool, StoreError> {
        let asked = || vec![to.into(), slot.key.to_string().into(), slot.began.into(), from.into()];
        let told = async |mut session: Session<'_>| session.fetch(TELL, asked(), |row| row.columns().int()).await;
        self.on(Side::Write, told).await.map(|rows| !rows.is_empty())
    }

    /// Forgets counters that ended before.
    pub async fn forget_counts(&self, before: Timestamp) -> Result<(), StoreError> {
        self.on(Side::Write, async |mut session| session.run(FORGET, vec![before.into()]).await).await
    }
}

fn whole(number: u64) -> Value<'static> {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn placeholders(from: usize, count: usize) -> String {
    let list: Vec<String> = (from + 1..=from + count).map(|n| format!("${n}")).collect();
    format!("({})", list.join(", "))
}

fn values<'v>(part: &'v ChargeSum, node: &'v str, tick: i64) -> [Value<'v>; 10] {
    let (holder, value_key) = match &part.owner {
        Some(owner) => (owner.holder.to_string(), &*owner.value_key),
        None => (String::new(), ""),
    };
    [
        part.slot.key.to_string().into(),
        part.slot.began.into(),
        (if part.keep == Keep::Shared { "" } else { node }).into(),
        part.ends.into(),
        part.measured.name().into(),
        part.used.into(),
        holder.into(),
        value_key.into(),
        0.into(),
        tick.into(),
    ]
}

/// Finds the text anywhere, whatever signs it has.
fn pattern(search: &str) -> String {
    let escaped = search.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

fn count(row: &DatabaseRow) -> Result<Count, Error> {
    let mut c = row.columns();
    let unreadable = |what: &str| Error::Decode(format!("a counter with an unreadable {what}").into());
    let key: CounterKey = c.text()?.parse().map_err(|_| unreadable("key"))?;
    let slot = Slot { key, began: c.time()? };
    let keep = if c.text()?.is_empty() { Keep::Shared } else { Keep::Node };
    let ends = c.time()?;
    let measured = Measured::parse(c.text()?).ok_or_else(|| unreadable("measure"))?;
    let used = c.int()?;
    // A holder that only a newer version knows is nobody's here; the count still counts.
    let holder = c.text()?.parse::<Holder>().ok();
    let value_key = c.text()?;
    let owner = holder.map(|holder| Arc::new(Owner { holder, value_key: value_key.into() }));
    let (told, reset_at, tick) = (c.int()?, c.opt_int()?.map(Timestamp), c.int()?);
    Ok(Count { slot, ends, measured, keep, used, owner, told, reset_at, tick })
}
