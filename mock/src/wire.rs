//! HTTP/1.1 as the mock reads it: heads, bodies by length or in chunks, and waiting that notices a peer
//! who leaves. Knows no routes and no answers.

use bytes::{Buf, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// JSON is kept whole up to here; of anything else only the beginning, since only its length is answered.
const MAX_JSON: usize = 64 << 20;
const MAX_OTHER: usize = 64 << 10;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockConnectionEnd {
    /// The peer left while an answer was due.
    Gone,
    /// We end it with RST.
    Reset,
    /// We end it with FIN, or the peer ended it between requests.
    Closed,
}

pub(super) type MockResult<T> = Result<T, MockConnectionEnd>;

fn gone(_: io::Error) -> MockConnectionEnd {
    MockConnectionEnd::Gone
}

#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    /// HTTP/1.0 peers get no chunks and no keep-alive.
    pub(super) old: bool,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    fn says(&self, name: &str, token: &str) -> bool {
        self.header(name).is_some_and(|v| v.split(',').any(|t| t.trim().eq_ignore_ascii_case(token)))
    }

    pub(super) fn closes(&self) -> bool {
        self.old || self.says("connection", "close")
    }

    pub(super) fn expects_continue(&self) -> bool {
        self.says("expect", "100-continue")
    }

    fn is_json(&self) -> bool {
        self.header("content-type").is_none_or(|t| t.contains("json"))
    }
}

#[derive(Debug, Default)]
pub(super) struct ReceivedContent {
    /// All of it for JSON, else its beginning.
    pub(super) bytes: Vec<u8>,
    pub(super) length: u64,
}

#[derive(Debug)]
pub(super) struct MockConnection<'a, S> {
    stream: &'a mut S,
    buffer: BytesMut,
}

impl<'a, S> MockConnection<'a, S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    pub(super) fn new(stream: &'a mut S) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(8 << 10) }
    }

    /// `Err(Closed)` when the peer has no further request, `Ok(None)` when what it sent is not one.
    pub(super) async fn read_head(&mut self) -> MockResult<Option<Head>> {
        loop {
            if !self.buffer.is_empty() {
                match parse(&self.buffer) {
                    Ok(Some((head, length))) => {
                        self.buffer.advance(length);
                        return Ok(Some(head));
                    }
                    Ok(None) if self.buffer.len() < MAX_HEAD => {}
                    _ => return Ok(None),
                }
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(MockConnectionEnd::Closed),
                Ok(_) => {}
            }
        }
    }

    pub(super) async fn read_content(&mut self, head: &Head) -> MockResult<ReceivedContent> {
        let keep = if head.is_json() { MAX_JSON } else { MAX_OTHER };
        if head.expects_continue() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let mut content = ReceivedContent::default();
        if head.says("transfer-encoding", "chunked") {
            self.read_chunks(&mut content, keep).await?;
        } else if let Some(length) = head.header("content-length") {
            let length = length.trim().parse().map_err(|_| MockConnectionEnd::Closed)?;
            self.take(length, &mut content, keep).await?;
        }
        Ok(content)
    }

    async fn read_chunks(&mut self, content: &mut ReceivedContent, keep: usize) -> MockResult<()> {
        loop {
            let line = self.read_line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| MockConnectionEnd::Closed)?;
            if size == 0 {
                while !self.read_line().await?.is_empty() {}
                return Ok(());
            }
            self.take(size, content, keep).await?;
            if !self.read_line().await?.is_empty() {
                return Err(MockConnectionEnd::Closed);
            }
        }
    }

    async fn read_line(&mut self) -> MockResult<String> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line = self.buffer.split_to(end + 1);
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(MockConnectionEnd::Closed);
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, mut left: u64, content: &mut ReceivedContent, keep: usize) -> MockResult<()> {
        content.length += left;
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let piece = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = keep.saturating_sub(content.bytes.len()).min(piece);
            content.bytes.extend_from_slice(&self.buffer[..room]);
            self.buffer.advance(piece);
            left -= piece as u64;
        }
        Ok(())
    }

    /// A peer that leaves in the middle of its request is no aborted answer.
    async fn fill(&mut self) -> MockResult<()> {
        self.buffer.reserve(16 << 10);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(MockConnectionEnd::Closed),
            Ok(_) => Ok(()),
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> MockResult<()> {
        self.stream.write_all(bytes).await.map_err(gone)?;
        self.stream.flush().await.map_err(gone)
    }

    /// Sleeps, and ends at once when the peer leaves; what it sends meanwhile is kept for later.
    pub(super) async fn pause(&mut self, time: Duration) -> MockResult<()> {
        if time.is_zero() {
            return Ok(());
        }
        let deadline = tokio::time::Instant::now() + time;
        loop {
            if self.buffer.len() >= MAX_HEAD {
                tokio::time::sleep_until(deadline).await;
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return Ok(()),
                read = self.stream.read_buf(&mut self.buffer) => if read.map_err(gone)? == 0 {
                    return Err(MockConnectionEnd::Gone);
                },
            }
        }
    }

    /// Waits until the peer leaves.
    pub(super) async fn wait(&mut self) -> MockConnectionEnd {
        loop {
            if self.pause(Duration::from_secs(3600)).await.is_err() {
                return MockConnectionEnd::Gone;
            }
        }
    }

    /// Sends FIN and leaves what the peer still sends unread, for a moment in which it can read our answer:
    /// closing at once would let RST overtake it.
    pub(super) async fn close_unread(&mut self) -> MockConnectionEnd {
        let _ = self.stream.shutdown().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        MockConnectionEnd::Closed
    }

    pub(super) async fn close(&mut self) -> MockConnectionEnd {
        let _ = self.stream.shutdown().await;
        MockConnectionEnd::Closed
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
    let target = request.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = request.headers.iter();
    let headers = headers.map(|h| (h.name.to_ascii_lowercase(), String::from_utf8_lossy(h.value).into_owned()));
    let head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        old: request.version == Some(0),
        headers: headers.collect(),
    };
    Ok(Some((head, length)))
}
