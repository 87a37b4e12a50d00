//! Sticky assignments of load balancing. Kept in the process, bounded in entries: the least used go first, and who was
//! forgotten is drawn again. With Redis nodes agree: who draws an assignment anew asks whether another node has;
//! choosing itself never waits.

use gateway_domain::config::plan::Sticks;
use gateway_store::Redis;
use quick_cache::sync::Cache;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::Duration;

/// About 6 MiB when full.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Assignments {
    kept: Cache<u128, (usize, i64)>,
    redis: OnceLock<Redis>,
}

/// An assignment that was not known here before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    key: u128,
    place: usize,
    until_ms: i64,
}

/// The assignments as one plan sees them; notes those that it draws.
#[derive(Debug)]
pub(crate) struct View<'a> {
    all: &'a Assignments,
    drawn: RefCell<Vec<Drawn>>,
}

impl Default for Assignments {
    fn default() -> Self {
        Self { kept: Cache::new(MOST), redis: OnceLock::new() }
    }
}

impl Assignments {
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// From now on nodes on the same Redis agree.
    pub(crate) fn share(&self, redis: Redis) {
        // The process has one.
        let _ = self.redis.set(redis);
    }

    pub(crate) const fn view(&self) -> View<'_> {
        View { all: self, drawn: RefCell::new(Vec::new()) }
    }

    pub(crate) fn are_shared(&self) -> bool {
        self.redis.get().is_some()
    }

    /// Tells other nodes of assignments, or learns that one of them was first: then its own is true, and the plan is
    /// to be made again. Redis away, or late for one who has waited so long, leaves each node with its own.
    pub(crate) async fn agree(&self, drawn: &[Drawn], now_ms: i64, waited: Duration) -> bool {
        let Some(redis) = self.redis.get() else { return false };
        let left = redis.deadline().saturating_sub(waited);
        if left.is_zero() {
            return false;
        }
        let mut call = redis::cmd("EVAL");
        call.arg(FIRST).arg(drawn.len());
        for one in drawn {
            call.arg(format!("gateway:{{sticky}}:{:032x}", one.key));
        }
        for one in drawn {
            call.arg(format!("{}:{}", one.place, one.until_ms)).arg(one.until_ms.saturating_sub(now_ms).max(1));
        }
        let told = redis.ask_within::<Vec<String>>(&call, left).await.unwrap_or_default();
        let mut differ = false;
        for (own, told) in drawn.iter().zip(&told) {
            if let Some((place, until_ms)) = read(told).filter(|(place, _)| *place != own.place) {
                self.kept.insert(own.key, (place, until_ms));
                differ = true;
            }
        }
        differ
    }
}

/// Of each key: what stands there, which is what comes with it if nothing did.
const FIRST: &str = "
local told = {}
for i, key in ipairs(KEYS) do
  told[i] = redis.call('GET', key)
  if not told[i] then
    told[i] = ARGV[2 * i - 1]
    redis.call('SET', key, told[i], 'PX', ARGV[2 * i])
  end
end
return told";

fn read(text: &str) -> Option<(usize, i64)> {
    let (place, until_ms) = text.split_once(':')?;
    Some((place.parse().ok()?, until_ms.parse().ok()?))
}

impl View<'_> {
    /// From the outside in.
    pub(crate) fn drawn(self) -> Vec<Drawn> {
        self.drawn.into_inner()
    }
}

impl Drawn {
    pub(crate) const fn key(&self) -> u128 {
        self.key
    }
}

impl Sticks for View<'_> {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.all.kept.get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.all.kept.insert(key, (place, until_ms));
        self.drawn.borrow_mut().push(Drawn { key, place, until_ms });
    }
}
