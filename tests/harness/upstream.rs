//! An upstream that plays a script: raw bytes in and out over TCP, every request recorded as it came.

use super::socket::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.text()))
    }
}

#[derive(Debug, Default)]
struct Ledger {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// `script` plays each connection; the connection ends with it.
    pub(crate) async fn scripted<F, Fut>(script: F) -> Self
    where
        F: Fn(Peer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("its address");
        let (ledger, mut tasks) = (Arc::<Ledger>::default(), JoinSet::new());
        let book = ledger.clone();
        tasks.spawn(async move {
            let mut playing = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let connection = book.connections.fetch_add(1, SeqCst);
                book.open.fetch_add(1, SeqCst);
                let peer = Peer { stream, buffer: Vec::new(), ledger: book.clone(), connection, resets: false };
                playing.spawn(script(peer));
                while playing.try_join_next().is_some() {}
            }
        });
        Self { address, ledger, _tasks: tasks }
    }

    /// Answers each request whole, on connections that are kept.
    pub(crate) async fn replying(reply: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let reply = Arc::new(reply);
        Self::scripted(move |mut peer| {
            let reply = reply.clone();
            async move {
                while let Some(seen) = peer.request().await {
                    if !peer.send(reply(&seen)).await {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Answers the first requests with these in turn, and all further ones with the last.
    pub(crate) async fn in_turn(replies: Vec<Vec<u8>>) -> Self {
        let at = AtomicUsize::new(0);
        Self::replying(move |_| replies[at.fetch_add(1, SeqCst).min(replies.len() - 1)].clone()).await
    }

    /// Base URL, ending in `/v1`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.ledger.seen.lock().expect("no panic while recording").clone()
    }

    /// The only request so far.
    #[track_caller]
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "requests upstream");
        seen.into_iter().next().expect("one")
    }

    pub(crate) fn connections(&self) -> usize {
        self.ledger.connections.load(SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.ledger.open.load(SeqCst)
    }
}

/// The upstream's end of one connection.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    ledger: Arc<Ledger>,
    connection: usize,
    resets: bool,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.resets {
            let _ = self.stream.set_zero_linger();
        }
        self.ledger.open.fetch_sub(1, SeqCst);
    }
}

impl Peer {
    /// Counts connections from 0.
    pub(crate) fn connection(&self) -> usize {
        self.connection
    }

    /// The next request with its body; `None` when the client has ended the connection.
    pub(crate) async fn request(&mut self) -> Option<Seen> {
        let mut seen = self.head().await?;
        self.read_body(&mut seen).await?;
        self.record(seen.clone());
        Some(seen)
    }

    /// The next request's head; its body stays unread.
    pub(crate) async fn head(&mut self) -> Option<Seen> {
        loop {
            if let Some(seen) = self.parse() {
                return Some(seen);
            }
            self.fill().await?;
        }
    }

    pub(crate) fn record(&self, seen: Seen) {
        self.ledger.seen.lock().expect("no panic while recording").push(seen);
    }

    fn parse(&mut self) -> Option<Seen> {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(&self.buffer).expect("a request") else { return None };
        let headers = request.headers.iter();
        let seen = Seen {
            method: request.method.expect("a method").to_owned(),
            target: request.path.expect("a target").to_owned(),
            headers: headers.map(|h| (h.name.to_owned(), String::from_utf8_lossy(h.value).into_owned())).collect(),
            body: Vec::new(),
        };
        self.buffer.drain(..length);
        Some(seen)
    }

    async fn read_body(&mut self, seen: &mut Seen) -> Option<()> {
        if seen.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            loop {
                let line = self.line().await?;
                let size = usize::from_str_radix(line.trim(), 16).expect("a chunk size");
                seen.body.extend(self.take(size).await?);
                assert_eq!(self.line().await?, "", "a chunk ends with an empty line");
                if size == 0 {
                    return Some(());
                }
            }
        }
        let length = seen.header("content-length").map_or(0, |v| v.parse().expect("a length"));
        seen.body = self.take(length).await?;
        Some(())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Some(line);
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            self.fill().await?;
        }
        Some(self.buffer.drain(..length).collect())
    }

    async fn fill(&mut self) -> Option<()> {
        // A read into an empty buffer would take 64 bytes.
        self.buffer.reserve(64 << 10);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// Bytes that came beyond what was parsed, or the next that come; empty at the end.
    pub(crate) async fn bytes(&mut self) -> Vec<u8> {
        if self.buffer.is_empty() {
            let _ = self.fill().await;
        }
        std::mem::take(&mut self.buffer)
    }

    /// Whether the client was there to take it.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    pub(crate) async fn pause(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Ends the connection with RST, once what was sent has had time to arrive.
    pub(crate) async fn reset(mut self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.resets = true;
    }

    /// The connection becomes a WebSocket, as the request asked.
    pub(crate) async fn opened(&mut self, seen: &Seen) -> Socket {
        let key = derive_accept_key(seen.header("sec-websocket-key").expect("a handshake").as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {key}\r\n\r\n"
        );
        assert!(self.send(head).await, "somebody waits for it");
        let twin = self.stream.as_fd().try_clone_to_owned().expect("a second handle");
        let stream = TcpStream::from_std(std::net::TcpStream::from(twin)).expect("a stream");
        Socket::served(stream).await
    }

    /// Returns when the client ends the connection.
    pub(crate) async fn gone(&mut self) {
        while self.fill().await.is_some() {}
    }
}
