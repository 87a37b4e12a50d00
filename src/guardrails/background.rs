//! Guardrails that decide nothing: they run beside or behind a request, and what they say is for its record alone. So many
//! may be under way; what is more is shed and counted, and no request is harmed.

use super::{HookNotes, Moderator, Outside, drive};
use crate::clock;
use crate::writer::Records;
use gateway_domain::record::LogRecord;
use gateway_guardrails::{Direction, Guardrail, HookResult, Run, Subject, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Requests' guardrails that are under way at once.
const MOST: usize = 1_000;

#[derive(Debug)]
pub(crate) struct BesideRunner {
    seats: Arc<Semaphore>,
    shed: AtomicU64,
    runtime: Handle,
}

/// What is judged beside one request, in one direction.
#[derive(Debug)]
pub(crate) struct BesideHooks {
    direction: Direction,
    results: JoinHandle<Vec<HookResult>>,
}

impl BesideRunner {
    pub(super) fn new(runtime: Handle) -> Self {
        Self { seats: Arc::new(Semaphore::new(MOST)), shed: AtomicU64::new(0), runtime }
    }

    pub(super) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    pub(super) fn under_way(&self) -> u64 {
        (MOST - self.seats.available_permits()) as u64
    }

    pub(super) fn judge(
        &self,
        outside: &Arc<Outside>,
        guardrails: &[Arc<Guardrail>],
        (subject, moderator): (Subject, Option<Arc<Moderator>>),
    ) -> Option<BesideHooks> {
        let guardrails: Vec<_> = guardrails.iter().filter(|g| g.actions().is_async).cloned().collect();
        if guardrails.is_empty() {
            return None;
        }
        let Ok(seat) = self.seats.clone().try_acquire_owned() else {
            self.shed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (direction, outside) = (subject.content.direction(), outside.clone());
        let results = self.runtime.spawn(async move {
            let run = Run::begin(&guardrails, subject, Timing::Async, clock::now());
            let judged = drive(&outside, run, moderator.as_deref()).await;
            drop(seat);
            judged.results
        });
        Some(BesideHooks { direction, results })
    }

    /// Sends the record with what was said beside its request, as soon as that is known.
    pub(crate) fn send(&self, record: Box<LogRecord>, mut notes: Box<HookNotes>, records: &Records) {
        let mut unsent = Unsent { record: Some(record), records: records.clone() };
        self.runtime.spawn(async move {
            for BesideHooks { direction, results } in std::mem::take(&mut notes.beside) {
                let Ok(results) = results.await else { continue };
                notes.add(direction, results);
            }
            if let Some(record) = &mut unsent.record {
                record.hooks = notes.told();
            }
        });
    }
}

/// A record that is sent however the wait for it ends: also when the process does.
struct Unsent {
    record: Option<Box<LogRecord>>,
    records: Records,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.records.send(record);
        }
    }
}
