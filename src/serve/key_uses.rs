//! Stores when keys were last used, behind the requests: every two seconds what was noted meanwhile.

use super::boot::Booted;
use crate::metrics::Metrics;
use gateway_store::KeyUseLog;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const ROUND: Duration = Duration::from_secs(2);
/// Keys that may wait for the database.
const MOST_WAITING: usize = 100_000;

pub(super) fn start(runtime: &Handle, booted: &Booted, metrics: &Metrics) -> Result<Arc<KeyUseLog>, String> {
    let uses = Arc::new(KeyUseLog::new(booted.database.clone(), MOST_WAITING));
    watch(metrics, &uses).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let flushed = uses.clone();
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(ROUND).await;
            if let Err(e) = flushed.flush().await {
                tracing::debug!(error = %e, "when keys were last used has to wait");
            }
        }
    });
    Ok(uses)
}

fn watch(metrics: &Metrics, uses: &Arc<KeyUseLog>) -> Result<(), prometheus::Error> {
    let (waiting, dropped) = (uses.clone(), uses.clone());
    let help = "Keys whose last use waits to be stored, 100,000 at most";
    metrics.watch("gateway_key_uses_waiting", help, move || waiting.waiting())?;
    let help = "Uses of keys that were not noted, as too many waited";
    metrics.watch("gateway_key_uses_dropped", help, move || dropped.dropped())
}
