//! The task that settles with Redis, once what was counted before is known: joins when there is a connection, renews
//! the lease, and sends what was used and given back in batches, each of which counts once however often it has to be
//! sent.

use super::figures::Counts;
use super::shared::SharedLimitsLink;
use crate::clock;
use gateway_domain::Timestamp;
use gateway_domain::counters::{Change, Slot};
use gateway_policies::Ledger;
use gateway_store::{RedisFailure, Seed};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep};

pub(super) type Flush = oneshot::Sender<()>;

/// Settlements of one script call.
const BATCH: usize = 128;
/// Settlements are gathered for this long: a batch costs little more than one.
const GATHER: Duration = Duration::from_millis(3);
/// How often a new connection is looked for, and what could not be sent is tried again.
const TICK: Duration = Duration::from_millis(100);
/// A third of the lease.
const RENEW: Duration = Duration::from_secs(10);
/// If more changes than this wait, those of one window are drawn together; beyond `MOST` the oldest are dropped.
const DRAWN_TOGETHER: usize = 1 << 14;
const MOST: usize = 1 << 18;
/// Windows told in one script call.
const SEEDS: usize = 200;

pub(super) struct SettleQueue {
    link: Arc<SharedLimitsLink>,
    ledger: Arc<Ledger>,
    queue: mpsc::Receiver<Change>,
    flushes: mpsc::Receiver<Flush>,
    waiting: VecDeque<Change>,
    /// The changes that are on their way to Redis under `number`, until their fate is known.
    batch: Vec<Change>,
    number: u64,
    renewed: Instant,
    /// What was there before this process began has been told.
    told: bool,
}

impl SettleQueue {
    pub(super) fn new(
        link: Arc<SharedLimitsLink>,
        ledger: Arc<Ledger>,
        queue: mpsc::Receiver<Change>,
        flushes: mpsc::Receiver<Flush>,
    ) -> Self {
        let (waiting, batch) = (VecDeque::new(), Vec::new());
        Self { link, ledger, queue, flushes, waiting, batch, number: 0, renewed: Instant::now(), told: false }
    }

    pub(super) async fn run(mut self) {
        self.link.ready.notified().await;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Vec::new();
        loop {
            let link = self.link.clone();
            tokio::select! {
                n = self.queue.recv_many(&mut heard, BATCH) => {
                    if n == 0 {
                        return;
                    }
                    self.waiting.extend(heard.drain(..));
                    sleep(GATHER).await;
                }
                _ = ticks.tick() => {}
                () = link.left.notified() => {}
                Some(flush) = self.flushes.recv() => {
                    self.gather();
                    self.work().await;
                    // Whoever asked has stopped waiting.
                    let _ = flush.send(());
                }
            }
            self.gather();
            self.work().await;
        }
    }

    fn gather(&mut self) {
        while let Ok(change) = self.queue.try_recv() {
            self.waiting.push_back(change);
        }
        if self.waiting.len() > DRAWN_TOGETHER {
            self.waiting = draw_together(std::mem::take(&mut self.waiting));
        }
        let over = self.waiting.len().saturating_sub(MOST);
        if over > 0 {
            self.waiting.drain(..over);
            self.link.counts.lost(over as u64);
        }
        self.link.counts.waiting(self.waiting.len() + self.batch.len());
    }

    async fn work(&mut self) {
        if !self.link.redis.state().connected {
            return;
        }
        let done = self.join().await.is_ok() && self.renew().await.is_ok() && self.deliver().await.is_ok();
        if !done {
            self.link.counts.failed();
        }
        self.link.counts.waiting(self.waiting.len() + self.batch.len());
    }

    /// Once for each connection: whoever answers may be another Redis than before.
    async fn join(&mut self) -> Result<(), RedisFailure> {
        let now = self.link.redis.links();
        if self.link.joined.load(Ordering::Acquire) == now {
            return Ok(());
        }
        if !self.link.counters.join().await? || !self.told {
            self.seed_counters().await?;
            self.told = true;
        }
        self.renewed = Instant::now();
        self.link.joined.store(now, Ordering::Release);
        tracing::info!("limits are counted in Redis");
        Ok(())
    }

    /// Tells Redis what this node has counted, where it does not know that, or not up to the last call.
    async fn seed_counters(&mut self) -> Result<(), RedisFailure> {
        // The ledger has these.
        while self.queue.try_recv().is_ok() {}
        self.waiting.clear();
        self.batch.clear();
        let now = clock();
        let mut seeds = Vec::new();
        self.ledger.visit(|total, held| {
            if total.ends > now {
                let gateway_policies::Total { slot, ends, keep, used } = total;
                seeds.push(Seed { slot, ends, keep, used, held });
            }
        });
        for some in seeds.chunks(SEEDS) {
            self.link.counters.seed(some, now).await?;
        }
        self.link.counters.enter().await
    }

    async fn renew(&mut self) -> Result<(), RedisFailure> {
        if self.renewed.elapsed() >= RENEW {
            self.link.counters.renew_lease().await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    async fn deliver(&mut self) -> Result<(), RedisFailure> {
        loop {
            if self.batch.is_empty() {
                fill(&mut self.batch, &mut self.waiting);
                self.number += 1;
            }
            if self.batch.is_empty() {
                return Ok(());
            }
            let Some(owed) = self.link.counters.settle(&self.batch, self.number, clock()).await? else {
                // The next turn joins, and tells what is in the ledger.
                self.link.joined.store(0, Ordering::Release);
                return Ok(());
            };
            note_overshoot(&self.link.counts, &self.batch, &owed);
            self.batch.clear();
        }
    }
}

/// The next changes, those of a window added up where nothing can come of them but their sum: many calls at one counter
/// are few words to Redis. None passes another kind of change of its window.
fn fill(batch: &mut Vec<Change>, waiting: &mut VecDeque<Change>) {
    while let Some(next) = waiting.pop_front() {
        let plain = is_plain(&next);
        let fits = |c: &Change| is_plain(c) && (c.limit, c.ends, c.keep) == (next.limit, next.ends, next.keep);
        match batch.iter().rposition(|c| c.slot == next.slot).filter(|at| plain && fits(&batch[*at])) {
            Some(at) => {
                let sum = &mut batch[at];
                sum.back = sum.back.saturating_add(next.back);
                sum.used = sum.used.saturating_add(next.used);
            }
            None if batch.len() < BATCH => batch.push(Change { owes: next.owes && !plain, ..next }),
            None => {
                waiting.push_front(next);
                return;
            }
        }
    }
}

/// Used no more than it held, so that it owes nothing; and takes nothing back of what was used.
fn is_plain(change: &Change) -> bool {
    let used = u64::try_from(change.used);
    change.more == 0 && used.is_ok_and(|used| !change.owes || used <= change.back)
}

fn note_overshoot(counts: &Counts, batch: &[Change], owed: &[u64]) {
    for (change, owed) in batch.iter().zip(owed).filter(|(_, owed)| **owed > 0) {
        counts.overshot(change.measured, *owed);
    }
}

/// One change for each window. What came of it beyond its limit is not told apart any more, so nothing is owed.
fn draw_together(changes: VecDeque<Change>) -> VecDeque<Change> {
    let mut drawn: HashMap<Slot, Change> = HashMap::new();
    for change in changes {
        let sum = drawn.entry(change.slot).or_insert(Change { back: 0, more: 0, used: 0, owes: false, ..change });
        sum.more = sum.more.saturating_add(change.more);
        sum.back = sum.back.saturating_add(change.back);
        sum.used = sum.used.saturating_add(change.used);
    }
    let both = |c: &Change| c.back.min(c.more);
    drawn.into_values().map(|c| Change { back: c.back - both(&c), more: c.more - both(&c), ..c }).collect()
}

fn clock() -> Timestamp {
    clock::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::counters::{CounterKey, Keep, Measured};

    /// Held, used and owed of each window, by the rules of the script.
    fn settled(changes: &[Change]) -> HashMap<u64, (u64, i64, u64)> {
        let mut levels = HashMap::new();
        for change in changes {
            let (held, used, owed) = levels.entry(change.slot.key.1).or_insert((0_u64, 0_i64, 0_u64));
            *held = held.saturating_sub(change.back) + change.more;
            *used = (*used + change.used).max(0);
            if change.owes {
                let over = (*used).unsigned_abs().saturating_add(*held).saturating_sub(change.limit);
                *owed += over.min(u64::try_from(change.used).unwrap_or(0).saturating_sub(change.back));
            }
        }
        levels
    }

    #[test]
    fn what_is_added_up_settles_as_it_did_one_by_one() {
        let mut dice = 7_u64;
        let mut below = |n: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % n
        };
        for _ in 0..200 {
            // Each call holds, may hold more, and gives back all of it.
            let mut calls: Vec<Vec<Change>> = (0..100)
                .map(|_| {
                    let slot = Slot { key: CounterKey(0, below(3)), began: Timestamp(0) };
                    let held = below(20);
                    let base = Change {
                        slot,
                        ends: Timestamp(60),
                        limit: 0,
                        measured: Measured::Tokens,
                        keep: Keep::Node,
                        back: 0,
                        more: 0,
                        used: 0,
                        owes: false,
                    };
                    let more = if below(4) == 0 { below(9) } else { 0 };
                    let used = below(held + more + 2).cast_signed() - i64::from(below(9) == 0);
                    let end = Change { back: held + more, used, owes: below(3) > 0, ..base };
                    [Change { more: held, ..base }, Change { more, ..base }, end].into_iter().rev().collect()
                })
                .collect();
            let mut changes = Vec::new();
            while !calls.is_empty() {
                let at = usize::try_from(below(calls.len() as u64)).expect("a place");
                changes.extend(calls[at].pop());
                calls.retain(|rest| !rest.is_empty());
            }
            let expected = settled(&changes);
            let (mut waiting, mut sums): (VecDeque<_>, Vec<_>) = (changes.into(), Vec::new());
            while !waiting.is_empty() {
                let mut batch = Vec::new();
                fill(&mut batch, &mut waiting);
                sums.extend(batch);
            }
            assert_eq!(settled(&sums), expected);
        }
    }

    #[test]
    fn calls_at_one_counter_are_one_word_and_a_batch_has_its_bound() {
        let change = |key| Change {
            slot: Slot { key: CounterKey(0, key), began: Timestamp(0) },
            ends: Timestamp(60),
            limit: 100,
            measured: Measured::Tokens,
            keep: Keep::Memory,
            back: 9,
            more: 0,
            used: 4,
            owes: true,
        };
        let (mut batch, mut waiting) = (Vec::new(), (0..1000).map(|_| change(1)).collect());
        fill(&mut batch, &mut waiting);
        assert_eq!((batch.len(), batch[0].back, batch[0].used, waiting.len()), (1, 9000, 4000, 0));
        let (mut batch, mut waiting) = (Vec::new(), (0..1000).map(change).collect());
        fill(&mut batch, &mut waiting);
        assert_eq!((batch.len(), waiting.len()), (BATCH, 1000 - BATCH));
    }
}
