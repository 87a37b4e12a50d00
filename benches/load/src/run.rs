//! The closed loop: each connection sends its next request when the last one was answered.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use memchr::memmem;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::{Client, Failure};
use crate::report::{Report, Tally};
use crate::request::{Url, chat_body, post};
use crate::sse::Watch;
use crate::tool;

/// After a failed connect, so that a dead server is not hammered.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(crate) struct Settings {
    #[arg(help = "where to POST to, http://host:port/path")]
    url: String,
    #[arg(short, long, default_value_t = 1)]
    connections: usize,
    #[arg(short = 'd', long, default_value_t = 5.0, help = "seconds to run, unless --requests is given")]
    seconds: f64,
    #[arg(short = 'n', long, help = "send this many requests in all")]
    requests: Option<u64>,
    #[arg(short = 'H', long = "header", help = "`name: value`, repeatable")]
    headers: Vec<String>,
    #[arg(long, default_value_t = 1024, help = "bytes of the chat request that is made up")]
    body_size: usize,
    #[arg(long, help = "send this file instead of a made-up request")]
    body_file: Option<PathBuf>,
    #[arg(long, default_value = "gpt-4o-mini")]
    model: String,
    #[arg(long, help = "call a tool of an MCP server in the place of a model")]
    tool: bool,
    #[arg(long, help = "ask for streams, read them whole and time their content")]
    stream: bool,
    #[arg(long, help = "count an answer whose body lacks this text as an error")]
    expect: Option<String>,
    #[arg(long, default_value_t = 30.0, help = "seconds after which a request has failed")]
    timeout: f64,
}

/// What all connections share.
struct Job {
    url: Url,
    request: Bytes,
    stream: bool,
    expect: Option<String>,
    timeout: Duration,
    left: Option<AtomicU64>,
    until: Instant,
}

impl Job {
    fn has_more(&self) -> bool {
        match &self.left {
            Some(left) => left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok(),
            None => Instant::now() < self.until,
        }
    }
}

pub(crate) async fn run(settings: &Settings) -> Result<Report, std::io::Error> {
    let url: Url = settings.url.parse()?;
    let body = match &settings.body_file {
        Some(path) => std::fs::read_to_string(path)?,
        None if settings.tool => tool::call_body(settings.body_size),
        None => chat_body(settings.body_size, &settings.model, settings.stream),
    };
    let mut headers = settings.headers.clone();
    if settings.tool {
        headers.extend(tool::call_headers());
    }
    let started = Instant::now();
    let job = Arc::new(Job {
        request: post(&url, &headers, &body)?,
        url,
        stream: settings.stream,
        expect: settings.expect.clone(),
        timeout: Duration::from_secs_f64(settings.timeout),
        left: settings.requests.map(AtomicU64::new),
        until: started + Duration::from_secs_f64(settings.seconds),
    });
    let mut connections = JoinSet::new();
    for _ in 0..settings.connections {
        connections.spawn(drive(Arc::clone(&job)));
    }
    let mut all = Tally::default();
    while let Some(tally) = connections.join_next().await {
        all.merge(tally?);
    }
    Ok(all.report(started.elapsed()))
}

async fn drive(job: Arc<Job>) -> Tally {
    let (mut tally, mut client) = (Tally::default(), None);
    while job.has_more() {
        let result = timeout(job.timeout, one(&job, &mut client, &mut tally)).await;
        let failure = result.unwrap_or(Err(Failure::Timeout)).err();
        if let Some(failure) = failure {
            tally.fail(failure);
            if failure == Failure::Connect {
                sleep(CONNECT_PAUSE).await;
            }
        }
        // A timeout leaves the connection in the middle of an exchange.
        client = client.filter(Client::is_reusable);
    }
    tally
}

async fn one(job: &Job, client: &mut Option<Client>, tally: &mut Tally) -> Result<(), Failure> {
    let client = match client {
        Some(client) => client,
        None => {
            tally.connects += 1;
            client.insert(Client::connect(&job.url.authority).await?)
        }
    };
    let start = Instant::now();
    let (mut body, mut watch) = (Vec::new(), Watch::default());
    let status = client
        .exchange(&job.request, |piece, now| {
            tally.body_bytes += piece.len() as u64;
            if job.stream {
                watch.push(piece, now);
            } else if job.expect.is_some() {
                body.extend_from_slice(piece);
            }
        })
        .await?;
    let latency = start.elapsed();
    if status != 200 {
        return Err(Failure::Status(status));
    }
    if job.stream {
        if !watch.done {
            return Err(Failure::StreamWithoutDone);
        }
        let first = watch.first_content.ok_or(Failure::StreamWithoutContent)?;
        tally.first_content.push(first - start);
        tally.gaps.extend(watch.gaps);
        tally.events += watch.events;
    } else if job.expect.as_ref().is_some_and(|text| memmem::find(&body, text.as_bytes()).is_none()) {
        return Err(Failure::UnexpectedBody);
    }
    tally.latencies.push(latency);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::upstream::{answer_all, stream_writes};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    /// What `load run URL arguments…` reports.
    async fn report(address: std::net::SocketAddr, arguments: &[&str]) -> Value {
        let url = format!("http://{address}/v1/chat/completions");
        let line = Line::parse_from([&["run", &url], arguments].concat());
        serde_json::to_value(run(&line.settings).await.unwrap()).unwrap()
    }

    async fn listen() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    async fn count(address: std::net::SocketAddr) -> String {
        let mut client = Client::connect(&address.to_string()).await.unwrap();
        let mut body = Vec::new();
        let request = b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n";
        client.exchange(request, |piece, _| body.extend_from_slice(piece)).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    #[tokio::test]
    async fn what_is_reported_is_what_the_upstream_counted() {
        let (listener, address) = listen().await;
        let mut upstream = JoinSet::new();
        upstream.spawn(answer_all(listener, |usage| stream_writes(50, usage)));
        let plain = report(address, &["-n", "100", "-c", "4", "--expect", "choices"]).await;
        assert_eq!((&plain["requests"], &plain["errors"], &plain["connects"]), (&100.into(), &0.into(), &4.into()));
        let large = report(address, &["-n", "3", "--body-size", "1048576"]).await;
        assert_eq!((&large["requests"], &large["errors"]), (&3.into(), &0.into()));
        let streams = report(address, &["-n", "10", "-c", "2", "--stream"]).await;
        assert_eq!((&streams["requests"], &streams["errors"]), (&10.into(), &0.into()));
        assert_eq!(streams["events_per_stream"], 52.0);
        assert!(streams["ttft_us"]["p50"].as_f64() <= streams["latency_us"]["p50"].as_f64());
        assert_eq!(count(address).await, r#"{"requests":113,"streams":10,"connections":8}"#);
    }

    #[tokio::test]
    async fn every_failed_request_is_an_error_of_its_kind() {
        let (listener, address) = listen().await;
        let mut upstream = JoinSet::new();
        upstream.spawn(answer_all(listener, |usage| stream_writes(1, usage)));
        let plain = report(address, &["-n", "5", "--expect", "nowhere to be found"]).await;
        assert_eq!((&plain["requests"], &plain["errors_by_kind"]["unexpected_body"]), (&0.into(), &5.into()));
        drop(upstream);

        let (listener, address) = listen().await;
        let mut upstream = JoinSet::new();
        upstream.spawn(async move {
            for answer in [&b"HTTP/1.1 503 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"[..], b"HTTP/1.1 200"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 1000);
                stream.write_all(answer).await.unwrap();
            }
        });
        let broken = report(address, &["-n", "3"]).await;
        assert_eq!((&broken["requests"], &broken["errors"]), (&0.into(), &3.into()));
        assert_eq!(broken["errors_by_kind"]["status_503"], 1);
        // The last one meets a listener that is gone, or just about to go.
        assert!(broken["errors_by_kind"]["closed_early"].as_u64() >= Some(1));
    }
}
