//! A client's connection, plain or over TLS, and what was read of it ahead of its turn: a head that is not whole yet, a
//! body that came with its head, or the next request of a client that does not wait for its answers (RFC 9112, 9.3.2).
//! Pingora sees it as a stream. While a call is under way and its request is whole, Pingora's watch for a client that
//! leaves must take nothing from it: it would give up the call, or lose a byte.

use super::chunks::Chunks;
use super::refusal::refusal_of;
use super::socket::Socket;
use crate::upstream::LazyTimer;
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use pingora::protocols::http::ServerSession;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsStream};
use pingora::protocols::{
    ALPN, Digest, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// What one read of a head has room for.
const ROOM: usize = 4 << 10;
/// What a client may send before its turn.
const MOST_EARLY: usize = 64 << 10;

#[derive(Debug)]
enum LinkWay {
    Plain(Socket),
    Secure(Box<TlsStream<Socket>>),
}

#[derive(Debug)]
pub(super) struct Link {
    way: LinkWay,
    pub(super) ahead: BytesMut,
    /// Rings when the silence before a request is over.
    pub(super) silence: LazyTimer,
    /// The request is whole: what comes now is for later.
    watched: AtomicBool,
    /// Nobody but Pingora has seen the request yet: what is said now is its refusal of a head that is none.
    unseen: AtomicBool,
    /// What is said in place of what Pingora says, as far as it is still to be said.
    instead: Option<Bytes>,
    /// Header lines that go out in the next head, before its empty line.
    lines: Mutex<Vec<u8>>,
    /// The body comes in chunks.
    chunked: AtomicBool,
    chunks: Chunks,
}

/// Only watches from now on whether the client of this session leaves: its request is whole.
pub(crate) fn watch(session: &ServerSession) {
    set(session, true);
}

/// Its head is one, and what is answered from here on is the gateway's own. Nothing of a body that comes in chunks was
/// read by then: only of one with a length a part may come with the head.
pub(crate) fn heed(session: &ServerSession, chunked: bool) {
    if let Some(link) = of(session) {
        link.unseen.store(false, Ordering::Relaxed);
        link.chunked.store(chunked, Ordering::Relaxed);
    }
}

/// Reads on what the client sends: the connection goes on as another, such as a WebSocket.
pub(crate) fn listen(session: &ServerSession) {
    set(session, false);
}

/// Whether header lines can be put beside its head.
pub(crate) fn takes_lines(session: &ServerSession) -> bool {
    of(session).is_some()
}

/// Has `lines`, each with its end, go out in the head that is written next: Pingora is not told of them, whose map of
/// headers costs more than all else about them.
pub(crate) fn put_beside(session: &ServerSession, lines: Vec<u8>) {
    if let Some(link) = of(session) {
        *link.lines.lock() = lines;
    }
}

fn set(session: &ServerSession, watched: bool) {
    if let Some(link) = of(session) {
        link.watched.store(watched, Ordering::Relaxed);
    }
}

/// Streams of HTTP/2 have no connection of their own.
fn of(session: &ServerSession) -> Option<&Link> {
    session.stream()?.as_ref().as_any().downcast_ref()
}

impl Link {
    pub(super) fn plain(socket: Socket) -> Self {
        Self::of(LinkWay::Plain(socket))
    }

    pub(super) fn secure(stream: TlsStream<Socket>) -> Self {
        Self::of(LinkWay::Secure(Box::new(stream)))
    }

    fn of(way: LinkWay) -> Self {
        let [watched, unseen, chunked] = std::array::from_fn(|_| AtomicBool::new(false));
        let (ahead, chunks, lines) = (BytesMut::new(), Chunks::default(), Mutex::default());
        Self { way, ahead, silence: LazyTimer::default(), watched, unseen, instead: None, lines, chunked, chunks }
    }

    /// The next request may be read.
    pub(super) fn turn(&mut self) {
        *self.watched.get_mut() = false;
        *self.chunked.get_mut() = false;
        self.chunks = Chunks::default();
        // Another request's.
        self.lines = Mutex::default();
    }

    /// Pingora says next whether what was read is a head.
    pub(super) fn hand_over(&mut self) {
        *self.unseen.get_mut() = true;
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.way, LinkWay::Plain(_))
    }

    pub(super) fn digest(&self) -> Digest {
        Digest {
            ssl_digest: self.get_ssl_digest(),
            timing_digest: Vec::new(),
            proxy_digest: None,
            socket_digest: self.get_socket_digest(),
        }
    }

    fn poll_way(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            LinkWay::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            LinkWay::Secure(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }

    /// Reads more ahead; 0 is the end. Nothing is held while nothing comes.
    pub(super) fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let LinkWay::Plain(socket) = &self.way {
            ready!(socket.poll_arrival(cx))?;
        }
        let mut more = match self.ahead.is_empty() {
            true => BytesMut::with_capacity(ROOM),
            false => {
                self.ahead.reserve(ROOM);
                std::mem::take(&mut self.ahead)
            }
        };
        let before = more.len();
        let read = poll_fill(self, cx, &mut more);
        if !more.is_empty() {
            self.ahead = more;
        }
        ready!(read)?;
        Poll::Ready(Ok(self.ahead.len() - before))
    }

    /// Notices the end, and sets aside what comes before it.
    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.ahead.len() < MOST_EARLY {
            let mut space = [MaybeUninit::uninit(); 512];
            let mut buf = ReadBuf::uninit(&mut space);
            ready!(self.poll_way(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.ahead.extend_from_slice(buf.filled());
        }
        // It waits for its turn, and nothing here has to wake it.
        Poll::Pending
    }
}

/// One read into what room `more` has.
fn poll_fill(link: &mut Link, cx: &mut Context<'_>, more: &mut BytesMut) -> Poll<io::Result<usize>> {
    pin!(link.read_buf(more)).poll(cx)
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if *self.watched.get_mut() {
            return self.poll_watch(cx);
        }
        let before = buf.filled().len();
        if self.ahead.is_empty() {
            ready!(self.poll_way(cx, buf))?;
        } else {
            let count = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..count]);
            self.ahead.advance(count);
            if self.ahead.is_empty() {
                self.ahead = BytesMut::new();
            }
        }
        if *self.chunked.get_mut() {
            self.chunks.pass(&mut buf.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl Link {
    fn poll_say(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.way {
            LinkWay::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            LinkWay::Secure(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    /// Pingora's refusals have no body and name a server that is none of ours.
    fn poll_refuse(&mut self, cx: &mut Context<'_>, theirs: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            self.instead = Some(refusal_of(theirs));
        }
        ready!(self.poll_instead(cx))?;
        // Whatever else it says of this is not said.
        self.instead = Some(Bytes::new());
        Poll::Ready(Ok(theirs.len()))
    }

    /// A head, as a whole, with lines that Pingora does not know of.
    fn poll_head(&mut self, cx: &mut Context<'_>, theirs: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            let lines = std::mem::take(self.lines.get_mut());
            let Some(head) = theirs.strip_suffix(b"\r\n\r\n") else { return self.poll_say(cx, theirs) };
            let parts = [head, b"\r\n", &lines, b"\r\n"];
            if let LinkWay::Plain(socket) = &mut self.way
                && socket.gather(parts)
            {
                return Poll::Ready(Ok(theirs.len()));
            }
            self.instead = Some(parts.concat().into());
        }
        ready!(self.poll_instead(cx))?;
        self.instead = None;
        Poll::Ready(Ok(theirs.len()))
    }

    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(mut ours) = self.instead.take() else { return Poll::Ready(Ok(())) };
        while !ours.is_empty() {
            let said = self.poll_say(cx, &ours);
            if said.is_pending() {
                self.instead = Some(ours);
                return Poll::Pending;
            }
            ours.advance(ready!(said)?);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if *self.unseen.get_mut() {
            return self.poll_refuse(cx, buf);
        }
        let has_lines = !self.lines.get_mut().is_empty();
        if has_lines || self.instead.is_some() { self.poll_head(cx, buf) } else { self.poll_say(cx, buf) }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            LinkWay::Plain(socket) => Pin::new(socket).poll_flush(cx),
            LinkWay::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            LinkWay::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            LinkWay::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[async_trait]
impl Shutdown for Link {
    async fn shutdown(&mut self) {
        // The other side may be gone already.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Link {
    fn id(&self) -> UniqueIDType {
        match &self.way {
            LinkWay::Plain(socket) => socket.id(),
            LinkWay::Secure(stream) => stream.id(),
        }
    }
}

impl Ssl for Link {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        match &self.way {
            LinkWay::Plain(_) => None,
            LinkWay::Secure(stream) => stream.get_ssl_digest(),
        }
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        match &self.way {
            LinkWay::Plain(_) => None,
            LinkWay::Secure(stream) => stream.selected_alpn_proto(),
        }
    }
}

impl GetSocketDigest for Link {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        match &self.way {
            LinkWay::Plain(socket) => socket.get_socket_digest(),
            LinkWay::Secure(stream) => stream.get_socket_digest(),
        }
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        match &mut self.way {
            LinkWay::Plain(socket) => socket.set_socket_digest(digest),
            LinkWay::Secure(stream) => stream.set_socket_digest(digest),
        }
    }
}

impl GetTimingDigest for Link {
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

impl GetProxyDigest for Link {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl Peek for Link {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Seats;
    use crate::connections::connection_limits::Desk;

    async fn connected() -> (Link, tokio::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let client =
            tokio::net::TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (stream, peer) = listener.accept().expect("accepted");
        stream.set_nonblocking(true).expect("set");
        let seat = Seats::new(1).take(&Arc::<Desk>::default()).expect("a place");
        (Link::plain(Socket::new(stream, peer, seat).expect("a socket")), client)
    }

    fn put(link: &Link, lines: &[u8]) {
        *link.lines.lock() = lines.to_vec();
    }

    #[tokio::test]
    async fn lines_go_out_in_the_next_head_and_nowhere_else() {
        // A head that is gathered with its lines, one that is not, and one that no gathering takes.
        for filling in [0, 4000, 6000] {
            let (mut link, mut client) = connected().await;
            let filler = "x".repeat(filling);
            put(&link, b"a: 1\r\nb: 2\r\n");
            link.write_all(format!("HTTP/1.1 200 OK\r\nc: {filler}\r\n\r\n").as_bytes()).await.expect("a head");
            link.write_all(b"body\r\n\r\n").await.expect("a body");
            link.flush().await.expect("flushed");
            drop(link);
            let mut told = String::new();
            client.read_to_string(&mut told).await.expect("text");
            assert_eq!(
                told,
                format!("HTTP/1.1 200 OK\r\nc: {filler}\r\na: 1\r\nb: 2\r\n\r\nbody\r\n\r\n"),
                "{filling}"
            );
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_gets_every_line() {
        let (mut link, mut client) = connected().await;
        let lines = format!("a: {}\r\n", "y".repeat(16 << 20));
        put(&link, lines.as_bytes());
        let say = async {
            link.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("a head");
            link.write_all(b"body").await.expect("a body");
            link.flush().await.expect("flushed");
            drop(link);
        };
        let mut told = String::new();
        let hear = async {
            // More is said by then than fits on the way.
            tokio::time::sleep(Duration::from_millis(20)).await;
            client.read_to_string(&mut told).await.expect("text");
        };
        tokio::join!(say, hear);
        assert!(told == format!("HTTP/1.1 200 OK\r\n{lines}\r\nbody"), "{} bytes", told.len());
    }
}
