//! What the process says of itself: readiness, version, metrics.

use crate::clock;
use crate::health::HealthComponents;
use crate::in_flight::InFlight;
use crate::limits::Limits;
use crate::metrics::{Circuit, Metrics, MetricsOptions, Readings};
use crate::peers::Peers;
use crate::proxy::{Assignments, BreakerStates, BufferBudget};
use crate::runtime_config::ConfigHandle;
use gateway_admin::{ComponentStatus, Counting, Status};
use gateway_domain::config::breaker::BreakerStatus;
use gateway_domain::ports::Live as _;
use gateway_domain::snapshot::ConfigEntry;
use gateway_policies::Ledger;
use prometheus::proto::MetricFamily;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Process {
    live: Arc<ConfigHandle>,
    metrics: Metrics,
    flight: InFlight,
    budget: Arc<BufferBudget>,
    limits: Arc<Limits>,
    sticks: Arc<Assignments>,
    breakers: Arc<BreakerStates>,
    parts: HealthComponents,
    ready: AtomicBool,
    draining: AtomicBool,
    stale: AtomicBool,
}

impl Process {
    pub(crate) fn new(
        live: Arc<ConfigHandle>,
        metrics: Metrics,
        flight: InFlight,
        budget: Arc<BufferBudget>,
        limits: Arc<Limits>,
    ) -> Self {
        let off = || AtomicBool::new(false);
        Self {
            live,
            metrics,
            flight,
            budget,
            limits,
            sticks: Arc::default(),
            breakers: Arc::default(),
            parts: HealthComponents::default(),
            ready: off(),
            draining: off(),
            stale: off(),
        }
    }

    /// Further parts that the status page tells of.
    #[must_use]
    pub(crate) fn with_parts(mut self, parts: HealthComponents) -> Self {
        self.parts = parts;
        self
    }

    /// Watches the assignments that the proxy keeps.
    #[must_use]
    pub(crate) fn with_sticks(mut self, sticks: Arc<Assignments>) -> Self {
        self.sticks = sticks;
        self
    }

    /// How targets stand, as the proxy of this process finds them.
    pub(crate) const fn breaker_states(&self) -> &Arc<BreakerStates> {
        &self.breakers
    }

    /// A process for commands that serve nothing but need an [`gateway_admin::App`].
    pub(crate) fn detached(live: Arc<ConfigHandle>) -> Result<Self, String> {
        let metrics = Metrics::new(MetricsOptions::default()).map_err(|e| e.to_string())?;
        let limits = Limits::alone(Arc::new(Ledger::default()), Peers::default());
        Ok(Self::new(live, metrics, InFlight::default(), BufferBudget::new(0, 0), Arc::new(limits)))
    }

    /// Listeners are being opened and a snapshot is held.
    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// The database cannot be read, or holds rows that this version cannot.
    pub(crate) fn set_stale(&self, stale: bool) {
        self.stale.store(stale, Ordering::Relaxed);
    }
}

impl Process {
    /// Targets of saved configs that have a circuit breaker, open or not.
    fn circuits(&self) -> Vec<Circuit> {
        let now_ms = clock::now().micros() / 1000;
        let snapshot = self.live.snapshot();
        let mut all = Vec::new();
        for workspace in snapshot.workspaces() {
            for config in workspace.configs() {
                if config.config.guarded().is_empty() {
                    continue;
                }
                let states = self.breakers.states(config, now_ms);
                all.extend(config.config.guarded().iter().zip(states).map(|(guarded, state)| Circuit {
                    workspace: workspace.slug.clone(),
                    config: config.slug.clone(),
                    target: guarded.path.clone(),
                    open: state.open_until_ms.is_some(),
                }));
            }
        }
        all
    }
}

impl Status for Process {
    /// Independent of the database: a node with a snapshot serves.
    fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Acquire) {
            return Err("draining".into());
        }
        if !self.ready.load(Ordering::Acquire) {
            return Err("starting".into());
        }
        if self.live.snapshot().is_empty() { Err("no configuration yet".into()) } else { Ok(()) }
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn metrics(&self) -> String {
        self.metrics.encode(&self.readings())
    }

    fn breakers(&self, config: &ConfigEntry, now_ms: i64) -> Vec<BreakerStatus> {
        self.breakers.states(config, now_ms)
    }

    fn parts(&self) -> Vec<ComponentStatus> {
        let mut all = vec![self.proxy(), self.configuration(), self.counters()];
        all.extend(self.parts.report());
        all
    }

    fn counting(&self) -> Counting {
        self.limits.counting()
    }
}

/// Parts that the process knows by itself.
impl Process {
    fn proxy(&self) -> ComponentStatus {
        let facts = json!({ "requests_in_flight": self.flight.count(), "buffered_bytes": self.budget.held() });
        ComponentStatus::new("proxy", facts)
    }

    fn configuration(&self) -> ComponentStatus {
        let why = "the database cannot be read, or holds rows that this version cannot; what was read last is in force";
        let stale = self.stale.load(Ordering::Relaxed);
        ComponentStatus::new("configuration", json!({ "revision": self.live.snapshot().revision }))
            .troubled(stale.then(|| why.to_owned()))
    }

    fn counters(&self) -> ComponentStatus {
        let (limits, counting) = (&self.limits, self.limits.counting());
        let facts = json!({
            "mode": counting.name(), "nodes": limits.peers().count(), "counters": limits.ledger().len(),
        });
        let away = "Redis is out of reach: limits are counted as each policy's fail_mode says";
        ComponentStatus::new("counters", facts).troubled((counting == Counting::RedisAway).then(|| away.to_owned()))
    }
}

impl Process {
    /// Reads all metrics anew at each call, for their export by OTLP.
    pub(crate) fn family_reader(self: &Arc<Self>) -> impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static {
        let process = self.clone();
        move || process.metrics.families(&process.readings())
    }

    fn readings(&self) -> Readings {
        Readings {
            revision: self.live.snapshot().revision,
            stale: self.stale.load(Ordering::Relaxed),
            in_flight: self.flight.count(),
            buffered: self.budget.held(),
            counters: self.limits.ledger().len(),
            peers: self.limits.peers().count(),
            time: clock::now(),
            bodies_shed: self.budget.shed(),
            assignments: self.sticks.len(),
            circuits: self.circuits(),
        }
    }
}
