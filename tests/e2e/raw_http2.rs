//! HTTP/2 as frames: what breaks its rules ends a stream or its connection and nothing else, silence has its clocks,
//! and floods of cheap frames cost the sender more than anybody else.

use crate::harness::http2::Http2;
use crate::harness::{Gateway, WORKSPACE_KEY, hello};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(8);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const LONG: &str =
    "a value of a hundred bytes, more or less, which is what a cookie takes, or a token of the shorter kind, say";
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Types of frames (RFC 9113, 6).
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Kind {
    Data = 0,
    Headers = 1,
    Reset = 3,
    Settings = 4,
    Push = 5,
    Ping = 6,
    GoAway = 7,
    Window = 8,
    Continuation = 9,
    Unknown = 0x42,
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind as u8, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Fields as literals that are not indexed (RFC 7541, 6.2.2).
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for text in fields.iter().flat_map(|(name, value)| [(true, *name), (false, *value)]) {
        if text.0 {
            block.push(0);
        }
        let length = u8::try_from(text.1.len()).expect("short");
        assert!(length < 127);
        block.push(length);
        block.extend_from_slice(text.1.as_bytes());
    }
    block
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/v1/health"), (":authority", "g")];

const POST: [(&str, &str); 7] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/v1/chat/completions"),
    (":authority", "g"),
    ("x-gateway-api-key", WORKSPACE_KEY),
    ("x-gateway-provider", "mock"),
    ("content-type", "application/json"),
];

fn get(stream: u32) -> Vec<u8> {
    frame(Kind::Headers, END_STREAM | END_HEADERS, stream, &fields(&GET))
}

struct Frames(TcpStream);

impl Frames {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(PREFACE).await.expect("the preface");
        stream.write_all(&frame(Kind::Settings, 0, 0, &[])).await.expect("settings");
        Self(stream)
    }

    async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = tokio::time::timeout(SOON, self.0.write_all(bytes)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// The next frame that is no greeting; `None` at the end.
    async fn next(&mut self) -> Option<(u8, u32)> {
        loop {
            let mut head = [0; 9];
            let read =
                tokio::time::timeout(SOON, self.0.read_exact(&mut head)).await.expect("a frame or an end in time");
            read.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if head[3] != Kind::Settings as u8 && head[3] != Kind::Window as u8 {
                return Some((head[3], stream));
            }
        }
    }

    /// Reads until the connection is over. True: a GOAWAY said that it would be.
    async fn end(&mut self) -> bool {
        let mut told = false;
        while let Some((kind, _)) = self.next().await {
            told |= kind == Kind::GoAway as u8;
        }
        told
    }
}

#[tokio::test]
async fn every_silence_has_its_clock() {
    let clocks =
        ["--client-idle-timeout", "700ms", "--client-header-timeout", "700ms", "--keepalive-timeout", "1400ms"];
    let gateway = Gateway::with(&clocks).await;
    let open = fields(&GET);
    let cases: [(&str, Vec<u8>, u64); 6] = [
        ("half a preface", PREFACE[..20].to_vec(), 700),
        ("only the preface", PREFACE.to_vec(), 700),
        ("no stream", [PREFACE, &frame(Kind::Settings, 0, 0, &[])].concat(), 700),
        (
            "a head without its end",
            [PREFACE, &frame(Kind::Settings, 0, 0, &[]), &frame(Kind::Headers, END_STREAM, 1, &open)].concat(),
            700,
        ),
        ("nothing after an answer", [PREFACE, &frame(Kind::Settings, 0, 0, &[]), &get(1)].concat(), 1400),
        (
            "half a head after an answer",
            [PREFACE, &frame(Kind::Settings, 0, 0, &[]), &get(1), &frame(Kind::Headers, 1, 3, &open)].concat(),
            1400,
        ),
    ];
    let all = cases.map(|(what, bytes, ms)| async move {
        let mut stream = TcpStream::connect(gateway.proxy).await.expect("a connection");
        let began = Instant::now();
        stream.write_all(&bytes).await.expect("sent");
        let mut all = Vec::new();
        let read = tokio::time::timeout(SOON, stream.read_to_end(&mut all)).await;
        assert!(read.is_ok(), "{what}: still open after {:?}", began.elapsed());
        (what, ms, began.elapsed())
    });
    for (what, ms, took) in futures_util::future::join_all(all).await {
        assert!(took >= Duration::from_millis(ms - 50), "{what}: only {took:?}");
        assert!(took < Duration::from_millis(ms) + Duration::from_secs(3), "{what}: {took:?}");
    }
    // A ping now and then is no request.
    let mut pinging = Frames::connect(gateway.proxy).await;
    let began = Instant::now();
    while began.elapsed() < SOON && pinging.send(&frame(Kind::Ping, 0, 0, &[0; 8])).await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_breaks_the_rules_ends_nothing_but_itself() {
    let gateway = Gateway::start().await;
    let whole = |stream, extra: &[(&str, &str)]| frame(Kind::Headers, 5, stream, &fields(&[&GET[..], extra].concat()));
    // Errors of the connection: it ends, and that is said.
    let fatal: [(&str, Vec<u8>); 13] = [
        ("data on stream 0", frame(Kind::Data, 0, 0, b"x")),
        ("headers on stream 0", frame(Kind::Headers, 5, 0, &fields(&GET))),
        ("a stream of the server's", get(2)),
        ("data on a stream that is idle", frame(Kind::Data, 0, 7, b"x")),
        ("a reset of a stream that is idle", frame(Kind::Reset, 0, 7, &[0; 4])),
        ("a ping of five bytes", frame(Kind::Ping, 0, 0, &[0; 5])),
        ("settings of five bytes", frame(Kind::Settings, 0, 0, &[0; 5])),
        ("settings on a stream", frame(Kind::Settings, 0, 1, &[])),
        ("a window of nothing", frame(Kind::Window, 0, 0, &[0; 4])),
        ("a continuation of nothing", frame(Kind::Continuation, 4, 1, &fields(&GET))),
        (
            "something else within a head",
            [frame(Kind::Headers, 1, 1, &fields(&GET)), frame(Kind::Ping, 0, 0, &[0; 8])].concat(),
        ),
        ("a push of the client's", frame(Kind::Push, 4, 1, &[0, 0, 0, 2])),
        ("a frame that is too large", frame(Kind::Data, 0, 1, &vec![0; 20_000])),
    ];
    for (what, bytes) in fatal {
        let mut client = Frames::connect(gateway.proxy).await;
        client.send(&bytes).await;
        assert!(client.end().await, "{what}: no word of the end");
    }
    // Errors of a stream: it ends, or is refused with a 400.
    let odd: [(&str, Vec<u8>); 8] = [
        ("a capital in a name", whole(1, &[("X-Upper", "1")])),
        ("a field of a connection", whole(1, &[("connection", "close")])),
        ("an encoding of a transfer", whole(1, &[("transfer-encoding", "chunked")])),
        ("te other than trailers", whole(1, &[("te", "gzip")])),
        ("a pseudo field after another", whole(1, &[("x", "1"), (":path", "/other")])),
        ("an unknown pseudo field", whole(1, &[(":odd", "1")])),
        ("two lengths", whole(1, &[("content-length", "1"), ("content-length", "2")])),
        ("no path", frame(Kind::Headers, 5, 1, &fields(&[GET[0], GET[1], GET[3]]))),
    ];
    for (what, bytes) in odd {
        let mut client = Frames::connect(gateway.proxy).await;
        client.send(&bytes).await;
        let (kind, _) = client.next().await.unwrap_or((Kind::GoAway as u8, 0));
        let fits = [Kind::Reset, Kind::GoAway, Kind::Headers].iter().any(|k| *k as u8 == kind);
        assert!(fits, "{what}: frame {kind}");
    }
    // What is not known is passed over.
    let mut client = Frames::connect(gateway.proxy).await;
    client.send(&[frame(Kind::Unknown, 0xff, 0, b"whatever"), get(1)].concat()).await;
    assert_eq!(client.next().await, Some((Kind::Headers as u8, 1)));
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    assert!(!gateway.process.output().contains("ERROR"), "strangers write no errors: {}", gateway.process.output());
}

/// The frames of one step of a flood.
type Cheap = Box<dyn Fn(u32) -> Vec<u8>>;

/// Each for two seconds at most, beside a client that wants an answer.
#[tokio::test]
async fn floods_of_cheap_frames_hold_up_nobody() {
    let gateway = Gateway::start().await;
    let before = gateway.memory("VmRSS");
    let reset = |stream: u32| [get(stream), frame(Kind::Reset, 0, stream, &[0, 0, 0, 8])].concat();
    let endless = frame(Kind::Headers, 0, 1, &fields(&GET));
    let more = frame(Kind::Continuation, 0, 1, &fields(&[("x", LONG); 20]));
    let floods: [(&str, Vec<u8>, Cheap); 6] = [
        ("streams that are reset at once", Vec::new(), Box::new(move |i| reset(2 * i + 1))),
        ("pings", Vec::new(), Box::new(|_| frame(Kind::Ping, 0, 0, &[0; 8]))),
        ("settings", Vec::new(), Box::new(|_| frame(Kind::Settings, 0, 0, &[0, 3, 0, 0, 0, 9]))),
        ("a head without an end", endless, Box::new(move |_| more.clone())),
        (
            "data of nothing",
            frame(Kind::Headers, END_HEADERS, 1, &fields(&POST)),
            Box::new(|_| frame(Kind::Data, 0, 1, &[])),
        ),
        (
            "streams without an end",
            Vec::new(),
            Box::new(|i| frame(Kind::Headers, END_HEADERS, 2 * i + 1, &fields(&GET))),
        ),
    ];
    for (what, first, each) in floods {
        let mut client = Frames::connect(gateway.proxy).await;
        client.send(&first).await;
        let (mut from, mut to) = client.0.into_split();
        let began = Instant::now();
        let flood = async {
            let mut i = 0;
            while began.elapsed() < Duration::from_secs(2) {
                let batch: Vec<u8> = (i..i + 50).flat_map(&each).collect();
                i += 50;
                if to.write_all(&batch).await.is_err() {
                    return;
                }
            }
        };
        let drain = async {
            let mut space = vec![0; 64 << 10];
            while matches!(from.read(&mut space).await, Ok(n) if n > 0) {}
        };
        let ask = async {
            for _ in 0..5 {
                let took = gateway.chat().provider("mock").json(&hello()).send().await.expect(200).took;
                assert!(took < Duration::from_secs(2), "{what}: {took:?}");
            }
        };
        tokio::join!(
            async {
                tokio::select! { () = flood => {}, () = drain => {} }
            },
            ask
        );
        let grown = gateway.memory("VmRSS").saturating_sub(before);
        assert!(grown < 64, "{what}: {grown} MiB");
    }
    let mut good = Http2::connect(gateway.proxy).await;
    let (status, told) = good
        .ask("POST", "/v1/chat/completions", &[("x-gateway-provider", "mock")], hello().to_string().as_bytes())
        .await;
    assert_eq!(status, 200, "{told}");
}
