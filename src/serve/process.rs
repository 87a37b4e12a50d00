//! What the process says of itself: readiness, version, metrics.

use crate::flight::Flight;
use crate::live::Live;
use crate::metrics::{Circuit, Metrics, Readings, Shape};
use crate::peers::Peers;
use crate::proxy::{Assignments, Budget};
use gateway_admin::Status;
use gateway_domain::ports::Live as _;
use gateway_policies::Ledger;
use prometheus::proto::MetricFamily;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(crate) struct Process {
    live: Arc<Live>,
    metrics: Metrics,
    flight: Flight,
    budget: Arc<Budget>,
    ledger: Arc<Ledger>,
    peers: Peers,
    sticks: Arc<Assignments>,
    ready: AtomicBool,
    draining: AtomicBool,
    stale: AtomicBool,
}

impl Process {
    pub(crate) fn new(
        live: Arc<Live>,
        metrics: Metrics,
        flight: Flight,
        budget: Arc<Budget>,
        ledger: Arc<Ledger>,
        peers: Peers,
    ) -> Self {
        let off = || AtomicBool::new(false);
        let sticks = Arc::default();
        Self { live, metrics, flight, budget, ledger, peers, sticks, ready: off(), draining: off(), stale: off() }
    }

    /// Watches the assignments that the proxy keeps.
    #[must_use]
    pub(crate) fn with_sticks(mut self, sticks: Arc<Assignments>) -> Self {
        self.sticks = sticks;
        self
    }

    /// For commands that serve nothing but need an [`gateway_admin::App`].
    pub(crate) fn detached(live: Arc<Live>) -> Result<Self, String> {
        let metrics = Metrics::new(Shape::default()).map_err(|e| e.to_string())?;
        Ok(Self::new(live, metrics, Flight::default(), Budget::new(0), Arc::new(Ledger::default()), Peers::default()))
    }

    /// Listeners are being opened and a snapshot is held.
    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let snapshot = self.live.snapshot();
        let mut all = Vec::new();
        for workspace in snapshot.workspaces() {
            for config in workspace.configs() {
                all.extend(config.config.breakers().map(|(target, breaker)| Circuit {
                    workspace: workspace.slug.clone(),
                    config: config.slug.clone(),
                    target: target.clone(),
                    open: breaker.is_open(now_ms),
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
}

impl Process {
    /// For OTLP.
    pub(crate) fn families(&self) -> Vec<MetricFamily> {
        self.metrics.families(&self.readings())
    }

    fn readings(&self) -> Readings {
        Readings {
            revision: self.live.snapshot().revision,
            stale: self.stale.load(Ordering::Relaxed),
            in_flight: self.flight.count(),
            buffered: self.budget.held(),
            counters: self.ledger.len(),
            peers: self.peers.count(),
            time: gateway_admin::system_clock(),
            bodies_shed: self.budget.shed(),
            assignments: self.sticks.len(),
            circuits: self.circuits(),
        }
    }
}
