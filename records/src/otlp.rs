//! Traces and metrics over OTLP (http/protobuf, OpenTelemetry protocol 1.x): from records that the writer hands on,
//! through a bounded queue, in a task of the control runtime. A collector that is slow or away costs spans, which
//! are counted, and nothing else. Knows records and the registries of metrics; nothing of requests.

mod points;
mod spans;

pub(crate) use spans::{operation, provider};

use crate::Degraded;
use crate::metrics::Metrics;
use gateway_domain::Timestamp;
use gateway_domain::record::LogRecord;
use gateway_upstream::outbound::{Outbound, OutboundError, send};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus::proto::MetricFamily;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;
use uuid::Uuid;

/// Records waiting for the collector at most.
const QUEUE: usize = 8_192;
/// Records of one message.
const BATCH: usize = 512;
/// A message is sent when it is full, or so long after its first record.
const LINGER: Duration = Duration::from_millis(250);
/// Tries of one message; the waits between them double from the first.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The conventions that names of attributes follow, `gen_ai.*` included.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.40.0";

/// Where telemetry is sent, with which headers, and how often.
#[derive(Debug)]
pub struct OtlpTarget {
    /// Base URL: signals go to `/v1/traces` and `/v1/metrics` below it.
    pub endpoint: String,
    pub headers: HeaderMap,
    /// The time between two sends of metrics.
    pub interval: Duration,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// The URL scheme by which clients reach the proxy port.
    pub scheme: &'static str,
    /// Dates what is sent.
    pub clock: fn() -> Timestamp,
}

impl OtlpTarget {
    /// `headers` are `name=value` pairs with commas between them, as `OTEL_EXPORTER_OTLP_HEADERS` writes them.
    pub fn parse(
        endpoint: &str,
        headers: Option<&str>,
        interval: Duration,
        resource: Vec<(String, String)>,
        clock: fn() -> Timestamp,
    ) -> Result<Self, String> {
        let endpoint = endpoint.trim_end_matches('/');
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            return Err("--otlp-endpoint must be an http or https URL".into());
        }
        let mut map = HeaderMap::new();
        for (name, value) in pairs(headers.unwrap_or_default()).ok_or("--otlp-headers must be name=value,name=value")? {
            let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
            let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(&value)) else {
                return Err("--otlp-headers holds what no header can carry".into());
            };
            value.set_sensitive(true);
            map.append(name, value);
        }
        Ok(Self { endpoint: endpoint.to_owned(), headers: map, interval, resource, scheme: "http", clock })
    }
}

/// `a=b,c=d`.
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
    text.split(',').map(str::trim).filter(|p| !p.is_empty()).map(pair).collect()
}

/// The writer's end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Otlp {
    queue: Sender<Box<LogRecord>>,
    fates: Arc<Fates>,
}

/// How the way to the collector does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorState {
    /// Records in the queue.
    pub waiting: usize,
    pub exported: u64,
    pub dropped: u64,
    /// Why the collector takes nothing; `None` while it does.
    pub trouble: Option<String>,
}

/// What became of records that were offered.
#[derive(Debug, Default)]
struct Fates {
    offered: AtomicU64,
    dropped: AtomicU64,
    exported: AtomicU64,
    /// Set while the collector takes nothing.
    away: Degraded,
}

impl Fates {
    fn settled(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.exported.load(Ordering::Relaxed)
    }
}

/// The other end, not yet at work.
#[derive(Debug)]
pub struct Exporter {
    queue: Receiver<Box<LogRecord>>,
    target: OtlpTarget,
    outbound: Outbound,
    resource: Resource,
    fates: Arc<Fates>,
    started_nanos: u64,
}

impl Otlp {
    pub fn new(
        target: OtlpTarget,
        outbound: Outbound,
        metrics: &Metrics,
    ) -> Result<(Self, Exporter), prometheus::Error> {
        let (tx, rx) = channel(QUEUE);
        let fates = Arc::<Fates>::default();
        let otlp = Self { queue: tx, fates: fates.clone() };
        otlp.watch(metrics)?;
        let attributes = target.resource.iter().map(|(k, v)| text(k, v)).collect();
        let resource = Resource { attributes, ..Resource::default() };
        let started_nanos = nanos((target.clock)());
        Ok((otlp, Exporter { queue: rx, target, outbound, resource, fates, started_nanos }))
    }

    fn watch(&self, metrics: &Metrics) -> Result<(), prometheus::Error> {
        let queue = self.queue.downgrade();
        let (dropped, exported) = (self.fates.clone(), self.fates.clone());
        metrics.watch("gateway_otlp_queue_depth", "Records that wait for the collector of traces", move || {
            queue.upgrade().map_or(0, |q| (q.max_capacity() - q.capacity()) as u64)
        })?;
        metrics.watch("gateway_otlp_records_dropped", "Records whose spans no collector took", move || {
            dropped.dropped.load(Ordering::Relaxed)
        })?;
        metrics.watch("gateway_otlp_records_exported", "Records whose spans a collector took", move || {
            exported.exported.load(Ordering::Relaxed)
        })
    }

    /// How this does, read each time it is called; does not keep the queue open.
    pub fn watcher(&self) -> impl Fn() -> CollectorState + Send + Sync + 'static {
        let (queue, fates) = (self.queue.downgrade(), self.fates.clone());
        move || CollectorState {
            waiting: queue.upgrade().map_or(0, |q| q.max_capacity() - q.capacity()),
            exported: fates.exported.load(Ordering::Relaxed),
            dropped: fates.dropped.load(Ordering::Relaxed),
            trouble: fates.away.get(),
        }
    }

    /// Takes what belongs to a sampled trace; never waits.
    pub fn offer(&self, records: &[LogRecord]) {
        for record in records.iter().filter(|r| r.trace.as_ref().is_some_and(|t| t.sampled)) {
            self.fates.offered.fetch_add(1, Ordering::Relaxed);
            let Ok(place) = self.queue.try_reserve() else {
                self.fates.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let mut record = record.clone();
            // Traces carry no bodies, and what they hold of memory is not for a slow collector to keep.
            record.bodies = None;
            place.send(Box::new(record));
        }
    }

    /// Waits until everything offered has its fate, or for so long. Blocks: for a process that ends.
    pub fn flush(&self, patience: Duration) {
        let until = std::time::Instant::now() + patience;
        while self.fates.settled() < self.fates.offered.load(Ordering::Relaxed) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Exporter {
    /// `families` gives the metrics as they are when it is called.
    pub fn start(self, runtime: &Handle, families: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static) {
        runtime.spawn(self.run(families));
    }

    async fn run(mut self, families: impl Fn() -> Vec<MetricFamily> + Send + Sync) {
        let mut batch: Vec<Box<LogRecord>> = Vec::with_capacity(BATCH);
        let mut due = Instant::now() + self.target.interval;
        loop {
            let got = tokio::select! {
                got = self.queue.recv_many(&mut batch, BATCH) => got,
                () = tokio::time::sleep_until(due) => {
                    due = Instant::now() + self.target.interval;
                    self.push_metrics(&families).await;
                    continue;
                }
            };
            if got == 0 {
                return;
            }
            let until = Instant::now() + LINGER;
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                match tokio::time::timeout_at(until, self.queue.recv_many(&mut batch, room)).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
            let told = spans::request(&batch, &self.resource, self.target.scheme);
            let taken = self.push("/v1/traces", told.encode_to_vec()).await;
            let fate = if taken { &self.fates.exported } else { &self.fates.dropped };
            fate.fetch_add(batch.len() as u64, Ordering::Relaxed);
            batch.clear();
        }
    }

    async fn push_metrics(&self, families: &(impl Fn() -> Vec<MetricFamily> + Sync)) {
        let now = nanos((self.target.clock)());
        let told = points::request(&families(), &self.resource, self.started_nanos, now);
        self.push("/v1/metrics", told.encode_to_vec()).await;
    }

    /// Whether the collector took it, perhaps after some tries.
    async fn push(&self, path: &str, body: Vec<u8>) -> bool {
        let url = format!("{}{path}", self.target.endpoint);
        let body = bytes::Bytes::from(body);
        let mut wait = FIRST_WAIT;
        for attempt in 1..=TRIES {
            let request = self.outbound.operator_request(Method::POST, &url).headers(self.target.headers.clone());
            let request = request.header(http::header::CONTENT_TYPE, "application/x-protobuf").body(body.clone());
            let (again, why) = match send(request).await {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    self.fates.away.set(None);
                    return true;
                }
                Ok(answer) => {
                    wait = wished(&answer.headers).unwrap_or(wait);
                    (matches!(answer.status, 429 | 502 | 503 | 504), format!("status {}", answer.status))
                }
                Err(OutboundError::Failed(why)) => (true, why),
                Err(e) => (false, e.to_string()),
            };
            if !again || attempt == TRIES {
                tracing::warn!(path, %why, "the OTLP collector did not take what it was sent");
                self.fates.away.set(Some(format!("the collector did not take what it was sent: {why}")));
                return false;
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        false
    }
}

/// How long the collector asks to be left alone, in reason.
fn wished(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(30)))
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.micros()).unwrap_or(0).saturating_mul(1000)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "gateway".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// Attributes of the resource: what the operator says wins over what is known, which is the service and this process of
/// it.
pub fn resource(service: &str, instance: Uuid, given: Vec<(String, String)>) -> Vec<(String, String)> {
    let known = [
        ("service.name", service.to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance.to_string()),
    ];
    let known = known.into_iter().map(|(k, v)| (k.to_owned(), v)).filter(|(k, _)| !given.iter().any(|(g, _)| g == k));
    let mut all: Vec<(String, String)> = known.collect();
    all.extend(given);
    all
}
