//! Counters of limits in Redis: one script call takes from all limits of a stage or from none, on every node alike.
//! The rules are those of the ledger in one process. Knows no policy, and not what to do while Redis is away.
//!
//! A window is a hash: what was used, and what each process holds. Holds of a process count while its lease lives, so
//! that one that died gives back what it held. Nothing is counted for a node that has not joined: an empty Redis, new
//! or restarted, first hears from each node what it knows, and so does any Redis from a process that has just begun.
//! What each node used is noted beside the sum, so that nothing told counts twice. All keys share one hash tag: a
//! cluster keeps them together.

mod script;

use crate::redis::{Redis, RedisFailure, Words};
use ::redis::Cmd;
use gateway_domain::Timestamp;
use gateway_domain::counters::{Cause, Change, CounterKey, CounterOp, Keep, Refusal, Slot, Take};
use script::{JOIN, Script};
use std::time::Duration;
use uuid::Uuid;

/// Longer than a process may be paused without having died.
const LEASE: Duration = Duration::from_secs(30);
/// How long Redis remembers that it knows what a silent node had counted: longer than any window but a budget's.
const MEMBERSHIP: Duration = Duration::from_secs(40 * 86_400);
/// How long an ended window is kept for those who settle late.
const GRACE_MS: i64 = 60_000;
/// Lua counts in doubles: times and amounts stay whole below this.
const MOST: i64 = 1 << 53;

/// What Redis says to those who want something of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterVerdict {
    Granted,
    Refused(Refusal),
    /// Nothing is taken: this node has to [`RedisCounters::join`] first.
    Stranger,
}

/// What a node knows of a window that Redis does not.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    pub slot: Slot,
    pub ends: Timestamp,
    pub keep: Keep,
    pub used: u64,
    pub held: u64,
}

/// Counters of all nodes that share one Redis.
#[derive(Debug)]
pub struct RedisCounters {
    redis: Redis,
    process: String,
    site: String,
    lease: String,
    member: String,
    /// Number of the last batch that was settled.
    settled: String,
    reserve: Script,
    settle: Script,
    seed: Script,
}

impl RedisCounters {
    /// `process` names this one among all that hold something; `site` is the same again after a restart with what
    /// was counted before.
    pub fn new(redis: Redis, process: Uuid, site: Uuid) -> Self {
        let (process, site) = (process.simple().to_string(), site.simple().to_string());
        Self {
            redis,
            lease: format!("gateway:{{limits}}:node:{process}"),
            member: format!("gateway:{{limits}}:member:{site}"),
            settled: format!("gateway:{{limits}}:settled:{process}"),
            process,
            site,
            reserve: script::reserve(),
            settle: script::settle(),
            seed: script::seed(),
        }
    }

    /// Hands over the scripts and takes a lease. True when Redis has heard from this node before; else it is to be
    /// told by [`Self::seed`], and [`Self::enter`] ends the telling.
    pub async fn join(&self) -> Result<bool, RedisFailure> {
        for script in [&self.reserve, &self.settle, &self.seed] {
            let mut command = ::redis::cmd("SCRIPT");
            command.arg("LOAD").arg(script.text());
            let _: String = self.redis.ask(&command).await?;
        }
        self.renew_lease().await?;
        let mut command = ::redis::cmd("EXISTS");
        command.arg(&self.member);
        let known: i64 = self.redis.ask(&command).await?;
        Ok(known > 0)
    }

    /// Each node's part is added once, however often it is told, and whatever of it came by reserving and settling.
    pub async fn seed(&self, seeds: &[Seed], now: Timestamp) -> Result<(), RedisFailure> {
        let mut call = Cmd::new();
        self.seed.call(&mut call, seeds.len(), 2 + seeds.len() * 4);
        seeds.iter().for_each(|seed| call.word(CounterName::of(seed.slot.key).window(seed.slot)));
        self.sign(&mut call);
        for seed in seeds {
            let numbers = [whole(seed.used), whole(seed.held), keep(seed.keep), ttl(seed.ends, now)];
            numbers.into_iter().for_each(|n| call.number(n));
        }
        self.redis.ask(&call).await
    }

    /// Marks this node as a member: from here on calls are counted for it.
    pub async fn enter(&self) -> Result<(), RedisFailure> {
        let mut command = ::redis::cmd("SET");
        command.arg(&self.member).arg(1).arg("EX").arg(MEMBERSHIP.as_secs());
        self.redis.ask(&command).await
    }

    /// Renews the lease of this process, whose holds count only while the lease lives. It must be called more often
    /// than every ten seconds.
    pub async fn renew_lease(&self) -> Result<(), RedisFailure> {
        let mut command = ::redis::cmd("SET");
        command.arg(&self.lease).arg(1).arg("EX").arg(LEASE.as_secs());
        let () = self.redis.ask(&command).await?;
        let mut command = ::redis::cmd("EXPIRE");
        command.arg(&self.member).arg(MEMBERSHIP.as_secs());
        let _: i64 = self.redis.ask(&command).await?;
        Ok(())
    }

    /// Reserves like [`gateway_domain::counters::Counters::reserve`], for a caller who has so much `time` for it. Past
    /// that nothing is known to be taken; should that turn out later, `late` is called, and what was taken has to be
    /// settled. Where the connection broke it never turns out: then requests stay counted, and holds end with their
    /// window.
    pub async fn reserve(
        &self,
        asks: &mut [CounterOp],
        (now, time): (Timestamp, Duration),
        late: impl FnOnce() + Send + 'static,
    ) -> Result<CounterVerdict, RedisFailure> {
        let late = move |told: Vec<i64>| {
            if told.first() == Some(&GRANTED) {
                late();
            }
        };
        match self.redis.ask_numbers(|call| self.ask_for(asks, now, call), time, late).await {
            Err(RedisFailure::Refused(code)) if code == JOIN => Ok(CounterVerdict::Stranger),
            told => read(asks, &told?),
        }
    }

    fn ask_for(&self, asks: &[CounterOp], now: Timestamp, call: &mut dyn Words) {
        self.reserve.call(call, 1 + asks.len() * 2, 2 + asks.len() * 7);
        call.word(self.member.as_bytes());
        asks.iter().for_each(|ask| keys(call, ask.slot));
        self.sign(call);
        for ask in asks {
            let take = match ask.take {
                Take::Now => 0,
                Take::Hold => 1,
                Take::Look => 2,
            };
            [whole(ask.limit), whole(ask.amount), take, keep(ask.keep)].into_iter().for_each(|n| call.number(n));
            span(call, ask.slot, ask.ends, now);
        }
    }

    /// Who speaks.
    fn sign(&self, call: &mut dyn Words) {
        call.word(self.process.as_bytes());
        call.word(self.site.as_bytes());
    }

    /// What each change leaves owed, in their order; `None` for a node that has to join first. A batch that was
    /// settled already is passed over: one whose fate is unknown is sent again under the same number, and the next
    /// one has a greater number.
    pub async fn settle(
        &self,
        changes: &[Change],
        batch: u64,
        now: Timestamp,
    ) -> Result<Option<Vec<u64>>, RedisFailure> {
        let mut call = Cmd::new();
        self.settle.call(&mut call, 2 + changes.len() * 2, 3 + changes.len() * 9);
        call.word(self.member.as_bytes());
        call.word(self.settled.as_bytes());
        changes.iter().for_each(|change| keys(&mut call, change.slot));
        self.sign(&mut call);
        call.number(whole(batch));
        for change in changes {
            let (limit, back, more) = (whole(change.limit), whole(change.back), whole(change.more));
            let (used, owes) = (change.used.clamp(-MOST, MOST), i64::from(change.owes));
            [limit, back, more, used, owes, keep(change.keep)].into_iter().for_each(|n| call.number(n));
            span(&mut call, change.slot, change.ends, now);
        }
        let told: Vec<i64> = match self.redis.ask(&call).await {
            Err(RedisFailure::Refused(code)) if code == JOIN => return Ok(None),
            told => told?,
        };
        Ok((told.first() != Some(&STRANGER)).then(|| told.into_iter().map(i64::unsigned_abs).collect()))
    }
}

const GRANTED: i64 = 1;
const STRANGER: i64 = -1;

fn read(asks: &mut [CounterOp], told: &[i64]) -> Result<CounterVerdict, RedisFailure> {
    let unreadable = || RedisFailure::Refused("the script answered something else".into());
    match told {
        [STRANGER] => Ok(CounterVerdict::Stranger),
        [0, at, taken] => {
            let at = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1)).ok_or_else(unreadable)?;
            Ok(CounterVerdict::Refused(Refusal { at, cause: Cause::Limit, taken: taken.unsigned_abs() }))
        }
        [GRANTED, rest @ ..] if rest.len() == asks.len() * 2 => {
            for (ask, told) in asks.iter_mut().zip(rest.chunks_exact(2)) {
                ask.left = told[0].unsigned_abs();
                ask.lone = told[1] & 1 != 0;
                ask.fresh = told[1] & 2 != 0;
            }
            Ok(CounterVerdict::Granted)
        }
        _ => Err(unreadable()),
    }
}

const PREFIX: &[u8] = b"gateway:{limits}:";
const KEY: usize = PREFIX.len() + 32 + 1;

/// What is kept of a counter: its windows, and its debt.
struct CounterName([u8; KEY + 20]);

impl CounterName {
    fn of(key: CounterKey) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = [b':'; KEY + 20];
        name[..PREFIX.len()].copy_from_slice(PREFIX);
        let bytes = [key.0.to_be_bytes(), key.1.to_be_bytes()];
        for (two, byte) in name[PREFIX.len()..].chunks_exact_mut(2).zip(bytes.as_flattened()) {
            two[0] = DIGITS[usize::from(byte >> 4)];
            two[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(name)
    }

    fn window(&mut self, slot: Slot) -> &[u8] {
        self.with(itoa::Buffer::new().format(slot.began.0 / 1000).as_bytes())
    }

    fn debt(&mut self) -> &[u8] {
        self.with(b"debt")
    }

    fn with(&mut self, end: &[u8]) -> &[u8] {
        self.0[KEY..KEY + end.len()].copy_from_slice(end);
        &self.0[..KEY + end.len()]
    }
}

fn keys(call: &mut dyn Words, slot: Slot) {
    let mut name = CounterName::of(slot.key);
    call.word(name.window(slot));
    call.word(name.debt());
}

const fn keep(keep: Keep) -> i64 {
    match keep {
        Keep::Memory => 0,
        Keep::Node => 1,
        Keep::Shared => 2,
    }
}

const fn ms(t: Timestamp) -> i64 {
    let ms = t.0 / 1000;
    if ms > MOST { MOST } else { ms }
}

/// Milliseconds; a window without an end lives for ever, which 0 says.
fn ttl(ends: Timestamp, now: Timestamp) -> i64 {
    if ends.0 == i64::MAX { 0 } else { (ms(ends) - ms(now) + GRACE_MS).max(1) }
}

/// Began, ends and time to live.
fn span(call: &mut dyn Words, slot: Slot, ends: Timestamp, now: Timestamp) {
    [ms(slot.began), ms(ends), ttl(ends, now)].into_iter().for_each(|n| call.number(n));
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(MOST).min(MOST)
}
