//! Sticky assignments in Redis: the first node that offers one decides, until its time is over. Knows nothing of
//! configs or targets.

use crate::Redis;
use gateway_domain::ports::{Assignment, Fut, SharedAssignments};
use std::time::Duration;

/// Gives for each key in turn what was set for it before, or else what is offered, which it then sets.
const FIRST: &str = "
local told = {}
for i, key in ipairs(KEYS) do
  told[i] = redis.call('GET', key)
  if not told[i] then
    told[i] = ARGV[2 * i - 1]
    redis.call('SET', key, told[i], 'PX', ARGV[2 * i])
  end
end
return told";

impl SharedAssignments for Redis {
    fn agree<'a>(
        &'a self,
        offered: &'a [Assignment],
        now_ms: i64,
        waited: Duration,
    ) -> Fut<'a, Vec<Option<Assignment>>> {
        Box::pin(async move {
            let left = self.deadline().saturating_sub(waited);
            if left.is_zero() {
                return vec![None; offered.len()];
            }
            let mut call = ::redis::cmd("EVAL");
            call.arg(FIRST).arg(offered.len());
            for one in offered {
                call.arg(format!("gateway:{{sticky}}:{:032x}", one.key));
            }
            for one in offered {
                call.arg(format!("{}:{}", one.place, one.until_ms)).arg(one.until_ms.saturating_sub(now_ms).max(1));
            }
            let told = self.ask_within::<Vec<String>>(&call, left).await.unwrap_or_default();
            let stands = |(number, one): (usize, &Assignment)| {
                let (place, until_ms) = told.get(number)?.split_once(':')?;
                Some(Assignment { key: one.key, place: place.parse().ok()?, until_ms: until_ms.parse().ok()? })
            };
            offered.iter().enumerate().map(stands).collect()
        })
    }
}
