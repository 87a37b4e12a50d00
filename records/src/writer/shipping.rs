//! Brings records from the journal to the store, in order. A store that is slow or away makes the journal wait, not the
//! gateway; a record that the store refuses for good is singled out, so that it holds up no other.

use crate::Degraded;
use crate::metrics::{Loss, Metrics};
use gateway_domain::ports::{RecordAppend, StoreError};
use gateway_domain::record::LogRecord;
use gateway_store::journal::{Shipment, Shipper};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Least time from the start of a shipment that is not full to the next: to a store, few large ones cost less than many
/// small ones.
const PACE: Duration = Duration::from_millis(200);
/// New records are told of; this is for those of processes that ended.
const IDLE: Duration = Duration::from_secs(2);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Tries of a lone record before it is held to be at fault, not the store.
const TRIES: u32 = 8;

pub(super) struct Shipping {
    pub(super) shipper: Shipper,
    pub(super) store: Arc<dyn RecordAppend>,
    pub(super) runtime: Handle,
    pub(super) metrics: Metrics,
    /// Set while the store takes nothing.
    pub(super) away: Degraded,
    /// Set when the process ends: nothing is tried after it.
    pub(super) ends: watch::Receiver<Option<Instant>>,
}

impl Shipping {
    pub(super) fn run(mut self) {
        loop {
            let began = Instant::now();
            match self.shipper.take(self.store.at_once()) {
                Ok(Some(shipment)) => {
                    if !self.deliver(&shipment) {
                        self.leave(&shipment);
                        return;
                    }
                    self.shipper.confirm(&shipment);
                    if !shipment.is_full {
                        self.collect(began);
                    }
                }
                Ok(None) if self.is_ending() => return,
                Ok(None) => {
                    std::thread::park_timeout(IDLE);
                    if let Err(e) = self.shipper.adopt() {
                        tracing::warn!(error = %e, "segments of ended processes cannot be taken over");
                    }
                }
                Err(_) if self.is_ending() => return,
                Err(e) => {
                    tracing::error!(error = %e, "the journal cannot be read");
                    std::thread::park_timeout(LONGEST_WAIT);
                }
            }
        }
    }

    /// Lets records come together, unless the process ends.
    fn collect(&self, began: Instant) {
        while let Some(left) = PACE.checked_sub(began.elapsed()).filter(|_| !self.is_ending()) {
            std::thread::park_timeout(left);
        }
    }

    /// Tries until the store has all that it will ever take; `false` when the process ends before that.
    fn deliver(&self, shipment: &Shipment) -> bool {
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store_or_refuse(&shipment.records) {
                Ok(refused) => {
                    let all = refused == shipment.records.len();
                    if !all || shipment.records.len() == 1 && tries >= TRIES {
                        self.away.set(None);
                        self.metrics.drop_records(Loss::Store, refused as u64);
                        self.metrics.store_records((shipment.records.len() - refused) as u64);
                        return true;
                    }
                    // A store that takes nothing at all is broken, and the records are not.
                    tracing::error!(records = refused, "the log store refuses every record; the journal keeps them");
                    self.away.set(Some("refuses every record; the journal keeps them".to_owned()));
                }
                Err(why) => {
                    tracing::warn!(%why, "log store unavailable; records wait in the journal");
                    self.away.set(Some(why));
                }
            }
            if self.is_ending_within(wait) {
                return false;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// How many the store refused, found by halves; `Err` when it is not there.
    fn store_or_refuse(&self, records: &[LogRecord]) -> Result<usize, String> {
        match self.append(records) {
            Ok(()) => Ok(0),
            Err(StoreError::Unavailable(why)) => Err(why),
            Err(e) if records.len() == 1 => {
                tracing::error!(error = %e, id = %records[0].id, "the log store refuses a record");
                Ok(1)
            }
            Err(_) => {
                let (first, second) = records.split_at(records.len() / 2);
                Ok(self.store_or_refuse(first)? + self.store_or_refuse(second)?)
            }
        }
    }

    fn append(&self, records: &[LogRecord]) -> Result<(), StoreError> {
        let mut ends = self.ends.clone();
        self.runtime.block_on(async {
            tokio::select! {
                stored = self.store.append(records) => stored,
                () = over(&mut ends) => Err(StoreError::Unavailable("the process ends".into())),
            }
        })
    }

    fn is_ending(&self) -> bool {
        self.ends.borrow().is_some()
    }

    /// Waits, and is not woken by new records: they change nothing for a store that is away.
    fn is_ending_within(&self, wait: Duration) -> bool {
        let mut ends = self.ends.clone();
        let ended = async { tokio::time::timeout(wait, ends.wait_for(Option::is_some)).await };
        self.runtime.block_on(ended).is_ok() && self.is_ending()
    }

    /// What lies in the journal is the next process's; what had to leave it while it was under way is lost.
    fn leave(&self, shipment: &Shipment) {
        if self.shipper.keeps(shipment) {
            tracing::warn!("the log store is away; the next start ships what is left in the journal");
        } else {
            tracing::error!(records = shipment.records.len(), "records are lost: the journal had no room to keep them");
            self.metrics.drop_records(Loss::Journal, shipment.records.len() as u64);
        }
    }
}

/// Returns when the time that the process gave the store is over.
async fn over(ends: &mut watch::Receiver<Option<Instant>>) {
    let deadline = match ends.wait_for(Option::is_some).await {
        Ok(deadline) => *deadline,
        // The writer was dropped without a word: a process that serves nothing.
        Err(_) => None,
    };
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
