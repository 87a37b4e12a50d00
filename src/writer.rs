//! Records on their way out: a bounded queue fed by the hot path, and one thread that prices them, books the
//! metrics, writes the access log and appends them to the store, a batch at a time.

mod access;

use crate::metrics::Metrics;
use gateway_domain::NanoUsd;
use gateway_domain::ports::{LogStore, StoreError};
use gateway_domain::price::{PriceBook, price};
use gateway_domain::record::{CacheStatus, LogRecord};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Records waiting at most; beyond it they are dropped and counted.
const QUEUE: usize = 65_536;
const BATCH: usize = 1_024;
/// Long enough to make batches, short enough that a log is there when one looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The hot path's end of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    queue: Sender<Box<LogRecord>>,
    metrics: Metrics,
}

impl Records {
    /// Never waits: a full queue drops the record and counts it.
    pub(crate) fn send(&self, record: Box<LogRecord>) {
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.queue.try_send(record) {
            self.metrics.drop_records(1);
        }
    }
}

/// The writer's thread; `stop` flushes what is queued and waits for it.
#[derive(Debug)]
pub(crate) struct Writer {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Work {
    queue: Receiver<Box<LogRecord>>,
    store: Arc<dyn LogStore>,
    runtime: Handle,
    metrics: Metrics,
    access_log: bool,
    stopping: Arc<AtomicBool>,
}

impl Writer {
    pub(crate) fn start(
        store: Arc<dyn LogStore>,
        runtime: Handle,
        metrics: Metrics,
        access_log: bool,
    ) -> std::io::Result<(Records, Self)> {
        let (tx, rx) = channel(QUEUE);
        let stopping = Arc::new(AtomicBool::new(false));
        let work = Work { queue: rx, store, runtime, metrics: metrics.clone(), access_log, stopping: stopping.clone() };
        let thread = std::thread::Builder::new().name("record-writer".into()).spawn(move || work.run())?;
        Ok((Records { queue: tx, metrics }, Self { stopping, thread: Some(thread) }))
    }

    pub(crate) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the record writer panicked; records of the last moments may be missing");
        }
    }
}

/// What the call cost; an answer from the cache was paid for by another.
fn cost(book: &PriceBook, record: &LogRecord) -> Option<NanoUsd> {
    if record.cache == CacheStatus::Hit {
        return Some(NanoUsd(0));
    }
    price(record.usage.as_ref()?, book.card(&record.provider, &record.model)?)
}

impl Work {
    fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let stopping = self.stopping.load(Ordering::Acquire);
            while batch.len() < BATCH {
                match self.queue.try_recv() {
                    Ok(record) => batch.push(*record),
                    Err(_) => break,
                }
            }
            if batch.is_empty() {
                if stopping {
                    return;
                }
                // A plain sleep, so that senders never have a sleeper to wake.
                std::thread::sleep(PAUSE);
                continue;
            }
            self.write(&mut batch, stopping);
            batch.clear();
        }
    }

    fn write(&self, batch: &mut [LogRecord], stopping: bool) {
        let book = PriceBook::builtin();
        for record in batch.iter_mut() {
            record.cost = cost(book, record);
            if let Some(bodies) = &mut record.bodies {
                bodies.settle();
            }
        }
        self.metrics.book(batch);
        if self.access_log {
            access::write(batch);
        }
        let mut wait = Duration::from_millis(100);
        loop {
            match self.runtime.block_on(self.store.append(batch)) {
                Ok(()) => return,
                Err(StoreError::Unavailable(why)) if !stopping && !self.stopping.load(Ordering::Acquire) => {
                    tracing::warn!(%why, "log store unavailable; records wait in the queue");
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(Duration::from_secs(5));
                }
                Err(e) => {
                    tracing::error!(error = %e, records = batch.len(), "records could not be stored");
                    self.metrics.drop_records(batch.len());
                    return;
                }
            }
        }
    }
}
