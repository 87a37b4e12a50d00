//! Opening a database: the pools, what each engine needs set, and errors that an operator can act on.

use crate::availability::{CallAllowance, Reach};
use crate::filter::Filter;
use crate::migration::{self, MigrateError};
use crate::notices::Notices;
use crate::session::{DatabaseRow, Lease, Value, failure};
use crate::url::{DatabaseUrl, Engine};
use gateway_domain::ports::StoreError;
use gateway_domain::record::Page;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Error, PgConnection};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Connections to Postgres; SQLite has one that writes and at most four that read.
    pub pool_size: u32,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long one piece of work may take; over it the call fails as unavailable.
    pub call_timeout: Duration,
    /// Bring an older database up to date. Without it such a database is refused.
    pub migrate: bool,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            pool_size: 12,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            migrate: true,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("{database} cannot be reached: {why}")]
    Unreachable { database: DatabaseUrl, why: String },
    #[error("{database} refused the user or password")]
    Refused { database: DatabaseUrl },
    #[error("{database}: the server has no such database")]
    NoDatabase { database: DatabaseUrl },
    #[error("{database} cannot be opened: {why}")]
    Failed { database: DatabaseUrl, why: String },
    #[error("{place}: {why}")]
    Columns { place: String, why: crate::logs::BadColumnsUrl },
    #[error("{database}: {source}")]
    Migrate { database: DatabaseUrl, source: MigrateError },
}

/// A handle that is cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Database(Arc<DatabaseInner>);

struct DatabaseInner {
    pools: Pools,
    notices: Notices,
    shown: DatabaseUrl,
    call_timeout: Duration,
    reach: Arc<Reach>,
    /// The database's mark of the master key that this node was found to have.
    mark: Mutex<Option<String>>,
}

#[derive(Clone)]
pub(crate) enum Pools {
    /// SQLite lets one write at a time: a pool of one queues writers fairly instead of letting them poll.
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
    },
    Postgres(PgPool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// Connects, and sees to it that the tables have the shape this program knows.
pub async fn open(url: &DatabaseUrl, options: &DatabaseOptions) -> Result<Database, OpenError> {
    if let Engine::Postgres(connect) = &url.0 {
        Box::pin(dial(&dressed(connect), options, url)).await?;
    }
    let database = open_later(url, options).await?;
    let ready = if options.migrate { migration::migrate(&database).await } else { migration::verify(&database).await };
    ready.map_err(|source| OpenError::Migrate { database: url.clone(), source })?;
    Ok(database)
}

/// A handle to a server that may be away: nothing is dialled or checked, and calls fail as unavailable until
/// the server is there. The caller then runs [`migrate`](crate::migrate) and checks the key before it writes.
/// A SQLite file is opened as by [`open`], save for its tables.
pub async fn open_later(url: &DatabaseUrl, options: &DatabaseOptions) -> Result<Database, OpenError> {
    let reach = Arc::<Reach>::default();
    let (pools, notices) = match &url.0 {
        Engine::File(path) => (sqlite_file(path, options, url).await?, Notices::local()),
        Engine::Memory => (sqlite_memory(options, url).await?, Notices::local()),
        Engine::Postgres(connect) => {
            let connect = dressed(connect);
            let size = options.pool_size.max(1);
            let pool = PgPoolOptions::new().max_connections(size).acquire_timeout(options.connect_timeout);
            let pool = pool.after_connect(|connection, _| Box::pin(plan_quickly(connection)));
            let pool = pool.connect_lazy_with(connect.clone());
            (Pools::Postgres(pool), Notices::listen(connect, options.connect_timeout, reach.clone()))
        }
    };
    let (shown, call_timeout, mark) = (url.clone(), options.call_timeout, Mutex::default());
    Ok(Database(Arc::new(DatabaseInner { pools, notices, shown, call_timeout, reach, mark })))
}

/// A page of a table's rows. `select` and `order` are texts of this crate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAsked {
    pub(crate) table: &'static str,
    pub(crate) select: &'static str,
    pub(crate) order: &'static str,
    /// Zero-based, and at most 1,000 rows.
    pub(crate) page: u64,
    pub(crate) size: u64,
}

impl Database {
    /// Waits its full time for a connection.
    pub(crate) async fn lease(&self, side: Side) -> Result<Lease, StoreError> {
        let began = Instant::now();
        let leased = self.acquire(side).await.map_err(|e| failure(&e));
        self.noted(began, leased.as_ref().err());
        leased
    }

    /// Gives a connection to a call that somebody waits for: fails at once while the server is known to be away.
    pub(crate) async fn lease_soon(&self, side: Side) -> Result<Lease, StoreError> {
        match self.0.reach.patience() {
            CallAllowance::Full => self.lease(side).await,
            CallAllowance::Within(time) => {
                let began = Instant::now();
                timeout(time, self.lease(side)).await.unwrap_or_else(|_| {
                    let error = failure(&Error::PoolTimedOut);
                    self.noted(began, Some(&error));
                    Err(error)
                })
            }
            CallAllowance::None(why) => Err(StoreError::Unavailable(why)),
        }
    }

    /// A file is never away, and a pool whose connections are all at work waits for them, not for the server.
    fn noted(&self, began: Instant, failed: Option<&StoreError>) {
        if let Pools::Postgres(pool) = &self.0.pools
            && (failed.is_none() || pool.size() < pool.options().get_max_connections())
        {
            self.0.reach.leased(began.into_std(), failed);
        }
    }

    /// Boxed, since waiting for a connection is kilobytes of state that all callers would carry in their futures.
    async fn acquire(&self, side: Side) -> Result<Lease, Error> {
        match &self.0.pools {
            Pools::Sqlite { read, .. } if side == Side::Read => Box::pin(read.acquire()).await.map(Lease::Sqlite),
            Pools::Sqlite { write, .. } => Box::pin(write.acquire()).await.map(Lease::Sqlite),
            Pools::Postgres(pool) => Box::pin(pool.acquire()).await.map(Lease::Postgres),
        }
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.0.reach
    }

    /// Why it does less than it should, as far as the last calls told.
    pub fn trouble(&self) -> Option<String> {
        self.0.reach.trouble()
    }

    /// One statement that reads, within its time.
    pub(crate) async fn rows<T: Send>(
        &self,
        sql: impl Into<Cow<'static, str>> + Send,
        values: Vec<Value<'_>>,
        decode: impl Fn(&DatabaseRow) -> Result<T, Error> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let lease = self.lease_soon(Side::Read).await?;
        Self::rows_within(lease, self.call_timeout(), sql, values, decode).await
    }

    pub(crate) async fn rows_within<T: Send>(
        mut lease: Lease,
        limit: Duration,
        sql: impl Into<Cow<'static, str>> + Send,
        values: Vec<Value<'_>>,
        decode: impl Fn(&DatabaseRow) -> Result<T, Error> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let read = async { lease.session().fetch(sql, values, decode).await.map_err(|e| failure(&e)) };
        let outcome = timeout(limit, read).await;
        lease.finish(outcome)
    }

    /// The total is counted apart from the page: a record that arrives between the two does no harm.
    pub(crate) async fn page<T: Send>(
        &self,
        asked: PageAsked,
        filter: Filter<'_>,
        decode: impl Fn(&DatabaseRow) -> Result<T, Error> + Send,
    ) -> Result<Page<T>, StoreError> {
        filter.check()?;
        let PageAsked { table, select, order, page, size } = asked;
        let (count, values) = filter.count(table);
        let total = self.rows(count, values, |row| row.columns().int()).await?;
        let (sql, values) = filter.page(select, order, page, size.min(1_000));
        let total = total.first().and_then(|n| u64::try_from(*n).ok()).unwrap_or_default();
        Ok(Page { rows: self.rows(sql, values, decode).await?, ..Page::of(total) })
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.0.call_timeout
    }

    pub(crate) fn remember_mark(&self, mark: String) {
        *self.0.mark.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark);
    }

    /// `None`: the key was never checked.
    pub(crate) fn mark(&self) -> Option<String> {
        self.0.mark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.0.notices
    }

    /// Lets SQLite fold its journal into the file; later calls fail as unavailable.
    pub async fn close(&self) {
        match &self.0.pools {
            Pools::Sqlite { read, write } => {
                read.close().await;
                write.close().await;
            }
            Pools::Postgres(pool) => pool.close().await,
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.0.shown).finish()
    }
}

fn tuned(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .synchronous(SqliteSynchronous::Normal)
        .pragma("cache_size", "-16000")
        .pragma("wal_autocheckpoint", "4000")
        .pragma("temp_store", "memory")
        .row_buffer_size(512)
        .disable_statement_logging()
}

async fn sqlite_file(path: &Path, options: &DatabaseOptions, url: &DatabaseUrl) -> Result<Pools, OpenError> {
    create_private(path).map_err(|source| OpenError::Create { path: path.to_owned(), source })?;
    let connect = tuned(SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal));
    let write = first_connection(&connect, options).await.map_err(|e| refusal(&e, url))?;
    Ok(Pools::Sqlite { read: kept(options).max_connections(4).connect_lazy_with(connect), write })
}

/// Processes that make a file at once stand in each other's way while it turns to WAL: SQLite then refuses at once,
/// whatever its busy timeout.
async fn first_connection(connect: &SqliteConnectOptions, options: &DatabaseOptions) -> Result<SqlitePool, Error> {
    let until = Instant::now() + options.call_timeout;
    loop {
        match Box::pin(kept(options).max_connections(1).connect_with(connect.clone())).await {
            Err(e) if is_busy(&e) && Instant::now() < until => sleep(Duration::from_millis(10)).await,
            done => return done,
        }
    }
}

/// `SQLITE_BUSY` and its extended codes, whose low byte it is.
fn is_busy(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// A connection to a file does not go bad with age, and holds statements worth keeping. One whose transaction did not
/// end is thrown away: on a full disk SQLite ends it by itself, the roll-back then fails, and the connection is taken
/// for one inside a transaction for ever.
fn kept(options: &DatabaseOptions) -> SqlitePoolOptions {
    pool(options).after_release(|connection, _| {
        Box::pin(async move {
            // The ping is answered only after the roll-back, which nobody waited for.
            connection.ping().await?;
            Ok(!connection.is_in_transaction())
        })
    })
}

fn pool(options: &DatabaseOptions) -> SqlitePoolOptions {
    let pool = SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None).test_before_acquire(false);
    pool.acquire_timeout(options.call_timeout)
}

/// One connection is the database: it must neither be closed nor be joined by a second one.
async fn sqlite_memory(options: &DatabaseOptions, url: &DatabaseUrl) -> Result<Pools, OpenError> {
    let connect = tuned(SqliteConnectOptions::new().in_memory(true));
    let pool = Box::pin(kept(options).max_connections(1).connect_with(connect)).await;
    let pool = pool.map_err(|e| refusal(&e, url))?;
    Ok(Pools::Sqlite { read: pool.clone(), write: pool })
}

fn dressed(connect: &PgConnectOptions) -> PgConnectOptions {
    let named = match connect.get_application_name() {
        Some(_) => connect.clone(),
        None => connect.clone().application_name("gateway"),
    };
    named.disable_statement_logging()
}

/// Postgres compiles a query that it thinks costs much, and one over ninety partitions is such: that takes longer than
/// to read their sums. No query of the gateway gains by it. A pooler in between may not hear of it, or refuse, which is
/// no harm.
async fn plan_quickly(connection: &mut PgConnection) -> Result<(), Error> {
    let _ = sqlx::raw_sql("SET jit = off").execute(connection).await;
    Ok(())
}

/// The pool repeats a refused connection until its time is up and forgets why: so look first.
async fn dial(connect: &PgConnectOptions, options: &DatabaseOptions, url: &DatabaseUrl) -> Result<(), OpenError> {
    let first = timeout(options.connect_timeout, connect.connect()).await;
    let first = first.map_err(|_| OpenError::Unreachable {
        database: url.clone(),
        why: format!("no answer within {} s", options.connect_timeout.as_secs_f32()),
    })?;
    let first = first.map_err(|e| refusal(&e, url))?;
    let _ = first.close().await;
    Ok(())
}

fn refusal(error: &Error, url: &DatabaseUrl) -> OpenError {
    let database = url.clone();
    let code = error.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
    match (error, code.as_deref()) {
        (_, Some("28P01" | "28000")) => OpenError::Refused { database },
        (_, Some("3D000")) => OpenError::NoDatabase { database },
        (Error::Io(e), _) => OpenError::Unreachable { database, why: e.to_string() },
        (Error::Tls(e), _) => OpenError::Unreachable { database, why: format!("TLS: {e}") },
        (_, Some(code)) if code.starts_with("57") || code.starts_with("53") => {
            OpenError::Unreachable { database, why: error.to_string() }
        }
        _ => OpenError::Failed { database, why: error.to_string() },
    }
}

/// The file holds sealed secrets and hashes of keys: others on the machine have no business in it.
/// SQLite gives its journal files the mode of the database.
fn create_private(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).map(drop)
}
