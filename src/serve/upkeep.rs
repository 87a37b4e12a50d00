//! Work that nobody asks for: rotations that are due, transitions that end, tombstones that every node has long heard
//! of, costs of records whose price came later, jobs and blobs that are over. Each node that serves the Admin API does
//! it; what one has done, the others find done.

use super::garbage_collection::Leftovers;
use crate::clock;
use gateway_admin::{App, maintain, reprice};
use gateway_store::Database;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

const ROUND: Duration = Duration::from_secs(30);
/// How often costs are looked for though no price has come.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
const PURGE: Duration = Duration::from_secs(3600);
/// Longer than a node stays cut off without being started anew.
const TOMBSTONES_MICROS: i64 = 90 * 86_400 * 1_000_000;

pub(super) fn start(runtime: &Handle, app: App, database: Database, kept: Leftovers) {
    runtime.spawn(async move {
        let mut purged: Option<Instant> = None;
        let mut priced = None;
        loop {
            maintain(&app).await;
            kept.round(clock::now()).await;
            let revision = app.live.snapshot().revision;
            // A price comes with a change of the configuration, or with a new version of the program; a record that
            // was written before it may reach the store long after.
            let looked: Option<(i64, Instant)> = priced;
            if looked.is_none_or(|(at, when)| at != revision || when.elapsed() >= LOOK_AGAIN) {
                match reprice(&app).await {
                    Ok(0) => priced = Some((revision, Instant::now())),
                    Ok(records) => {
                        tracing::info!(records, "records got their cost");
                        priced = Some((revision, Instant::now()));
                    }
                    Err(e) => tracing::warn!(error = %e, "records without a cost have to wait"),
                }
            }
            if purged.is_none_or(|at| at.elapsed() >= PURGE) {
                purged = Some(Instant::now());
                if let Err(e) = database.purge(clock::now().plus_micros(-TOMBSTONES_MICROS)).await {
                    tracing::warn!(error = %e, "old tombstones could not be forgotten");
                }
            }
            tokio::time::sleep(ROUND).await;
        }
    });
}
