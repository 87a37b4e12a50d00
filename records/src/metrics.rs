//! What Prometheus may scrape, under the names of `docs/operations.md`. Request metrics are fed from records
//! on the writer's thread, so that a request pays nothing for them; labels are bounded by tables, never by clients.

mod checks;
mod conventions;
pub mod labels;
mod series;
mod unpriced;

use checks::CheckCounts;
use conventions::Conventions;
use gateway_domain::Timestamp;
use gateway_domain::record::{LogRecord, Steps};
use gateway_store::journal;
use labels::Label;
use parking_lot::Mutex;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};
use series::AtHand;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use unpriced::UnpricedModels;

const LABELS: &[&str] = &["provider", "method", "endpoint", "code", "stream", "cacheStatus", "source"];
const MILLIS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 1.8e6, 3.6e6,
    1e7,
];
/// The overhead is told finely where it should lie.
const OVERHEAD: &[f64] = &[
    25e-6, 50e-6, 75e-6, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2.5e-2, 5e-2,
    0.1, 0.5, 1.0,
];
const OWN_MILLIS: &[f64] = &[0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1e3];

#[derive(Clone, Debug)]
pub struct Metrics(Arc<Instruments>);

/// A histogram of one part of the gateway's own work.
type OwnStep = (Histogram, fn(&Steps) -> u64);

#[derive(Debug)]
struct Instruments {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    llm_millis: HistogramVec,
    total_millis: HistogramVec,
    own_millis: HistogramVec,
    tail_millis: HistogramVec,
    step_millis: [OwnStep; 4],
    cache_millis: Histogram,
    overhead: HistogramVec,
    extra: Vec<Label>,
    /// The writer's alone: never contended.
    at_hand: Mutex<AtHand>,
    conventions: Option<Conventions>,
    cost: GaugeVec,
    tokens: GaugeVec,
    unpriced: IntCounter,
    unpriced_models: UnpricedModels,
    unlimited_money: IntCounter,
    dropped: IntCounterVec,
    stored: IntCounter,
    journal: OnceLock<journal::Gauge>,
    journal_bytes: IntGauge,
    journal_waiting: IntGauge,
    store_lag: Gauge,
    revision: IntGauge,
    stale: IntGauge,
    in_flight: IntGauge,
    buffered: Gauge,
    counters: IntGauge,
    peers: IntGauge,
    bodies_shed: IntGauge,
    assignments: IntGauge,
    circuits: IntGaugeVec,
    checks: CheckCounts,
}

/// What had no room for a record, or would not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The queue in memory was full.
    Queue,
    /// The disk took no more.
    Disk,
    /// The journal was at its bound, or damaged, before the store had the record.
    Journal,
    /// The store refused this record and took others.
    Store,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Queue, Self::Disk, Self::Journal, Self::Store];

    const fn label(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Disk => "disk",
            Self::Journal => "journal",
            Self::Store => "store",
        }
    }
}

/// What the operator asks of the metrics.
#[derive(Debug, Default)]
pub struct MetricsOptions {
    /// Labels beyond those of the tables.
    pub extra: Vec<Label>,
    /// Labels with a fixed value that every metric has.
    pub constant: HashMap<String, String>,
    /// The histograms of the GenAI conventions, for OTLP.
    pub conventions: bool,
}

/// Facts that are read when scraped, not counted as they happen.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    pub revision: i64,
    pub stale: bool,
    pub in_flight: usize,
    pub buffered: usize,
    pub counters: usize,
    /// Nodes that serve requests, this one included.
    pub peers: usize,
    pub time: Timestamp,
    pub bodies_shed: u64,
    pub assignments: usize,
    pub circuits: Vec<Circuit>,
}

/// The circuit breaker of one target of a saved config; labels are what admins wrote, never clients.
#[derive(Clone, Debug)]
pub struct Circuit {
    pub workspace: Arc<str>,
    pub config: Arc<str>,
    pub target: Arc<str>,
    pub open: bool,
}

/// A histogram of the milliseconds that one part of the gateway's own work takes.
fn step(name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(OWN_MILLIS.to_vec()))
}

/// These labels and those that operators opted into.
fn with_extra<'l>(labels: &[&'static str], extra: &'l [Label]) -> Vec<&'l str> {
    labels.iter().copied().chain(extra.iter().map(Label::name)).collect()
}

fn sum(name: &str, help: &str, labels: &[&'static str], extra: &[Label]) -> Result<GaugeVec, prometheus::Error> {
    GaugeVec::new(Opts::new(name, help), &with_extra(labels, extra))
}

fn histogram(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Result<HistogramVec, prometheus::Error> {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)
}

fn step_millis() -> Result<[OwnStep; 4], prometheus::Error> {
    Ok([
        (step("authentication_duration_milliseconds", "Finding and checking the key")?, |s| s.auth_us),
        (step("api_key_rate_limit_check_duration_milliseconds", "Counting against limits")?, |s| s.limits_us),
        (step("pre_request_processing_duration_milliseconds", "Work before the provider is called")?, |s| s.before_us),
        (step("post_request_processing_duration_milliseconds", "Work after the provider answered")?, |s| s.after_us),
    ])
}

impl Metrics {
    pub fn new(shape: MetricsOptions) -> Result<Self, prometheus::Error> {
        let MetricsOptions { extra, constant, conventions } = shape;
        let registry = Registry::new_custom(None, (!constant.is_empty()).then_some(constant))?;
        let all = with_extra(LABELS, &extra);
        let seconds: Vec<f64> = MILLIS.iter().map(|m| m / 1e3).collect();
        let inner = Instruments {
            requests: IntCounterVec::new(Opts::new("request_count", "Targets that were tried"), &all)?,
            seconds: histogram(
                "http_request_duration_seconds",
                "Whole request",
                &["method", "endpoint", "code"],
                &seconds,
            )?,
            llm_millis: histogram("llm_request_duration_milliseconds", "Waiting for the provider", &all, MILLIS)?,
            total_millis: histogram("gateway_request_duration_milliseconds", "Whole request", &all, MILLIS)?,
            own_millis: histogram(
                "gateway_processing_time_excluding_last_byte_ms",
                "The gateway's own work",
                &["endpoint", "stream"],
                OWN_MILLIS,
            )?,
            tail_millis: histogram(
                "llm_last_byte_diff_duration_milliseconds",
                "First to last byte",
                &["endpoint", "stream"],
                MILLIS,
            )?,
            step_millis: step_millis()?,
            cache_millis: step("llm_cache_processing_duration_milliseconds", "Looking into the response cache")?,
            overhead: histogram(
                "gateway_overhead_seconds",
                "What the gateway adds to a request: up to the answer, without waiting for provider or client",
                &["endpoint"],
                OVERHEAD,
            )?,
            conventions: conventions.then(Conventions::new).transpose()?,
            cost: sum("llm_cost_sum", "Cost in US dollars", &["provider", "endpoint"], &extra)?,
            tokens: sum("llm_token_sum", "Tokens by class", &["provider", "endpoint", "type"], &extra)?,
            unpriced: IntCounter::new("gateway_unpriced_records_total", "Records with usage but no known price")?,
            unpriced_models: UnpricedModels::new()?,
            unlimited_money: IntCounter::new(
                "gateway_unlimited_money_requests_total",
                "Calls that a limit on money has to do with and counts nothing of, since their price is not known",
            )?,
            dropped: IntCounterVec::new(
                Opts::new("gateway_records_dropped_total", "Records that were lost, by what had no room for them"),
                &["reason"],
            )?,
            stored: IntCounter::new("gateway_records_stored_total", "Records that the log store has confirmed")?,
            journal: OnceLock::new(),
            journal_bytes: IntGauge::new("gateway_journal_bytes", "Bytes of segments in the journal")?,
            journal_waiting: IntGauge::new("gateway_journal_records", "Records that wait for the log store")?,
            store_lag: Gauge::new("gateway_log_store_lag_seconds", "Age of the oldest record that is being stored")?,
            revision: IntGauge::new("gateway_config_revision", "Revision of the configuration in force")?,
            stale: IntGauge::new(
                "gateway_config_stale",
                "1 while the database cannot be read or rows cannot be understood",
            )?,
            in_flight: IntGauge::new("gateway_requests_in_flight", "Requests under way")?,
            buffered: Gauge::new("gateway_buffered_bytes", "Request bytes held in memory")?,
            peers: IntGauge::new("gateway_nodes", "Live nodes that serve requests")?,
            counters: IntGauge::new("gateway_limit_counters", "Rate-limit counters in use")?,
            bodies_shed: IntGauge::new("gateway_bodies_shed", "Times that bodies were not kept for want of memory")?,
            assignments: IntGauge::new("gateway_sticky_assignments", "Sticky assignments remembered")?,
            circuits: IntGaugeVec::new(
                Opts::new("gateway_circuit_open", "1 while the target's circuit breaker is open"),
                &["workspace", "config", "target"],
            )?,
            checks: CheckCounts::new()?,
            registry,
            extra,
            at_hand: Mutex::default(),
        };
        inner.register()?;
        inner.registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        for reason in Loss::ALL {
            inner.dropped.with_label_values(&[reason.label()]);
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Books a batch of records.
    pub fn book(&self, records: &[LogRecord]) {
        let mut at_hand = self.0.at_hand.lock();
        records.iter().for_each(|r| self.0.book(&mut at_hand, r));
        records.iter().filter_map(|r| r.hooks.as_deref()).for_each(|hooks| self.0.checks.book(hooks));
    }

    pub fn pass_a_money_limit(&self) {
        self.0.unlimited_money.inc();
    }

    pub fn drop_records(&self, why: Loss, n: u64) {
        if n > 0 {
            self.0.dropped.with_label_values(&[why.label()]).inc_by(n);
        }
    }

    pub fn store_records(&self, n: u64) {
        self.0.stored.inc_by(n);
    }

    /// The journal whose depth is told.
    pub fn watch_journal(&self, gauge: journal::Gauge) {
        let _ = self.0.journal.set(gauge);
    }

    /// What lies between the writer and the log store.
    pub fn journal(&self) -> journal::Depth {
        self.0.journal.get().map(journal::Gauge::depth).unwrap_or_default()
    }

    /// Seconds that the oldest record waits that is being stored.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn store_lag(&self, now: Timestamp) -> f64 {
        self.journal().oldest.map_or(0.0, |at| (now.micros() - at.micros()).max(0) as f64 / 1e6)
    }

    /// Records that the store has confirmed.
    pub fn stored(&self) -> u64 {
        self.0.stored.get()
    }

    /// Records that were lost, by what had no room for them.
    pub fn dropped(&self) -> BTreeMap<&'static str, u64> {
        Loss::ALL.iter().map(|l| (l.label(), self.0.dropped.with_label_values(&[l.label()]).get())).collect()
    }

    /// Something that counts for itself.
    pub fn register(&self, collector: Box<dyn prometheus::core::Collector>) -> Result<(), prometheus::Error> {
        self.0.registry.register(collector)
    }

    /// A gauge that is read when it is asked for.
    pub fn watch(
        &self,
        name: &str,
        help: &str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<(), prometheus::Error> {
        #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
        let gauge = prometheus::PullingGauge::new(name, help, Box::new(move || read() as f64))?;
        self.register(Box::new(gauge))
    }

    /// Everything that is counted, for OTLP.
    pub fn families(&self, now: &Readings) -> Vec<MetricFamily> {
        self.read(now);
        let mut all = self.0.registry.gather();
        all.extend(self.0.conventions.iter().flat_map(Conventions::families));
        all
    }

    /// Text format 0.0.4.
    pub fn encode(&self, now: &Readings) -> String {
        self.read(now);
        let mut text = Vec::new();
        match TextEncoder::new().encode(&self.0.registry.gather(), &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(e) => format!("# metrics cannot be encoded: {e}\n"),
        }
    }

    fn read(&self, now: &Readings) {
        let i = &self.0;
        i.revision.set(now.revision);
        i.stale.set(i64::from(now.stale));
        i.in_flight.set(i64::try_from(now.in_flight).unwrap_or(i64::MAX));
        #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
        i.buffered.set(now.buffered as f64);
        i.peers.set(i64::try_from(now.peers).unwrap_or(i64::MAX));
        i.bodies_shed.set(i64::try_from(now.bodies_shed).unwrap_or(i64::MAX));
        i.counters.set(i64::try_from(now.counters).unwrap_or(i64::MAX));
        let depth = self.journal();
        i.journal_bytes.set(i64::try_from(depth.bytes).unwrap_or(i64::MAX));
        i.journal_waiting.set(i64::try_from(depth.waiting).unwrap_or(i64::MAX));
        i.store_lag.set(self.store_lag(now.time));
        i.assignments.set(i64::try_from(now.assignments).unwrap_or(i64::MAX));
        i.circuits.reset();
        for c in &now.circuits {
            i.circuits.with_label_values(&[&*c.workspace, &*c.config, &*c.target]).set(i64::from(c.open));
        }
    }
}

impl Instruments {
    fn register(&self) -> Result<(), prometheus::Error> {
        let all: Vec<Box<dyn prometheus::core::Collector>> = vec![
            Box::new(self.requests.clone()),
            Box::new(self.seconds.clone()),
            Box::new(self.llm_millis.clone()),
            Box::new(self.total_millis.clone()),
            Box::new(self.own_millis.clone()),
            Box::new(self.tail_millis.clone()),
            Box::new(self.cache_millis.clone()),
            Box::new(self.overhead.clone()),
            Box::new(self.cost.clone()),
            Box::new(self.tokens.clone()),
            Box::new(self.unpriced.clone()),
            Box::new(self.unpriced_models.counts.clone()),
            Box::new(self.unlimited_money.clone()),
            Box::new(self.dropped.clone()),
            Box::new(self.stored.clone()),
            Box::new(self.journal_bytes.clone()),
            Box::new(self.journal_waiting.clone()),
            Box::new(self.store_lag.clone()),
            Box::new(self.revision.clone()),
            Box::new(self.stale.clone()),
            Box::new(self.in_flight.clone()),
            Box::new(self.buffered.clone()),
            Box::new(self.counters.clone()),
            Box::new(self.peers.clone()),
            Box::new(self.bodies_shed.clone()),
            Box::new(self.assignments.clone()),
            Box::new(self.circuits.clone()),
        ];
        all.into_iter().chain(self.checks.collectors()).try_for_each(|c| self.registry.register(c))?;
        self.step_millis.iter().try_for_each(|(h, _)| self.registry.register(Box::new(h.clone())))
    }
}
