//! What limits have counted, kept over restarts: charges are added up in the journal's order and put into the database
//! every second, with how far they go; after a kill the rest is replayed from the journal. Totals come back from
//! there too, so that nodes hear of each other. Knows no limit; requests never wait for it. The clock is handed in.

mod recovery;
mod standings;
#[cfg(test)]
mod tests;

use gateway_domain::Timestamp;
use gateway_domain::counters::{Charge, Counters, Keep, Slot};
use gateway_domain::ports::{self, Fut, StoreError};
use gateway_domain::record::{LogRecord, Position};
use gateway_policies::{Delta, Ledger, Total};
use gateway_store::{ChargeSum, Count, Database};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;

const ROUND: Duration = Duration::from_secs(1);
const PURGE: Duration = Duration::from_secs(3600);
/// How long records on their way are waited for before usage is set back.
const CATCH_UP: Duration = Duration::from_millis(500);
/// Counters that ended are of use to nobody; the margin is for clocks.
const ENDED_MICROS: i64 = 86_400 * 1_000_000;

pub struct UsageCheckpoint {
    database: Database,
    /// What this process counts by, or knows beside what a shared backend counts.
    ledger: Arc<Ledger>,
    counters: Arc<dyn Counters>,
    /// The id of this node, which lies in its data folder.
    node: String,
    clock: fn() -> Timestamp,
    pending: Mutex<PendingCounts>,
    /// One flush at a time; the last tick that was heard of.
    heard: tokio::sync::Mutex<i64>,
    left: LeftSegments,
    watch: OnceLock<Arc<dyn CountWatch>>,
    /// How often all that was recorded had been heard of.
    caught_up: watch::Sender<u64>,
}

/// Hears of counts that changed, at whichever node.
pub trait CountWatch: Send + Sync {
    fn look<'a>(&'a self, database: &'a Database, changed: &'a [Count]) -> Fut<'a, Result<(), StoreError>>;
}

/// Which node this is, by its data folder, and what earlier processes left there.
#[derive(Debug, Default)]
pub struct NodePlace {
    pub node: String,
    pub left: LeftSegments,
}

/// Segments that ended processes left behind in the journal's folder.
#[derive(Debug, Default)]
pub struct LeftSegments {
    pub dir: PathBuf,
    pub segments: Vec<u64>,
}

/// What counts in this process: what it counts by itself, and what limits are asked of, which may be shared.
#[derive(Clone)]
pub struct UsageCounting {
    pub ledger: Arc<Ledger>,
    pub counters: Arc<dyn Counters>,
}

impl fmt::Debug for UsageCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageCheckpoint").field("node", &self.node).finish_non_exhaustive()
    }
}

impl fmt::Debug for UsageCounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsageCounting")
    }
}

/// What is about to be put into the database.
struct TakenCounts {
    parts: Vec<ChargeSum>,
    places: Vec<Position>,
    /// The place in the journal behind the last record.
    latest: Position,
}

/// Sums that are not in the database yet.
#[derive(Default)]
struct PendingCounts {
    parts: HashMap<Slot, ChargeSum>,
    /// The place behind the last charge, in each segment of the journal.
    places: BTreeMap<u64, u64>,
    /// The place in the journal behind the last record.
    latest: Position,
    /// Everything before it is in the database.
    saved: Position,
    /// Taken, and not known to be in the database.
    in_flight: bool,
    recovered: bool,
}

impl PendingCounts {
    fn charge(&mut self, charge: &Charge, after: Position) {
        let used = i64::try_from(charge.used).unwrap_or(i64::MAX);
        self.add(ChargeSum {
            slot: charge.slot,
            ends: charge.ends,
            measured: charge.measured,
            keep: charge.keep,
            used,
            owner: charge.owner.clone(),
        });
        self.places.insert(after.segment, after.offset);
    }

    fn add(&mut self, part: ChargeSum) {
        match self.parts.get_mut(&part.slot) {
            Some(known) => {
                known.used = known.used.saturating_add(part.used);
                known.ends = part.ends;
            }
            None => {
                self.parts.insert(part.slot, part);
            }
        }
    }

    fn take(&mut self) -> TakenCounts {
        let parts = std::mem::take(&mut self.parts).into_values().collect();
        let places = std::mem::take(&mut self.places).into_iter();
        self.in_flight = true;
        let places = places.map(|(segment, offset)| Position { segment, offset }).collect();
        TakenCounts { parts, places, latest: self.latest }
    }

    /// What could not be written waits for the next time.
    fn put_back(&mut self, parts: Vec<ChargeSum>, places: Vec<Position>) {
        parts.into_iter().for_each(|part| self.add(part));
        for place in places {
            let at = self.places.entry(place.segment).or_insert(place.offset);
            *at = (*at).max(place.offset);
        }
    }
}

impl ports::RecordLedger for UsageCheckpoint {
    fn settle(&self, records: &[LogRecord], after: &[Position]) {
        let mut pending = self.pending.lock();
        for (record, after) in records.iter().zip(after) {
            record.charges.iter().for_each(|charge| pending.charge(charge, *after));
            pending.latest = *after;
        }
    }

    fn caught_up(&self) {
        self.caught_up.send_modify(|turn| *turn += 1);
    }

    fn needs(&self) -> Option<Position> {
        let pending = self.pending.lock();
        Some(match (pending.recovered, pending.in_flight || !pending.parts.is_empty()) {
            (false, _) => Position::default(),
            (true, true) => pending.saved,
            (true, false) => pending.latest,
        })
    }
}

impl UsageCheckpoint {
    pub fn new(database: Database, counting: UsageCounting, place: NodePlace, clock: fn() -> Timestamp) -> Self {
        let NodePlace { node, left } = place;
        Self {
            database,
            ledger: counting.ledger,
            counters: counting.counters,
            node,
            clock,
            pending: Mutex::default(),
            heard: tokio::sync::Mutex::new(-1),
            left,
            watch: OnceLock::new(),
            caught_up: watch::Sender::default(),
        }
    }

    /// The id of this node, by which the counts of this data folder are found.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// A checkpoint that counts nothing, for commands that serve no calls but need one to ask what was used.
    pub fn detached(database: Database, clock: fn() -> Timestamp) -> Self {
        let ledger = Arc::new(Ledger::default());
        let counting = UsageCounting { ledger: ledger.clone(), counters: ledger };
        Self::new(database, counting, NodePlace::default(), clock)
    }

    /// Recovers if that is still to be done, and goes on every second. `watch` hears of what changes from here on.
    pub fn start(self: &Arc<Self>, runtime: &Handle, watch: Arc<dyn CountWatch>) {
        if self.watch.set(watch).is_err() {
            return;
        }
        let accounts = self.clone();
        runtime.spawn(async move {
            let mut purged: Option<Instant> = None;
            let mut away = false;
            loop {
                let done = accounts.round().await;
                match &done {
                    Err(error) if !away => {
                        tracing::warn!(%error, "what limits count cannot be kept; it waits in the journal");
                    }
                    Ok(()) if away => tracing::info!("what limits count is kept again"),
                    _ => {}
                }
                away = done.is_err();
                if !away && purged.is_none_or(|at| at.elapsed() >= PURGE) {
                    purged = Some(Instant::now());
                    if let Err(error) =
                        accounts.database.forget_counts((accounts.clock)().plus_micros(-ENDED_MICROS)).await
                    {
                        tracing::warn!(%error, "ended counters could not be forgotten");
                    }
                }
                tokio::time::sleep(ROUND).await;
            }
        });
    }

    async fn round(&self) -> Result<(), StoreError> {
        if !self.pending.lock().recovered {
            self.recover().await?;
        }
        self.flush().await
    }

    /// What calls that have been answered used is pending or in the database behind this. A record leaves right behind
    /// its answer: the first turn may have come between the two.
    async fn catch_up(&self) {
        let mut turns = self.caught_up.subscribe();
        let two = async {
            for _ in 0..2 {
                // Its sender lives as long as this.
                let _ = turns.changed().await;
            }
        };
        // Under a load that never lets the writer rest, what was there a moment ago is good enough.
        let _ = tokio::time::timeout(CATCH_UP, two).await;
    }

    /// Puts down what is pending, and hears what others put down.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let mut heard = self.heard.lock().await;
        self.write().await?;
        let changed = self.hear(&mut heard).await?;
        if let Some(watch) = self.watch.get() {
            watch.look(&self.database, &changed).await?;
        }
        Ok(())
    }

    async fn write(&self) -> Result<(), StoreError> {
        let TakenCounts { parts, places, latest } = {
            let mut pending = self.pending.lock();
            if pending.parts.is_empty() || !pending.recovered {
                return Ok(());
            }
            pending.take()
        };
        let written = self.database.add_counts(&self.node, &parts, &places).await;
        // Before totals are heard of, which include these from now on.
        if written.is_ok() {
            self.ledger.saved(&parts.iter().map(delta).collect::<Vec<_>>());
        }
        let mut pending = self.pending.lock();
        pending.in_flight = false;
        match &written {
            Ok(()) => pending.saved = latest,
            Err(_) => pending.put_back(parts, places),
        }
        written
    }

    async fn hear(&self, heard: &mut i64) -> Result<Vec<Count>, StoreError> {
        let changed = self.database.counts(&self.node, *heard, (self.clock)()).await?;
        // A count below zero is left out: the rest of it is still to be added, and what this process knows is right.
        let totals: Vec<Total> = changed.iter().filter_map(total).collect();
        self.ledger.absorb(&totals);
        *heard = changed.iter().map(|c| c.tick).max().unwrap_or(*heard).max(*heard);
        Ok(changed)
    }
}

const fn delta(part: &ChargeSum) -> Delta {
    Delta { slot: part.slot, ends: part.ends, keep: part.keep, used: part.used }
}

fn total(count: &Count) -> Option<Total> {
    let used = u64::try_from(count.used).ok()?;
    Some(Total { slot: count.slot, ends: count.ends, keep: count.keep, used })
}

/// Budgets are one count for all nodes.
pub fn is_budget(count: &Count, now: Timestamp) -> bool {
    count.keep == Keep::Shared && count.slot.began <= now && count.ends > now
}
