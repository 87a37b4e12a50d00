//! Exports of logs, made one at a time by each node that serves the Admin API: whoever is free takes the next, and goes
//! on with what another left.

use crate::clock;
use gateway_admin::{App, EXPORT_LEASE, run_export};
use gateway_domain::export::EXPORT_KIND;
use std::time::Duration;
use tokio::runtime::Handle;

/// The pause between two looks while there is nothing to do.
const IDLE: Duration = Duration::from_secs(1);
/// The pause before the next try when the store was away.
const SOON: Duration = Duration::from_secs(10);
/// An export that nobody touched for so long is forgotten; its file went long before.
const KEPT_MICROS: i64 = 30 * 86_400 * 1_000_000;
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

pub(super) fn start(runtime: &Handle, app: App) {
    let forgetful = app.clone();
    runtime.spawn(async move {
        loop {
            let pause = match app.jobs.take(&[EXPORT_KIND], EXPORT_LEASE).await {
                Ok(Some(leased)) => {
                    run_export(&app, leased).await;
                    continue;
                }
                Ok(None) => IDLE,
                Err(error) => {
                    tracing::warn!(%error, "exports have to wait");
                    SOON
                }
            };
            tokio::time::sleep(pause).await;
        }
    });
    runtime.spawn(async move {
        loop {
            if let Err(error) = forgetful.exports.forget_exports(clock::now().plus_micros(-KEPT_MICROS)).await {
                tracing::warn!(%error, "old exports could not be forgotten");
            }
            tokio::time::sleep(FORGET_EVERY).await;
        }
    });
}
