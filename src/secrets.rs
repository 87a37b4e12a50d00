//! Secrets of managers, read beside requests: each reference when it is new or was changed, and again every so often,
//! so that a value that was rotated comes into force by itself. What could not be read stays as it was, and is told. A
//! request reads no manager: values stand in the snapshot, in memory alone.

mod keeper;
mod pace;

pub(crate) use keeper::{KeeperParts, start};

use gateway_domain::SecretReferenceId;
use gateway_domain::ports::{SecretStanding, SecretStandings};
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts};
use std::collections::HashMap;
use std::sync::Arc;

use crate::metrics::Metrics;

const READ: &str = "read";
const FAILED: &str = "failed";

/// How each reference stands on this node. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretLedger(Arc<Mutex<HashMap<SecretReferenceId, SecretStanding>>>);

impl SecretLedger {
    fn note(&self, id: SecretReferenceId, standing: SecretStanding) {
        self.0.lock().insert(id, standing);
    }

    fn retain(&self, wanted: impl Fn(SecretReferenceId) -> bool) {
        self.0.lock().retain(|id, _| wanted(*id));
    }

    /// References that stand so.
    fn count(&self, wanted: impl Fn(&SecretStanding) -> bool) -> u64 {
        self.0.lock().values().filter(|standing| wanted(standing)).count() as u64
    }

    /// Why some are not as their managers have them, for the status page.
    pub(crate) fn trouble(&self) -> Option<String> {
        let count = self.count(|standing| standing.trouble.is_some());
        (count > 0).then(|| format!("{count} secret references could not be read when they were last due"))
    }

    pub(crate) fn known(&self) -> usize {
        self.0.lock().len()
    }
}

impl SecretStandings for SecretLedger {
    fn standing(&self, id: SecretReferenceId) -> Option<SecretStanding> {
        self.0.lock().get(&id).cloned()
    }
}

/// What Prometheus may read of it.
#[derive(Clone, Debug)]
struct SecretCounts {
    reads: IntCounterVec,
}

impl SecretCounts {
    fn new(metrics: &Metrics, ledger: &SecretLedger) -> Result<Self, prometheus::Error> {
        let help = "Secrets that were asked of their managers";
        let reads = IntCounterVec::new(Opts::new("gateway_secret_reads_total", help), &["outcome"])?;
        for outcome in [READ, FAILED] {
            reads.with_label_values(&[outcome]).inc_by(0);
        }
        metrics.register(Box::new(reads.clone()))?;
        let all = ledger.clone();
        let help = "Secret references that this node reads, 1000 of an organisation at most";
        metrics.watch("gateway_secret_references", help, move || all.count(|_| true))?;
        let troubled = ledger.clone();
        let help = "Of these, those that could not be read when they were last due";
        metrics.watch("gateway_secret_references_failing", help, move || troubled.count(|s| s.trouble.is_some()))?;
        Ok(Self { reads })
    }
}
