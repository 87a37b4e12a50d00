//! The tables of records, made from lists of columns: records themselves, what is kept of their messages, which is
//! large and goes sooner, and their sums. A column that an older program did not know is added when the table
//! is opened; a new field needs no migration.

use super::columns::{COLUMNS, ColumnKind};
use crate::session::Session;
use gateway_domain::analytics::Sums;
use sqlx::Error;
use std::collections::HashSet;
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Records,
    Bodies,
    Rollups,
    /// Sums by one thing at a time, of days that are over.
    Margins,
    /// What is still to be added to the rollups, a row for each write of records.
    Waiting,
}

pub(super) const BODIES: &str = "bodies";

static RECORD_COLUMNS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let sql = |kind| match kind {
        ColumnKind::Text => "TEXT",
        ColumnKind::Int => "BIGINT",
    };
    COLUMNS.iter().map(|(name, kind)| (*name, sql(*kind))).collect()
});

static BODY_COLUMNS: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| vec![("id", "TEXT"), ("created_at", "BIGINT"), (BODIES, "TEXT")]);

static ROLLUP_COLUMNS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let texts = |names: &'static [&'static str]| names.iter().map(|name| (*name, "TEXT"));
    let numbers = |names: &'static [&'static str]| names.iter().map(|name| (*name, "BIGINT"));
    let head = [("id", "TEXT"), ("created_at", "BIGINT"), ("grain", "BIGINT")];
    let named = texts(&["org", "workspace", "key_id", "user_name", "provider", "virtual_key", "model"]);
    let rest = [("status", "BIGINT"), ("config", "TEXT"), ("metadata", "TEXT"), ("cut", "BIGINT")];
    let sums = numbers(&Sums::NAMES)
        .chain(numbers(&["first_seen", "last_seen"]))
        .chain([("latency", "TEXT"), ("prompt_slug", "TEXT")]);
    head.into_iter().chain(named).chain(rest).chain(sums).collect()
});

static MARGIN_COLUMNS: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| ROLLUP_COLUMNS.iter().copied().chain([("margin", "TEXT")]).collect());

const WAITING_COLUMNS: [(&str, &str); 3] = [("id", "TEXT"), ("created_at", "BIGINT"), ("sums", "TEXT")];

/// Places where records without a known cost are found again.
const UNPRICED: &str = "cost IS NULL AND total_tokens IS NOT NULL";

/// What a day's file is marked with whose tables of sums have all columns that this program knows: asking for the mark
/// takes a tenth of looking at the tables, and a question about months opens a file a day.
static MARK: LazyLock<i64> = LazyLock::new(|| {
    let names: Vec<String> =
        Table::SUMS.into_iter().map(|table| format!("{}:{}", table.name(), table.names())).collect();
    // The mark is a signed number of 32 bits, and 0 in a file that nobody marked.
    i64::from(crc32fast::hash(names.join(";").as_bytes()) >> 1)
});

/// Makes the tables of sums of a day's file, or adds what they lack.
pub(super) async fn ensure_sums(session: &mut Session<'_>) -> Result<(), Error> {
    if has_all_sums(session).await {
        return Ok(());
    }
    for table in Table::SUMS {
        table.ensure(session).await?;
    }
    session.run(format!("PRAGMA user_version = {}", *MARK), vec![]).await
}

pub(super) async fn has_all_sums(session: &mut Session<'_>) -> bool {
    session.fetch_int("PRAGMA user_version", vec![]).await.is_ok_and(|mark| mark == *MARK)
}

impl Table {
    pub(super) const ALL: [Self; 5] = [Self::Records, Self::Bodies, Self::Rollups, Self::Margins, Self::Waiting];
    /// What lies with the records of a day and goes with them.
    pub(super) const SUMS: [Self; 3] = [Self::Rollups, Self::Margins, Self::Waiting];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Records => "log_entry",
            Self::Bodies => "log_body",
            Self::Rollups => "log_rollup",
            Self::Margins => "log_margin",
            Self::Waiting => "log_waiting",
        }
    }

    fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Records => &RECORD_COLUMNS,
            Self::Bodies => &BODY_COLUMNS,
            Self::Rollups => &ROLLUP_COLUMNS,
            Self::Margins => &MARGIN_COLUMNS,
            Self::Waiting => &WAITING_COLUMNS,
        }
    }

    pub(super) fn names(self) -> String {
        self.columns().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }

    pub(super) fn width(self) -> usize {
        self.columns().len()
    }

    fn indexes(self) -> Vec<String> {
        let index = |name: &str, on: &str| format!("CREATE INDEX IF NOT EXISTS log_entry_{name} ON log_entry {on}");
        match self {
            Self::Records => vec![
                index("workspace", "(workspace, created_at)"),
                index("org", "(org, created_at)"),
                index("trace", "(trace_id)"),
                index("unpriced", &format!("(org, created_at) WHERE {UNPRICED}")),
            ],
            Self::Bodies | Self::Waiting => Vec::new(),
            Self::Rollups => {
                vec!["CREATE INDEX IF NOT EXISTS log_rollup_org ON log_rollup (org, grain, created_at)".to_owned()]
            }
            Self::Margins => {
                vec!["CREATE INDEX IF NOT EXISTS log_margin_of ON log_margin (margin, grain, created_at)".to_owned()]
            }
        }
    }

    /// `key` names one record; `tail` may partition the table.
    fn create(self, key: &str, tail: &str) -> String {
        let column = |(name, kind): &(&str, &str)| {
            let not_null = if ["id", "created_at"].contains(name) { " NOT NULL" } else { "" };
            format!("{name} {kind}{not_null}")
        };
        let columns: Vec<_> = self.columns().iter().map(column).collect();
        format!("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({key})){tail}", self.name(), columns.join(", "))
    }

    /// Makes the table, or adds what it lacks. Whether it was made.
    pub(super) async fn ensure(self, session: &mut Session<'_>) -> Result<bool, Error> {
        let (present, key, tail) = match session {
            Session::Sqlite(_) => {
                let key = if Self::SUMS.contains(&self) { "id, created_at" } else { "id" };
                (format!("SELECT name FROM pragma_table_info('{}')", self.name()), key, "")
            }
            Session::Postgres(_) => (
                format!(
                    "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('{}') AND attnum > 0 \
                     AND NOT attisdropped",
                    self.name()
                ),
                "id, created_at",
                " PARTITION BY RANGE (created_at)",
            ),
        };
        let present = session.fetch(present, vec![], |row| row.columns().text().map(str::to_owned)).await?;
        let present: HashSet<String> = present.into_iter().collect();
        if present.is_empty() {
            session.run(self.create(key, tail), vec![]).await?;
        } else {
            for (name, kind) in self.columns().iter().filter(|(name, _)| !present.contains(*name)) {
                session.run(format!("ALTER TABLE {} ADD COLUMN {name} {kind}", self.name()), vec![]).await?;
            }
        }
        for index in self.indexes() {
            session.run(index, vec![]).await?;
        }
        Ok(present.is_empty())
    }
}
