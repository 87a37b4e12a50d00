//! What realtime sessions and calls need of the process.

use super::boot::Booted;
use super::process::Process;
use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::proxy::{CallRows, LiveCounts, LiveParts, NotedCalls, PartClaims, WatchSeats};
use crate::settings::Settings;
use crate::writer::Records;
use std::sync::Arc;
use tokio::runtime::Runtime;

pub(super) struct SessionNeeds<'a> {
    pub(super) metrics: &'a Metrics,
    pub(super) control: &'a Runtime,
    pub(super) process: &'a Arc<Process>,
    pub(super) records: Records,
    pub(super) peers: Peers,
}

pub(super) fn open(settings: &Settings, booted: &Booted, needs: SessionNeeds<'_>) -> Result<LiveParts, String> {
    let SessionNeeds { metrics, control, process, records, peers } = needs;
    let unmeasured = |e: prometheus::Error| format!("metrics cannot be set up: {e}");
    let counts = LiveCounts::new(metrics).map_err(unmeasured)?;
    let seats = WatchSeats::new(settings.realtime_calls, metrics).map_err(unmeasured)?;
    let claims = PartClaims { rows: Arc::new(booted.database.clone()) };
    let (jobs, vault) = (Arc::new(booted.database.clone()), booted.vault.clone());
    let rows = CallRows { jobs, vault, runtime: control.handle().clone() };
    let noted = NotedCalls::new(rows, settings.deployment.as_deref(), peers, metrics).map_err(unmeasured)?;
    let (idle, longest) = (settings.realtime_idle.0, settings.realtime_max_time.0);
    let process = process.clone();
    let draining = Box::new(move || process.is_draining());
    let live = booted.live.clone();
    Ok(LiveParts { live, records, counts, idle, longest, claims, seats, noted, draining })
}
