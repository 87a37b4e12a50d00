//! Files and batches of the gateway's own, where they lie by default: beside the configuration.

use super::boot::Booted;
use crate::batches::{BatchSettings, Batches, LineCallers, PinnedConfigs, SharedBatches, job_of};
use crate::bookings::{BatchWatches, WatchRows, WatchSettings, WatchTimes};
use crate::downloads::Downloads;
use crate::metrics::Metrics;
use crate::settings::Settings;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub(super) fn open(
    settings: &Settings,
    booted: &Booted,
    (metrics, control): (&Metrics, &Runtime),
    downloads: &Arc<Downloads>,
) -> Result<SharedBatches, String> {
    let told = BatchSettings {
        lease: lease(settings),
        parallel: settings.batch_parallel.max(1),
        retries: u32::try_from(settings.batch_retries).unwrap_or(u32::MAX),
        poll: settings.batch_poll.0.max(Duration::from_millis(100)),
        most_answer: settings.max_body.0.min(16 << 20),
        job: job_of(settings.deployment.as_deref()),
    };
    let most = settings.file_store_max.0;
    let help = "Bytes of files, results and exports that may be kept of one organisation";
    let watched = metrics.watch("gateway_file_store_max_bytes", help, move || most as u64);
    watched.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let callers = Arc::<LineCallers>::default();
    let under_way = callers.clone();
    let help = "Lines of batches that are under way, --batch-parallel of each of 4 batches at most";
    let watched = metrics.watch("gateway_batch_lines", help, move || under_way.under_way());
    watched.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let (jobs, owned) = (Arc::new(booted.database.clone()), Arc::new(booted.database.clone()));
    let history = Arc::new(booted.database.clone());
    let configs = PinnedConfigs { history, vault: booted.vault.clone(), trusted: booted.trusted.clone() };
    let (blobs, runtime) = (booted.blobs(), control.handle().clone());
    let downloads = downloads.clone();
    let made = Notify::new();
    Ok(Arc::new(Batches { jobs, blobs, owned, callers, configs, settings: told, runtime, made, downloads }))
}

fn lease(settings: &Settings) -> Duration {
    settings.batch_lease.0.max(Duration::from_secs(1))
}

/// Batches that clients make at providers, as they are counted though nobody looks at them.
pub(super) fn watches(
    settings: &Settings,
    booted: &Booted,
    (metrics, control): (&Metrics, &Runtime),
) -> Result<BatchWatches, String> {
    let (jobs, vault) = (Arc::new(booted.database.clone()), booted.vault.clone());
    let rows = WatchRows { jobs, vault, runtime: control.handle().clone() };
    let every = match settings.batch_watch.0 {
        Duration::ZERO => Duration::ZERO,
        every => every.max(Duration::from_millis(100)),
    };
    let times = WatchTimes { every, lasts: settings.batch_watch_time.0 };
    let told = WatchSettings { times, lease: lease(settings), deployment: settings.deployment.as_deref() };
    BatchWatches::new(rows, told, metrics).map_err(|e| format!("metrics cannot be set up: {e}"))
}
