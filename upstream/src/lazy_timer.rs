//! One timer for many waits, one after the other: armed anew when it rings early or would ring late, and not for each
//! wait, since nearly all of them are over long before their time.

use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::FastOrTokioTimeout;
use std::future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A wait is told by when it began and how long it may take.
#[derive(Default)]
pub struct LazyTimer(Option<Armed>);

struct Armed {
    sleep: Timeout<future::Pending<()>, FastOrTokioTimeout>,
    rings: Instant,
}

impl LazyTimer {
    /// Ready when `limit` has passed since then; until then the task is woken in time. A limit beyond all time: never.
    pub fn poll(&mut self, cx: &mut Context<'_>, since: Instant, limit: Duration) -> Poll<()> {
        let Some(end) = since.checked_add(limit) else { return Poll::Pending };
        if self.0.as_ref().is_none_or(|armed| armed.rings > end) {
            self.arm(limit.saturating_sub(since.elapsed()), end);
        }
        while let Some(armed) = &mut self.0 {
            if Pin::new(&mut armed.sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                self.0 = None;
                return Poll::Ready(());
            }
            self.arm(left, end);
        }
        Poll::Pending
    }

    fn arm(&mut self, left: Duration, rings: Instant) {
        // A timer of no length at all would ring in the tick that has just passed.
        let sleep = pingora_timeout::timeout(left.max(Duration::from_millis(1)), future::pending());
        self.0 = Some(Armed { sleep, rings });
    }
}

impl std::fmt::Debug for LazyTimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyTimer").field("rings", &self.0.as_ref().map(|armed| armed.rings)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn wait(timer: &mut LazyTimer, limit: Duration) -> Duration {
        let since = Instant::now();
        poll_fn(|cx| timer.poll(cx, since, limit)).await;
        since.elapsed()
    }

    #[tokio::test]
    async fn each_wait_takes_its_time_whatever_was_waited_for_before() {
        let mut timer = LazyTimer::default();
        let [short, longer, longest] = [20, 60, 60_000].map(Duration::from_millis);
        let since = Instant::now();
        let mut armed_for = async |limit| poll_fn(|cx| Poll::Ready(timer.poll(cx, since, limit))).await;
        assert!(armed_for(longest).await.is_pending(), "which is what it is armed for now");
        let took = wait(&mut timer, short).await;
        assert!(took >= short && took < longest, "it was armed anew: {took:?}");
        let since = Instant::now();
        let mut armed_for = async |limit| poll_fn(|cx| Poll::Ready(timer.poll(cx, since, limit))).await;
        assert!(armed_for(short).await.is_pending());
        assert!(wait(&mut timer, longer).await >= longer, "it rang early, and was armed anew");
        let never = poll_fn(|cx| timer.poll(cx, since, Duration::MAX));
        assert!(tokio::time::timeout(short, never).await.is_err());
    }
}
