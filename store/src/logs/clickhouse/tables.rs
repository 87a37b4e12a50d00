//! The tables in ClickHouse, made from the one list of a record's columns: a partition for each day, so that retention
//! drops whole partitions, sorted so that an organisation's newest records lie together, and with skip indexes for what
//! is looked up by name.

use super::super::columns::{COLUMNS, ColumnKind};
use super::super::day::Day;
use super::client::ServerLink;
use super::row_binary::Cells;
use gateway_domain::analytics::{Grain, Sums};
use gateway_domain::ports::StoreError;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// Columns that each row has: they are its place.
pub(super) fn is_key(name: &str) -> bool {
    ["id", "created_at", "org"].contains(&name)
}

#[derive(Clone, Copy)]
enum TableHolds {
    Records,
    Bodies,
    Rollups,
    Margins,
    Touches,
    Seals,
}

pub(super) struct ColumnTable {
    name: &'static str,
    holds: TableHolds,
    order: &'static str,
    indexes: &'static [&'static str],
}

pub(super) static RECORDS: ColumnTable = ColumnTable {
    name: "log_entry",
    holds: TableHolds::Records,
    order: "org, created_at, id",
    indexes: &[
        "INDEX log_entry_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1",
        "INDEX log_entry_id id TYPE bloom_filter(0.001) GRANULARITY 1",
        "INDEX log_entry_workspace workspace TYPE set(100) GRANULARITY 1",
    ],
};

pub(super) static BODIES: ColumnTable =
    ColumnTable { name: "log_body", holds: TableHolds::Bodies, order: "id", indexes: &[] };

/// A row for each hour and combination of what sums are told apart by; its version is the generation of the hour's
/// sums.
pub(super) static ROLLUPS: ColumnTable = ColumnTable {
    name: "log_rollup",
    holds: TableHolds::Rollups,
    order: "org, created_at, workspace, key_id, user_name, provider, virtual_key, model, status, config, prompt_slug",
    indexes: &[],
};

/// What [`ROLLUPS`] comes to by one thing at a time, made from it: most questions are about one thing or none, and have
/// few rows to read here.
pub(super) static MARGINS: ColumnTable = ColumnTable {
    name: "log_margin",
    holds: TableHolds::Margins,
    order: "margin, org, created_at, workspace, key_id, user_name, provider, virtual_key, model, status, config, prompt_slug",
    indexes: &[],
};

/// A row for each write to an hour whose sums may have been made; its version is when that was.
pub(super) static TOUCHES: ColumnTable =
    ColumnTable { name: "log_touch", holds: TableHolds::Touches, order: "created_at, id", indexes: &[] };

/// Hours whose sums were made; the version is the generation, which is the number of touches that they are made behind.
/// Those of a version that knew no margins do not have them, and are made anew.
pub(super) static SEALS: ColumnTable =
    ColumnTable { name: "log_seal", holds: TableHolds::Seals, order: "created_at", indexes: &[] };

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    format!("SELECT {} FROM log_entry FINAL", names.join(", "))
});

/// Derived when a record is written: its user, the slug of its prompt, and where its time lies in a sketch.
const DERIVED: [(&str, &str); 3] = [("user_name", "String"), ("prompt_slug", "String"), ("latency_bin", "UInt16")];

/// Days that take nothing any more are merged to one part, in which no record stands twice and FINAL costs nothing.
const SETTINGS: &str = "min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1";

impl ColumnTable {
    pub(super) const ALL: [&'static Self; 6] = [&RECORDS, &BODIES, &ROLLUPS, &MARGINS, &TOUCHES, &SEALS];

    fn columns(&self) -> Vec<(&'static str, String)> {
        let stored = |(name, kind): &(&'static str, ColumnKind)| {
            let kind = match kind {
                ColumnKind::Text => "String",
                ColumnKind::Int => "Int64",
            };
            (*name, if is_key(name) { kind.to_owned() } else { format!("Nullable({kind})") })
        };
        let given = |(name, kind): (&'static str, &str)| (name, kind.to_owned());
        let mut columns: Vec<_> = match self.holds {
            TableHolds::Records => COLUMNS.iter().map(stored).chain(DERIVED.map(given)).collect(),
            TableHolds::Bodies => {
                [("id", ColumnKind::Text), ("created_at", ColumnKind::Int), ("bodies", ColumnKind::Text)]
                    .iter()
                    .map(stored)
                    .collect()
            }
            TableHolds::Rollups | TableHolds::Margins => {
                let texts = |names: &'static [&'static str]| names.iter().map(move |name| given((*name, "String")));
                let numbers = Sums::NAMES.into_iter().chain(["first_seen", "last_seen"]);
                [given(("created_at", "Int64"))]
                    .into_iter()
                    .chain(texts(&["org", "workspace", "key_id", "user_name", "provider", "virtual_key", "model"]))
                    .chain([given(("status", "Int64"))])
                    .chain(texts(&["config", "prompt_slug"]))
                    .chain(numbers.map(|name| given((name, "Int64"))))
                    .chain([given(("bins", "Array(UInt16)")), given(("counts", "Array(UInt64)"))])
                    .chain(matches!(self.holds, TableHolds::Margins).then(|| given(("margin", "String"))))
                    .collect()
            }
            TableHolds::Touches => [("created_at", "Int64"), ("id", "String"), ("mark", "Int64")].map(given).into(),
            TableHolds::Seals => [("created_at", "Int64"), ("margins", "UInt8")].map(given).into(),
        };
        columns.push(("version", "UInt64".to_owned()));
        columns
    }

    pub(super) fn select(&self) -> &'static str {
        &SELECT
    }

    pub(super) fn insert(&self) -> String {
        format!("{} FORMAT RowBinary", self.head())
    }

    /// The head of an INSERT.
    pub(super) fn head(&self) -> String {
        let names: Vec<&str> = self.columns().iter().map(|(name, _)| *name).collect();
        format!("INSERT INTO {} ({})", self.name, names.join(", "))
    }

    fn create(&self) -> String {
        let mut parts: Vec<String> = self.columns().iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        parts.extend(self.indexes.iter().map(|index| (*index).to_owned()));
        let mut text = format!("CREATE TABLE IF NOT EXISTS {} ({})", self.name, parts.join(", "));
        let _ = write!(
            text,
            " ENGINE = ReplacingMergeTree(version) PARTITION BY intDiv(created_at, 86400000000) ORDER BY ({}) \
             SETTINGS {SETTINGS}",
            self.order
        );
        text
    }

    /// Makes the table, or adds what an older one lacks.
    pub(super) async fn ensure(&self, link: &ServerLink) -> Result<(), StoreError> {
        let present = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = $1";
        let names = texts(link, present, self.name).await?;
        if names.is_empty() {
            return Ok(link.run(&self.create()).await?);
        }
        let names: HashSet<String> = names.into_iter().collect();
        for (name, kind) in self.columns().into_iter().filter(|(name, _)| !names.contains(*name)) {
            link.run(&format!("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {name} {kind}", self.name)).await?;
        }
        Ok(())
    }

    /// Those that hold rows.
    pub(super) async fn days(&self, link: &ServerLink) -> Result<Vec<PartitionDay>, StoreError> {
        let select = "SELECT DISTINCT partition_id FROM system.parts \
                      WHERE active AND database = currentDatabase() AND table = $1";
        let ids = texts(link, select, self.name).await?;
        Ok(ids.iter().filter_map(|id| id.parse().ok().map(PartitionDay)).collect())
    }

    pub(super) async fn drop_day(&self, link: &ServerLink, day: PartitionDay) -> Result<(), StoreError> {
        Ok(link.run(&format!("ALTER TABLE {} DROP PARTITION ID '{}'", self.name, day.0)).await?)
    }
}

/// Days since 1970, as the partition has them: unlike [`Day`] it is not clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionDay(i64);

impl PartitionDay {
    /// The first microseconds of the day and of the next one.
    pub(super) fn bounds(self) -> (i64, i64) {
        let start = self.0.saturating_mul(Grain::Day.micros());
        (start, start.saturating_add(Grain::Day.micros()))
    }

    pub(super) fn is_over_at(self, time: gateway_domain::Timestamp) -> bool {
        Day::from_number(self.0).is_over_at(time)
    }
}

async fn texts(link: &ServerLink, select: &str, table: &'static str) -> Result<Vec<String>, StoreError> {
    let found = link.rows(select, &[table.into()]).await?;
    let mut cells = Cells::of(&found);
    let mut texts = Vec::new();
    while !cells.is_at_end() {
        texts.push(cells.text().map_err(|e| StoreError::Broken(e.to_string()))?.to_owned());
    }
    Ok(texts)
}
