//! Upkeep of records, on every node: days that are over their time are dropped, and records of a version before
//! partitions are moved to where records go now. What one node has done, the others find done.

use crate::clock;
use crate::settings::Settings;
use gateway_domain::Timestamp;
use gateway_domain::ports::{Feedbacks, LogStore, RecordClaims};
use gateway_store::{Database, DatabaseOptions, DatabaseUrl};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const ROUND: Duration = Duration::from_secs(3600);
/// The pause before the next try when the store was away.
const SOON: Duration = Duration::from_secs(30);
const DAY_MICROS: i64 = 86_400 * 1_000_000;
/// How long a record's id is remembered: a record that a client sends again in that time is the same one.
const CLAIMS_MICROS: i64 = 7 * DAY_MICROS;

pub(super) struct LogUpkeep {
    pub(super) logs: Arc<dyn LogStore>,
    pub(super) feedbacks: Arc<dyn Feedbacks>,
    pub(super) claims: Arc<dyn RecordClaims>,
    /// Where the old table may hold records.
    pub(super) old: Old,
    /// Days; 0 is for ever.
    pub(super) keep_bodies: u64,
    pub(super) keep_records: u64,
}

pub(super) enum Old {
    /// A file that had nothing but records.
    File(PathBuf),
    Table(Database),
}

impl LogUpkeep {
    pub(super) fn new(logs: Arc<dyn LogStore>, database: &Database, is_sqlite: bool, settings: &Settings) -> Self {
        let old = if is_sqlite { Old::File(settings.data_dir.join("logs.db")) } else { Old::Table(database.clone()) };
        let (feedbacks, claims) = (Arc::new(database.clone()), Arc::new(database.clone()));
        Self {
            logs,
            feedbacks,
            claims,
            old,
            keep_bodies: settings.log_retention_days,
            keep_records: settings.metrics_retention_days,
        }
    }

    pub(super) fn start(self, runtime: &Handle) {
        runtime.spawn(async move {
            loop {
                let done = self.round(clock::now()).await;
                let pause = if let Err(why) = done {
                    tracing::warn!(%why, "upkeep of records has to wait");
                    SOON
                } else {
                    ROUND
                };
                tokio::time::sleep(pause).await;
            }
        });
    }

    async fn round(&self, now: Timestamp) -> Result<(), String> {
        let before = |days| match days {
            0 => Timestamp(i64::MIN),
            days => now.plus_micros(i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(-DAY_MICROS)),
        };
        let dropped = self.logs.expire(before(self.keep_bodies), before(self.keep_records)).await;
        let dropped = dropped.map_err(|e| e.to_string())?;
        if dropped > 0 {
            tracing::info!(days = dropped, "records that were kept long enough are dropped");
        }
        while self.feedbacks.forget_feedback(before(self.keep_records)).await.map_err(|e| e.to_string())? > 0 {}
        let claims = now.plus_micros(-CLAIMS_MICROS);
        while self.claims.forget_claims(claims).await.map_err(|e| e.to_string())? > 0 {}
        // An hour later no node writes to a day any more that began before this version came.
        let made_up = self.logs.make_up(now.plus_micros(-3_600_000_000)).await.map_err(|e| e.to_string())?;
        if made_up > 0 {
            tracing::info!(days = made_up, "records of an earlier version were added up");
        }
        let moved = match &self.old {
            Old::Table(database) => database.move_old_records(&*self.logs).await.map_err(|e| e.to_string())?,
            Old::File(path) if path.exists() => self.empty(path).await?,
            Old::File(_) => 0,
        };
        if moved > 0 {
            tracing::info!(records = moved, "records were moved to the store that is partitioned by day");
        }
        Ok(())
    }

    async fn empty(&self, path: &Path) -> Result<u64, String> {
        let (url, options) = (DatabaseUrl::sqlite_file(path), DatabaseOptions::default());
        let old = gateway_store::open(&url, &options).await.map_err(|e| e.to_string())?;
        let moved = old.move_old_records(&*self.logs).await.map_err(|e| e.to_string())?;
        old.close().await;
        for tail in ["-wal", "-shm", ""] {
            let mut file = path.as_os_str().to_owned();
            file.push(tail);
            match std::fs::remove_file(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.to_string()),
                _ => {}
            }
        }
        Ok(moved)
    }
}
