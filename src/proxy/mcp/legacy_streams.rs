//! Streams of clients of 2024-11-05, as this node has them open: each of one caller and one server, with what waits to
//! go down. Knows nothing of what is said.

use super::mailbox::Mailbox;
use ahash::AHashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// The most streams that may be open on this node.
const MOST: usize = 1_000;
/// Messages of one that are being answered.
const MOST_UNDER_WAY: usize = 64;

/// Those that are open.
#[derive(Default)]
pub(super) struct LegacyStreams(Mutex<AHashMap<Arc<str>, Arc<LegacyStream>>>);

/// One client's.
pub(in crate::proxy) struct LegacyStream {
    pub(super) id: Arc<str>,
    principal: String,
    server: String,
    pub(super) mail: Mailbox,
    /// The client's session, sealed as other clients carry theirs.
    pub(super) session: Mutex<Option<String>>,
    over: watch::Sender<bool>,
    under_way: AtomicUsize,
}

impl LegacyStreams {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// `None`: there are as many as may be.
    pub(super) fn open(&self, principal: &str, server: &str) -> Option<Arc<LegacyStream>> {
        let mut all = self.0.lock();
        if all.len() >= MOST {
            return None;
        }
        let id: Arc<str> = format!("{:032x}", rand::random::<u128>()).into();
        let stream = Arc::new(LegacyStream {
            id: id.clone(),
            principal: principal.to_owned(),
            server: server.to_owned(),
            mail: Mailbox::default(),
            session: Mutex::default(),
            over: watch::Sender::new(false),
            under_way: AtomicUsize::new(0),
        });
        all.insert(id, stream.clone());
        Some(stream)
    }

    /// Nobody finds another's.
    pub(super) fn find(&self, id: &str, principal: &str, server: &str) -> Option<Arc<LegacyStream>> {
        let found = self.0.lock().get(id)?.clone();
        (found.principal == principal && found.server == server).then_some(found)
    }
}

impl LegacyStream {
    /// Messages that are being answered.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
    }

    /// One that nobody reads fast enough has no use any more.
    pub(super) fn push(&self, message: &str) {
        if !self.mail.put(message) {
            self.end();
        }
    }

    /// Resolves when nobody reads it any more.
    pub(super) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// The client has to begin anew.
    pub(super) fn end(&self) {
        self.mail.end(None);
    }

    pub(super) fn enter(self: &Arc<Self>) -> Option<MessageUnderWay> {
        let room = |n| (n < MOST_UNDER_WAY).then_some(n + 1);
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).ok()?;
        Some(MessageUnderWay(self.clone()))
    }
}

pub(super) struct MessageUnderWay(Arc<LegacyStream>);

impl Drop for MessageUnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream that is being read.
pub(super) struct OpenStream<'a> {
    pub(super) streams: &'a LegacyStreams,
    pub(super) stream: Arc<LegacyStream>,
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.streams.0.lock().remove(&self.stream.id);
        self.stream.over.send_replace(true);
        self.stream.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_and_found_by_their_own_alone() {
        let streams = LegacyStreams::default();
        let all: Vec<_> = (0..MOST).map(|_| streams.open("ann", "files").expect("room")).collect();
        assert!(streams.open("ann", "files").is_none() && streams.len() == MOST);
        let one = &all[0];
        assert!(streams.find(&one.id, "ann", "files").is_some());
        assert!(streams.find(&one.id, "bob", "files").is_none() && streams.find(&one.id, "ann", "mail").is_none());
        let over = one.over();
        drop(OpenStream { streams: &streams, stream: one.clone() });
        assert!(*over.borrow() && streams.find(&one.id, "ann", "files").is_none());
        assert!(streams.open("bob", "files").is_some());
    }

    #[test]
    fn messages_under_way_are_bounded() {
        let streams = LegacyStreams::default();
        let stream = streams.open("ann", "files").expect("room");
        let held: Vec<_> = (0..MOST_UNDER_WAY).map(|_| stream.enter().expect("room")).collect();
        assert!(stream.enter().is_none());
        drop(held);
        assert!(stream.enter().is_some());
    }
}
