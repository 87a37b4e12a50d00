//! A stream that holds writes back until the first read, so that head and body of a request leave in one
//! write: Pingora's HTTP/1 client flushes between the two, which costs a tenth of a small request.
//! A write that would wait looks for an early answer (413, 401), which a peer may give without reading on.

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Above this, what was held goes out at once: one write no longer pays.
const MOST_HELD: usize = 64 * 1024;
/// Room of fewer bytes is none.
const LEAST_ROOM: usize = 4 * 1024;
/// For the framing around a piece.
const FRAME: usize = 64;

/// Of a cork whose writer must not wait: writes within its room never do, and go out while answers are read.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    /// Of the connection that `stream` is.
    pub fn of(stream: &Stream) -> Self {
        let cork = stream.as_ref().as_any().downcast_ref::<Cork>();
        cork.map(|cork| cork.gauge.get_or_init(Self::default).clone()).unwrap_or_default()
    }

    /// The largest piece that can be written without a wait.
    pub fn room(&self) -> Option<usize> {
        let room = MOST_HELD.saturating_sub(self.0.load(Ordering::Relaxed) + FRAME);
        (room >= LEAST_ROOM).then_some(room)
    }

    /// Everything written has gone out.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[derive(Debug)]
pub(crate) struct Cork {
    stream: Stream,
    held: Vec<u8>,
    written: usize,
    /// Came while a write was waiting; read before anything else.
    early: Vec<u8>,
    /// Bytes went straight to the stream since its last flush: TLS and Pingora's own buffer may still hold some.
    dirty: bool,
    /// Told how much is held, where somebody asks.
    gauge: OnceLock<Gauge>,
    /// A write failed: nothing more goes out.
    torn: bool,
}

impl Cork {
    pub(crate) fn new(stream: Stream) -> Self {
        let held = Vec::with_capacity(2048);
        Self { stream, held, written: 0, early: Vec::new(), dirty: false, gauge: OnceLock::new(), torn: false }
    }

    fn tell(&self) {
        if let Some(gauge) = self.gauge.get() {
            gauge.0.store(self.held.len(), Ordering::Relaxed);
        }
    }

    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.held.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.held[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return self.poll_early(cx).map(Err),
            }
        }
        if self.dirty || !self.held.is_empty() {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return self.poll_early(cx).map(Err),
            }
            self.dirty = false;
            self.held.clear();
            self.written = 0;
            // A pooled connection must not keep the size of the largest request it ever carried.
            if self.held.capacity() > MOST_HELD {
                self.held = Vec::with_capacity(2048);
            }
            self.tell();
        }
        Poll::Ready(Ok(()))
    }
}

impl Cork {
    /// While a write waits: an answer that is already here ends the writing. Interim answers do not.
    fn poll_early(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut space = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Err(e) => return Poll::Ready(e),
                Ok(()) => {
                    let closed = buf.filled().is_empty();
                    self.early.extend_from_slice(buf.filled());
                    if closed || !self.early.starts_with(b"HTTP/1.1 1") {
                        return Poll::Ready(io::ErrorKind::BrokenPipe.into());
                    }
                }
            }
        }
    }
}

impl AsyncRead for Cork {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            match ready!(self.poll_release(cx)) {
                Ok(()) => return Pin::new(&mut self.stream).poll_read(cx, buf),
                // The answer came while the rest of the request waited: it is what is read.
                Err(_) if !self.early.is_empty() => {}
                // The peer takes no more; what it said before is still to be heard.
                Err(e) => {
                    self.torn = true;
                    let before = buf.filled().len();
                    let heard = Pin::new(&mut self.stream).poll_read(cx, buf);
                    let said = matches!(heard, Poll::Ready(Ok(()))) && buf.filled().len() > before;
                    return if said { heard } else { Poll::Ready(Err(e)) };
                }
            }
        }
        let n = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early[..n]);
        self.early.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Cork {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.torn {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.held.len() + buf.len() > MOST_HELD {
            ready!(self.poll_release(cx))?;
            return match Pin::new(&mut self.stream).poll_write(cx, buf) {
                Poll::Pending => self.poll_early(cx).map(Err),
                done => {
                    self.dirty = true;
                    done
                }
            };
        }
        self.held.extend_from_slice(buf);
        self.tell();
        Poll::Ready(Ok(buf.len()))
    }

    /// Deliberately does nothing: the first read sends what is held.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Cork {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for Cork {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Cork {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }
}

impl GetTimingDigest for Cork {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.stream.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.stream.get_write_pending_time()
    }
}

impl GetProxyDigest for Cork {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.stream.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Cork {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.stream.set_socket_digest(digest);
    }
}

impl Peek for Cork {}
