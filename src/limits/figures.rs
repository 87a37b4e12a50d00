//! What the counters say of themselves, read when metrics are gathered.

use super::Limits;
use gateway_admin::Counting;
use gateway_domain::counters::Measured;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntGauge, IntGaugeVec, Opts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Who decided about a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Redis,
    Local,
    Open,
    Closed,
}

const DECIDERS: [(By, &str); 4] =
    [(By::Redis, "redis"), (By::Local, "local"), (By::Open, "open"), (By::Closed, "closed")];
const SECONDS: &[f64] = &[1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.25, 1.0];

/// Counted on the way; cheap to add to.
#[derive(Debug, Default)]
pub(super) struct Counts {
    decided: [AtomicU64; 4],
    overshot: [AtomicU64; 3],
    failures: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicUsize,
    seconds: std::sync::OnceLock<Histogram>,
}

impl Counts {
    pub(super) fn decided(&self, by: By) {
        self.decided[by as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn waited(&self, time: Duration) {
        if let Some(seconds) = self.seconds.get() {
            seconds.observe(time.as_secs_f64());
        }
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    pub(super) fn lost(&self, n: u64) {
        self.lost.fetch_add(n, Relaxed);
    }

    pub(super) fn waiting(&self, n: usize) {
        self.waiting.store(n, Relaxed);
    }

    pub(super) fn overshot(&self, measured: Measured, amount: u64) {
        self.overshot[measured as usize].fetch_add(amount, Relaxed);
    }
}

pub(crate) struct LimitFigures {
    limits: Arc<Limits>,
    mode: IntGaugeVec,
    decisions: IntGaugeVec,
    overshot: IntGaugeVec,
    shed: IntGauge,
    failures: IntGauge,
    lost: IntGauge,
    waiting: IntGauge,
    seconds: Histogram,
}

impl LimitFigures {
    pub(crate) fn new(limits: Arc<Limits>) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| IntGauge::with_opts(Opts::new(name, help));
        let by = |name: &str, help: &str, label| IntGaugeVec::new(Opts::new(name, help), &[label]);
        let seconds =
            HistogramOpts::new("gateway_limits_redis_seconds", "Time that requests waited for Redis' verdict");
        let seconds = Histogram::with_opts(seconds.buckets(SECONDS.to_vec()))?;
        // Fails only when it is set already: then the first goes on.
        let _ = limits.counts.seconds.set(seconds.clone());
        Ok(Self {
            mode: by("gateway_limits_mode", "1 for how limits are counted now", "mode")?,
            decisions: by("gateway_limits_decisions", "Verdicts since the start, by who gave them", "by")?,
            overshot: by("gateway_limits_overshot", "Used beyond limits; cost in nanodollars", "type")?,
            shed: gauge("gateway_limits_shed", "Calls refused because no further counter found room")?,
            failures: gauge("gateway_limits_redis_failures", "Calls of the limits to Redis that brought nothing")?,
            lost: gauge("gateway_limits_lost", "Settlements that found no room to wait for Redis")?,
            waiting: gauge("gateway_limits_waiting", "Settlements that wait to be sent to Redis")?,
            seconds,
            limits,
        })
    }

    fn all(&self) -> [&dyn Collector; 8] {
        [
            &self.mode,
            &self.decisions,
            &self.overshot,
            &self.shed,
            &self.failures,
            &self.lost,
            &self.waiting,
            &self.seconds,
        ]
    }
}

impl Collector for LimitFigures {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (limits, counts) = (&self.limits, &self.limits.counts);
        let counting = limits.counting();
        for mode in Counting::ALL {
            self.mode.with_label_values(&[mode.name()]).set((mode == counting).into());
        }
        for (by, name) in DECIDERS {
            self.decisions.with_label_values(&[name]).set(whole(counts.decided[by as usize].load(Relaxed)));
        }
        for measured in Measured::ALL {
            let far = counts.overshot[measured as usize].load(Relaxed);
            let over = if limits.shared.is_some() { far } else { limits.ledger.overshot(measured) };
            self.overshot.with_label_values(&[measured.name()]).set(whole(over));
        }
        self.shed.set(whole(limits.ledger.shed()));
        self.failures.set(whole(counts.failures.load(Relaxed)));
        self.lost.set(whole(counts.lost.load(Relaxed)));
        self.waiting.set(i64::try_from(counts.waiting.load(Relaxed)).unwrap_or(i64::MAX));
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}
