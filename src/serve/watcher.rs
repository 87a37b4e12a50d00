//! Follows the database: wakes on a notice or a poll, reads what changed, swaps. The poll is the truth, the
//! notice only speed. While the database cannot be read the last good state serves on.

use super::boot::{self, Booted};
use super::process::Process;
use crate::clock;
use gateway_domain::ports::{Changes, ConfigStore, Live as _, Revision};
use gateway_policies::Ledger;
use gateway_store::LastGood;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Ended rate-limit windows are forgotten this often on a quiet node.
const SWEEP: Duration = Duration::from_secs(60);
/// The shortest pause between two looks at a database that was away at start.
const REJOIN: Duration = Duration::from_secs(1);

pub(crate) fn start(runtime: &Handle, booted: &Booted, poll: Duration, process: Arc<Process>, ledger: Arc<Ledger>) {
    let (store, live) = (booted.store.clone(), booted.live.clone());
    let last_good = booted.last_good.clone();
    let revision = booted.revision;
    let (database, vault, away) = (booted.database.clone(), booted.vault.clone(), booted.away);
    runtime.spawn(async move {
        if away {
            process.set_stale(true);
            while let Err(why) = boot::rejoin(&database, &*vault).await {
                tracing::warn!(%why, "the database cannot be used yet; serving the last good configuration");
                tokio::time::sleep(poll.max(REJOIN)).await;
            }
        }
        let mut swept = Instant::now();
        let mut unreadable = false;
        // What this node wrote itself is in force already, but must be kept on disk too.
        let mut kept = revision;
        loop {
            tokio::select! {
                () = store.wake() => {}
                () = tokio::time::sleep(poll) => {}
            }
            match follow(&*store, &live, kept).await {
                Ok(changed) => {
                    // Without new rows the ones that could not be read are still the same.
                    unreadable = if changed.rows.is_some() { changed.problems } else { unreadable };
                    process.set_stale(unreadable);
                    kept = changed.revision;
                    keep(last_good.as_deref(), changed.rows).await;
                }
                Err(e) => {
                    tracing::warn!(error = %e, "the database cannot be read; serving the last good configuration");
                    process.set_stale(true);
                }
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                ledger.sweep(clock::now());
            }
        }
    });
}

struct ReadChanges {
    revision: Revision,
    rows: Option<Changes>,
    problems: bool,
}

async fn keep(last_good: Option<&LastGood>, rows: Option<Changes>) {
    if let (Some(last_good), Some(rows)) = (last_good, rows)
        && let Err(e) = last_good.apply(&rows).await
    {
        tracing::warn!(error = %e, "last-good.db could not be written");
    }
}

async fn follow(
    store: &dyn ConfigStore,
    live: &crate::runtime_config::ConfigHandle,
    seen: Revision,
) -> Result<ReadChanges, gateway_domain::ports::StoreError> {
    let changes = store.since(seen).await?;
    let problems = live.publish(&changes);
    for p in &problems {
        tracing::error!(kind = p.kind, id = %p.id, problem = p.message, "a row cannot be read; what stood before stays in force");
    }
    let revision = changes.revision;
    let rows = (!changes.rows.is_empty()).then_some(changes);
    Ok(ReadChanges { revision, rows, problems: !problems.is_empty() })
}
