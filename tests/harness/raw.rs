//! A client that writes its own bytes and sees the framing of what comes back.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<String>,
    /// The body ended as its framing promised.
    pub(crate) whole: bool,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the gateway reads");
    }

    /// False when the gateway has ended the connection.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Sends while it listens: an answer that comes before all is sent ends the sending.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Response {
        let mut left = request;
        while !left.is_empty() && self.buffer.is_empty() {
            self.buffer.reserve(64 << 10);
            let (mut from, mut to) = self.stream.split();
            tokio::select! {
                biased;
                read = from.read_buf(&mut self.buffer) => if matches!(read, Ok(0) | Err(_)) {
                    break;
                },
                written = to.write(left) => match written {
                    Ok(count) => left = &left[count..],
                    Err(_) => break,
                },
            }
        }
        self.response().await
    }

    /// How much was taken of it; `None` when nothing was for so long.
    pub(crate) async fn send_some(&mut self, bytes: &[u8], within: Duration) -> Option<usize> {
        if bytes.is_empty() {
            return None;
        }
        let written = tokio::time::timeout(within, self.stream.write(bytes)).await.ok()?;
        Some(written.expect("the gateway reads"))
    }

    pub(crate) async fn head(&mut self) -> Head {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 128];
            let mut response = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) = response.parse(&self.buffer).expect("a response") {
                let headers = response.headers.iter();
                let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
                let head = Head {
                    status: response.code.expect("a status"),
                    headers: headers.map(|h| (h.name.to_owned(), text(h.value))).collect(),
                };
                self.buffer.drain(..length);
                return head;
            }
            assert!(self.fill().await, "the connection ended before a head: {:?}", self.buffer);
        }
    }

    /// A whole response; interim ones are skipped.
    pub(crate) async fn response(&mut self) -> Response {
        let mut head = self.head().await;
        while head.status < 200 && head.status != 101 {
            head = self.head().await;
        }
        self.body(head).await
    }

    pub(crate) async fn body(&mut self, head: Head) -> Response {
        let mut response = Response { head, ..Response::default() };
        if matches!(response.head.status, 101 | 204 | 304) {
            response.whole = true;
        } else if response.head.header("transfer-encoding").is_some() {
            response.whole = self.chunks(&mut response).await.is_some();
        } else if let Some(length) = response.head.header("content-length") {
            let length = length.parse().expect("a length");
            while self.buffer.len() < length && self.fill().await {}
            response.whole = self.buffer.len() >= length;
            response.body = self.buffer.drain(..length.min(self.buffer.len())).collect();
        } else {
            while self.fill().await {}
            response.whole = true;
            response.body = std::mem::take(&mut self.buffer);
        }
        response
    }

    async fn chunks(&mut self, response: &mut Response) -> Option<()> {
        loop {
            let size = usize::from_str_radix(self.line().await?.trim(), 16).expect("a chunk size");
            if size == 0 {
                break;
            }
            while self.buffer.len() < size + 2 {
                if !self.fill().await {
                    return None;
                }
            }
            response.body.extend(self.buffer.drain(..size));
            self.buffer.drain(..2);
        }
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some(());
            }
            response.trailers.push(line);
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Some(line);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// Bytes that have come, or the next that come; empty at the end.
    pub(crate) async fn bytes(&mut self) -> Vec<u8> {
        if self.buffer.is_empty() {
            self.fill().await;
        }
        std::mem::take(&mut self.buffer)
    }

    async fn fill(&mut self) -> bool {
        // A read into an empty buffer would take 64 bytes.
        self.buffer.reserve(64 << 10);
        let read = self.stream.read_buf(&mut self.buffer);
        let read = tokio::time::timeout(Duration::from_secs(60), read).await.expect("bytes within a minute");
        matches!(read, Ok(n) if n > 0)
    }
}

/// A POST with a body by length.
pub(crate) fn post(path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let extra: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    let (key, length) = (super::WORKSPACE_KEY, body.len());
    format!(
        "POST {path} HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{extra}\r\n{body}"
    )
}
