//! The client against peers that play a script: over a pipe where only the two of them matter, over sockets, the
//! dialler and the pool where connections are kept.

mod bodies;
mod kept;
mod lines;
mod waits;

use super::*;
use crate::dial::{Dialer, ResolvedOrigin};
use crate::dns::Dns;
use gateway_domain::egress::{BaseUrl, Trusted};
use http::{HeaderName, HeaderValue, Method};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

const LONG: PeerTimeouts = PeerTimeouts { first_byte: Duration::from_secs(20), idle: Duration::from_secs(20) };
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn post() -> RequestHead {
    head(Method::POST)
}

fn head(method: Method) -> RequestHead {
    let head = RequestHead::new(method, "/v1/x?y=z").expect("a path");
    head.header(HeaderName::from_static("host"), HeaderValue::from_static("a.example"))
}

fn held(text: &str) -> BodyPieces {
    BodyPieces::One(Bytes::copy_from_slice(text.as_bytes()))
}

/// Two ends of a connection, of which this side's is the client's.
fn pipe() -> (Box<Connection>, DuplexStream) {
    let (near, far) = tokio::io::duplex(4096);
    (Box::new(Connection::new(Box::new(near), 0)), far)
}

async fn over(connection: Box<Connection>, head: &RequestHead, body: RequestBody<'_>) -> Result<Response, SendError> {
    Response::over(connection, head, body, (LONG, Instant::now())).await.map_err(|failed| failed.error)
}

/// Reads until `end` has come.
async fn hear(stream: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        heard.push(stream.read_u8().await.expect("a byte"));
    }
    String::from_utf8(heard).expect("text")
}

/// The rest of a body.
async fn whole(response: &mut Response) -> Result<String, SendError> {
    let mut text = Vec::new();
    while let Some(piece) = response.read().await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(text).expect("text"))
}

/// A server on a socket, and the way to it.
struct Server {
    listener: TcpListener,
    dialer: Dialer,
    origin: ResolvedOrigin,
}

impl Server {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let trusted = Arc::new(Trusted::parse(&["127.0.0.1"]).expect("valid"));
        let dialer = Dialer::new(Dns::new(trusted, Handle::current()), Duration::from_secs(5), None);
        let base = Arc::new(BaseUrl::parse(&url).expect("a URL"));
        let origin = dialer.origin(&base).await.expect("an address");
        Self { listener, dialer, origin }
    }

    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.expect("a connection").0
    }

    async fn send(&self, head: &RequestHead, body: RequestBody<'_>) -> Result<Response, SendError> {
        send(&self.dialer, &self.origin, head, body, LONG).await
    }

    /// A request that is answered over a fresh connection, which then is kept if `answer` lets it.
    async fn first(&self, answer: &[u8]) -> TcpStream {
        let talk = async {
            let mut peer = self.accept().await;
            hear(&mut peer, "\r\n\r\nhello").await;
            peer.write_all(answer).await.expect("written");
            peer
        };
        let (head, body) = (post(), held("hello"));
        let ask = async {
            let mut response = self.send(&head, RequestBody::Held(&body)).await.expect("an answer");
            let _ = whole(&mut response).await;
            response.release(4);
        };
        tokio::join!(talk, ask).0
    }

    fn keeps_one(&self) -> bool {
        pool::take(self.dialer.address(&self.origin).1, Instant::now()).is_some()
    }
}

/// A source that a test fills.
#[derive(Clone, Default)]
struct Script(Arc<parking_lot::Mutex<Played>>);

#[derive(Default)]
struct Played {
    parts: Vec<Bytes>,
    next: usize,
    has_ended: bool,
    is_spilt: bool,
    is_closing: bool,
    rewound: usize,
    waker: Option<std::task::Waker>,
}

impl Script {
    fn say(&self, text: &str) {
        let mut played = self.0.lock();
        played.parts.push(Bytes::copy_from_slice(text.as_bytes()));
        played.wake();
    }

    fn end(&self) {
        let mut played = self.0.lock();
        played.has_ended = true;
        played.wake();
    }

    fn body(&self) -> RequestBody<'static> {
        RequestBody::Streaming(Box::new(self.clone()))
    }
}

impl Played {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl BodySource for Script {
    fn poll_part(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Bytes>> {
        let mut played = self.0.lock();
        let next = played.next;
        if let Some(part) = played.parts.get_mut(next) {
            let now = part.split_to(part.len().min(most));
            if part.is_empty() {
                played.next += 1;
            }
            return Poll::Ready(Some(now));
        }
        if played.has_ended {
            return Poll::Ready(None);
        }
        played.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn rewind(&mut self) {
        let mut played = self.0.lock();
        played.next = 0;
        played.rewound += 1;
    }

    fn can_repeat(&self) -> bool {
        !self.0.lock().is_spilt
    }

    fn is_closing(&self) -> bool {
        self.0.lock().is_closing
    }
}

#[test]
fn a_head_is_written_as_it_was_made() {
    let name = HeaderName::from_static;
    let value = HeaderValue::from_static;
    let base = post().header(name("x-a"), value("1")).header(name("x-b"), value("2")).prepared();
    let text = |head: &RequestHead, framing| {
        let mut out = Vec::new();
        head.write(framing, &mut out);
        String::from_utf8(out).expect("text")
    };
    let plain = "POST /v1/x?y=z HTTP/1.1\r\nhost: a.example\r\nx-a: 1\r\nx-b: 2\r\n";
    assert_eq!(text(&base, Framing::None), format!("{plain}\r\n"));
    assert_eq!(text(&base, Framing::Length(7)), format!("{plain}content-length: 7\r\n\r\n"));
    assert_eq!(text(&base, Framing::Chunked), format!("{plain}transfer-encoding: chunked\r\n\r\n"));
    let opening = format!("{plain}upgrade: websocket\r\nconnection: Upgrade\r\n\r\n");
    assert_eq!(text(&base, Framing::WebSocket), opening);

    let mut other = base.clone().header(name("x-a"), value("3"));
    other.append(name("x-b"), value("4"));
    other.remove(&name("host"));
    let expected = "POST /v1/x?y=z HTTP/1.1\r\nx-b: 2\r\nx-a: 3\r\nx-b: 4\r\n\r\n";
    assert_eq!(text(&other, Framing::None), expected);
    assert_eq!(text(&other.clone().prepared(), Framing::None), expected, "text and lines say the same");
    assert_eq!(other.headers().count(), 3);
    assert_eq!(other.get(&name("x-a")), Some(&value("3")));
    assert_eq!(text(&base, Framing::None), format!("{plain}\r\n"), "a clone changes nothing of what it was made from");

    let framed = base.clone().header(name("content-length"), value("99")).header(name("transfer-encoding"), value("x"));
    let framed = framed.header(name("connection"), value("x-a")).header(name("upgrade"), value("h2c"));
    assert_eq!(text(&framed, Framing::None), format!("{plain}\r\n"));
    for path in ["", "x", "/a b", "/a\r\nx: y", "http://a/"] {
        assert!(RequestHead::new(Method::GET, path).is_err(), "{path:?}");
    }
    let many = (0..70).fold(post(), |mut head, _| {
        head.append(name("x-m"), value("1"));
        head
    });
    assert_eq!(text(&many.clone().prepared(), Framing::None), text(&many, Framing::None));
    let secret = base.header(name("authorization"), value("Bearer secret")).prepared();
    assert!(!format!("{secret:?}").contains("secret"), "{secret:?}");
}

#[test]
fn values_are_small_enough_to_be_moved() {
    assert!(size_of::<Response>() <= 16, "{}", size_of::<Response>());
    assert!(size_of::<Connection>() <= 1024, "{}", size_of::<Connection>());
    let (dialer, origin, head): (Option<&Dialer>, Option<&ResolvedOrigin>, Option<&RequestHead>) = (None, None, None);
    let future = |body| {
        send(dialer.expect("never called"), origin.expect("never called"), head.expect("never called"), body, LONG)
    };
    assert!(size_of_output(future) <= 1024, "{}", size_of_output(future));
}

/// The size of the future that a function makes, which is not called.
fn size_of_output<A, F>(_: impl Fn(A) -> F) -> usize {
    size_of::<F>()
}
