//! The task that settles with Redis, once what was counted before is known: joins when there is a connection, renews the lease, and sends what was used and
//! given back in batches, each of which counts once however often it has to be sent.

use super::figures::Counts;
use super::shared::Link;
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
/// Beyond so many that wait, those of one window are drawn together; beyond the second number the oldest go.
const DRAWN_TOGETHER: usize = 1 << 14;
const MOST: usize = 1 << 18;
/// Windows told in one script call.
const SEEDS: usize = 200;

pub(super) struct Settler {
    link: Arc<Link>,
    ledger: Arc<Ledger>,
    queue: mpsc::Receiver<Change>,
    flushes: mpsc::Receiver<Flush>,
    waiting: VecDeque<Change>,
    /// On its way, with its number, until its fate is known.
    batch: Vec<Change>,
    number: u64,
    renewed: Instant,
    /// What was there before this process began has been told.
    told: bool,
}

impl Settler {
    pub(super) fn new(
        link: Arc<Link>,
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
            self.tell_all().await?;
            self.told = true;
        }
        self.renewed = Instant::now();
        self.link.joined.store(now, Ordering::Release);
        tracing::info!("limits are counted in Redis");
        Ok(())
    }

    /// To a Redis that does not know, or not to the last call, what this node has counted.
    async fn tell_all(&mut self) -> Result<(), RedisFailure> {
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
                self.batch.extend(self.waiting.drain(..self.waiting.len().min(BATCH)));
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
    gateway_admin::system_clock()
}
