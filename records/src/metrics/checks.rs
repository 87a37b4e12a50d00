//! What checks of guardrails said, and how long they took. Labels are names of checks, which a table bounds.

use gateway_domain::record::Hooked;
use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

#[derive(Debug)]
pub(super) struct CheckCounts {
    total: IntCounterVec,
    seconds: HistogramVec,
}

impl CheckCounts {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let total = Opts::new("gateway_guardrail_checks_total", "CheckCounts of guardrails, by what they said");
        let seconds = HistogramOpts::new("gateway_guardrail_seconds", "How long checks of guardrails took");
        Ok(Self {
            total: IntCounterVec::new(total, &["check", "hook", "result"])?,
            seconds: HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &["check"])?,
        })
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 2] {
        [Box::new(self.total.clone()), Box::new(self.seconds.clone())]
    }

    pub(super) fn book(&self, hooks: &Hooked) {
        for check in &hooks.checks {
            self.total.with_label_values(&[&*check.check, check.side, check.result]).inc();
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            self.seconds.with_label_values(&[&*check.check]).observe(check.millis as f64 / 1e3);
        }
    }
}
