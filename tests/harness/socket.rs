//! WebSockets on both sides of the gateway: clients that open one, and a provider that plays a script on each that it
//! is asked for. Messages are events in JSON; whatever else is said is told as it came.

use super::upstream::Seen;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

/// What was heard.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Event(Value),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
    /// The connection ended without a close frame.
    Gone,
}

impl Said {
    #[track_caller]
    pub(crate) fn event(self) -> Value {
        match self {
            Self::Event(event) => event,
            other => panic!("no event: {other:?}"),
        }
    }

    /// The code that it ends with.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Close(told) => told.as_ref().map(|(code, _)| *code),
            _ => None,
        }
    }
}

/// One end of an open WebSocket.
#[derive(Debug)]
pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// A refusal before it opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Socket {
    /// Opens one at the gateway; `Err` is an answer over HTTP.
    pub(crate) async fn open(gateway: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self, Unopened> {
        Self::opened(gateway, path, headers).await.map(|(socket, _)| socket)
    }

    /// Opens one, and tells the protocol that was chosen.
    pub(crate) async fn opened(
        gateway: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Self, Option<String>), Unopened> {
        let stream = TcpStream::connect(gateway).await.expect("a connection");
        stream.set_nodelay(true).expect("nodelay");
        let mut request = Request::builder()
            .uri(format!("ws://{gateway}{path}"))
            .header("host", gateway.to_string())
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        match client_async(request, stream).await {
            Ok((socket, answer)) => {
                let chosen = answer.headers().get("sec-websocket-protocol");
                Ok((Self(socket), chosen.map(|name| name.to_str().expect("text").to_owned())))
            }
            Err(Error::Http(answer)) => {
                let body = answer.body().as_deref().and_then(|body| serde_json::from_slice(body).ok());
                Err(Unopened { status: answer.status().as_u16(), body: body.unwrap_or_default() })
            }
            Err(e) => panic!("no WebSocket and no answer: {e}"),
        }
    }

    /// The end of a provider's that has agreed to it.
    pub(crate) async fn served(stream: TcpStream) -> Self {
        Self(WebSocketStream::from_raw_socket(stream, Role::Server, None).await)
    }

    pub(crate) async fn next(&mut self) -> Said {
        let next = tokio::time::timeout(Duration::from_secs(60), self.0.next()).await.expect("a word within a minute");
        match next {
            None | Some(Err(_)) => Said::Gone,
            Some(Ok(Message::Text(text))) => {
                Said::Event(serde_json::from_str(&text).unwrap_or_else(|_| text.as_str().into()))
            }
            Some(Ok(Message::Binary(bytes))) => Said::Binary(bytes.to_vec()),
            Some(Ok(Message::Ping(bytes))) => Said::Ping(bytes.to_vec()),
            Some(Ok(Message::Pong(bytes))) => Said::Pong(bytes.to_vec()),
            Some(Ok(Message::Close(told))) => {
                Said::Close(told.map(|close| (close.code.into(), close.reason.as_str().to_owned())))
            }
            Some(Ok(Message::Frame(_))) => unreachable!("frames are not read by themselves"),
        }
    }

    /// The next event of a type; others are skipped.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        loop {
            match self.next().await {
                Said::Event(event) if event["type"] == kind => return event,
                Said::Event(_) | Said::Ping(_) | Said::Pong(_) => {}
                other => panic!("instead of {kind}: {other:?}"),
            }
        }
    }

    /// How it ends; what comes before is skipped.
    pub(crate) async fn end(&mut self) -> Said {
        loop {
            match self.next().await {
                Said::Event(_) | Said::Ping(_) | Said::Pong(_) | Said::Binary(_) => {}
                end => return end,
            }
        }
    }

    /// Whether somebody was there to take it.
    pub(crate) async fn say(&mut self, event: &Value) -> bool {
        self.send(Message::text(event.to_string())).await
    }

    pub(crate) async fn send(&mut self, message: Message) -> bool {
        self.0.send(message).await.is_ok()
    }

    pub(crate) async fn close(&mut self, code: u16, reason: &'static str) {
        // The other side may have closed before.
        let _ = self.0.close(Some(CloseFrame { code: code.into(), reason: reason.into() })).await;
    }

    /// The connection itself, for bytes that are no frames.
    pub(crate) fn bytes(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }
}

/// A provider of realtime sessions.
#[derive(Debug)]
pub(crate) struct LiveProvider {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

impl LiveProvider {
    /// `script` plays each session; the connection ends with it. Of the protocols that are offered it chooses none.
    pub(crate) async fn scripted<F, Fut>(script: F) -> Self
    where
        F: Fn(Socket) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::answering(&[], script).await
    }

    /// Plays `script` like [`Self::scripted`], with headers of its own in the answer to each handshake.
    pub(crate) async fn answering<F, Fut>(headers: &'static [(&'static str, &'static str)], script: F) -> Self
    where
        F: Fn(Socket) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("its address");
        let (seen, mut tasks, script) = (Arc::<Mutex<Vec<Seen>>>::default(), JoinSet::new(), Arc::new(script));
        let book = seen.clone();
        tasks.spawn(async move {
            let mut playing = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let (book, script) = (book.clone(), script.clone());
                playing.spawn(async move {
                    #[expect(clippy::result_large_err, reason = "the form of the library's callbacks")]
                    let note = |request: &Request, mut answer: Response| {
                        book.lock().expect("no panic while recording").push(seen_of(request));
                        for (name, value) in headers {
                            answer.headers_mut().insert(*name, HeaderValue::from_static(value));
                        }
                        Ok(answer)
                    };
                    if let Ok(socket) = accept_hdr_async(stream, note).await {
                        script(Socket(socket)).await;
                    }
                });
                while playing.try_join_next().is_some() {}
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    /// Base URL, ending in `/v1`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn root(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The handshakes so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic while recording").clone()
    }
}

fn seen_of(request: &Request) -> Seen {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Seen {
        method: request.method().to_string(),
        target: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: Vec::new(),
    }
}
