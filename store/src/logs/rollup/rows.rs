//! Rows of rollups: read, added to and written back, many in one statement. Sketches are added up here, since no engine
//! can, which is why the caller has to be the only one at it.

use crate::logs::batch_sizes::{largest_power, next_chunk};
use crate::logs::shape::Table;
use crate::session::{DatabaseRow, Session, Value};
use gateway_domain::analytics::{Combination, Grain, Margin, SumPart, SumParts, Sums};
use sqlx::Error;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// Names a row. The order is that of writing: whoever writes several takes them in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) start: i64,
    pub(super) grain: Grain,
    pub(super) of: Combination,
}

/// Largest statement: 2^6 rows.
const LARGEST: usize = 6;

static SELECT: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| {
    let sums = Sums::NAMES.join(", ");
    std::array::from_fn(|power| {
        let ids: Vec<String> = (0..1_usize << power).map(|n| format!("${}", n + 3)).collect();
        format!(
            "SELECT id, {sums}, first_seen, last_seen, latency FROM {} \
             WHERE created_at >= $1 AND created_at <= $2 AND id IN ({})",
            Table::Rollups.name(),
            ids.join(", ")
        )
        .into()
    })
});

static UPSERT: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| {
    let changing = Sums::NAMES.into_iter().chain(["first_seen", "last_seen", "latency"]);
    let changes: Vec<String> = changing.map(|name| format!("{name} = excluded.{name}")).collect();
    let changes = changes.join(", ");
    inserts(Table::Rollups)
        .map(|insert| format!("{insert} ON CONFLICT (id, created_at) DO UPDATE SET {changes}").into())
});

static INSERT: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| inserts(Table::Margins).map(Arc::from));

/// SQL that inserts rows; the text at place `n` takes two to the power of `n` of them.
fn inserts(table: Table) -> [String; LARGEST + 1] {
    let (name, names, width) = (table.name(), table.names(), table.width());
    std::array::from_fn(|power| {
        let row = |n: usize| {
            let values: Vec<String> = (1..=width).map(|at| format!("${}", n * width + at)).collect();
            format!("({})", values.join(","))
        };
        let rows: Vec<String> = (0..1 << power).map(row).collect();
        format!("INSERT INTO {name} ({names}) VALUES {}", rows.join(","))
    })
}

/// How many of them were not there before.
pub(super) async fn add(session: &mut Session<'_>, rows: BTreeMap<RowKey, Sums>) -> Result<u64, Error> {
    let mut rows: Vec<NamedRow> = rows.into_iter().map(NamedRow::new).collect();
    let mut begun = 0;
    let mut rest = &mut rows[..];
    while !rest.is_empty() {
        let power = largest_power(rest.len(), LARGEST);
        let (chunk, after) = rest.split_at_mut(1 << power);
        let mut there = present(session, chunk, power).await?;
        begun += (chunk.len() - there.len()) as u64;
        let mut values = Vec::with_capacity(chunk.len() * Table::Rollups.width());
        for row in chunk.iter_mut() {
            if let Some(before) = there.remove(&row.id) {
                row.sums.merge(&before);
            }
            row.bind(&mut values);
        }
        session.run(UPSERT[power].to_string(), values).await?;
        rest = after;
    }
    Ok(begun)
}

/// Rows of margins, which were not there.
pub(super) async fn insert(session: &mut Session<'_>, rows: &[NamedRow]) -> Result<(), Error> {
    let mut rest = rows;
    while !rest.is_empty() {
        let (power, chunk) = next_chunk(&mut rest, LARGEST);
        let mut values = Vec::with_capacity(chunk.len() * Table::Margins.width());
        chunk.iter().for_each(|row| row.bind(&mut values));
        session.run(INSERT[power].to_string(), values).await?;
    }
    Ok(())
}

pub(super) struct NamedRow {
    id: Uuid,
    key: RowKey,
    sums: Sums,
    /// Which margin it is, for a row of margins.
    margin: Option<Margin>,
}

impl NamedRow {
    fn new((key, sums): (RowKey, Sums)) -> Self {
        Self { id: key.of.id(key.grain.micros(), key.start), key, sums, margin: None }
    }

    /// Rows of two kinds may be alike in all but that.
    pub(super) fn share((key, sums): (RowKey, Sums), margin: Margin) -> Self {
        let mut id = *key.of.id(key.grain.micros(), key.start).as_bytes();
        id[0] = margin as u8;
        Self { id: Uuid::from_bytes(id), key, sums, margin: Some(margin) }
    }

    /// Adds the row's values in the order of the table's columns.
    fn bind<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        let RowKey { start, grain, of } = &self.key;
        let text = |text: &'v str| Value::Text(Some(crate::logs::append::without_zero(text)));
        let key = of.key.map_or_else(String::new, |key| key.to_string());
        values.extend([self.id.into(), (*start).into(), grain.micros().into()]);
        values.extend([of.org.0.into(), of.workspace.0.into(), key.into()]);
        values.extend([text(&of.user), text(&of.provider), text(&of.virtual_key), text(&of.model)]);
        values.extend([i64::from(of.status).into(), text(&of.config), text(&of.metadata), of.cut.0.into()]);
        values.extend(self.sums.numbers().map(Value::from));
        values.extend([self.sums.first_seen.into(), self.sums.last_seen.into(), self.sums.latency.text().into()]);
        values.push(text(&of.prompt));
        values.extend(self.margin.map(|margin| Value::Text(Some(margin.name().into()))));
    }
}

async fn present(session: &mut Session<'_>, rows: &[NamedRow], power: usize) -> Result<HashMap<Uuid, Sums>, Error> {
    let starts = || rows.iter().map(|row| row.key.start);
    let bounds = [starts().min().unwrap_or_default(), starts().max().unwrap_or_default()];
    let values = bounds.into_iter().map(Value::from).chain(rows.iter().map(|row| row.id.into())).collect();
    let found = session.fetch(SELECT[power].to_string(), values, |row| {
        let id = row.columns().uuid()?;
        Ok((id, read(row, 1)?))
    });
    Ok(found.await?.into_iter().collect())
}

/// Whole sums, which stand in a row behind so many other columns.
pub(in crate::logs) fn read(row: &DatabaseRow, behind: usize) -> Result<Sums, Error> {
    read_parts(row, behind, SumParts::ALL)
}

/// Those parts of sums that stand in a row.
pub(in crate::logs) fn read_parts(row: &DatabaseRow, behind: usize, parts: SumParts) -> Result<Sums, Error> {
    let mut c = row.columns();
    c.skip(behind);
    let mut sums = Sums::default();
    for number in parts.numbers_mut(&mut sums) {
        *number = c.int()?;
    }
    if parts.has(SumPart::Seen) {
        sums.first_seen = c.int()?;
        sums.last_seen = c.int()?;
    }
    if parts.has(SumPart::Latency) {
        sums.latency.add_text(c.opt_text()?.unwrap_or_default());
    }
    Ok(sums)
}
