//! Lists that servers gave, kept for a while: of servers that keep no session, since what a session shows may be for
//! that one alone. A list is of an integration as it stands, and of the version that was spoken; whoever sees what of
//! it is asked each time. One that is over still helps where the server fails.

use ahash::AHashMap;
use gateway_domain::snapshot::McpUpstream;
use gateway_mcp::filter::McpKind;
use gateway_mcp::{McpVersion, RawObject};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The most pages that are kept in all; `MOST_BYTES` bounds their bytes.
const MOST: usize = 4_096;
const MOST_BYTES: usize = 32 << 20;
/// The longest time for which a server may say that its public lists hold.
const LONGEST: Duration = Duration::from_secs(3600);
/// How long a list that no longer holds is still told where the server fails.
const STALE: Duration = Duration::from_secs(600);

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ListKey {
    integration: Uuid,
    revision: i64,
    version: &'static str,
    kind: McpKind,
    cursor: String,
    /// The caller in whose name the server was asked, where it does not tell everybody the same.
    owner: Option<Arc<str>>,
}

#[derive(Debug)]
struct KeptList {
    result: Arc<str>,
    since: Instant,
    lasts: Duration,
}

#[derive(Debug, Default)]
struct ListShelf {
    all: AHashMap<ListKey, KeptList>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct McpLists {
    shelf: Mutex<ListShelf>,
    /// How long a list is kept that does not say how long it holds, and at most one that is not public; zero: no list
    /// is kept.
    lasts: Duration,
}

impl ListKey {
    /// `None`: it is no list that is kept.
    pub(super) fn new(
        upstream: &McpUpstream,
        version: McpVersion,
        method: &str,
        params: Option<&RawObject<'_>>,
        owner: Option<Arc<str>>,
    ) -> Option<Self> {
        let kind = McpKind::listed_by(method)?;
        let others =
            params.into_iter().flat_map(|params| params.names()).any(|name| !matches!(name, "cursor" | "_meta"));
        if others {
            return None;
        }
        let cursor = params.and_then(|params| params.text("cursor")).unwrap_or_default();
        let (integration, revision) = (upstream.id.0, upstream.revision);
        Some(Self { integration, revision, version: version.name(), kind, cursor, owner })
    }
}

impl McpLists {
    pub(super) fn new(lasts: Duration) -> Self {
        Self { shelf: Mutex::default(), lasts }
    }

    pub(super) fn len(&self) -> usize {
        self.shelf.lock().all.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.shelf.lock().bytes
    }

    pub(super) const fn are_kept(&self) -> bool {
        !self.lasts.is_zero()
    }

    pub(super) fn get(&self, key: &ListKey, now: Instant) -> Option<Arc<str>> {
        let shelf = self.shelf.lock();
        let kept = shelf.all.get(key)?;
        (now.saturating_duration_since(kept.since) < kept.lasts).then(|| kept.result.clone())
    }

    /// The list that is kept, also where it no longer holds, until `STALE` has passed since it did.
    pub(super) fn stale(&self, key: &ListKey, now: Instant) -> Option<Arc<str>> {
        let shelf = self.shelf.lock();
        let kept = shelf.all.get(key)?;
        (now.saturating_duration_since(kept.since) < kept.lasts + STALE).then(|| kept.result.clone())
    }

    pub(super) fn keep(&self, key: ListKey, result: &str, now: Instant) {
        let lasts = self.lasting(result);
        if lasts.is_zero() || result.len() > MOST_BYTES / 8 {
            return;
        }
        let mut shelf = self.shelf.lock();
        shelf.forget(|kept, _| *kept == key);
        if shelf.all.len() >= MOST || shelf.bytes + result.len() > MOST_BYTES {
            shelf.forget(|_, kept| now.saturating_duration_since(kept.since) >= kept.lasts);
        }
        if shelf.all.len() < MOST && shelf.bytes + result.len() <= MOST_BYTES {
            shelf.bytes += result.len();
            shelf.all.insert(key, KeptList { result: result.into(), since: now, lasts });
        }
    }

    /// What a server says of its public lists counts; what is for somebody holds no longer than any.
    fn lasting(&self, result: &str) -> Duration {
        let Ok(object) = RawObject::parse(result) else { return Duration::ZERO };
        let told = object.raw("ttlMs").and_then(|ttl| ttl.parse().ok()).map(Duration::from_millis);
        match told {
            Some(told) if object.text("cacheScope").as_deref() == Some("public") => told.min(LONGEST),
            Some(told) => told.min(self.lasts),
            None => self.lasts,
        }
    }

    /// The server says that its lists are others by now.
    pub(super) fn drop_of(&self, integration: Uuid) {
        self.shelf.lock().forget(|key, _| key.integration == integration);
    }
}

impl ListShelf {
    fn forget(&mut self, which: impl Fn(&ListKey, &KeptList) -> bool) {
        let mut gone = 0;
        self.all.retain(|key, kept| {
            let goes = which(key, kept);
            gone += if goes { kept.result.len() } else { 0 };
            !goes
        });
        self.bytes -= gone;
    }
}

/// Whether a message says that a list has changed.
pub(super) fn is_changed(data: &str) -> bool {
    data.contains("/list_changed") && {
        let method = RawObject::parse(data).ok().and_then(|message| message.text("method"));
        method.is_some_and(|method| method.starts_with("notifications/") && method.ends_with("/list_changed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> ListKey {
        let integration = Uuid::from_u128(n);
        let (version, kind) = (McpVersion::V2026_07_28.name(), McpKind::Tool);
        ListKey { integration, revision: 1, version, kind, cursor: String::new(), owner: None }
    }

    #[test]
    fn a_list_holds_for_as_long_as_is_told_and_helps_out_a_while_longer() {
        let lists = McpLists::new(Duration::from_secs(60));
        let begin = Instant::now();
        let at = |secs: u64| begin + Duration::from_secs(secs);
        for (n, result, holds) in [
            (1, r#"{"tools":[]}"#, 60),
            (2, r#"{"tools":[],"ttlMs":5000,"cacheScope":"private"}"#, 5),
            (3, r#"{"tools":[],"ttlMs":900000,"cacheScope":"private"}"#, 60),
            (4, r#"{"tools":[],"ttlMs":900000,"cacheScope":"public"}"#, 900),
            (5, r#"{"tools":[],"ttlMs":99999999999,"cacheScope":"public"}"#, 3600),
        ] {
            lists.keep(key(n), result, begin);
            assert_eq!(lists.get(&key(n), at(holds - 1)).as_deref(), Some(result));
            assert!(lists.get(&key(n), at(holds)).is_none(), "{result}");
            assert!(lists.stale(&key(n), at(holds + 599)).is_some() && lists.stale(&key(n), at(holds + 600)).is_none());
        }
        lists.keep(key(6), r#"{"tools":[],"ttlMs":0}"#, begin);
        assert!(lists.stale(&key(6), begin).is_none(), "what does not hold is not kept");
        let off = McpLists::new(Duration::ZERO);
        off.keep(key(1), r#"{"tools":[]}"#, begin);
        assert!(!off.are_kept() && off.stale(&key(1), begin).is_none());
    }

    #[test]
    fn lists_of_a_server_go_together_and_all_are_bounded() {
        let lists = McpLists::new(Duration::from_secs(60));
        let begin = Instant::now();
        lists.keep(key(1), r#"{"tools":[]}"#, begin);
        lists.keep(ListKey { cursor: "c".into(), ..key(1) }, r#"{"tools":[]}"#, begin);
        lists.keep(key(2), r#"{"tools":[]}"#, begin);
        lists.drop_of(Uuid::from_u128(1));
        assert!(lists.get(&key(1), begin).is_none() && lists.get(&key(2), begin).is_some());
        for n in 0..MOST as u128 + 10 {
            lists.keep(key(n), r#"{"tools":[]}"#, begin);
        }
        assert_eq!(lists.shelf.lock().all.len(), MOST);
        let large = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(MOST_BYTES / 8 - 100));
        let lists = McpLists::new(Duration::from_secs(60));
        for n in 0..20 {
            lists.keep(key(n), &large, begin);
        }
        let shelf = lists.shelf.lock();
        assert!(shelf.bytes <= MOST_BYTES && shelf.all.len() == 8, "{} in {}", shelf.bytes, shelf.all.len());
    }

    #[test]
    fn a_notice_of_a_changed_list_is_told_from_a_text_that_names_one() {
        assert!(is_changed(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#));
        assert!(!is_changed(r#"{"jsonrpc":"2.0","id":1,"result":{"text":"notifications/tools/list_changed"}}"#));
        assert!(!is_changed(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"/list_changed"}}"#));
    }
}
