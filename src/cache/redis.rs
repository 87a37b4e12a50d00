//! The shared shelf in Redis: plain values with an expiry. Away or slow, every look is a miss.

use super::{CacheKey, SharedCache};
use async_trait::async_trait;
use gateway_store::Redis;
use std::fmt::Write as _;
use std::time::Duration;

fn name(key: &CacheKey) -> String {
    let mut name = String::with_capacity(80);
    name.push_str("gateway:answer:");
    for byte in key.0 {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[async_trait]
impl SharedCache for Redis {
    async fn get(&self, key: &CacheKey) -> Option<Vec<u8>> {
        let mut command = redis::cmd("GET");
        command.arg(name(key));
        self.ask::<Option<Vec<u8>>>(&command).await.ok().flatten()
    }

    async fn put(&self, key: &CacheKey, value: Vec<u8>, keep: Duration) {
        let mut command = redis::cmd("SET");
        command.arg(name(key)).arg(value).arg("PX").arg(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        if let Err(why) = self.ask::<()>(&command).await {
            tracing::debug!(%why, "an answer was not shared with other nodes");
        }
    }
}
