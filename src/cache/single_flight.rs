//! One upstream call that several clients wait for. The first asks and tells the others what comes, piece by
//! piece; it goes on after its own client left for as long as anybody follows.

use super::{AnswerCache, CacheEntry, CacheKey};
use bytes::{Bytes, BytesMut};
use gateway_domain::{Timestamp, Usage};
use parking_lot::Mutex;
use pingora::http::ResponseHeader;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// What waits for followers until the last of them has left; past it they are cut off.
const MOST_TOLD: usize = 32 << 20;

/// How an answer begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerHead {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) stream: bool,
}

/// A whole answer that is not to be kept: every follower handles it as if it had come to itself.
#[derive(Clone, Debug)]
pub(crate) struct FailedAnswer {
    pub(crate) head: Box<ResponseHeader>,
    pub(crate) body: Bytes,
    pub(crate) message: Option<String>,
}

#[derive(Debug, Default)]
enum FlightPhase {
    #[default]
    Asking,
    Answering,
    /// All pieces were told; `usage` and `model` are known as far as they ever will be.
    Ended {
        usage: Option<Usage>,
        model: Option<String>,
    },
    Failed(FailedAnswer),
    /// The leader gave up without an answer, for reasons that are its own.
    Lost,
}

#[derive(Debug, Default)]
struct FlightAnswer {
    phase: FlightPhase,
    head: Option<AnswerHead>,
    pieces: Vec<Bytes>,
}

#[derive(Debug)]
pub(super) struct SingleFlight {
    told: Mutex<FlightAnswer>,
    changed: watch::Sender<()>,
    followers: AtomicUsize,
    /// Woken when the last follower has left.
    left: Notify,
}

impl Default for SingleFlight {
    fn default() -> Self {
        Self {
            told: Mutex::default(),
            changed: watch::Sender::new(()),
            followers: AtomicUsize::new(0),
            left: Notify::new(),
        }
    }
}

impl SingleFlight {
    fn update(&self, change: impl FnOnce(&mut FlightAnswer)) {
        change(&mut self.told.lock());
        self.changed.send_replace(());
    }
}

/// What a follower learns next.
#[derive(Debug)]
pub(crate) enum FollowerEvent {
    Begun(AnswerHead),
    Piece(Bytes),
    Ended { usage: Option<Usage>, model: Option<String> },
    Failed(FailedAnswer),
    Lost,
}

#[derive(Debug)]
pub(crate) struct Follower {
    flight: Arc<SingleFlight>,
    changed: watch::Receiver<()>,
    begun: bool,
    next: usize,
}

impl Follower {
    pub(super) fn new(flight: Arc<SingleFlight>) -> Self {
        flight.followers.fetch_add(1, Ordering::AcqRel);
        let changed = flight.changed.subscribe();
        Self { flight, changed, begun: false, next: 0 }
    }

    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> FollowerEvent {
        loop {
            self.changed.mark_unchanged();
            if let Some(event) = self.ready() {
                return event;
            }
            // The sender lives in the flight, which this follower holds.
            if self.changed.changed().await.is_err() {
                return FollowerEvent::Lost;
            }
        }
    }

    fn ready(&mut self) -> Option<FollowerEvent> {
        let told = self.flight.told.lock();
        if !self.begun
            && let Some(head) = &told.head
        {
            self.begun = true;
            return Some(FollowerEvent::Begun(head.clone()));
        }
        if let Some(piece) = told.pieces.get(self.next) {
            self.next += 1;
            return Some(FollowerEvent::Piece(piece.clone()));
        }
        match &told.phase {
            FlightPhase::Asking | FlightPhase::Answering => None,
            FlightPhase::Ended { usage, model } => Some(FollowerEvent::Ended { usage: *usage, model: model.clone() }),
            FlightPhase::Failed(failed) => Some(FollowerEvent::Failed(failed.clone())),
            FlightPhase::Lost => Some(FollowerEvent::Lost),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.flight.followers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.flight.left.notify_waiters();
        }
    }
}

/// The one who asks upstream. Dropped without an end, its followers are told that it is lost.
#[derive(Debug)]
pub(crate) struct Leader {
    cache: Arc<AnswerCache>,
    key: CacheKey,
    keep: Duration,
    /// `None`: nobody can follow.
    flight: Option<Arc<SingleFlight>>,
    head: Option<AnswerHead>,
    body: BytesMut,
    told: usize,
    /// It grew past what is worth keeping.
    too_large: bool,
}

impl Leader {
    pub(super) fn new(
        cache: Arc<AnswerCache>,
        key: CacheKey,
        keep: Duration,
        flight: Option<Arc<SingleFlight>>,
    ) -> Self {
        Self { cache, key, keep, flight, head: None, body: BytesMut::new(), told: 0, too_large: false }
    }

    pub(crate) fn followed(&self) -> bool {
        self.flight.as_ref().is_some_and(|f| f.followers.load(Ordering::Acquire) > 0)
    }

    /// Resolves when nobody follows. Who joins after that finds the flight lost and asks itself.
    pub(crate) async fn without_followers(&self) {
        let Some(flight) = &self.flight else { return };
        loop {
            let left = flight.left.notified();
            if flight.followers.load(Ordering::Acquire) == 0 {
                return;
            }
            left.await;
        }
    }

    pub(crate) fn begin(&mut self, head: AnswerHead) {
        if let Some(flight) = &self.flight {
            flight.update(|told| {
                told.phase = FlightPhase::Answering;
                told.head = Some(head.clone());
            });
        }
        self.head = Some(head);
    }

    pub(crate) fn push(&mut self, piece: &Bytes) {
        if piece.is_empty() {
            return;
        }
        // A piece may be a window into a much larger read; what waits here must weigh what it says.
        self.told += piece.len();
        if self.told > MOST_TOLD {
            self.leave(FlightPhase::Lost);
        } else if let Some(flight) = &self.flight {
            let piece = Bytes::copy_from_slice(piece);
            flight.update(|told| told.pieces.push(piece));
        }
        self.too_large |= self.body.len() + piece.len() > self.cache.largest;
        if self.too_large {
            self.body = BytesMut::new();
        } else {
            self.body.extend_from_slice(piece);
        }
    }

    /// All of a good answer was told. `good`: it may be kept. Returns what the shared shelf is to be told.
    pub(crate) fn end(
        mut self,
        good: bool,
        usage: Option<Usage>,
        model: Option<String>,
        now: Timestamp,
    ) -> Option<Publication> {
        let kept = self.head.take().filter(|_| good && !self.too_large).map(|head| {
            let keep = i64::try_from(self.keep.as_micros()).unwrap_or(i64::MAX);
            Arc::new(CacheEntry {
                status: head.status,
                content_type: head.content_type,
                body: std::mem::take(&mut self.body).freeze(),
                stream: head.stream,
                usage,
                model: model.clone(),
                expires: Timestamp(now.0.saturating_add(keep)),
            })
        });
        let kept = kept.filter(|entry| self.cache.keep(self.key, entry));
        self.leave(FlightPhase::Ended { usage, model });
        let shared = self.cache.shared.clone()?;
        Some(Publication { shared, key: self.key, entry: kept?, keep: self.keep })
    }

    pub(crate) fn fail(mut self, failed: FailedAnswer) {
        self.leave(FlightPhase::Failed(failed));
    }

    fn leave(&mut self, phase: FlightPhase) {
        let Some(flight) = self.flight.take() else { return };
        // First out of the table, so that nobody joins what has ended.
        self.cache.land(&self.key, Some(&flight));
        flight.update(|told| told.phase = phase);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.leave(FlightPhase::Lost);
    }
}

/// An entry on its way to the shared shelf, to be sent when no client waits for it.
#[derive(Debug)]
pub(crate) struct Publication {
    shared: Arc<dyn super::SharedCache>,
    key: CacheKey,
    entry: Arc<CacheEntry>,
    keep: Duration,
}

impl Publication {
    pub(crate) async fn send(self) {
        if let Some(bytes) = self.entry.encode() {
            self.shared.put(&self.key, bytes, self.keep).await;
        }
    }
}
