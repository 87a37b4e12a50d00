//! The lines of a file on their way up to a provider: read from the blob as the provider takes them, so that no more
//! than a few are ever held.

use crate::upstream::http1::BodySource;
use bytes::Bytes;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Lines that wait to be taken.
const AHEAD: usize = 8;

/// The end that the call has. Whoever fills it says by leaving that all was said.
pub(crate) struct LineUpload {
    parts: Receiver<Bytes>,
    rest: Bytes,
}

pub(super) fn pipe() -> (Sender<Bytes>, LineUpload) {
    let (sender, parts) = channel(AHEAD);
    (sender, LineUpload { parts, rest: Bytes::new() })
}

impl BodySource for LineUpload {
    fn poll_part(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Bytes>> {
        while self.rest.is_empty() {
            match self.parts.poll_recv(cx) {
                Poll::Ready(Some(next)) => self.rest = next,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        let most = most.min(self.rest.len());
        Poll::Ready(Some(self.rest.split_to(most)))
    }

    fn rewind(&mut self) {}

    /// What was taken is gone.
    fn can_repeat(&self) -> bool {
        false
    }

    fn is_closing(&self) -> bool {
        false
    }
}
