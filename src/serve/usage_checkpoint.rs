//! Sets up what keeps the counts of limits over restarts.

use super::boot::Booted;
use crate::budget_alerts::BudgetAlerts;
use crate::clock;
use crate::guardrails::Guardrails;
use crate::node_id::node_id;
use crate::settings::Settings;
use crate::upstream::Programs;
use crate::usage_checkpoint::{LeftSegments, NodePlace, UsageCheckpoint, UsageCounting};
use gateway_admin::App;
use gateway_store::KeyUseLog;
use gateway_store::journal::Journal;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

const LAST_WORD: Duration = Duration::from_secs(3);

/// Opens the counts of this node, with what was counted before this start as far as the database answers.
pub(super) fn open(
    booted: &Booted,
    settings: &Settings,
    counting: UsageCounting,
    journal: &Journal,
    control: &Runtime,
) -> Result<Arc<UsageCheckpoint>, String> {
    let node = node_id(&settings.data_dir)?;
    let left = LeftSegments { dir: settings.data_dir.join("journal"), segments: journal.segments() };
    let accounts =
        Arc::new(UsageCheckpoint::new(booted.database.clone(), counting, NodePlace { node, left }, clock::now));
    if !booted.away {
        control.block_on(accounts.recover_soon());
    }
    Ok(accounts)
}

pub(super) fn start(
    accounts: &Arc<UsageCheckpoint>,
    app: &App,
    booted: &Booted,
    settings: &Settings,
    runtime: &Handle,
) -> Result<(), String> {
    let webhook = match &settings.alert_webhook {
        None => None,
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            Some((url.clone(), super::outbound(booted)?))
        }
        Some(_) => return Err("--alert-webhook must be an http:// or https:// URL".to_owned()),
    };
    let alerts = BudgetAlerts { app: app.clone(), live: booted.live.clone(), webhook, runtime: runtime.clone() };
    accounts.start(runtime, Arc::new(alerts));
    Ok(())
}

/// What was counted to the end, for the next process.
pub(super) struct FinalFlush {
    pub(super) accounts: Arc<UsageCheckpoint>,
    pub(super) uses: Arc<KeyUseLog>,
    pub(super) guardrails: Arc<Guardrails>,
    /// MCP servers of this process.
    pub(super) programs: Arc<Programs>,
    pub(super) runtime: Handle,
}

impl FinalFlush {
    pub(super) fn new(
        accounts: Arc<UsageCheckpoint>,
        uses: Arc<KeyUseLog>,
        (guardrails, programs): (Arc<Guardrails>, Arc<Programs>),
        control: &Runtime,
    ) -> Self {
        Self { accounts, uses, guardrails, programs, runtime: control.handle().clone() }
    }

    /// Records that wait for guardrails which run beside their requests.
    pub(super) fn awaited(&self) -> usize {
        self.guardrails.background().waiting()
    }

    /// Has them sent as they are.
    pub(super) fn await_no_more(&self) {
        let lost = self.guardrails.background().give_up();
        if lost > 0 {
            tracing::warn!(lost, "asynchronous guardrails were not waited for any longer; records lack their results");
        }
    }

    /// Nobody is left who could ask them. From a thread outside the runtime.
    pub(super) fn stop_programs(&self) {
        self.programs.stop_all();
    }

    /// Stores the last counts and uses of keys. To be called from a thread outside the runtime.
    pub(super) fn say(&self) {
        let said = async { tokio::time::timeout(LAST_WORD, self.accounts.flush()).await };
        if !matches!(self.runtime.block_on(said), Ok(Ok(()))) {
            tracing::warn!("the last counts of limits stay in the journal for the next start");
        }
        let stored = async { tokio::time::timeout(LAST_WORD, self.uses.flush()).await };
        if !matches!(self.runtime.block_on(stored), Ok(Ok(()))) {
            tracing::warn!("when keys were last used is not stored for the last seconds");
        }
    }
}
