//! One suite for every engine behind the ports: what holds on a file must hold in memory and on a real Postgres.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod alerts;
mod assignments;
mod blobs;
mod bodies_outside;
mod claims;
mod columns;
mod configs;
mod counters;
mod exports;
mod feedback;
mod history;
mod jobs;
mod journal;
mod kept_answers;
mod kept_objects;
mod key_uses;
mod keys;
mod lanes;
mod log_days;
mod logs;
mod mcp_accounts;
mod migrations;
mod node_registry;
mod oauth;
mod outage;
mod owned;
mod redis;
mod reseal;
mod sums;
mod tls;
mod transfer;

use gateway_domain::Timestamp;
use gateway_domain::ports::{Batch, Changes, ConfigStore, LogStore, NamedMetadata, Revision, WriteError};
use gateway_domain::resource::Stored;
use gateway_store::{ColumnsUrl, Database, DatabaseOptions, DatabaseUrl, LogsUrl, open, open_logs};
use gateway_testing::{ClickHouse, Postgres};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    File,
    Memory,
    Postgres,
    /// Keeps records alone: what else there is lies in memory then.
    ClickHouse,
}

/// Runs each named test once per engine.
macro_rules! on_every_engine {
    ($($(#[$meta:meta])* $test:ident),+ $(,)?) => {
        on_every_engine!(@ file File: $($test),+);
        on_every_engine!(@ memory Memory: $($test),+);
        on_every_engine!(@ postgres Postgres: $($test),+);
    };
    (@ $module:ident $engine:ident: $($test:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(crate::House::new(crate::Engine::$engine)).await;
                }
            )+
        }
    };
}
pub(crate) use on_every_engine;

/// Runs each named test once per engine that keeps records.
macro_rules! on_log_engines {
    ($($test:ident),+ $(,)?) => {
        crate::on_every_engine!(@ file File: $($test),+);
        crate::on_every_engine!(@ postgres Postgres: $($test),+);
        crate::on_every_engine!(@ clickhouse ClickHouse: $($test),+);
    };
}
pub(crate) use on_log_engines;

/// Runs each named test once per engine that keeps sums beside its records.
macro_rules! on_rollup_engines {
    ($($test:ident),+ $(,)?) => {
        mod rollups {
            use super::*;
            crate::on_every_engine!(@ file File: $($test),+);
            crate::on_every_engine!(@ postgres Postgres: $($test),+);
        }
    };
}
pub(crate) use on_rollup_engines;

/// A place where databases can be opened; what lies behind is gone with it.
#[derive(Debug)]
pub struct House {
    pub engine: Engine,
    pub url: DatabaseUrl,
    text: String,
    dir: TempDir,
    _server: Option<Arc<Postgres>>,
    pub columns: Option<HouseColumns>,
}

/// A database of its own in ClickHouse.
#[derive(Debug)]
pub struct HouseColumns {
    pub server: Arc<ClickHouse>,
    pub url: ColumnsUrl,
    pub name: String,
}

static DATABASES: AtomicU32 = AtomicU32::new(0);

impl House {
    pub fn new(engine: Engine) -> Self {
        let dir = TempDir::new().unwrap();
        let server = (engine == Engine::Postgres).then(Postgres::shared);
        let mut text = String::new();
        let url = match &server {
            Some(server) => {
                let name = format!("house{}", DATABASES.fetch_add(1, Ordering::Relaxed));
                text = server.create(&name);
                DatabaseUrl::parse(&text).unwrap()
            }
            None if engine == Engine::File => DatabaseUrl::sqlite_file(dir.path().join("gateway.db")),
            None => DatabaseUrl::parse("sqlite::memory:").unwrap(),
        };
        let columns = (engine == Engine::ClickHouse).then(|| {
            let server = ClickHouse::shared();
            let name = format!("house{}", DATABASES.fetch_add(1, Ordering::Relaxed));
            let text = server.create(&name);
            HouseColumns { url: ColumnsUrl::parse(&text).unwrap(), server, name }
        });
        Self { engine, url, text, dir, _server: server, columns }
    }

    pub async fn open(&self) -> Database {
        open(&self.url, &options()).await.unwrap()
    }

    /// A plain connection to what lies behind [`Self::open`].
    pub async fn sqlite(&self) -> sqlx::SqliteConnection {
        let url = format!("sqlite:{}", self.path("gateway.db").display());
        <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap()
    }

    pub async fn postgres(&self) -> sqlx::PgConnection {
        <sqlx::PgConnection as sqlx::Connection>::connect(&self.text).await.unwrap()
    }

    /// A store of records, partitioned by day.
    pub async fn logs(&self) -> Arc<dyn LogStore> {
        self.logs_by(None).await
    }

    /// A store of records that keeps sums by some keys of metadata as well.
    pub async fn logs_by(&self, names: Option<Arc<dyn NamedMetadata>>) -> Arc<dyn LogStore> {
        open_logs(&self.logs_url(), &options(), names).await.unwrap()
    }

    pub fn logs_url(&self) -> LogsUrl {
        match self.engine {
            Engine::ClickHouse => LogsUrl::ClickHouse(Box::new(self.columns.as_ref().unwrap().url.clone())),
            Engine::Postgres => LogsUrl::Postgres(self.url.clone()),
            _ => LogsUrl::Files(self.dir.path().join("logs")),
        }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

pub fn options() -> DatabaseOptions {
    DatabaseOptions { pool_size: 4, connect_timeout: Duration::from_secs(2), ..DatabaseOptions::default() }
}

pub fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn row(n: u128, slug: &str) -> Stored {
    Stored {
        kind: "config".into(),
        id: id(n),
        org: id(1_000),
        workspace: Some(id(2_000)),
        slug: slug.into(),
        name: format!("Config {slug}"),
        status: "active".into(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 0,
        doc: "{}".into(),
        created_at: Timestamp(n as i64),
        updated_at: Timestamp(n as i64),
        deleted_at: None,
    }
}

pub fn batch(rows: Vec<Stored>) -> Batch {
    Batch { rows, ..Batch::default() }
}

pub async fn put(database: &Database, seen: Revision, rows: Vec<Stored>) -> Result<Changes, WriteError> {
    database.write(seen, Box::new(move |_| Ok(batch(rows)))).await
}
