//! The two tables of records, made from the list of columns: records themselves, and what is kept of their
//! messages, which is large and goes sooner. A column that an older program did not know is added when the table
//! is opened; a new field needs no migration.

use super::columns::{COLUMNS, Kind};
use crate::session::Session;
use sqlx::Error;
use std::collections::HashSet;
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Records,
    Bodies,
}

pub(super) const BODIES: &str = "bodies";

static RECORD_COLUMNS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let sql = |kind| match kind {
        Kind::Text => "TEXT",
        Kind::Int => "BIGINT",
    };
    COLUMNS.iter().map(|(name, kind)| (*name, sql(*kind))).collect()
});

static BODY_COLUMNS: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| vec![("id", "TEXT"), ("created_at", "BIGINT"), (BODIES, "TEXT")]);

/// Places where records without a known cost are found again.
const UNPRICED: &str = "cost IS NULL AND total_tokens IS NOT NULL";

impl Table {
    pub(super) const ALL: [Self; 2] = [Self::Records, Self::Bodies];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Records => "log_entry",
            Self::Bodies => "log_body",
        }
    }

    fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Records => &RECORD_COLUMNS,
            Self::Bodies => &BODY_COLUMNS,
        }
    }

    pub(super) fn names(self) -> String {
        self.columns().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
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
            Self::Bodies => Vec::new(),
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

    /// Makes the table, or adds what it lacks.
    pub(super) async fn ensure(self, session: &mut Session<'_>) -> Result<(), Error> {
        let (present, key, tail) = match session {
            Session::Sqlite(_) => (format!("SELECT name FROM pragma_table_info('{}')", self.name()), "id", ""),
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
        Ok(())
    }
}
