//! Notes which workspace owns an object that a provider keeps, where workspaces share a credential and do not see each
//! other's (`isolate_objects`): lists are filtered by these rows. They lie in the database, not in the journal of
//! records: another node must find them at once, and the journal gives its records away to a store that may be another.
//!
//! A row is written by one task of the control runtime, and whoever delivers the answer waits for it, a second at most.
//! Where the database is away answers pass all the same: what is to be noted waits in a queue with a bound, is tried
//! again until it is written, and is counted as lost where the queue is full. It is lost as well where the process dies
//! meanwhile: such an object is missing from lists, and still found by its id. Knows neither HTTP nor providers.

use crate::bookings::BookingId;
use crate::clock;
use crate::metrics::Metrics;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{KeptObject, KeptObjects, MOST_KEPT_ASKED, StoreError};
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

/// Longer than providers keep most of what is not asked for again.
const KEPT_MICROS: i64 = 730 * 86_400 * 1_000_000;
/// How long an answer waits for its note.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before a database that is away is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Notes that are written in one go.
const AT_ONCE: usize = 200;
/// Objects that are known to be noted, so that each look at them is not noted again.
const MOST_RECENT: usize = 8_192;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptObjectBounds {
    /// Rows of one workspace: beyond them its oldest go.
    pub(crate) of_workspace: u32,
    /// Changes that wait for the database.
    pub(crate) waiting: usize,
}

impl Default for KeptObjectBounds {
    fn default() -> Self {
        Self { of_workspace: 100_000, waiting: 10_000 }
    }
}

/// One object: who made it, what keeps it, and what that calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptName<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) keeper: &'a [u8],
    pub(crate) native: &'a str,
}

impl KeptName<'_> {
    fn mark(&self) -> Uuid {
        BookingId::of(&[b"kept", self.keeper, self.native.as_bytes()]).0
    }
}

/// What notes and forgets them, and knows them again.
pub(crate) struct KeptObjectNotes {
    store: Arc<dyn KeptObjects>,
    /// Databases are asked here, never on a thread that serves requests.
    runtime: Handle,
    bounds: KeptObjectBounds,
    queue: Mutex<NoteQueue>,
    wake: Notify,
    /// The number of the last change that was written.
    written: watch::Sender<u64>,
    counts: IntCounterVec,
}

impl std::fmt::Debug for KeptObjectNotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptObjectNotes").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct NoteQueue {
    changes: VecDeque<KeptChange>,
    /// The number of the last one.
    last: u64,
    recent: HashSet<(WorkspaceId, Uuid)>,
    /// The database did not take the last ones: nobody waits for it.
    is_away: bool,
}

#[derive(Clone, Copy)]
enum KeptChange {
    Note(KeptObject),
    Forget(WorkspaceId, Uuid),
}

impl KeptObjectNotes {
    /// Begins to write what is noted.
    pub(crate) fn start(
        store: Arc<dyn KeptObjects>,
        runtime: Handle,
        metrics: &Metrics,
        bounds: KeptObjectBounds,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let help = "Notes of whose an object at a provider is, on this node";
        let counts = IntCounterVec::new(Opts::new("gateway_kept_object_notes_total", help), &["outcome"])?;
        for outcome in ["noted", "late", "lost", "crowded_out"] {
            counts.with_label_values(&[outcome]).inc_by(0);
        }
        metrics.register(Box::new(counts.clone()))?;
        let (queue, wake, written) = (Mutex::default(), Notify::new(), watch::Sender::new(0));
        let notes = Arc::new(Self { store, runtime, bounds, queue, wake, written, counts });
        let waiting = Arc::downgrade(&notes);
        let help = "Notes of whose an object at a provider is that wait for the database, 10,000 at most";
        let read = move || waiting.upgrade().map_or(0, |notes| notes.queue.lock().changes.len() as u64);
        metrics.watch("gateway_kept_object_notes_waiting", help, read)?;
        let writer = notes.clone();
        notes.runtime.spawn(async move {
            loop {
                writer.write_some().await;
            }
        });
        Ok(notes)
    }

    /// Notes it as soon as can be; the number to wait for.
    pub(crate) fn note(&self, name: KeptName<'_>) -> u64 {
        let (workspace, mark, created_at) = (name.workspace, name.mark(), clock::now());
        let mut queue = self.queue.lock();
        if queue.recent.contains(&(workspace, mark)) {
            return 0;
        }
        let expires_at = created_at.plus_micros(KEPT_MICROS);
        self.push(&mut queue, KeptChange::Note(KeptObject { workspace, mark, created_at, expires_at }))
    }

    pub(crate) fn forget(&self, name: KeptName<'_>) -> u64 {
        let (workspace, mark) = (name.workspace, name.mark());
        let mut queue = self.queue.lock();
        queue.recent.remove(&(workspace, mark));
        self.push(&mut queue, KeptChange::Forget(workspace, mark))
    }

    fn push(&self, queue: &mut NoteQueue, change: KeptChange) -> u64 {
        if queue.changes.len() >= self.bounds.waiting {
            self.count("lost", 1);
            return 0;
        }
        queue.changes.push_back(change);
        queue.last += 1;
        self.wake.notify_one();
        queue.last
    }

    /// Waits until that change and those before it are written, as long as an answer may wait.
    pub(crate) async fn settled(&self, number: u64) {
        if *self.written.borrow() >= number {
            return;
        }
        let mut written = self.written.subscribe();
        let is_away = self.queue.lock().is_away;
        let in_time =
            !is_away && tokio::time::timeout(PATIENCE, written.wait_for(|last| *last >= number)).await.is_ok();
        if !in_time {
            self.count("late", 1);
        }
    }

    /// Which of these objects the workspace made.
    pub(crate) async fn own_among(
        self: &Arc<Self>,
        (workspace, keeper): (WorkspaceId, &[u8]),
        natives: &[&str],
    ) -> Result<HashSet<String>, StoreError> {
        let marks: Vec<Uuid> = natives.iter().map(|native| KeptName { workspace, keeper, native }.mark()).collect();
        let (store, asked) = (self.store.clone(), marks.clone());
        let found = self.runtime.spawn(async move {
            let mut found = HashSet::new();
            for some in asked.chunks(MOST_KEPT_ASKED) {
                found.extend(store.kept_among(workspace, some).await?);
            }
            Ok(found)
        });
        let given_up = |_| Err(StoreError::Unavailable("the work was given up".to_owned()));
        let found: HashSet<Uuid> = found.await.unwrap_or_else(given_up)?;
        let own = natives.iter().zip(&marks).filter(|(_, mark)| found.contains(mark));
        Ok(own.map(|(native, _)| (*native).to_owned()).collect())
    }

    /// Writes what waits first, or waits for something to write.
    async fn write_some(&self) {
        let some = self.first_ones();
        if some.is_empty() {
            return self.wake.notified().await;
        }
        match self.write(&some).await {
            Ok(crowded) => {
                let notes = some.iter().filter(|change| matches!(change, KeptChange::Note(_))).count();
                self.count("noted", notes as u64);
                self.count("crowded_out", crowded);
                self.wrote(&some);
            }
            Err(e) => {
                let before = std::mem::replace(&mut self.queue.lock().is_away, true);
                if !before {
                    tracing::warn!(error = %e, "whose objects at providers are is not noted for the moment: it is tried again");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Notes that stand behind each other, or what is to be forgotten.
    fn first_ones(&self) -> Vec<KeptChange> {
        let queue = self.queue.lock();
        if let Some(forget @ KeptChange::Forget(..)) = queue.changes.front() {
            return vec![*forget];
        }
        let notes = queue.changes.iter().take_while(|change| matches!(change, KeptChange::Note(_)));
        notes.take(AT_ONCE).copied().collect()
    }

    async fn write(&self, some: &[KeptChange]) -> Result<u64, StoreError> {
        if let [KeptChange::Forget(workspace, mark)] = some {
            return self.store.forget_kept(*workspace, *mark).await.map(|_| 0);
        }
        let notes = some.iter().filter_map(|change| match change {
            KeptChange::Note(object) => Some(*object),
            KeptChange::Forget(..) => None,
        });
        let notes: Vec<KeptObject> = notes.collect();
        self.store.note_kept(&notes, self.bounds.of_workspace).await
    }

    fn wrote(&self, some: &[KeptChange]) {
        let mut queue = self.queue.lock();
        queue.is_away = false;
        queue.changes.drain(..some.len());
        if queue.recent.len() + some.len() > MOST_RECENT {
            queue.recent.clear();
        }
        for change in some {
            match change {
                KeptChange::Note(object) => drop(queue.recent.insert((object.workspace, object.mark))),
                KeptChange::Forget(workspace, mark) => drop(queue.recent.remove(&(*workspace, *mark))),
            }
        }
        let last = queue.last - queue.changes.len() as u64;
        self.written.send_replace(last);
    }

    fn count(&self, outcome: &str, many: u64) {
        self.counts.with_label_values(&[outcome]).inc_by(many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsOptions;
    use gateway_domain::Timestamp;
    use gateway_domain::ports::Fut;
    use std::sync::atomic::{AtomicBool, Ordering};

    const OURS: WorkspaceId = WorkspaceId(Uuid::from_u128(1));
    const THEIRS: WorkspaceId = WorkspaceId(Uuid::from_u128(2));

    /// A database that is away when it is told to be.
    struct Flighty {
        database: gateway_store::Database,
        is_away: AtomicBool,
    }

    impl Flighty {
        async fn there<T>(&self, work: Fut<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
            if self.is_away.load(Ordering::Relaxed) {
                return Err(StoreError::Unavailable("away".to_owned()));
            }
            work.await
        }
    }

    impl KeptObjects for Flighty {
        fn note_kept<'a>(&'a self, objects: &'a [KeptObject], most: u32) -> Fut<'a, Result<u64, StoreError>> {
            Box::pin(self.there(self.database.note_kept(objects, most)))
        }
        fn kept_among<'a>(&'a self, of: WorkspaceId, marks: &'a [Uuid]) -> Fut<'a, Result<Vec<Uuid>, StoreError>> {
            Box::pin(self.there(self.database.kept_among(of, marks)))
        }
        fn forget_kept(&self, of: WorkspaceId, mark: Uuid) -> Fut<'_, Result<bool, StoreError>> {
            Box::pin(self.there(self.database.forget_kept(of, mark)))
        }
        fn expire_kept(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
            self.database.expire_kept(now)
        }
        fn count_kept(&self) -> Fut<'_, Result<u64, StoreError>> {
            self.database.count_kept()
        }
    }

    async fn notes(bounds: KeptObjectBounds) -> (Arc<KeptObjectNotes>, Arc<Flighty>) {
        let url = gateway_store::DatabaseUrl::parse("sqlite::memory:").expect("a URL");
        let database = gateway_store::open(&url, &gateway_store::DatabaseOptions::default()).await.expect("opens");
        let store = Arc::new(Flighty { database, is_away: AtomicBool::new(false) });
        let metrics = Metrics::new(MetricsOptions::default()).expect("metrics");
        let notes = KeptObjectNotes::start(store.clone(), Handle::current(), &metrics, bounds).expect("registers");
        (notes, store)
    }

    fn name(native: &str) -> KeptName<'_> {
        KeptName { workspace: OURS, keeper: b"k", native }
    }

    fn counted(notes: &KeptObjectNotes, outcome: &str) -> u64 {
        notes.counts.with_label_values(&[outcome]).get()
    }

    async fn own(notes: &Arc<KeptObjectNotes>, natives: &[&str]) -> Vec<String> {
        let mut own: Vec<String> = notes.own_among((OURS, b"k"), natives).await.expect("asked").into_iter().collect();
        own.sort_unstable();
        own
    }

    #[tokio::test]
    async fn what_is_noted_is_known_to_its_workspace_and_keeper_alone() {
        let (notes, _) = notes(KeptObjectBounds::default()).await;
        let number = notes.note(name("file-1"));
        notes.settled(number).await;
        assert_eq!(own(&notes, &["file-1", "file-2"]).await, ["file-1"]);
        assert!(notes.own_among((THEIRS, b"k"), &["file-1"]).await.expect("asked").is_empty());
        assert!(notes.own_among((OURS, b"other"), &["file-1"]).await.expect("asked").is_empty());
        assert_eq!(notes.note(name("file-1")), 0, "it is known to be noted");
        notes.settled(notes.forget(name("file-1"))).await;
        assert!(own(&notes, &["file-1"]).await.is_empty());
        assert!(notes.note(name("file-1")) > number);
        assert_eq!(counted(&notes, "late"), 0);
    }

    #[tokio::test]
    async fn while_the_database_is_away_notes_wait_and_no_answer_does_for_long() {
        let (notes, store) = notes(KeptObjectBounds { waiting: 2, ..KeptObjectBounds::default() }).await;
        store.is_away.store(true, Ordering::Relaxed);
        notes.settled(notes.note(name("file-1"))).await;
        assert_eq!(counted(&notes, "late"), 1, "it passed without its note");
        let began = std::time::Instant::now();
        notes.settled(notes.note(name("file-2"))).await;
        assert!(began.elapsed() < PATIENCE / 2, "nobody waits for what is known to be away");
        assert_eq!((notes.note(name("file-3")), counted(&notes, "lost")), (0, 1), "the queue has a bound");
        assert!(notes.own_among((OURS, b"k"), &["file-1"]).await.is_err(), "nobody knows");
        store.is_away.store(false, Ordering::Relaxed);
        let mut written = notes.written.subscribe();
        written.wait_for(|last| *last == 2).await.expect("written");
        assert_eq!(own(&notes, &["file-1", "file-2", "file-3"]).await, ["file-1", "file-2"]);
    }

    #[tokio::test]
    async fn of_one_workspace_so_many_are_known_and_no_more() {
        let (notes, _) = notes(KeptObjectBounds { of_workspace: 2, ..KeptObjectBounds::default() }).await;
        for native in ["file-1", "file-2"] {
            notes.settled(notes.note(name(native))).await;
        }
        assert_eq!((own(&notes, &["file-1", "file-2"]).await.len(), counted(&notes, "crowded_out")), (2, 0));
        notes.settled(notes.note(KeptName { workspace: THEIRS, ..name("file-4") })).await;
        notes.settled(notes.note(name("file-3"))).await;
        assert_eq!(own(&notes, &["file-1", "file-2", "file-3"]).await, ["file-2", "file-3"], "the oldest went");
        assert_eq!(counted(&notes, "crowded_out"), 1);
    }
}
