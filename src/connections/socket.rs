//! One client's TCP connection, with small writes gathered: the head of an answer and its body leave in one. Reads are
//! not buffered here, so that a connection that is silent holds nothing.

use super::connection_limits::ConnectionSeat;
use async_trait::async_trait;
use futures_util::FutureExt;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// A head and a usual answer go to the client in one write. Whatever is complete is flushed at once.
const GATHERED: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    gathered: Vec<u8>,
    /// How many bytes of `gathered` were sent already.
    sent: usize,
    digest: Arc<SocketDigest>,
    /// Given back when the connection is closed, and not before.
    _seat: ConnectionSeat,
}

impl Socket {
    pub(super) fn new(stream: std::net::TcpStream, peer: SocketAddr, seat: ConnectionSeat) -> io::Result<Self> {
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let digest = SocketDigest::from_raw_fd(stream.as_raw_fd());
        // It was made a moment ago, and is empty.
        let _ = digest.peer_addr.set(Some(peer.into()));
        Ok(Self { stream, gathered: Vec::new(), sent: 0, digest: Arc::new(digest), _seat: seat })
    }

    /// Ready when something can be read or the other side has closed. May be wrong about it.
    pub(super) fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_read_ready(cx)
    }

    /// Takes all of it to be sent with what follows, if there is room; else nothing of it.
    pub(super) fn gather<const N: usize>(&mut self, parts: [&[u8]; N]) -> bool {
        if self.gathered.len() + parts.iter().map(|part| part.len()).sum::<usize>() > GATHERED {
            return false;
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(GATHERED);
        }
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
        true
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.gathered.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.gather([buf]) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_send(cx))?;
        if self.gather([buf]) {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // What was said and not flushed still goes out where that needs no waiting.
        let _ = self.flush().now_or_never();
    }
}

#[async_trait]
impl Shutdown for Socket {
    async fn shutdown(&mut self) {
        // The other side may be gone already.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Socket {
    fn id(&self) -> UniqueIDType {
        self.stream.as_raw_fd()
    }
}

impl GetSocketDigest for Socket {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.digest.clone())
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.digest = Arc::new(digest);
    }
}

impl GetTimingDigest for Socket {
    /// Nobody asks, and Pingora would ask for each request.
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }

    fn get_read_pending_time(&self) -> Duration {
        Duration::ZERO
    }

    fn get_write_pending_time(&self) -> Duration {
        Duration::ZERO
    }
}

impl GetProxyDigest for Socket {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl Ssl for Socket {}
impl Peek for Socket {}
