//! Key sets that checks of tokens go by: fetched once for all who ask, kept as long as their check says, and asked for
//! again at most once a minute when somebody misses a key. Knows no token.

use bytes::Bytes;
use gateway_guardrails::external_call::CheckReply;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const MOST_SETS: usize = 1024;
/// The shortest time between two fetches of a set because a key is missing in it.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct HeldSet {
    body: Bytes,
    since: Instant,
}

type SetSlot = Arc<Mutex<Option<HeldSet>>>;

#[derive(Debug)]
pub(super) struct KeySets(Cache<String, SetSlot>);

impl Default for KeySets {
    fn default() -> Self {
        Self(Cache::new(MOST_SETS))
    }
}

impl KeySets {
    /// The set at an address; `fetch` asks for it. Who asks meanwhile waits for the same fetch.
    pub(super) async fn find(
        &self,
        uri: &str,
        max_age: Duration,
        fresh: bool,
        fetch: impl Future<Output = CheckReply>,
    ) -> CheckReply {
        let made = || Ok::<_, std::convert::Infallible>(SetSlot::default());
        let Ok(slot) = self.0.get_or_insert_with(uri, made);
        let mut held = slot.lock().await;
        if let Some(known) = &*held {
            let age = known.since.elapsed();
            let is_young = if fresh { age < AGAIN } else { age < max_age };
            if is_young {
                return CheckReply::Reply { status: 200, body: known.body.clone() };
            }
        }
        let answer = fetch.await;
        if let CheckReply::Reply { status: 200, body } = &answer {
            *held = Some(HeldSet { body: body.clone(), since: Instant::now() });
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_set_is_fetched_once_and_missed_keys_ask_once_a_minute() {
        let (sets, fetched) = (KeySets::default(), AtomicU32::new(0));
        let ask = async |fresh: bool| {
            let fetch = async {
                fetched.fetch_add(1, Ordering::Relaxed);
                CheckReply::Reply { status: 200, body: Bytes::from_static(b"{}") }
            };
            sets.find("https://issuer.example/keys", Duration::from_secs(3600), fresh, fetch).await
        };
        for fresh in [false, false, true, true] {
            assert!(matches!(ask(fresh).await, CheckReply::Reply { status: 200, .. }));
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 1, "it is not a minute old");
    }

    #[tokio::test]
    async fn what_could_not_be_fetched_is_not_kept() {
        let sets = KeySets::default();
        let (bad, good) = (CheckReply::Resolved(false), CheckReply::Reply { status: 200, body: Bytes::new() });
        let age = Duration::from_secs(60);
        assert!(matches!(sets.find("u", age, false, async { bad }).await, CheckReply::Resolved(false)));
        assert!(matches!(sets.find("u", age, false, async { good }).await, CheckReply::Reply { .. }));
    }
}
