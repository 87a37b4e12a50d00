//! The cheapest upstream that still is one: it reads each request whole and answers from bytes
//! made at the start, so that what is measured is the proxy before it. `GET /count` tells how many
//! requests came. The gateway's own scriptable mock is `gateway mock`; this one has no script.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use clap::Args;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};

use crate::tool;
use crate::wire::{RequestHead, request_head};

const READ_SIZE: usize = 64 * 1024;
const MAX_HEAD: usize = 64 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

const COMPLETION: &str = concat!(
    r#"{"id":"chatcmpl-bench00000000000000000000001","object":"chat.completion","created":1760000000,"#,
    r#""model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"#,
    r#""It is one door to many model providers: it keeps their keys, picks one for each call, tries another "#,
    r#"when the first fails, and writes down what every call cost.","refusal":null,"annotations":[]},"#,
    r#""logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":212,"completion_tokens":33,"#,
    r#""total_tokens":245,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"#,
    r#""completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"#,
    r#""rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_bench"}"#,
);
const WORDS: [&str; 8] = [" each", " word", " goes", " out", " the", " moment", " it", " comes"];

#[derive(Debug, Args)]
pub(crate) struct Settings {
    #[arg(long, default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
    #[arg(long, default_value_t = 50, help = "content events of a stream, beside its first and last ones")]
    events: usize,
    #[arg(long, help = "write a stream at once, so that how many events are read together is always the same")]
    burst: bool,
}

struct Upstream {
    completion: String,
    /// Each is one write: the head with the first event, then one event each, or all of it.
    stream: Vec<String>,
    stream_usage: Vec<String>,
    requests: AtomicU64,
    streams: AtomicU64,
    connections: AtomicU64,
}

pub(crate) async fn serve(settings: &Settings) -> Result<(), std::io::Error> {
    let (listener, events) = (TcpListener::bind(settings.listen).await?, settings.events);
    let together = |writes: Vec<String>| if settings.burst { vec![writes.concat()] } else { writes };
    answer_all(listener, |usage| together(stream_writes(events, usage))).await
}

/// `stream` says what is written of a stream, without and with its usage.
pub(crate) async fn answer_all(
    listener: TcpListener,
    stream: impl Fn(bool) -> Vec<String>,
) -> Result<(), std::io::Error> {
    let upstream = Arc::new(Upstream {
        completion: json(COMPLETION),
        stream: stream(false),
        stream_usage: stream(true),
        requests: AtomicU64::new(0),
        streams: AtomicU64::new(0),
        connections: AtomicU64::new(0),
    });
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                upstream.connections.fetch_add(1, Ordering::Relaxed);
                let upstream = Arc::clone(&upstream);
                // A peer that hangs up or sends nonsense loses its connection and nothing else.
                connections.spawn(async move { upstream.answer(stream).await.is_ok() });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

impl Upstream {
    async fn answer(&self, mut stream: TcpStream) -> Result<(), std::io::Error> {
        stream.set_nodelay(true)?;
        let mut buffer = BytesMut::with_capacity(READ_SIZE);
        while let Some(head) = read_request(&mut stream, &mut buffer).await? {
            let whole = head.length + head.body;
            let body = &buffer[head.length..whole];
            if head.asks_count {
                stream.write_all(self.count().as_bytes()).await?;
            } else {
                self.requests.fetch_add(1, Ordering::Relaxed);
                if let Some(told) = tool::answer(body) {
                    stream.write_all(json(&told).as_bytes()).await?;
                } else if says_true(body, b"\"stream\"") {
                    self.streams.fetch_add(1, Ordering::Relaxed);
                    let usage = says_true(body, b"\"include_usage\"");
                    write_events(&mut stream, if usage { &self.stream_usage } else { &self.stream }).await?;
                } else {
                    stream.write_all(self.completion.as_bytes()).await?;
                }
            }
            buffer.advance(whole);
        }
        Ok(())
    }

    fn count(&self) -> String {
        let [requests, streams, connections] =
            [&self.requests, &self.streams, &self.connections].map(|counter| counter.load(Ordering::Relaxed));
        json(&format!("{{\"requests\":{requests},\"streams\":{streams},\"connections\":{connections}}}"))
    }
}

/// Reads until `buffer` starts with a whole request. None when the peer has closed.
async fn read_request(stream: &mut TcpStream, buffer: &mut BytesMut) -> Result<Option<RequestHead>, std::io::Error> {
    let mut head = None;
    loop {
        if head.is_none() {
            head = request_head(buffer)?;
        }
        let missing = match &head {
            Some(head) => (head.length + head.body).saturating_sub(buffer.len()),
            None if buffer.len() > MAX_HEAD => return Err(std::io::ErrorKind::InvalidData.into()),
            None => READ_SIZE,
        };
        if missing == 0 {
            return Ok(head);
        }
        buffer.reserve(missing.max(READ_SIZE));
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// One write per event, as providers send them, and the others get their turn in between.
async fn write_events(stream: &mut TcpStream, events: &[String]) -> Result<(), std::io::Error> {
    for event in events {
        stream.write_all(event.as_bytes()).await?;
        yield_now().await;
    }
    Ok(())
}

/// Is `"key": true` in the body? A scan, not a parse: the load generator escapes nothing.
fn says_true(body: &[u8], key: &[u8]) -> bool {
    memmem::find_iter(body, key).any(|at| {
        let rest = body[at + key.len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
    })
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn stream_writes(count: usize, usage: bool) -> Vec<String> {
    let mut data = vec![chunk(&choice(r#"{"role":"assistant","content":"","refusal":null}"#, "null"), "")];
    data.extend(WORDS.iter().cycle().take(count).map(|word| {
        let delta = format!("{{\"content\":\"{word}\"}}");
        chunk(&choice(&delta, "null"), "")
    }));
    data.push(chunk(&choice("{}", "\"stop\""), ""));
    if usage {
        let total = 212 + count;
        let usage = format!(
            ",\"usage\":{{\"prompt_tokens\":212,\"completion_tokens\":{count},\"total_tokens\":{total},\
             \"prompt_tokens_details\":{{\"cached_tokens\":0}},\"completion_tokens_details\":{{\"reasoning_tokens\":0}}}}"
        );
        data.push(chunk("", &usage));
    }
    data.push("[DONE]".to_owned());
    let mut writes: Vec<String> = data
        .iter()
        .map(|data| {
            let event = format!("data: {data}\n\n");
            format!("{:x}\r\n{event}\r\n", event.len())
        })
        .collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
                transfer-encoding: chunked\r\n\r\n";
    if let Some(first) = writes.first_mut() {
        first.insert_str(0, head);
    }
    if let Some(last) = writes.last_mut() {
        last.push_str("0\r\n\r\n");
    }
    writes
}

fn choice(delta: &str, finish: &str) -> String {
    format!("{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}")
}

fn chunk(choices: &str, usage: &str) -> String {
    format!(
        "{{\"id\":\"chatcmpl-bench00000000000000000000002\",\"object\":\"chat.completion.chunk\",\
         \"created\":1760000000,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_bench\",\"choices\":[{choices}]{usage}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::Decoder;
    use crate::sse::Watch;

    #[test]
    fn the_completion_is_json_of_the_size_promised() {
        let value: serde_json::Value = serde_json::from_str(COMPLETION).unwrap();
        assert_eq!(value["usage"]["total_tokens"], 245);
        assert!((680..1000).contains(&COMPLETION.len()), "{} bytes", COMPLETION.len());
    }

    #[test]
    fn streams_are_well_formed() {
        for (usage, expected) in [(false, 52), (true, 53)] {
            let wire = stream_writes(50, usage).concat();
            let body = wire.find("\r\n\r\n").unwrap() + 4;
            let (mut decoder, mut watch, now) = (Decoder::new(), Watch::default(), std::time::Instant::now());
            let used = decoder.feed(&wire.as_bytes()[body..], |piece| watch.push(piece, now)).unwrap();
            assert_eq!((decoder.is_done(), used), (true, wire.len() - body));
            assert_eq!((watch.done, watch.events, watch.first_content), (true, expected, Some(now)));
            for line in wire.lines().filter_map(|line| line.strip_prefix("data: {")) {
                serde_json::from_str::<serde_json::Value>(&format!("{{{line}")).unwrap();
            }
        }
    }

    #[test]
    fn stream_flags_are_found_however_spaced() {
        assert!(says_true(b"{\"stream\" : true}", b"\"stream\""));
        assert!(!says_true(b"{\"stream\":false}", b"\"stream\""));
        assert!(!says_true(b"{\"stream_options\":true}", b"\"stream\""));
    }
}
