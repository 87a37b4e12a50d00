//! One way to speak to either engine: the same SQL text with `$n` placeholders, values of two types.
//! Knows nothing of what is stored, and of the engines only what differs between them.

use futures_util::TryStreamExt;
use gateway_domain::Timestamp;
use gateway_domain::ports::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Connection, Database, Decode, Error, PgConnection, Postgres, Sqlite, SqliteConnection,
    Type,
};
use std::borrow::Cow;
use tokio::time::error::Elapsed;
use uuid::Uuid;

/// A bound parameter. `None` keeps its type, which Postgres wants to know.
#[derive(Clone, Debug)]
pub(crate) enum Value<'v> {
    Text(Option<Cow<'v, str>>),
    Int(Option<i64>),
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(Some(Cow::Borrowed(text)))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Some(Cow::Owned(text)))
    }
}

impl From<Uuid> for Value<'_> {
    fn from(id: Uuid) -> Self {
        id.to_string().into()
    }
}

impl From<Option<Uuid>> for Value<'_> {
    fn from(id: Option<Uuid>) -> Self {
        Self::Text(id.map(|id| Cow::Owned(id.to_string())))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        time.micros().into()
    }
}

impl From<Option<Timestamp>> for Value<'_> {
    fn from(time: Option<Timestamp>) -> Self {
        Self::Int(time.map(Timestamp::micros))
    }
}

#[derive(Debug)]
pub(crate) enum DatabaseRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl DatabaseRow {
    pub(crate) fn columns(&self) -> Columns<'_> {
        Columns { row: self, next: 0 }
    }
}

/// Reads a row from left to right.
#[derive(Debug)]
pub(crate) struct Columns<'r> {
    row: &'r DatabaseRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn text(&mut self) -> Result<&'r str, Error> {
        self.read()
    }

    pub(crate) fn opt_text(&mut self) -> Result<Option<&'r str>, Error> {
        self.read()
    }

    pub(crate) fn int(&mut self) -> Result<i64, Error> {
        self.read()
    }

    pub(crate) fn opt_int(&mut self) -> Result<Option<i64>, Error> {
        self.read()
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Error> {
        parse_uuid(self.text()?)
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    pub(crate) fn opt_uuid(&mut self) -> Result<Option<Uuid>, Error> {
        self.opt_text()?.map(parse_uuid).transpose()
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Error> {
        self.int().map(Timestamp)
    }

    fn read<T>(&mut self) -> Result<T, Error>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        let at = self.next;
        self.next += 1;
        match self.row {
            DatabaseRow::Sqlite(row) => cell(row, at),
            DatabaseRow::Postgres(row) => cell(row, at),
        }
    }
}

fn cell<'r, R, T>(row: &'r R, at: usize) -> Result<T, Error>
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    T: Decode<'r, R::Database> + Type<R::Database>,
{
    row.try_get(at)
}

fn parse_uuid(text: &str) -> Result<Uuid, Error> {
    Uuid::parse_str(text).map_err(|e| Error::Decode(e.into()))
}

/// A borrowed connection, inside a transaction or not.
#[derive(Debug)]
pub(crate) enum Session<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

type Sql = Cow<'static, str>;

impl Session<'_> {
    /// Every row, each decoded as it arrives.
    pub(crate) async fn fetch<T>(
        &mut self,
        sql: impl Into<Sql>,
        values: Vec<Value<'_>>,
        decode: impl Fn(&DatabaseRow) -> Result<T, Error> + Send,
    ) -> Result<Vec<T>, Error>
    where
        T: Send,
    {
        let mut found = Vec::new();
        match self {
            Self::Sqlite(connection) => {
                let mut rows = bound::<Sqlite>(sql.into(), values).fetch(&mut **connection);
                while let Some(row) = rows.try_next().await? {
                    found.push(decode(&DatabaseRow::Sqlite(row))?);
                }
            }
            Self::Postgres(connection) => {
                let mut rows = bound::<Postgres>(sql.into(), values).fetch(&mut **connection);
                while let Some(row) = rows.try_next().await? {
                    found.push(decode(&DatabaseRow::Postgres(row))?);
                }
            }
        }
        Ok(found)
    }

    pub(crate) async fn fetch_int(&mut self, sql: impl Into<Sql>, values: Vec<Value<'_>>) -> Result<i64, Error> {
        let found = self.fetch(sql, values, |row| row.columns().int()).await?;
        found.first().copied().ok_or(Error::RowNotFound)
    }

    pub(crate) async fn fetch_text(&mut self, sql: impl Into<Sql>, values: Vec<Value<'_>>) -> Result<String, Error> {
        let found = self.fetch(sql, values, |row| row.columns().text().map(str::to_owned)).await?;
        found.into_iter().next().ok_or(Error::RowNotFound)
    }

    pub(crate) async fn run(&mut self, sql: impl Into<Sql>, values: Vec<Value<'_>>) -> Result<(), Error> {
        match self {
            Self::Sqlite(connection) => bound::<Sqlite>(sql.into(), values).execute(&mut **connection).await.map(drop),
            Self::Postgres(connection) => {
                bound::<Postgres>(sql.into(), values).execute(&mut **connection).await.map(drop)
            }
        }
    }

    /// Several statements at once, without parameters.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), Error> {
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
        }
    }

    /// A transaction that may write: SQLite takes its write lock now, so that it cannot fail to get it later.
    pub(crate) async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        Ok(match self {
            Self::Sqlite(connection) => Transaction::Sqlite(connection.begin_with("BEGIN IMMEDIATE").await?),
            Self::Postgres(connection) => Transaction::Postgres(connection.begin().await?),
        })
    }
}

/// Rolled back when dropped.
#[derive(Debug)]
pub(crate) enum Transaction<'c> {
    Sqlite(sqlx::Transaction<'c, Sqlite>),
    Postgres(sqlx::Transaction<'c, Postgres>),
}

impl Transaction<'_> {
    pub(crate) fn session(&mut self) -> Session<'_> {
        match self {
            Self::Sqlite(transaction) => Session::Sqlite(&mut *transaction),
            Self::Postgres(transaction) => Session::Postgres(&mut *transaction),
        }
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
            Self::Postgres(transaction) => transaction.commit().await,
        }
    }
}

/// The SQL texts of this crate are written in it; what comes from outside is always a bound value.
fn bound<DB>(sql: Sql, values: Vec<Value<'_>>) -> sqlx::query::Query<'static, DB, DB::Arguments>
where
    DB: Database,
    for<'t> Option<Cow<'t, str>>: sqlx::Encode<'t, DB> + Type<DB>,
    Option<i64>: for<'t> sqlx::Encode<'t, DB> + Type<DB>,
{
    values.into_iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, value| match value {
        Value::Text(text) => query.bind(text),
        Value::Int(number) => query.bind(number),
    })
}

/// A connection taken from a pool for one piece of work.
#[derive(Debug)]
pub(crate) enum Lease {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Lease {
    pub(crate) fn session(&mut self) -> Session<'_> {
        match self {
            Self::Sqlite(connection) => Session::Sqlite(connection),
            Self::Postgres(connection) => Session::Postgres(connection),
        }
    }

    /// Gives the connection back, or drops it when it was still busy as its time ran out: the next
    /// borrower would have to wait for an answer that nobody wants.
    pub(crate) fn finish<T, E: From<StoreError>>(mut self, outcome: Result<Result<T, E>, Elapsed>) -> Result<T, E> {
        match outcome {
            Ok(done) => done,
            Err(_) => {
                if let Self::Postgres(connection) = &mut self {
                    connection.close_on_drop();
                }
                Err(StoreError::Unavailable("the database took too long to answer".to_owned()).into())
            }
        }
    }
}

/// Which failures may pass by themselves.
pub(crate) fn failure(error: &Error) -> StoreError {
    let text = error.to_string();
    match error {
        Error::PoolTimedOut => StoreError::Unavailable("no connection to the database in time".to_owned()),
        Error::Io(_) | Error::Tls(_) | Error::PoolClosed | Error::WorkerCrashed | Error::Protocol(_) => {
            StoreError::Unavailable(text)
        }
        Error::BeginFailed => StoreError::Unavailable(text),
        Error::Database(inner) if inner.is_unique_violation() => {
            StoreError::Conflict(inner.constraint().unwrap_or(inner.message()).to_owned())
        }
        Error::Database(inner) => match inner.code() {
            Some(code) if passes(&code) => StoreError::Unavailable(text),
            _ => StoreError::Broken(text),
        },
        _ => StoreError::Broken(text),
    }
}

/// Postgres: connection, resources, operator intervention, conflicts between transactions, a server that
/// is (still) read-only. SQLite (extended codes; the low byte counts): busy, locked, I/O, disk full, cannot open.
fn passes(code: &str) -> bool {
    if code.len() == 5 {
        return ["08", "53", "57", "58", "40"].iter().any(|class| code.starts_with(class))
            || ["25006", "55P03"].contains(&code);
    }
    code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 10 | 13 | 14))
}

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn what_may_pass_by_itself() {
        for code in ["08006", "57P01", "53300", "40P01", "25006", "5", "517", "6", "13", "14"] {
            assert!(passes(code), "{code}");
        }
        for code in ["42P01", "22021", "23502", "1", "11", "26", "1299"] {
            assert!(!passes(code), "{code}");
        }
    }
}
