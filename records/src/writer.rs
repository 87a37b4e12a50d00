//! Records on their way out: a bounded queue fed by the hot path, and one thread that prices them, books the
//! metrics, writes the access log and puts them into the journal, a batch at a time. From there a second thread
//! takes them to the store. Knows no request; how the two do is for others to show.

mod access;
mod durable_batch;
mod guardrail_feedback;
mod shipping;
#[cfg(test)]
mod tests;

pub use durable_batch::AwaitedRecords;
pub use guardrail_feedback::WithOpinions;

use crate::Degraded;
use crate::metrics::{Loss, Metrics};
use crate::otlp::Otlp;
use durable_batch::{AwaitedBatch, WhoseRecords};
use gateway_domain::NanoUsd;
use gateway_domain::denied_caller::TurnedAway;
use gateway_domain::ports::{RecordAppend, RecordLedger};
use gateway_domain::price::{PriceBook, PriceQuery, price};
use gateway_domain::record::{CacheStatus, Hooked, LogRecord, Position};
use gateway_store::journal::{Journal, Shipper};
use shipping::Shipping;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// Records waiting at most; beyond it they are dropped and counted.
const QUEUE: usize = 65_536;
const BATCH: usize = 1_024;
/// Long enough to make batches, short enough that a log is there when one looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Records come together to so many, where they come fast: so many stay in a processor's near cache with all that is
/// made of them, and leave there what the next requests need.
const ROUND: u32 = 128;
/// Each round takes a turn from a worker where there is no processor for both.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// What guardrails said, to be put into words by the writer.
pub trait HookWords: fmt::Debug + Send {
    fn into_told(self: Box<Self>) -> Option<Box<Hooked>>;
}

/// A record that waits in the queue, with what guardrails said of it.
#[derive(Debug)]
struct QueuedRecord {
    record: Box<LogRecord>,
    words: Option<Box<dyn HookWords>>,
}

impl QueuedRecord {
    fn into_told(self) -> LogRecord {
        let mut record = *self.record;
        if let Some(words) = self.words {
            record.hooks = words.into_told();
        }
        record
    }
}

/// The hot path's end of the queue.
#[derive(Clone, Debug)]
pub struct Records {
    queue: Sender<QueuedRecord>,
    metrics: Metrics,
    off: bool,
}

impl Records {
    /// Never waits: a full queue drops the record and counts it.
    pub fn send(&self, record: Box<LogRecord>, words: Option<Box<dyn HookWords>>) {
        if self.off {
            return;
        }
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) =
            self.queue.try_send(QueuedRecord { record, words })
        {
            self.metrics.drop_records(Loss::Queue, 1);
        }
    }
}

/// What records pass through.
pub struct RecordPath {
    pub journal: Journal,
    pub shipper: Shipper,
    pub store: Arc<dyn RecordAppend>,
    /// Counts what was recorded, for good.
    pub ledger: Option<Arc<dyn RecordLedger>>,
    pub runtime: Handle,
    pub metrics: Metrics,
    pub access_log: bool,
    /// Callers that were not let in, for the access log.
    pub strangers: Option<Receiver<TurnedAway>>,
    /// No record leaves the hot path: only to measure what the way behind it costs.
    pub off: bool,
    pub otlp: Option<Otlp>,
    pub trouble: WriterTrouble,
}

impl fmt::Debug for RecordPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordPath").field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// Where records come in.
#[derive(Debug)]
pub struct RecordQueues {
    pub records: Records,
    pub awaited: AwaitedRecords,
}

/// What the threads say of themselves.
#[derive(Clone, Debug, Default)]
pub struct WriterTrouble {
    /// Set while the disk takes no records.
    pub shedding: Degraded,
    /// Set while the store takes nothing.
    pub away: Degraded,
}

/// The two threads.
#[derive(Debug)]
pub struct Writer {
    stopping: Arc<AtomicBool>,
    deadline: watch::Sender<Option<Instant>>,
    writing: Option<JoinHandle<()>>,
    shipping: Option<JoinHandle<()>>,
}

struct WriterThread {
    queue: Receiver<QueuedRecord>,
    awaited: Receiver<AwaitedBatch>,
    strangers: Option<Receiver<TurnedAway>>,
    journal: Journal,
    ledger: Option<Arc<dyn RecordLedger>>,
    /// Told when there is something to ship.
    shipping: Thread,
    metrics: Metrics,
    access_log: bool,
    otlp: Option<Otlp>,
    stopping: Arc<AtomicBool>,
    /// Where each record of the batch lies.
    after: Vec<Position>,
    /// Set while the disk takes no records.
    shedding: Degraded,
}

impl Writer {
    pub fn start(way: RecordPath) -> std::io::Result<(RecordQueues, Self)> {
        let RecordPath { journal, shipper, store, ledger, runtime, metrics, access_log, strangers, off, otlp, trouble } =
            way;
        let (tx, rx) = channel(QUEUE);
        let (awaited, waiting) = AwaitedRecords::new();
        let (deadline, ends) = watch::channel(None);
        metrics.watch_journal(journal.gauge());
        let queue = tx.downgrade();
        let depth =
            move || queue.upgrade().map_or(0, |q: Sender<QueuedRecord>| (q.max_capacity() - q.capacity()) as u64);
        let help = "Records that wait for the writer, 65,536 at most";
        metrics.watch("gateway_records_queue_depth", help, depth).map_err(std::io::Error::other)?;
        let WriterTrouble { shedding, away } = trouble;
        let shipping = Shipping { shipper, store, runtime, metrics: metrics.clone(), away, ends };
        let shipping = std::thread::Builder::new().name("record-shipper".into()).spawn(move || shipping.run())?;
        let stopping = Arc::new(AtomicBool::new(false));
        let work = WriterThread {
            queue: rx,
            awaited: waiting,
            strangers,
            journal,
            ledger,
            shipping: shipping.thread().clone(),
            metrics: metrics.clone(),
            access_log,
            otlp,
            stopping: stopping.clone(),
            after: Vec::with_capacity(BATCH),
            shedding,
        };
        let writing = std::thread::Builder::new().name("record-writer".into()).spawn(move || work.run())?;
        let writer = Self { stopping, deadline, writing: Some(writing), shipping: Some(shipping) };
        Ok((RecordQueues { records: Records { queue: tx, metrics, off }, awaited }, writer))
    }

    /// Empties the queue into the journal, and gives the store so long to take what is there: the rest is the next
    /// process's.
    pub fn stop(&mut self, patience: Duration) {
        self.stopping.store(true, Ordering::Release);
        join(self.writing.take());
        self.deadline.send_replace(Some(Instant::now() + patience));
        if let Some(shipping) = &self.shipping {
            shipping.thread().unpark();
        }
        join(self.shipping.take());
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread
        && thread.join().is_err()
    {
        tracing::error!("a thread that keeps records panicked; records of the last moments may be missing");
    }
}

/// How long a round's records take to come, where `found` of them took so long.
fn pause(found: usize, took: Duration) -> Duration {
    match u32::try_from(found) {
        Ok(0) => PAUSE,
        Ok(found) => (took * ROUND / found).clamp(SHORTEST_PAUSE, PAUSE),
        Err(_) => SHORTEST_PAUSE,
    }
}

impl WriterThread {
    fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut found, mut since) = (0, Instant::now());
        loop {
            let stopping = self.stopping.load(Ordering::Acquire);
            while batch.len() < BATCH {
                match self.queue.try_recv() {
                    Ok(queued) => batch.push(queued.into_told()),
                    Err(_) => break,
                }
            }
            if !batch.is_empty() {
                found += batch.len();
                self.write(&mut batch);
                batch.clear();
            }
            while let Ok(mut told) = self.awaited.try_recv() {
                let kept = match told.whose {
                    WhoseRecords::Gateway => self.write(&mut told.records),
                    WhoseRecords::Clients => {
                        prepare(&mut told.records);
                        self.keep(&told.records)
                    }
                };
                // Who asked may be gone; the records stay.
                let _ = told.done.send(kept == told.records.len());
            }
            if let Some(strangers) = &mut self.strangers {
                access::write_turned_away(strangers);
            }
            self.look_after_journal(stopping);
            if self.queue.is_empty() {
                if stopping {
                    return;
                }
                if let Some(ledger) = &self.ledger {
                    ledger.caught_up();
                }
                let pause = pause(std::mem::take(&mut found), since.elapsed());
                since = Instant::now();
                // A plain sleep, so that senders never have a sleeper to wake.
                std::thread::sleep(pause);
            }
        }
    }

    /// How many are in the journal; the others are counted as dropped.
    fn write(&mut self, batch: &mut [LogRecord]) -> usize {
        prepare(batch);
        self.metrics.book(batch);
        if let Some(otlp) = &self.otlp {
            otlp.offer(batch);
        }
        if self.access_log {
            access::write(batch);
        }
        let kept = self.keep(batch);
        self.metrics.drop_records(Loss::Disk, (batch.len() - kept) as u64);
        kept
    }

    /// Into the journal; how many it took.
    fn keep(&mut self, batch: &[LogRecord]) -> usize {
        let appended = self.journal.append(batch, &mut self.after);
        if let Some(ledger) = &self.ledger {
            ledger.settle(batch, &self.after);
        }
        self.shipping.unpark();
        let was_shedding = self.shedding.get().is_some();
        match appended.refused {
            Some(e) if !was_shedding => {
                tracing::error!(error = %e, "the journal cannot be written; records are dropped until it can");
                self.shedding.set(Some(format!("records are dropped: {e}")));
            }
            None if was_shedding => {
                tracing::info!("the journal is written again");
                self.shedding.set(None);
            }
            _ => {}
        }
        appended.kept
    }

    fn look_after_journal(&mut self, stopping: bool) {
        let synced = if stopping { self.journal.sync() } else { self.journal.sync_when_due() };
        if let Err(e) = synced {
            tracing::warn!(error = %e, "the journal cannot be synced; a lost machine may forget its last records");
        }
        self.journal.hold(self.ledger.as_ref().and_then(|ledger| ledger.needs()));
        self.metrics.drop_records(Loss::Journal, self.journal.lost());
    }
}

/// Gives records what is known only now: their price, and what is kept of messages in one piece.
fn prepare(batch: &mut [LogRecord]) {
    for record in batch.iter_mut() {
        record.cost = cost_of(record);
        let saved = saved(record);
        if let Some(llm) = record.llm_mut() {
            llm.saved = saved;
        }
        if let Some(bodies) = &mut record.bodies {
            bodies.settle();
        }
    }
}

/// What has a price of its own came with it.
pub fn cost_of(record: &LogRecord) -> Option<NanoUsd> {
    cost(record).or(record.cost)
}

/// What a call that the cache answered would have cost.
fn saved(record: &LogRecord) -> Option<NanoUsd> {
    if record.cache() == CacheStatus::Hit { listed(record) } else { None }
}

/// What the call cost; an answer from the cache was paid for by another.
fn cost(record: &LogRecord) -> Option<NanoUsd> {
    if record.cache() == CacheStatus::Hit {
        return Some(NanoUsd(0));
    }
    listed(record)
}

fn listed(record: &LogRecord) -> Option<NanoUsd> {
    let llm = record.llm()?;
    let usage = llm.usage.as_ref()?;
    let public = || {
        let (provider, model) = (&*record.provider, &*record.model);
        PriceBook::builtin().card(PriceQuery { provider, model, region: "", at: record.created_at })
    };
    price(usage, llm.card.as_ref().or_else(public), record.created_at)
}
