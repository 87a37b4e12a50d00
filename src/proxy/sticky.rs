//! Sticky assignments of load balancing. Kept in the process, bounded in entries: the least used go first, and who was
//! forgotten is drawn again. With Redis nodes agree: who draws an assignment anew asks whether another node has, once;
//! choosing itself never waits.

use gateway_domain::config::plan::Sticks;
use gateway_store::Redis;
use quick_cache::sync::Cache;
use std::cell::Cell;
use std::sync::OnceLock;

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

/// The assignments as one plan sees them; notes the last that it draws.
#[derive(Debug)]
pub(crate) struct View<'a> {
    all: &'a Assignments,
    drawn: Cell<Option<Drawn>>,
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
        View { all: self, drawn: Cell::new(None) }
    }

    /// Tells other nodes of an assignment, or learns that one of them was first: then it is true, and the plan is
    /// to be made again. Redis away or late leaves each node with its own.
    pub(crate) async fn agree(&self, drawn: Drawn, now_ms: i64) -> bool {
        let Some(redis) = self.redis.get() else { return false };
        let name = format!("gateway:sticky:{:032x}", drawn.key);
        let mut set = redis::cmd("SET");
        set.arg(&name).arg(format!("{}:{}", drawn.place, drawn.until_ms));
        set.arg("NX").arg("PX").arg(drawn.until_ms.saturating_sub(now_ms).max(1));
        match redis.ask::<Option<String>>(&set).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return false,
        }
        let mut get = redis::cmd("GET");
        get.arg(&name);
        let told = redis.ask::<Option<String>>(&get).await.ok().flatten();
        let Some((place, until_ms)) = told.as_deref().and_then(read) else { return false };
        self.kept.insert(drawn.key, (place, until_ms));
        place != drawn.place
    }
}

fn read(text: &str) -> Option<(usize, i64)> {
    let (place, until_ms) = text.split_once(':')?;
    Some((place.parse().ok()?, until_ms.parse().ok()?))
}

impl View<'_> {
    pub(crate) fn drawn(self) -> Option<Drawn> {
        self.drawn.into_inner()
    }
}

impl Sticks for View<'_> {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.all.kept.get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.all.kept.insert(key, (place, until_ms));
        self.drawn.set(Some(Drawn { key, place, until_ms }));
    }
}
