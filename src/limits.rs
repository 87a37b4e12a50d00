//! The counters that requests are held to. Alone, those of this process; with Redis, those that all nodes share,
//! with the process's own beside them as a mirror: what is written down for later, what an empty Redis is told, and
//! what is counted by while Redis is out of reach. Knows no policy.

mod figures;
mod key_status;
mod settle_queue;
mod shared;

pub(crate) use figures::LimitFigures;
pub(crate) use key_status::LimitOutlook;
pub(crate) use shared::SharedLimits;

use crate::clock;
use crate::peers::{PeerRank, Peers};
use figures::{By, Counts};
use gateway_admin::Counting;
use gateway_domain::Timestamp;
use gateway_domain::counters::{Cause, Change, CounterOp, Counters, FailMode, Keep, LimitDecision, Refusal, Take};
use gateway_policies::Ledger;
use gateway_store::{CounterVerdict, RedisFailure};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Limits {
    ledger: Arc<Ledger>,
    peers: Peers,
    shared: Option<SharedLimits>,
    counts: Arc<Counts>,
}

impl Limits {
    /// Counted in this process, and divided among the nodes when there are several.
    pub(crate) fn alone(ledger: Arc<Ledger>, peers: Peers) -> Self {
        Self { ledger, peers, shared: None, counts: Arc::default() }
    }

    pub(crate) fn sharing(ledger: Arc<Ledger>, peers: Peers, shared: SharedLimits) -> Self {
        let counts = shared.counts().clone();
        Self { ledger, peers, shared: Some(shared), counts }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// What was counted before this process began is in the ledger: nodes that share may hear of it.
    pub(crate) fn open(&self) {
        if let Some(shared) = &self.shared {
            shared.open();
        }
    }

    /// How limits are counted right now.
    pub(crate) fn counting(&self) -> Counting {
        match &self.shared {
            Some(shared) if shared.is_open(clock::now()) => Counting::Redis,
            Some(_) => Counting::RedisAway,
            None if self.peers.count() > 1 => Counting::Divided,
            None => Counting::Process,
        }
    }

    /// Used and held of a limit of which this node has a part to itself; `None`: all nodes have it together.
    fn counted_here(&self, look: &CounterOp) -> Option<u64> {
        let is_divided = self.counting() == Counting::Divided && look.keep != Keep::Shared;
        is_divided.then(|| self.ledger.level(look.slot).map_or(0, |(used, held)| used.saturating_add(held)))
    }

    /// Sends what is still to be settled; for the last moment of a process. From a thread outside any runtime.
    pub(crate) fn flush(&self) {
        if let Some(shared) = &self.shared {
            shared.flush();
        }
    }

    /// Admits by the process's own counters. A node among several keeps to its share of what they do not share.
    fn near(&self, asks: &mut [CounterOp], now: Timestamp) -> Result<(), Refusal> {
        let place = self.peers.place();
        if place.count == 1 {
            return self.ledger.admit(asks, now);
        }
        let whole: Vec<u64> = asks.iter().map(|ask| ask.limit).collect();
        asks.iter_mut().for_each(|ask| ask.limit = share(place, ask.limit, ask.keep));
        let told = self.ledger.admit(asks, now);
        let told = told.map_err(|refusal| {
            // What the others may let through is not left to this caller either.
            let elsewhere = whole[refusal.at] - asks[refusal.at].limit;
            Refusal { taken: refusal.taken.saturating_add(elsewhere), ..refusal }
        });
        asks.iter_mut().zip(whole).for_each(|(ask, limit)| ask.limit = limit);
        told
    }

    /// Redis is out of reach: as each limit says.
    fn fall_back(&self, shared: &SharedLimits, asks: &mut [CounterOp], now: Timestamp) -> Result<(), Refusal> {
        if let Some(at) = asks.iter().position(|ask| ask.fail == FailMode::Closed) {
            self.counts.decided(By::Closed);
            return Err(Refusal { at, cause: Cause::Away, taken: 0 });
        }
        let (places, mut near): (Vec<usize>, Vec<CounterOp>) =
            asks.iter().copied().enumerate().filter(|(_, ask)| ask.fail == FailMode::Local).unzip();
        self.counts.decided(if near.is_empty() { By::Open } else { By::Local });
        self.near(&mut near, now).map_err(|refusal| Refusal { at: places[refusal.at], ..refusal })?;
        for (at, counted) in places.into_iter().zip(near) {
            asks[at] = counted;
        }
        for ask in asks.iter_mut().filter(|ask| ask.fail == FailMode::Open) {
            self.ledger.mirror(std::slice::from_ref(ask));
            ask.left = ask.limit;
        }
        // Redis is told when it is back.
        shared.send(asks.iter().filter_map(taken));
        Ok(())
    }

    async fn far(
        &self,
        shared: &SharedLimits,
        asks: &mut [CounterOp],
        (now, left): (Timestamp, Duration),
    ) -> Result<(), Refusal> {
        let began = Instant::now();
        let told = shared.reserve(asks, now, left).await;
        let took = began.elapsed();
        self.counts.waited(took);
        match told {
            Ok(CounterVerdict::Granted) => {
                self.counts.decided(By::Redis);
                self.ledger.mirror(asks);
                Ok(())
            }
            Ok(CounterVerdict::Refused(refusal)) => {
                self.counts.decided(By::Redis);
                Err(refusal)
            }
            Ok(CounterVerdict::Stranger) => {
                shared.leave();
                self.fall_back(shared, asks, now)
            }
            Err(failure) => {
                self.counts.failed();
                // Where the caller had less time than Redis is given, Redis was not slow.
                if failure != RedisFailure::Hurried {
                    shared.pause(now.plus_micros(i64::try_from(took.as_micros()).unwrap_or(0)));
                }
                self.fall_back(shared, asks, now)
            }
        }
    }
}

impl Counters for Limits {
    fn reserve<'a>(&'a self, asks: &'a mut [CounterOp], now: Timestamp, waited: Duration) -> LimitDecision<'a> {
        let Some(shared) = &self.shared else { return LimitDecision::Now(self.near(asks, now)) };
        let left = shared.deadline().saturating_sub(waited);
        if shared.is_open(now) && !left.is_zero() {
            LimitDecision::Later(Box::pin(self.far(shared, asks, (now, left))))
        } else {
            LimitDecision::Now(self.fall_back(shared, asks, now))
        }
    }

    fn settle(&self, changes: &[Change]) {
        if let Some(shared) = &self.shared {
            self.ledger.settle(changes);
            return shared.send(changes.iter().copied());
        }
        let place = self.peers.place();
        if place.count == 1 {
            return self.ledger.settle(changes);
        }
        for change in changes {
            self.ledger.settle(&[Change { limit: share(place, change.limit, change.keep), ..*change }]);
        }
    }
}

/// What all nodes count together by other means is not divided.
const fn share(place: PeerRank, limit: u64, keep: Keep) -> u64 {
    match keep {
        Keep::Shared => limit,
        Keep::Memory | Keep::Node => place.share(limit),
    }
}

/// What was granted here, as Redis is told of it.
fn taken(ask: &CounterOp) -> Option<Change> {
    let change = Change::of(ask);
    match ask.take {
        Take::Now => Some(Change { used: i64::try_from(ask.amount).unwrap_or(i64::MAX), ..change }),
        Take::Hold => Some(Change { more: ask.amount, ..change }),
        Take::Look => None,
    }
}
