//! What a connection of the admin port is doing, as its clocks see it: asking, waiting for an answer, not reading one,
//! or nothing at all. hyper has a clock for heads only, which kept connections would meet too.

use crate::connections::Clocks;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The longest pause between two looks at the clocks.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct PulseState {
    /// Requests whose answers are not over.
    calls: usize,
    asked: bool,
    /// Nothing has been under way since then.
    idle_since: Instant,
    /// When the first bytes came of a head that is not whole yet.
    heard_since: Option<Instant>,
    /// The client takes nothing.
    stuck_since: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Pulse(Mutex<PulseState>);

impl Default for Pulse {
    fn default() -> Self {
        let idle_since = Instant::now();
        Self(Mutex::new(PulseState { calls: 0, asked: false, idle_since, heard_since: None, stuck_since: None }))
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct ActiveCall(Arc<Pulse>);

impl Pulse {
    pub(super) fn call(self: &Arc<Self>) -> ActiveCall {
        let mut state = self.0.lock();
        state.calls += 1;
        (state.asked, state.heard_since) = (true, None);
        drop(state);
        ActiveCall(self.clone())
    }

    /// Resolves when a clock has run out.
    pub(super) async fn stops(&self, clocks: &Clocks, idle: Duration) {
        loop {
            let left = self.left(clocks, idle, Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK)).await;
        }
    }

    fn left(&self, clocks: &Clocks, idle: Duration, now: Instant) -> Duration {
        let state = self.0.lock();
        let left = |since: Instant, longest: Duration| longest.saturating_sub(now.saturating_duration_since(since));
        let stuck = state.stuck_since.map_or(LOOK, |since| left(since, idle));
        if state.calls > 0 {
            return stuck;
        }
        let silence = if state.asked { clocks.between } else { clocks.first };
        let quiet = match state.heard_since {
            Some(since) => left(since, clocks.head),
            None => left(state.idle_since, silence),
        };
        quiet.min(stuck)
    }

    fn heard(&self) {
        let mut state = self.0.lock();
        if state.calls == 0 {
            state.heard_since.get_or_insert_with(Instant::now);
        }
    }

    fn wrote(&self, pending: bool) {
        let mut state = self.0.lock();
        match pending {
            true => drop(state.stuck_since.get_or_insert_with(Instant::now)),
            false => state.stuck_since = None,
        }
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.calls -= 1;
        (state.idle_since, state.heard_since) = (Instant::now(), None);
    }
}

/// The connection, whose bytes are noticed.
#[derive(Debug)]
pub(super) struct PulseStream {
    stream: TcpStream,
    pulse: Arc<Pulse>,
}

impl PulseStream {
    pub(super) const fn new(stream: TcpStream, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse }
    }

    fn noticed<T>(&self, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.pulse.wrote(wrote.is_pending());
        wrote
    }
}

impl AsyncRead for PulseStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pulse.heard();
        }
        read
    }
}

impl AsyncWrite for PulseStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noticed(wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noticed(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_silence_has_its_clock() {
        let secs = Duration::from_secs;
        let clocks = Clocks { head: secs(10), first: secs(60), between: secs(75) };
        let pulse = Arc::<Pulse>::default();
        let ends = |after: u64| pulse.left(&clocks, secs(120), Instant::now() + secs(after)).is_zero();
        assert!(!ends(59) && ends(61), "nothing was said");
        pulse.heard();
        assert!(!ends(9) && ends(11), "half a head");
        let call = pulse.call();
        assert!(!ends(10_000), "a call may take its time");
        pulse.wrote(true);
        assert!(!ends(119) && ends(121), "but not to be read");
        pulse.wrote(false);
        drop(call);
        assert!(!ends(74) && ends(76), "between requests");
    }
}
