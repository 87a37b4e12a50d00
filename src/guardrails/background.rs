//! Guardrails that decide nothing: they run beside or behind a request, and what they say is for its record alone. So
//! many may be under way; what is more is shed and counted, and no request is harmed.

use super::{HookNotes, NotedRecord, OutsideAnswers, TargetGuards, drive};
use crate::clock;
use crate::writer::{HookWords, Records};
use gateway_domain::record::LogRecord;
use gateway_guardrails::{Direction, Guardrail, GuardrailSubject, HookResult, Run, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// Requests' guardrails that are under way at once.
const MOST: usize = 1_000;
/// What the last records may take to be sent once nothing is waited for any more.
const LAST_RECORDS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct BesideRunner {
    seats: Arc<Semaphore>,
    shed: AtomicU64,
    runtime: Handle,
    /// Records that wait for what is said beside their requests.
    waiting: Arc<AtomicUsize>,
    /// The process ends: nothing is waited for any more.
    ends: watch::Sender<bool>,
    lost: Arc<AtomicU64>,
}

/// What is judged beside one request, in one direction.
#[derive(Debug)]
pub(crate) struct BesideHooks {
    direction: Direction,
    results: JoinHandle<Vec<HookResult>>,
}

impl BesideRunner {
    pub(super) fn new(runtime: Handle) -> Self {
        Self {
            seats: Arc::new(Semaphore::new(MOST)),
            shed: AtomicU64::new(0),
            runtime,
            waiting: Arc::default(),
            ends: watch::Sender::new(false),
            lost: Arc::default(),
        }
    }

    /// Records that wait for what is said beside their requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Sends the records that still wait without what was not said yet, from a thread outside the runtime; gives how
    /// many judgements were lost.
    pub(crate) fn give_up(&self) -> u64 {
        self.ends.send_replace(true);
        let until = Instant::now() + LAST_RECORDS;
        while self.waiting() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    pub(super) fn under_way(&self) -> u64 {
        (MOST - self.seats.available_permits()) as u64
    }

    pub(super) fn judge(
        &self,
        outside: &Arc<OutsideAnswers>,
        guardrails: Vec<Arc<Guardrail>>,
        guarded: &TargetGuards,
        subject: GuardrailSubject,
    ) -> Option<BesideHooks> {
        let mut room = guarded.room.open();
        let bytes = subject.content.body().len() + subject.request.as_ref().map_or(0, |request| request.body().len());
        let seat = self.seats.clone().try_acquire_owned().ok().filter(|_| room.spare(bytes));
        let Some(seat) = seat else {
            self.shed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (direction, outside) = (subject.content.direction(), outside.clone());
        let moderator = guarded.moderator.clone();
        let results = self.runtime.spawn(async move {
            let run = Run::begin(&guardrails, subject, Timing::Async, clock::now());
            let judged = drive(&outside, run, moderator.as_deref()).await;
            drop((seat, room));
            judged.results
        });
        Some(BesideHooks { direction, results })
    }

    /// Sends the record, with what was said beside its request as soon as that is known.
    pub(crate) fn send(&self, noted: NotedRecord, records: &Records) {
        let NotedRecord { record, notes } = noted;
        let Some(mut notes) = notes else { return records.send(record, None) };
        if notes.beside.is_empty() {
            return records.send(record, Some(notes));
        }
        let mut unsent = Unsent { record: Some(record), notes: None, records: records.clone() };
        let waits = WaitingRecord::new(&self.waiting);
        let (mut ends, lost) = (self.ends.subscribe(), self.lost.clone());
        self.runtime.spawn(async move {
            for BesideHooks { direction, mut results } in std::mem::take(&mut notes.beside) {
                let said = tokio::select! {
                    biased;
                    said = &mut results => said.ok(),
                    _ = ends.wait_for(|ends| *ends) => None,
                };
                match said {
                    Some(results) => notes.add(direction, results),
                    None => {
                        results.abort();
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            unsent.notes = Some(notes);
            // Whoever waits for this finds the record sent.
            drop(unsent);
            drop(waits);
        });
    }
}

/// Counts a record that waits, until dropped.
struct WaitingRecord(Arc<AtomicUsize>);

impl WaitingRecord {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        Self(waiting.clone())
    }
}

impl Drop for WaitingRecord {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A record that is sent however the wait for it ends: also when the process does.
struct Unsent {
    record: Option<Box<LogRecord>>,
    notes: Option<Box<HookNotes>>,
    records: Records,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.records.send(record, self.notes.take().map(|notes| notes as Box<dyn HookWords>));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardrails::fixture::{guarded, guardrail, outside};
    use gateway_guardrails::BodyShape;
    use serde_json::json;

    #[tokio::test]
    async fn of_ten_thousand_at_once_a_thousand_run_and_the_rest_is_shed_and_counted() {
        let (runner, outside, began) = (BesideRunner::new(Handle::current()), outside(), Instant::now());
        let checks = json!([{"id": "contains", "parameters": {"words": ["x"], "operator": "none"}}]);
        let rules = vec![guardrail(&checks, &json!({"async": true}))];
        let target = guarded(rules.clone(), BodyShape::Chat);
        let body = json!({"choices": [{"message": {"role": "assistant", "content": "fine"}}]}).to_string();
        let judge = |_| {
            let subject = target.answering(body.clone().into(), BodyShape::Chat);
            runner.judge(&outside, rules.clone(), &target, subject)
        };
        let beside: Vec<BesideHooks> = (0..10_000).filter_map(judge).collect();
        assert_eq!((beside.len(), runner.under_way(), runner.shed()), (MOST, MOST as u64, 10_000 - MOST as u64));
        for judged in beside {
            assert_eq!(judged.results.await.expect("no panic").len(), 1);
        }
        assert_eq!((runner.under_way(), runner.waiting()), (0, 0));
        assert!(judge(0).is_some(), "there is room again");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
