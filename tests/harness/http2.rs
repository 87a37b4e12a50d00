//! A client of one HTTP/2 connection that holds its streams in its hands: heads without bodies, bodies without an end.

use super::WORKSPACE_KEY;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, Method, Request};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Http2 {
    send: SendRequest<Bytes>,
    /// Ends with this.
    _connection: JoinSet<Result<(), h2::Error>>,
}

/// One stream, whose body is still open.
#[derive(Debug)]
pub(crate) struct Open {
    answer: ResponseFuture,
    body: SendStream<Bytes>,
}

impl Http2 {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let mut running = JoinSet::new();
        running.spawn(connection);
        Self { send, _connection: running }
    }

    /// Opens a stream with this head, and leaves its body open. `headers` beat the usual ones of their names.
    pub(crate) async fn open(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Open {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(method).uri(format!("http://gateway{path}"));
        let usual = [("x-gateway-api-key", WORKSPACE_KEY), ("content-type", "application/json")];
        let usual = usual.iter().filter(|(name, _)| !headers.iter().any(|(n, _)| n == name));
        for (name, value) in usual.chain(headers) {
            request = request.header(*name, *value);
        }
        let mut ready = self.send.clone().ready().await.expect("room for a stream");
        let (answer, body) = ready.send_request(request.body(()).expect("a request"), false).expect("a stream");
        Open { answer, body }
    }
}

impl Http2 {
    /// A whole request and its answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String) {
        let mut stream = self.open(method, path, headers).await;
        stream.send(body, true).await;
        stream.answer().await
    }
}

impl Open {
    /// Sends as much as the other side takes; false when the stream is over for it.
    pub(crate) async fn send(&mut self, bytes: &[u8], end: bool) -> bool {
        let mut rest = Bytes::copy_from_slice(bytes);
        while !rest.is_empty() {
            self.body.reserve_capacity(rest.len());
            let room = std::future::poll_fn(|cx| self.body.poll_capacity(cx));
            match tokio::time::timeout(Duration::from_millis(300), room).await {
                Ok(Some(Ok(room))) if room > 0 => {
                    let piece = rest.split_to(room.min(rest.len()));
                    if self.body.send_data(piece, false).is_err() {
                        return false;
                    }
                }
                Ok(Some(Ok(_))) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        !end || self.body.send_data(Bytes::new(), true).is_ok()
    }

    /// Status and headers; the rest is not waited for.
    pub(crate) async fn head(self) -> (u16, HeaderMap) {
        let answer = tokio::time::timeout(LONGEST, self.answer).await.expect("an answer").expect("a head");
        let (head, _) = answer.into_parts();
        (head.status.as_u16(), head.headers)
    }

    /// Status and body; 0 and the reason for a stream that was reset.
    pub(crate) async fn answer(self) -> (u16, String) {
        let Self { answer, body: _body } = self;
        let read = async {
            let answer = answer.await?;
            let status = answer.status().as_u16();
            let (mut pieces, mut text) = (answer.into_body(), Vec::new());
            while let Some(piece) = pieces.data().await {
                match piece {
                    Ok(piece) => text.extend_from_slice(&piece),
                    // All is said, and no more of the request is wanted.
                    Err(e) if e.reason() == Some(Reason::NO_ERROR) => break,
                    Err(e) => return Err(e),
                }
            }
            Ok((status, String::from_utf8_lossy(&text).into_owned()))
        };
        let told: Result<(u16, String), h2::Error> = tokio::time::timeout(LONGEST, read).await.expect("an answer");
        told.unwrap_or_else(|e| (0, e.to_string()))
    }
}
