//! The process's connection to Redis, and what stands on it. Without `--redis-url` both do without.

use crate::cache::{self, AnswerCache};
use crate::health::HealthComponents;
use crate::kept_responses::{KeepBounds, KeptResponseFigures, KeptResponses};
use crate::limits::{Limits, SharedLimits};
use crate::metrics::Metrics;
use crate::node_id::node_id;
use crate::peers::Peers;
use crate::settings::Settings;
use gateway_admin::ComponentStatus;
use gateway_domain::ports::IdSeal;
use gateway_policies::Ledger;
use gateway_store::{Redis, RedisUrl};
use prometheus::IntGauge;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Dialled and watched in the background: a start does not wait for Redis.
pub(super) fn connect(
    settings: &Settings,
    metrics: &Metrics,
    parts: &HealthComponents,
    control: &Runtime,
) -> Result<Option<Redis>, String> {
    let Some(url) = &settings.redis_url else { return Ok(None) };
    let url = RedisUrl::parse(url).map_err(|e| format!("--redis-url {e}"))?;
    let redis = Redis::new(url, settings.redis_timeout.0);
    let registered = RedisFigures::new(redis.clone()).and_then(|f| metrics.register(Box::new(f)));
    registered.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let (kept, told) = (redis.clone(), redis.clone());
    parts.add(move || {
        let state = told.state();
        let away = (!state.connected).then(|| "Redis does not answer".to_owned());
        ComponentStatus::new("redis", json!({ "failures": state.failures })).troubled(away)
    });
    control.spawn(async move { kept.keep().await });
    Ok(Some(redis))
}

/// Counters of limits, shared where there is something to share them by.
pub(super) fn limits(
    redis: Option<Redis>,
    ledger: Arc<Ledger>,
    peers: Peers,
    settings: &Settings,
    control: &Runtime,
) -> Result<Arc<Limits>, String> {
    Ok(Arc::new(match redis {
        None => Limits::alone(ledger, peers),
        Some(redis) => {
            let site = node_id(&settings.data_dir)?;
            let site = site.parse().map_err(|_| "node.id: is not an id; remove it".to_owned())?;
            let shared = SharedLimits::start(redis, site, ledger.clone(), control.handle());
            Limits::sharing(ledger, peers, shared)
        }
    }))
}

/// Read when metrics are gathered.
struct RedisFigures {
    redis: Redis,
    connected: IntGauge,
    failures: IntGauge,
}

impl RedisFigures {
    fn new(redis: Redis) -> Result<Self, prometheus::Error> {
        Ok(Self {
            redis,
            connected: IntGauge::new("gateway_redis_connected", "1 while Redis answers")?,
            failures: IntGauge::new("gateway_redis_failures", "Calls of Redis that brought nothing since the start")?,
        })
    }
}

impl Collector for RedisFigures {
    fn desc(&self) -> Vec<&Desc> {
        [&self.connected, &self.failures].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let state = self.redis.state();
        self.connected.set(state.connected.into());
        self.failures.set(i64::try_from(state.failures).unwrap_or(i64::MAX));
        [&self.connected, &self.failures].into_iter().flat_map(Collector::collect).collect()
    }
}

/// What is kept of answers, with Redis behind it where it is configured.
pub(super) struct Shelves {
    pub(super) cache: Arc<AnswerCache>,
    /// Responses that clients go on from.
    pub(super) kept: Arc<KeptResponses>,
}

impl Shelves {
    pub(super) fn open(
        redis: Option<Redis>,
        settings: &Settings,
        metrics: &Metrics,
        seal: &Arc<dyn IdSeal>,
    ) -> Result<Self, String> {
        let shared = redis.map(|redis| Arc::new(redis) as Arc<dyn cache::SharedCache>);
        let bounds = KeepBounds { time: settings.responses_keep.0, bytes: settings.responses_keep_max.0 };
        let kept = KeptResponses::new(bounds, shared.clone(), seal.clone());
        let cache = AnswerCache::new(settings.cache_max.0, shared);
        let of_cache = cache::CacheFigures::new(cache.clone()).and_then(|f| metrics.register(Box::new(f)));
        let of_kept = KeptResponseFigures::new(kept.clone()).and_then(|f| metrics.register(Box::new(f)));
        of_cache.and(of_kept).map_err(|e| format!("metrics cannot be set up: {e}"))?;
        Ok(Self { cache, kept })
    }
}
