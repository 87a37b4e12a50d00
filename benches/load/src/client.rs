//! One keep-alive connection and one exchange over it at a time. Bodies are handed on piece by
//! piece and never kept here.

use std::fmt::{Display, Formatter};
use std::io;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::{Framing, ResponseHead, response_head};

const READ_SIZE: usize = 64 * 1024;

/// Why an exchange failed; reports count by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    Connect,
    Write,
    Read,
    Closed,
    Malformed,
    Timeout,
    Status(u16),
    UnexpectedBody,
    StreamWithoutDone,
    StreamWithoutContent,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Write => f.write_str("write"),
            Self::Read => f.write_str("read"),
            Self::Closed => f.write_str("closed_early"),
            Self::Malformed => f.write_str("malformed"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(status) => write!(f, "status_{status}"),
            Self::UnexpectedBody => f.write_str("unexpected_body"),
            Self::StreamWithoutDone => f.write_str("stream_without_done"),
            Self::StreamWithoutContent => f.write_str("stream_without_content"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    reusable: bool,
}

impl Client {
    pub(crate) async fn connect(authority: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(authority).await.map_err(|_| Failure::Connect)?;
        stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(READ_SIZE), reusable: true })
    }

    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Sends `request` and reads the whole answer, giving each piece of its body and the time of
    /// the read to `sink`. Returns the status. After a failure the connection is not reusable.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        mut sink: impl FnMut(&[u8], Instant),
    ) -> Result<u16, Failure> {
        self.reusable = false;
        self.stream.write_all(request).await.map_err(|_| Failure::Write)?;
        let (head, mut now) = self.read_head().await?;
        self.buffer.advance(head.length);
        let mut framing = head.framing;
        while !take_body(&mut framing, &mut self.buffer, |piece| sink(piece, now))? {
            if self.read().await? == 0 {
                let complete = matches!(framing, Framing::UntilClose);
                return if complete { Ok(head.status) } else { Err(Failure::Closed) };
            }
            now = Instant::now();
        }
        if !self.buffer.is_empty() {
            return Err(Failure::Malformed);
        }
        self.reusable = head.keep_alive;
        Ok(head.status)
    }

    /// The final response head, and when it was read; interim ones are skipped.
    async fn read_head(&mut self) -> Result<(ResponseHead, Instant), Failure> {
        loop {
            match response_head(&self.buffer).map_err(|_| Failure::Malformed)? {
                Some(head) if head.status < 200 => self.buffer.advance(head.length),
                Some(head) => return Ok((head, Instant::now())),
                None if self.read().await? == 0 => return Err(Failure::Closed),
                None => {}
            }
        }
    }

    async fn read(&mut self) -> Result<usize, Failure> {
        self.buffer.reserve(READ_SIZE);
        self.stream.read_buf(&mut self.buffer).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionReset => Failure::Closed,
            _ => Failure::Read,
        })
    }
}

/// Moves what `buffer` holds of the body to `sink`. True once the body is whole.
fn take_body(framing: &mut Framing, buffer: &mut BytesMut, mut sink: impl FnMut(&[u8])) -> Result<bool, Failure> {
    match framing {
        Framing::Length(left) => {
            let take = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
            sink(&buffer[..take]);
            buffer.advance(take);
            *left -= take as u64;
            Ok(*left == 0)
        }
        Framing::Chunked(decoder) => {
            let used = decoder.feed(buffer, sink).map_err(|_| Failure::Malformed)?;
            buffer.advance(used);
            Ok(decoder.is_done())
        }
        Framing::UntilClose => {
            sink(buffer);
            buffer.clear();
            Ok(false)
        }
    }
}
