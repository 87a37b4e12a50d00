//! What a run saw, and its form as JSON. Every failure is counted under its kind; none is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::client::Failure;

/// The raw observations of one connection or, merged, of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) first_content: Vec<Duration>,
    pub(crate) gaps: Vec<Duration>,
    pub(crate) events: u64,
    pub(crate) body_bytes: u64,
    pub(crate) connects: u64,
    pub(crate) failures: BTreeMap<Failure, u64>,
}

impl Tally {
    pub(crate) fn fail(&mut self, failure: Failure) {
        *self.failures.entry(failure).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.first_content.extend(other.first_content);
        self.gaps.extend(other.gaps);
        self.events += other.events;
        self.body_bytes += other.body_bytes;
        self.connects += other.connects;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
    }

    pub(crate) fn report(self, elapsed: Duration) -> Report {
        let requests = self.latencies.len() as u64;
        let seconds = elapsed.as_secs_f64();
        let stream = (!self.first_content.is_empty()).then(|| Stream {
            ttft_us: Quantiles::of(self.first_content),
            gap_us: Quantiles::of(self.gaps),
            events_per_stream: self.events as f64 / requests.max(1) as f64,
        });
        Report {
            requests,
            errors: self.failures.values().sum(),
            errors_by_kind: self.failures.into_iter().map(|(failure, count)| (failure.to_string(), count)).collect(),
            connects: self.connects,
            body_bytes: self.body_bytes,
            seconds,
            rps: requests as f64 / seconds,
            latency_us: Quantiles::of(self.latencies),
            stream,
        }
    }
}

/// `requests` are the good ones; rates and latencies speak of those only.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    requests: u64,
    errors: u64,
    errors_by_kind: BTreeMap<String, u64>,
    connects: u64,
    body_bytes: u64,
    seconds: f64,
    rps: f64,
    latency_us: Quantiles,
    #[serde(flatten)]
    stream: Option<Stream>,
}

#[derive(Debug, Serialize)]
struct Stream {
    ttft_us: Quantiles,
    gap_us: Quantiles,
    events_per_stream: f64,
}

/// Exact quantiles, in microseconds; null when nothing was observed.
#[derive(Debug, Serialize)]
struct Quantiles {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Quantiles {
    fn of(mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        // The smallest value that at least `percent` of all do not exceed.
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).saturating_sub(1);
            values.get(rank).map(|value| value.as_nanos() as f64 / 1e3)
        };
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let quantiles = Quantiles::of((1..=200).rev().map(Duration::from_micros).collect());
        assert_eq!(
            (quantiles.p50, quantiles.p90, quantiles.p99, quantiles.max),
            (Some(100.0), Some(180.0), Some(198.0), Some(200.0))
        );
        assert_eq!(Quantiles::of(vec![]).p50, None);
    }

    #[test]
    fn failures_of_all_connections_are_counted() {
        let (mut all, mut one) = (Tally::default(), Tally::default());
        all.fail(Failure::Timeout);
        one.fail(Failure::Timeout);
        one.fail(Failure::Status(429));
        all.merge(one);
        let report = all.report(Duration::from_secs(1));
        assert_eq!((report.requests, report.errors), (0, 3));
        assert_eq!(report.errors_by_kind, [("status_429".to_owned(), 1), ("timeout".to_owned(), 2)].into());
    }
}
