//! A stream that holds writes back until the first read, so that head and body of a request leave in one
//! write: Pingora's HTTP/1 client flushes between the two, which costs a tenth of a small request.

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Above this, what was held goes out at once: one write no longer pays.
const MOST_HELD: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Cork {
    stream: Stream,
    held: Vec<u8>,
    written: usize,
}

impl Cork {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, held: Vec::with_capacity(2048), written: 0 }
    }

    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.held.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += n,
            }
        }
        if !self.held.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.held.clear();
            self.written = 0;
            // A pooled connection must not keep the size of the largest request it ever carried.
            if self.held.capacity() > MOST_HELD {
                self.held = Vec::with_capacity(2048);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Cork {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cork {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.held.len() + buf.len() > MOST_HELD {
            ready!(self.poll_release(cx))?;
            return Pin::new(&mut self.stream).poll_write(cx, buf);
        }
        self.held.extend_from_slice(buf);
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
