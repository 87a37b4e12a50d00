//! What the shelf of responses says of itself, read when metrics are gathered and at no other time.

use super::KeptResponses;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts};
use std::sync::Arc;

pub(crate) struct KeptResponseFigures {
    kept: Arc<KeptResponses>,
    bytes: IntGauge,
    most: IntGauge,
}

impl KeptResponseFigures {
    pub(crate) fn new(kept: Arc<KeptResponses>) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| IntGauge::with_opts(Opts::new(name, help));
        Ok(Self {
            kept,
            bytes: gauge("gateway_kept_responses_bytes", "Bytes of responses that clients may go on from")?,
            most: gauge("gateway_kept_responses_max_bytes", "Bytes of responses that may be kept")?,
        })
    }
}

impl Collector for KeptResponseFigures {
    fn desc(&self) -> Vec<&Desc> {
        [&self.bytes, &self.most].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.bytes.set(whole(self.kept.shelf.weight()));
        self.most.set(whole(self.kept.bounds.bytes as u64));
        [&self.bytes, &self.most].into_iter().flat_map(Collector::collect).collect()
    }
}
