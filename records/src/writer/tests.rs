//! The writer with real parts: a journal in a folder, records in SQLite files, two threads. What stands behind a port
//! beside the store listens, and can hold the writer up where a test needs it to.

mod access_log;
mod awaiting;
mod outage;
mod pricing;
mod queueing;

use super::{HookWords, PAUSE, RecordPath, RecordQueues, Records, SHORTEST_PAUSE, Writer, WriterTrouble, pause};
use crate::metrics::{Metrics, MetricsOptions, Readings};
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{Fut, RecordAppend, RecordLedger, RecordQuery, StoreError};
use gateway_domain::record::{LlmDetail, LogQuery, LogRecord, Position, RecordedOperation};
use gateway_domain::usage::Usage;
use gateway_store::journal::Journal;
use gateway_store::{DatabaseOptions, DayFiles};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// Noon of 31 January 2026, in UTC.
const NOON: i64 = 1_769_860_800;
const DAY: &str = "2026-01-31";
/// More than any test needs on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A call of a model whose price everybody knows.
fn record(n: u128) -> LogRecord {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let mut record = LogRecord::blank();
    record.id = Uuid::from_u128(n);
    record.created_at = Timestamp::from_secs(NOON);
    record.trace_id = format!("trace-{n}").into();
    record.attempt = 1;
    record.last = true;
    record.org = OrgId(Uuid::from_u128(1));
    record.workspace = WorkspaceId(Uuid::from_u128(2));
    record.workspace_slug = "default".into();
    record.provider = "openai".into();
    record.model = "gpt-4o".into();
    record.method = "POST".into();
    record.path = "/v1/chat/completions".into();
    record.status = 200;
    record.operation = RecordedOperation::new("chatComplete", LlmDetail { usage: Some(usage), ..LlmDetail::NONE });
    record
}

fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<Uuid> {
    numbers.into_iter().map(Uuid::from_u128).collect()
}

/// Waits until it is so, and fails when that takes too long.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Hears what the writer settled, batch by batch.
#[derive(Default)]
struct Listener {
    /// Whoever holds it holds up the writer at its next batch.
    gate: Mutex<()>,
    at_gate: AtomicUsize,
    batches: Mutex<Vec<Vec<Uuid>>>,
    /// How often nothing waited.
    rests: AtomicUsize,
}

impl Listener {
    fn heard(&self) -> Vec<Uuid> {
        self.batches.lock().concat()
    }

    fn sizes(&self) -> Vec<usize> {
        self.batches.lock().iter().map(Vec::len).collect()
    }
}

impl RecordLedger for Listener {
    fn settle(&self, records: &[LogRecord], after: &[Position]) {
        assert_eq!(records.len(), after.len(), "each record has a place");
        self.at_gate.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock());
        self.batches.lock().push(records.iter().map(|record| record.id).collect());
    }

    fn caught_up(&self) {
        self.rests.fetch_add(1, Ordering::SeqCst);
    }

    fn needs(&self) -> Option<Position> {
        None
    }
}

/// The real store, and in which order records came to it.
struct Overheard {
    files: Arc<DayFiles>,
    came: Mutex<Vec<Uuid>>,
}

impl RecordAppend for Overheard {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        self.came.lock().extend(batch.iter().map(|record| record.id));
        self.files.append(batch)
    }
}

/// A data folder, as processes find it one after the other.
struct House {
    dir: TempDir,
    runtime: Runtime,
}

/// A process that keeps records there.
struct Process {
    records: Records,
    awaited: super::AwaitedRecords,
    writer: Writer,
    metrics: Metrics,
    trouble: WriterTrouble,
    store: Arc<Overheard>,
    listener: Arc<Listener>,
}

impl House {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { dir: TempDir::new().expect("a folder"), runtime: runtime.expect("a runtime") }
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    /// The file that holds the records of the day of all tests.
    fn day(&self) -> PathBuf {
        self.dir.path().join("records").join(format!("{DAY}.db"))
    }

    fn files(&self) -> Arc<DayFiles> {
        Arc::new(DayFiles::open(&self.dir.path().join("records"), &DatabaseOptions::default(), None).expect("a store"))
    }

    fn start(&self) -> Process {
        self.start_with(|_| {})
    }

    fn start_with(&self, change: impl FnOnce(&mut RecordPath)) -> Process {
        let (journal, shipper) = Journal::open(&self.journal(), 64 << 20).expect("a journal");
        let store = Arc::new(Overheard { files: self.files(), came: Mutex::default() });
        let listener = Arc::<Listener>::default();
        let (metrics, trouble) = (Metrics::new(MetricsOptions::default()).expect("metrics"), WriterTrouble::default());
        let mut path = RecordPath {
            journal,
            shipper,
            store: store.clone(),
            ledger: Some(listener.clone()),
            runtime: self.runtime.handle().clone(),
            metrics: metrics.clone(),
            access_log: false,
            strangers: None,
            off: false,
            otlp: None,
            trouble: trouble.clone(),
        };
        change(&mut path);
        let (RecordQueues { records, awaited }, writer) = Writer::start(path).expect("threads");
        Process { records, awaited, writer, metrics, trouble, store, listener }
    }

    /// What the store has, by id.
    fn stored(&self) -> Vec<LogRecord> {
        let query = LogQuery { page_size: 1_000, ..LogQuery::default() };
        let files = self.files();
        let first = self.runtime.block_on(files.query(&query)).expect("the store can be read");
        let mut rows = first.rows;
        for page in 1..first.total.div_ceil(1_000) {
            let next = self.runtime.block_on(files.query(&LogQuery { page, ..query.clone() }));
            rows.extend(next.expect("the store can be read").rows);
        }
        rows.sort_by_key(|record| record.id);
        rows
    }

    fn stored_ids(&self) -> Vec<Uuid> {
        self.stored().iter().map(|record| record.id).collect()
    }

    /// Puts something in the place of the day's file, so that the store is away until it is gone again.
    fn block_store(&self) {
        std::fs::create_dir_all(self.day()).expect("a folder");
    }

    fn unblock_store(&self) {
        std::fs::remove_dir_all(self.day()).expect("the folder goes");
    }
}

impl Process {
    fn send(&self, numbers: impl IntoIterator<Item = u128>) {
        numbers.into_iter().for_each(|n| self.records.send(Box::new(record(n)), None));
    }

    fn dropped(&self, by: &str) -> u64 {
        self.metrics.dropped()[by]
    }

    fn dropped_at_all(&self) -> u64 {
        self.metrics.dropped().values().sum()
    }

    /// The sum of all series of a metric.
    fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode(&Readings::default());
        let values = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    fn stop(mut self) -> Metrics {
        self.writer.stop(SOON);
        self.metrics
    }
}
