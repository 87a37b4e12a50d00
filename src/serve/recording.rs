//! Opens what records what is done: the journal, the writer and the shipper, what limits have counted, and who was not
//! let in.

use super::boot::Booted;
use super::{log_headers, usage_checkpoint};
use crate::auth_failures::Strangers;
use crate::bookings::BookedRecords;
use crate::health::HealthComponents;
use crate::metrics::Metrics;
use crate::otlp::Otlp;
use crate::own_records::OwnRecords;
use crate::record_health;
use crate::settings::Settings;
use crate::usage_checkpoint::{UsageCheckpoint, UsageCounting};
use crate::writer::{RecordPath, RecordQueues, Records, WithOpinions, Writer, WriterTrouble};
use gateway_domain::denied_caller::TurnedAway;
use gateway_store::journal::Journal;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;

/// What records what is done, and who was not let in.
pub(super) struct Recording {
    pub(super) records: Records,
    /// Records that clients send themselves.
    pub(super) own: OwnRecords,
    pub(super) writer: Writer,
    pub(super) accounts: Arc<UsageCheckpoint>,
    /// Records of what is counted after its call, such as lines of a provider's batch.
    pub(super) booked_records: BookedRecords,
    pub(super) door: Arc<Strangers>,
    /// Callers that wait for their row of the audit trail.
    pub(super) rows: Receiver<TurnedAway>,
}

/// Where it is told how records do, and what is in them.
pub(super) struct ReportedTo<'a> {
    pub(super) metrics: &'a Metrics,
    pub(super) health: &'a HealthComponents,
    pub(super) otlp: Option<Otlp>,
}

pub(super) fn start(
    settings: &Settings,
    booted: &Booted,
    reported: ReportedTo<'_>,
    counting: UsageCounting,
    control: &Runtime,
) -> Result<Recording, String> {
    let ReportedTo { metrics, health: parts, otlp } = reported;
    let told = Strangers::new(metrics, settings.access_log);
    let (door, strangers) = told.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let dir = settings.data_dir.join("journal");
    let opened = Journal::open(&dir, settings.journal_max.0 as u64);
    let (journal, shipper) = opened.map_err(|e| format!("journal {}: {e}", dir.display()))?;
    let accounts = usage_checkpoint::open(booted, settings, counting, &journal, control)?;
    let trouble = WriterTrouble::default();
    record_health::report(parts, metrics, &trouble);
    let (gauge, are_off) = (journal.gauge(), settings.log_store_url.as_deref() == Some("off:"));
    let way = RecordPath {
        journal,
        shipper,
        store: Arc::new(WithOpinions::new(booted.logs.clone(), Arc::new(booted.database.clone()))),
        ledger: Some(accounts.clone()),
        runtime: control.handle().clone(),
        metrics: metrics.clone(),
        access_log: settings.access_log,
        strangers: strangers.lines,
        off: are_off,
        otlp,
        trouble,
    };
    let (queues, writer) = Writer::start(way).map_err(|e| format!("cannot start the record writer: {e}"))?;
    let RecordQueues { records, awaited } = queues;
    let booked_records = BookedRecords {
        queue: awaited.clone(),
        store: booted.logs.clone(),
        journal: gauge,
        node: accounts.node().to_owned(),
        are_off,
    };
    let own = OwnRecords { queue: awaited, rules: log_headers(settings), log_bodies: settings.log_bodies };
    Ok(Recording { records, own, writer, accounts, booked_records, door, rows: strangers.rows })
}
