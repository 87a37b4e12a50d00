//! The record writer's hot loop: many rows per statement, few texts of statements, no copy of a shared string.
//! What a client sent must not fail a batch, so zero bytes, which Postgres refuses in text, become U+FFFD.

use super::columns::{COLUMNS, Kind, Sink, encode};
use gateway_domain::record::LogRecord;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Connection, Error};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// Largest statement for SQLite: 2^7 rows. Any batch is a sum of powers of two, so eight prepared
/// statements serve every length.
const LARGEST: usize = 7;

static SQLITE: LazyLock<[Arc<str>; LARGEST + 1]> = LazyLock::new(|| {
    let row = format!("({})", vec!["?"; COLUMNS.len()].join(","));
    std::array::from_fn(|power| {
        let rows = vec![row.as_str(); 1 << power].join(",");
        format!("INSERT INTO log_record ({}) VALUES {rows} ON CONFLICT (id) DO NOTHING", names()).into()
    })
});

/// One array per column: the text is the same for any number of rows.
static POSTGRES: LazyLock<String> = LazyLock::new(|| {
    let array = |(at, (_, kind)): (usize, &(&str, Kind))| match kind {
        Kind::Text => format!("${}::TEXT[]", at + 1),
        Kind::Int => format!("${}::BIGINT[]", at + 1),
    };
    let arrays: Vec<_> = COLUMNS.iter().enumerate().map(array).collect();
    format!(
        "INSERT INTO log_record ({}) SELECT * FROM UNNEST({}) ON CONFLICT (id) DO NOTHING",
        names(),
        arrays.join(",")
    )
});

const POSTGRES_ROWS: usize = 1_000;

fn names() -> String {
    COLUMNS.map(|(name, _)| name).join(",")
}

pub(super) async fn to_sqlite(connection: &mut SqliteConnection, batch: &[LogRecord]) -> Result<(), Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut rest = batch;
    while !rest.is_empty() {
        let power = (rest.len().ilog2() as usize).min(LARGEST);
        let (chunk, after) = rest.split_at(1 << power);
        let mut row = SqliteRow::with_capacity(chunk.len());
        for record in chunk {
            encode(record, &mut row);
        }
        let insert = sqlx::query_with(AssertSqlSafe(Arc::clone(&SQLITE[power])), row.finish()?);
        insert.execute(&mut *transaction).await?;
        rest = after;
    }
    transaction.commit().await
}

pub(super) async fn to_postgres(connection: &mut PgConnection, batch: &[LogRecord]) -> Result<(), Error> {
    let mut transaction = connection.begin().await?;
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
        insert.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

struct SqliteRow {
    arguments: SqliteArguments,
    failed: Option<Error>,
}

impl SqliteRow {
    fn with_capacity(rows: usize) -> Self {
        let mut arguments = SqliteArguments::default();
        arguments.reserve(rows * COLUMNS.len(), 0);
        Self { arguments, failed: None }
    }

    fn add<'t, T: sqlx::Encode<'t, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>>(&mut self, value: T) {
        if let Err(error) = Arguments::add(&mut self.arguments, value) {
            self.failed = Some(Error::Encode(error));
        }
    }

    fn finish(self) -> Result<SqliteArguments, Error> {
        self.failed.map_or(Ok(self.arguments), Err)
    }
}

impl<'r> Sink<'r> for SqliteRow {
    fn shared(&mut self, text: &'r Arc<str>) {
        match without_zero(text) {
            Cow::Borrowed(_) => self.add(Arc::clone(text)),
            Cow::Owned(text) => self.add(text),
        }
    }

    fn text(&mut self, text: Option<&'r str>) {
        self.add(text.map(without_zero));
    }

    fn made(&mut self, text: Option<String>) {
        self.add(text);
    }

    fn id(&mut self, id: Option<Uuid>) {
        self.add(id.map(|id| id.to_string()));
    }

    fn int(&mut self, number: Option<i64>) {
        self.add(number);
    }
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
        let column = |(_, kind): &(&str, Kind)| match kind {
            Kind::Text => Array::Text(Vec::with_capacity(rows)),
            Kind::Int => Array::Int(Vec::with_capacity(rows)),
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

impl<'r> Sink<'r> for Arrays<'r> {
    fn shared(&mut self, text: &'r Arc<str>) {
        self.push(Some(without_zero(text)));
    }

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

fn without_zero(text: &str) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}
