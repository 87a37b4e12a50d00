//! What streams up as it comes and is never held whole: a body, of which what was read is kept while it is small, so
//! that it may be sent again; or what is said on a WebSocket once it is open. A hand-over between the client, who fills
//! it, and the call that sends it, which asks for one part at a time. Knows nothing of who it is sent to.

use super::{ClientLeft, gone};
use crate::connections;
use crate::proxy::body::{self, BufferBudget, Permit};
use crate::upstream::http1::{BodySource, Framing};
use bytes::Bytes;
use http::header;
use parking_lot::Mutex;
use pingora::ErrorType;
use pingora::protocols::http::ServerSession;
use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A body larger than this is sent once: it can neither be retried nor fall back.
const MOST_KEPT: usize = 64 * 1024;

/// How the end of the client's body is known.
pub(crate) fn framing(client: &ServerSession) -> Framing {
    let length = client.get_header(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.trim().parse().ok());
    length.map_or(Framing::Chunked, Framing::Length)
}

/// One body on its way up; clones are the two ends of the same.
#[derive(Clone, Debug)]
pub(crate) struct Upload(Arc<Mutex<UploadState>>);

#[derive(Debug)]
struct UploadState {
    kept: Vec<Bytes>,
    bytes: usize,
    /// What is kept counts as what the process holds.
    held: Permit,
    /// How many pieces of `kept` were handed on in the current try.
    handed: usize,
    /// What is left of the piece that is being handed on.
    rest: Bytes,
    /// More came than is kept.
    spilt: bool,
    ended: bool,
    /// The client may wait for a word before it sends anything.
    expects: bool,
    /// The longest that the client may make the gateway wait for a piece.
    silence: Duration,
    /// A call waits for the next part: it is the client's turn.
    wanted: bool,
    /// The connection has become another.
    open: bool,
    /// What was said by [`Upload::say`] and is still to be handed on.
    said: VecDeque<Bytes>,
    call: Option<Waker>,
    client: Option<Waker>,
}

impl Upload {
    /// `silence`: the longest that the client may make the gateway wait for a piece.
    pub(crate) fn of(client: &mut ServerSession, silence: Duration, budget: &Arc<BufferBudget>) -> Self {
        Self::new(client.is_body_empty(), silence, budget)
    }

    fn new(ended: bool, silence: Duration, budget: &Arc<BufferBudget>) -> Self {
        Self(Arc::new(Mutex::new(UploadState {
            kept: Vec::new(),
            bytes: 0,
            held: Permit::new(budget),
            handed: 0,
            rest: Bytes::new(),
            spilt: false,
            ended,
            expects: true,
            silence,
            wanted: false,
            open: false,
            said: VecDeque::new(),
            call: None,
            client: None,
        })))
    }

    /// Opens the connection for all that the client says from now on, however long it is silent.
    pub(crate) fn open(&self, client: &mut ServerSession) {
        client.set_read_timeout(None);
        connections::listen(client);
        self.begin();
    }

    /// The body of a connection that the gateway opens for itself: no client stands behind it.
    pub(crate) fn of_own(budget: &Arc<BufferBudget>) -> Self {
        Self::new(true, Duration::ZERO, budget)
    }

    /// Nothing ends it any more but [`Self::end`].
    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        (state.open, state.ended, state.spilt) = (true, false, true);
    }

    /// Hands on what goes up next on an open connection, where somebody else reads the client.
    pub(crate) fn say(&self, bytes: Bytes) {
        let mut state = self.0.lock();
        state.said.push_back(bytes);
        state.wake_call();
    }

    /// Bytes that were said and not yet taken.
    pub(crate) fn unsent(&self) -> usize {
        let state = self.0.lock();
        state.rest.len() + state.said.iter().map(Bytes::len).sum::<usize>()
    }

    /// Nothing more is said on an open connection.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.wake_call();
    }

    /// All of it was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().ended
    }

    /// What was read so far is still here for another try, which reads on from there.
    pub(crate) fn can_repeat(&self) -> bool {
        !self.0.lock().spilt
    }

    /// Everybody waits for the client.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.lock().wanted
    }

    /// Reads on whenever a call asks for more, until the client has left. Cancel-safe.
    pub(super) async fn feed(&self, client: &mut ServerSession) -> ClientLeft {
        while poll_fn(|cx| self.poll_wanted(cx)).await {
            let (open, silence, expects) = {
                let mut state = self.0.lock();
                (state.open, state.silence, std::mem::take(&mut state.expects))
            };
            if expects
                && !open
                && let Err(e) = body::go_on(client).await
            {
                return ClientLeft::Gone(e);
            }
            let read = match open {
                true => client.read_request_body().await,
                false => body::read_within(client, silence).await,
            };
            match read {
                Ok(piece) => self.take(piece, client.is_body_done()),
                Err(e) if *e.etype() == ErrorType::ReadTimedout => {
                    self.0.lock().spilt = true;
                    return ClientLeft::Silent;
                }
                Err(e) => return ClientLeft::Gone(e),
            }
        }
        // The last words on an open connection are still on their way. The call ends once they have been written.
        if self.0.lock().open {
            return pending().await;
        }
        ClientLeft::Gone(gone(client).await)
    }

    /// `false`: all of it was read. What the client still sends is not looked at before it is asked for, since looking
    /// is reading.
    fn poll_wanted(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.0.lock();
        if state.ended {
            return Poll::Ready(false);
        }
        if state.wanted {
            return Poll::Ready(true);
        }
        state.client = Some(cx.waker().clone());
        Poll::Pending
    }

    fn take(&self, piece: Option<Bytes>, done: bool) {
        let mut state = self.0.lock();
        state.ended = piece.is_none() || done;
        state.wanted = false;
        if let Some(piece) = piece {
            state.add(piece);
        }
        state.wake_call();
    }
}

/// The end that the call has.
impl BodySource for Upload {
    /// While nothing is there the client is asked.
    fn poll_part(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Bytes>> {
        let mut state = self.0.lock();
        if state.rest.is_empty()
            && let Some(next) = state.kept.get(state.handed)
        {
            state.rest = next.clone();
            state.handed += 1;
        }
        if state.rest.is_empty()
            && let Some(next) = state.said.pop_front()
        {
            state.rest = next;
        }
        if !state.rest.is_empty() {
            let most = most.min(state.rest.len());
            return Poll::Ready(Some(state.rest.split_to(most)));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.wanted = true;
        state.call = Some(cx.waker().clone());
        if let Some(client) = state.client.take() {
            client.wake();
        }
        Poll::Pending
    }

    fn rewind(&mut self) {
        let mut state = self.0.lock();
        (state.handed, state.rest, state.wanted) = (0, Bytes::new(), false);
    }

    fn can_repeat(&self) -> bool {
        Self::can_repeat(self)
    }

    fn is_closing(&self) -> bool {
        let state = self.0.lock();
        state.open && state.ended
    }
}

impl UploadState {
    fn wake_call(&mut self) {
        if let Some(call) = self.call.take() {
            call.wake();
        }
    }

    fn add(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.spilt |= self.bytes > MOST_KEPT || self.held.grow_to(self.bytes).is_err();
        if self.spilt {
            (self.kept, self.handed) = (Vec::new(), 0);
            self.held.give_back();
            self.rest = piece;
        } else {
            // A piece may be a window into a larger read.
            self.kept.push(Bytes::copy_from_slice(&piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn upload() -> Upload {
        Upload::new(false, Duration::ZERO, &BufferBudget::new(1 << 20, 1 << 20))
    }

    fn part(upload: &Upload, most: usize) -> Poll<Option<Bytes>> {
        upload.clone().poll_part(&mut Context::from_waker(Waker::noop()), most)
    }

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_part_is_asked_for_before_it_is_read() {
        let upload = upload();
        assert!(!upload.is_awaited());
        assert_eq!(part(&upload, 10), Poll::Pending);
        assert!(upload.is_awaited(), "now it is the client's turn");
        upload.take(Some(bytes("hello")), false);
        assert!(!upload.is_awaited());
        assert_eq!(part(&upload, 3), Poll::Ready(Some(bytes("hel"))));
        assert_eq!(part(&upload, 3), Poll::Ready(Some(bytes("lo"))));
        assert_eq!(part(&upload, 3), Poll::Pending);
        upload.take(None, true);
        assert_eq!(part(&upload, 3), Poll::Ready(None));
    }

    #[test]
    fn a_small_body_is_sent_again_from_its_beginning() {
        let mut upload = upload();
        assert!(part(&upload, 10).is_pending());
        upload.take(Some(bytes("ab")), false);
        assert_eq!(part(&upload, 1), Poll::Ready(Some(bytes("a"))));
        assert!(upload.can_repeat());
        upload.rewind();
        assert_eq!(part(&upload, 10), Poll::Ready(Some(bytes("ab"))));
        assert!(part(&upload, 10).is_pending());
        upload.take(Some(bytes("c")), true);
        upload.rewind();
        assert_eq!(part(&upload, 10), Poll::Ready(Some(bytes("ab"))));
        assert_eq!(part(&upload, 10), Poll::Ready(Some(bytes("c"))));
        assert_eq!(part(&upload, 10), Poll::Ready(None));
    }

    #[test]
    fn what_is_said_goes_up_in_order_and_then_it_ends() {
        let upload = upload();
        (upload.0.lock().open, upload.0.lock().spilt) = (true, true);
        assert!(part(&upload, 10).is_pending());
        upload.say(bytes("one"));
        upload.say(bytes("two"));
        assert_eq!(upload.unsent(), 6);
        assert_eq!(part(&upload, 2), Poll::Ready(Some(bytes("on"))));
        assert_eq!(upload.unsent(), 4);
        assert_eq!(part(&upload, 9), Poll::Ready(Some(bytes("e"))));
        upload.end();
        assert_eq!(part(&upload, 9), Poll::Ready(Some(bytes("two"))));
        assert_eq!(part(&upload, 9), Poll::Ready(None));
        assert!(upload.is_closing());
    }

    #[test]
    fn a_large_body_is_sent_once_and_not_held() {
        let budget = BufferBudget::new(1 << 20, 1 << 20);
        let upload = Upload::new(false, Duration::ZERO, &budget);
        for _ in 0..3 {
            assert!(part(&upload, 1 << 20).is_pending());
            upload.take(Some(vec![7; 30_000].into()), false);
            assert!(part(&upload, 1 << 20).is_ready());
        }
        assert!(!upload.can_repeat());
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_does_not_fit_into_the_budget_is_not_kept_for_another_try() {
        let upload = Upload::new(false, Duration::ZERO, &BufferBudget::new(3, 3));
        assert!(part(&upload, 10).is_pending());
        upload.take(Some(bytes("four")), false);
        assert!(!upload.can_repeat());
        assert_eq!(part(&upload, 10), Poll::Ready(Some(bytes("four"))));
    }
}
