//! The process's connection to Redis, and what stands on it. Without `--redis-url` both do without.

use crate::cache::{AnswerCache, Figures, Shared};
use crate::metrics::Metrics;
use crate::settings::Settings;
use gateway_store::{Redis, RedisUrl};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Dialled and watched in the background: a start does not wait for Redis.
pub(super) fn connect(settings: &Settings, control: &Runtime) -> Result<Option<Redis>, String> {
    let Some(url) = &settings.redis_url else { return Ok(None) };
    let url = RedisUrl::parse(url).map_err(|e| format!("--redis-url {e}"))?;
    let redis = Redis::new(url, settings.redis_timeout.0);
    let kept = redis.clone();
    control.spawn(async move { kept.keep().await });
    Ok(Some(redis))
}

/// The cache of answers, with Redis behind it where it is configured.
pub(super) fn answer_cache(
    redis: Option<Redis>,
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Arc<AnswerCache>, String> {
    let shared = redis.map(|redis| Arc::new(redis) as Arc<dyn Shared>);
    let cache = AnswerCache::new(settings.cache_max.0, shared);
    let registered = Figures::new(cache.clone()).and_then(|f| metrics.register(Box::new(f)));
    registered.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    Ok(cache)
}
