//! The record writer's hot loop: a batch into the tables of either engine, and into its sums those that were not there
//! yet. What a client sent must not fail a batch, so zero bytes, which Postgres refuses in text, become U+FFFD.

mod sqlite;

use super::columns::{COLUMNS, ColumnKind, encode};
use super::copy::CopyRows;
use super::field::{FieldSink, from_json, json};
use super::rollup::Rollups;
use super::shape::Table;
use crate::database::Database;
use crate::filter::Filter;
use crate::session::Session;
use gateway_domain::ports::StoreError;
use gateway_domain::record::{Bodies, LogRecord};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Error, Row as _};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;
use uuid::Uuid;

/// One array per column: the text is the same for any number of rows.
static POSTGRES: LazyLock<String> = LazyLock::new(|| {
    let array = |(at, (_, kind)): (usize, &(&str, ColumnKind))| match kind {
        ColumnKind::Text => format!("${}::TEXT[]", at + 1),
        ColumnKind::Int => format!("${}::BIGINT[]", at + 1),
    };
    let arrays: Vec<_> = COLUMNS.iter().enumerate().map(array).collect();
    format!(
        "INSERT INTO log_entry ({}) SELECT * FROM UNNEST({}) ON CONFLICT (id, created_at) DO NOTHING RETURNING id",
        Table::Records.names(),
        arrays.join(",")
    )
});

static COPY: LazyLock<String> =
    LazyLock::new(|| format!("COPY log_entry ({}) FROM STDIN (FORMAT binary)", Table::Records.names()));

const POSTGRES_ROWS: usize = 1_000;

/// Records of one day into its file, and into its rollups those that were not there yet.
pub(super) async fn to_sqlite(
    connection: &mut SqliteConnection,
    batch: &[&LogRecord],
    rollups: &Rollups,
) -> Result<(), Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    if sqlite::insert(&mut transaction, batch).await? == batch.len() as u64 {
        rollups.count(&mut Session::Sqlite(&mut transaction), batch).await?;
        return transaction.commit().await;
    }
    // Some were there, from before a crash: which ones has to be known.
    transaction.rollback().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let fresh = absent(&mut transaction, batch).await?;
    sqlite::insert(&mut transaction, &fresh).await?;
    rollups.count(&mut Session::Sqlite(&mut transaction), &fresh).await?;
    transaction.commit().await
}

/// Each once, in their order.
async fn absent<'r>(connection: &mut SqliteConnection, batch: &[&'r LogRecord]) -> Result<Vec<&'r LogRecord>, Error> {
    let mut seen: HashSet<Uuid> = HashSet::new();
    for chunk in batch.chunks(1_000) {
        let mut these = Filter::default();
        these.and_in("id", chunk.iter().map(|record| record.id));
        let (sql, values) = these.grouped("SELECT id FROM log_entry", "");
        let there = Session::Sqlite(connection).fetch(sql, values, |row| row.columns().uuid()).await?;
        seen.extend(there);
    }
    Ok(batch.iter().copied().filter(|record| seen.insert(record.id)).collect())
}

/// Stores records by COPY; only where one is there already, from before a crash, in the slower way that passes over it.
pub(super) async fn to_postgres(
    connection: &mut PgConnection,
    batch: &[LogRecord],
    rollups: &Rollups,
) -> Result<(), Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut rows = CopyRows::new();
    for record in batch {
        rows.begin();
        encode(record, &mut rows);
    }
    let mut transaction = connection.begin().await?;
    let mut copy = transaction.copy_in_raw(&COPY).await?;
    copy.send(rows.finish()).await?;
    match copy.finish().await {
        Err(Error::Database(e)) if e.is_unique_violation() => {
            transaction.rollback().await?;
            return to_postgres_once(connection, batch, rollups).await;
        }
        copied => copied?,
    };
    let fresh: Vec<&LogRecord> = batch.iter().collect();
    rollups.count(&mut Session::Postgres(&mut transaction), &fresh).await?;
    transaction.commit().await
}

async fn to_postgres_once(connection: &mut PgConnection, batch: &[LogRecord], rollups: &Rollups) -> Result<(), Error> {
    let mut transaction = connection.begin().await?;
    let mut stored: HashSet<String> = HashSet::new();
    for chunk in batch.chunks(POSTGRES_ROWS) {
        let mut arrays = Arrays::with_capacity(chunk.len());
        for record in chunk {
            encode(record, &mut arrays);
        }
        let mut insert = sqlx::query(&**POSTGRES);
        for array in arrays.columns {
            insert = match array {
                Array::Text(texts) => insert.bind(texts),
                Array::Int(numbers) => insert.bind(numbers),
            };
        }
        for row in insert.fetch_all(&mut *transaction).await? {
            stored.insert(row.try_get(0)?);
        }
    }
    // One that the batch holds twice was stored as it stands there first.
    let fresh: Vec<&LogRecord> = batch.iter().filter(|record| stored.remove(&record.id.to_string())).collect();
    rollups.count(&mut Session::Postgres(&mut transaction), &fresh).await?;
    transaction.commit().await
}

const PUT_BODIES: &str = "INSERT INTO log_body (id, created_at, bodies) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";

/// What is kept of messages, as it is stored.
pub(super) fn bodies_text(record: &LogRecord) -> Option<String> {
    record.bodies.as_deref().and_then(json)
}

/// What is kept of messages: few records have any.
pub(super) async fn bodies(mut session: Session<'_>, records: &[&LogRecord]) -> Result<(), Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    for record in records {
        let Some(text) = bodies_text(record) else { continue };
        inside.run(PUT_BODIES, vec![record.id.into(), record.created_at.into(), text.into()]).await?;
    }
    transaction.commit().await
}

pub(super) async fn bodies_of(database: &Database, id: Uuid) -> Result<Option<Box<Bodies>>, StoreError> {
    let select = "SELECT bodies FROM log_body WHERE id = $1";
    let found = database.rows(select, vec![id.into()], |row| Ok(from_json(row.columns().opt_text()?).map(Box::new)));
    Ok(found.await?.pop().flatten())
}

enum Array<'r> {
    Text(Vec<Option<Cow<'r, str>>>),
    Int(Vec<Option<i64>>),
}

struct Arrays<'r> {
    columns: Vec<Array<'r>>,
    next: usize,
}

impl<'r> Arrays<'r> {
    fn with_capacity(rows: usize) -> Self {
        let column = |(_, kind): &(&str, ColumnKind)| match kind {
            ColumnKind::Text => Array::Text(Vec::with_capacity(rows)),
            ColumnKind::Int => Array::Int(Vec::with_capacity(rows)),
        };
        Self { columns: COLUMNS.iter().map(column).collect(), next: 0 }
    }

    fn column(&mut self) -> &mut Array<'r> {
        let at = self.next;
        self.next = (at + 1) % self.columns.len();
        &mut self.columns[at]
    }

    fn push(&mut self, text: Option<Cow<'r, str>>) {
        if let Array::Text(texts) = self.column() {
            texts.push(text);
        }
    }
}

impl<'r> FieldSink<'r> for Arrays<'r> {
    fn text(&mut self, text: Option<&'r str>) {
        self.push(text.map(without_zero));
    }

    fn made(&mut self, text: Option<String>) {
        self.push(text.map(Cow::Owned));
    }

    fn id(&mut self, id: Option<Uuid>) {
        self.push(id.map(|id| Cow::Owned(id.to_string())));
    }

    fn int(&mut self, number: Option<i64>) {
        if let Array::Int(numbers) = self.column() {
            numbers.push(number);
        }
    }
}

pub(crate) fn without_zero(text: &str) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}
