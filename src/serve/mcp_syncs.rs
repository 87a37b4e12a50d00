//! MCP servers asked again what they offer, by each node that serves the Admin API: whoever is free takes what is due.

use crate::metrics::Metrics;
use gateway_admin::{App, MCP_SYNC_JOB, MCP_SYNC_LEASE, McpSyncOutcome, hasten_mcp_syncs, plan_mcp_syncs, sync_mcp};
use prometheus::{IntCounterVec, IntGauge, Opts};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Servers that one node asks at the same time.
const AT_ONCE: usize = 4;
/// The pause between two looks while there is nothing to do.
const IDLE: Duration = Duration::from_secs(1);
/// The pause before the next try when the store was away.
const SOON: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_secs(1);

struct McpSyncCounts {
    runs: IntCounterVec,
    planned: IntGauge,
}

impl McpSyncCounts {
    fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let help = "Runs in which MCP servers were asked again what they offer";
        let counts = Self {
            runs: IntCounterVec::new(Opts::new("gateway_mcp_syncs_total", help), &["outcome"])?,
            planned: IntGauge::new(
                "gateway_mcp_integrations",
                "MCP integrations that are asked again, 10,000 of an organisation at most",
            )?,
        };
        // There from the start: what is not there cannot be seen to grow.
        for outcome in McpSyncOutcome::ALL {
            counts.runs.with_label_values(&[outcome.name()]).inc_by(0);
        }
        metrics.register(Box::new(counts.runs.clone()))?;
        metrics.register(Box::new(counts.planned.clone()))?;
        Ok(counts)
    }
}

/// `every` zero: nobody is asked but when somebody wants it.
pub(super) fn start(runtime: &Handle, app: &App, every: Duration, metrics: &Metrics) -> Result<(), String> {
    let counts = McpSyncCounts::new(metrics).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    if every.is_zero() {
        return Ok(());
    }
    let (every, counts) = (every.max(SHORTEST), Arc::new(counts));
    runtime.spawn(plan(app.clone(), every, counts.clone()));
    for _ in 0..AT_ONCE {
        runtime.spawn(work(app.clone(), every, counts.clone()));
    }
    Ok(())
}

/// Brings syncs forward that servers asked for. It runs on every node: a server says on whichever stream is open that
/// its lists changed.
pub(super) fn hasten(runtime: &Handle, app: &App) {
    if app.wanted_syncs.is_none() {
        return;
    }
    let app = app.clone();
    runtime.spawn(async move {
        loop {
            let pause = match hasten_mcp_syncs(&app).await {
                Ok(()) => IDLE,
                Err(error) => {
                    tracing::warn!(%error, "MCP servers that changed have to wait to be asked again");
                    SOON
                }
            };
            tokio::time::sleep(pause).await;
        }
    });
}

async fn plan(app: App, every: Duration, counts: Arc<McpSyncCounts>) {
    let (mut planned, mut looked) = (BTreeSet::new(), None);
    loop {
        let revision = app.live.snapshot().revision;
        let mut pause = IDLE;
        if looked != Some(revision) {
            match plan_mcp_syncs(&app, &mut planned, every).await {
                Ok(()) => looked = Some(revision),
                Err(problem) => {
                    tracing::warn!(message = problem.message, "MCP servers cannot be planned to be asked again");
                    pause = SOON;
                }
            }
            counts.planned.set(i64::try_from(planned.len()).unwrap_or(i64::MAX));
        }
        tokio::time::sleep(pause).await;
    }
}

async fn work(app: App, every: Duration, counts: Arc<McpSyncCounts>) {
    loop {
        let pause = match app.jobs.take(&[MCP_SYNC_JOB], MCP_SYNC_LEASE).await {
            Ok(Some(leased)) => {
                let outcome = Box::pin(sync_mcp(&app, leased, every)).await;
                counts.runs.with_label_values(&[outcome.name()]).inc();
                continue;
            }
            Ok(None) => IDLE,
            Err(error) => {
                tracing::warn!(%error, "MCP servers have to wait to be asked again");
                SOON
            }
        };
        tokio::time::sleep(pause).await;
    }
}
