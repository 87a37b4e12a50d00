//! What the cache says of itself, read when metrics are gathered and at no other time.

use super::AnswerCache;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct CacheFigures {
    cache: Arc<AnswerCache>,
    bytes: IntGauge,
    most: IntGauge,
    collapsed: IntGauge,
}

impl CacheFigures {
    pub(crate) fn new(cache: Arc<AnswerCache>) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| IntGauge::with_opts(Opts::new(name, help));
        Ok(Self {
            cache,
            bytes: gauge("gateway_cache_bytes", "Bytes of answers in the response cache")?,
            most: gauge("gateway_cache_max_bytes", "Bytes that the response cache may hold")?,
            collapsed: gauge("gateway_cache_collapsed", "Calls spared by following an equal one under way")?,
        })
    }
}

impl Collector for CacheFigures {
    fn desc(&self) -> Vec<&Desc> {
        [&self.bytes, &self.most, &self.collapsed].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.bytes.set(whole(self.cache.shelf.weight()));
        self.most.set(whole(self.cache.most));
        self.collapsed.set(whole(self.cache.collapsed.load(Ordering::Relaxed)));
        [&self.bytes, &self.most, &self.collapsed].into_iter().flat_map(Collector::collect).collect()
    }
}
