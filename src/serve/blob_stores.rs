//! Where large bytes lie: opens the places that the operator named, says whether they answer, and brings what lies
//! elsewhere to the first of them.

use super::{boot, control_runtime};
use crate::cli::ResolvedSettings;
use crate::settings::{Settings, aws};
use crate::{clock, telemetry};
use gateway_domain::ports::{Blobs as _, StoreError};
use gateway_store::{BlobPlaces, Relocated, RowBlobs};
use std::time::{Duration, Instant};

/// How often a long move says how far it is.
const TOLD: Duration = Duration::from_secs(5);

pub(super) fn open(settings: &Settings) -> Result<BlobPlaces, String> {
    open_at(&settings.blob_url, "--blob-url")
}

/// Where what is kept of messages lies; none where that is the log store.
pub(super) fn open_for_bodies(settings: &Settings) -> Result<BlobPlaces, String> {
    open_at(&settings.log_bodies_url, "--log-bodies-url")
}

fn open_at(urls: &[String], flag: &str) -> Result<BlobPlaces, String> {
    let urls = urls.iter().flat_map(|urls| urls.split_whitespace());
    let urls: Vec<String> = urls.map(ToOwned::to_owned).collect();
    BlobPlaces::open(&urls, &aws::of_buckets()).map_err(|e| format!("{flag}: {e}"))
}

/// Asks each of these places whether it answers, for `gateway check`.
pub(super) async fn probe(settings: &Settings) -> Result<(), String> {
    open(settings)?.probe().await.map_err(|e| format!("--blob-url: {e}"))?;
    open_for_bodies(settings)?.probe().await.map_err(|e| format!("--log-bodies-url: {e}"))
}

/// `gateway move blobs`.
pub(crate) fn relocate(resolved: &ResolvedSettings) -> Result<(), String> {
    telemetry::init(resolved.settings.log_format, &resolved.settings.log_level)?;
    let control = control_runtime()?;
    let done = control.block_on(async {
        let blobs = boot::row_blobs(&resolved.settings).await?;
        moved(&blobs).await.map_err(|e| format!("{e}\nWhat was moved stays moved: run it again to go on."))
    })?;
    telemetry::print(&format!(
        "{} pieces ({} bytes) were moved; everything lies where new files go.\n",
        done.pieces, done.bytes
    ));
    Ok(())
}

async fn moved(blobs: &RowBlobs) -> Result<Relocated, StoreError> {
    let mut last = Instant::now();
    let mut told = move |so_far: Relocated| {
        if last.elapsed() >= TOLD {
            last = Instant::now();
            tracing::info!(pieces = so_far.pieces, bytes = so_far.bytes, "moving");
        }
    };
    let done = blobs.relocate(&mut told).await?;
    // Where they lay before; what cannot be removed now is removed by the nodes that can reach it.
    while blobs.collect(clock::now()).await? > 0 {}
    Ok(done)
}
