//! Counters of limits in Redis: one script call takes from all limits of a stage or from none, on every node alike.
//! The rules are those of the ledger in one process. Knows no policy, and not what to do while Redis is away.
//!
//! A window is a hash: what was used, and what each node holds. Holds of a node count while its lease lives, so
//! that a node that died gives back what it held. All keys share one hash tag: a cluster keeps them together.

use crate::redis::{Redis, RedisFailure};
use ::redis::{Script, ScriptInvocation};
use gateway_domain::Timestamp;
use gateway_domain::counters::{Ask, Cause, Change, Keep, Refusal, Slot, Take};
use std::time::Duration;
use uuid::Uuid;

/// Longer than a node may be paused without having died.
const LEASE: Duration = Duration::from_secs(30);
/// How long an ended window is kept for those who settle late.
const GRACE_MS: i64 = 60_000;
/// Lua counts in doubles: times and amounts stay whole below this.
const MOST: i64 = 1 << 53;

/// Used and held of a window as the scripts read it, and what a window begins with. `seed` is what the asking node
/// knows of a window that Redis has lost.
const COMMON: &str = r"
local function carried(debt, began, ends, limit, take)
  local d = redis.call('HMGET', debt, 'a', 's', 'l', 'n')
  if not d[1] then return 0 end
  local amount, since, each, length = tonumber(d[1]), tonumber(d[2]), tonumber(d[3]), tonumber(d[4])
  if began < since then return 0 end
  local left = math.max(0, amount - math.floor((began - since) / math.max(1, length)) * each)
  if take then
    local rest = math.max(0, left - limit)
    if rest == 0 then redis.call('DEL', debt)
    else
      redis.call('HSET', debt, 'a', rest, 's', ends, 'l', limit)
      redis.call('PEXPIRE', debt, math.max(1, length) * 64)
    end
  end
  return left
end
local function level(key)
  local all = redis.call('HGETALL', key)
  if #all == 0 then return nil end
  local used, held = 0, 0
  for i = 1, #all, 2 do
    local name, value = all[i], tonumber(all[i + 1])
    if name == 'u' then used = value
    elseif value > 0 and redis.call('EXISTS', 'gateway:{limits}:node:' .. string.sub(name, 3)) == 1 then held = held + value
    else redis.call('HDEL', key, name) end
  end
  return used, held
end
local function open(key, debt, began, ends, limit, seed, ttl)
  local used = math.max(seed, carried(debt, began, ends, limit, true))
  redis.call('HSET', key, 'u', used)
  if ttl > 0 then redis.call('PEXPIRE', key, ttl) end
  return used
end
";

/// Per ask: limit, amount, take (0 now, 1 hold, 2 look), began, ends, ttl, seed. Answers 1 and `left`, flags (1 lone,
/// 2 fresh) of each, or 0, the place of the refusal that waits longest, and what stands there.
const RESERVE: &str = r"
local node, n = ARGV[1], #KEYS / 2
local at, wait, stands = 0, -1, 0
local seen = {}
for i = 1, n do
  local a = 1 + (i - 1) * 7
  local limit, amount, take = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local began, ends, seed = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), tonumber(ARGV[a + 7])
  local used, held = level(KEYS[2 * i - 1])
  local taken
  if used then taken = used + held
  else taken = math.max(seed, carried(KEYS[2 * i], began, ends, limit, false)) end
  seen[i] = used and 1 or 0
  local fits = take == 2 or taken + amount <= limit or taken == 0
  if (taken >= limit or not fits) and ends > wait then at, wait, stands = i, ends, taken end
end
if at > 0 then return {0, at, stands} end
local out = {1}
for i = 1, n do
  local a = 1 + (i - 1) * 7
  local key = KEYS[2 * i - 1]
  local limit, amount, take = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local flags = 0
  if take ~= 2 then
    if seen[i] == 0 then
      open(key, KEYS[2 * i], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), limit, tonumber(ARGV[a + 7]), tonumber(ARGV[a + 6]))
      flags = 2
    end
    redis.call('HINCRBY', key, take == 0 and 'u' or 'h:' .. node, amount)
    if amount > limit then flags = flags + 1 end
  end
  local used, held = level(key)
  out[#out + 1] = math.max(0, limit - (used or 0) - (held or 0))
  out[#out + 1] = flags
end
return out
";

/// Per change: limit, back, more, used, owes, lasting, began, ends, ttl, seed. Answers what each left owed.
const SETTLE: &str = r"
local node, n = ARGV[1], #KEYS / 2
local out = {}
for i = 1, n do
  local a = 1 + (i - 1) * 10
  local key, debt = KEYS[2 * i - 1], KEYS[2 * i]
  local limit, back, more, spent = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local owes, lasting = ARGV[a + 5] == '1', ARGV[a + 6] == '1'
  local began, ends, ttl, seed = tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8]), tonumber(ARGV[a + 9]), tonumber(ARGV[a + 10])
  local known = redis.call('EXISTS', key) == 1
  out[i] = 0
  if known or (lasting and spent > 0) then
    if not known then open(key, debt, began, ends, limit, seed, ttl) end
    local mine = 'h:' .. node
    local held = math.max(0, tonumber(redis.call('HGET', key, mine) or '0') - back) + more
    if held == 0 then redis.call('HDEL', key, mine) else redis.call('HSET', key, mine, held) end
    local used = math.max(0, tonumber(redis.call('HGET', key, 'u') or '0') + spent)
    redis.call('HSET', key, 'u', used)
    local u, h = level(key)
    local over = math.max(0, (u or 0) + (h or 0) - limit)
    local owed = owes and math.min(over, math.max(0, math.max(0, spent) - back)) or 0
    if owed > 0 and ttl > 0 then
      local length = math.max(1, ends - began)
      redis.call('HSETNX', debt, 's', ends)
      redis.call('HSETNX', debt, 'l', limit)
      redis.call('HSETNX', debt, 'n', length)
      redis.call('HINCRBY', debt, 'a', owed)
      redis.call('PEXPIRE', debt, ttl + length * 64)
    end
    out[i] = owed
  end
end
return out
";

/// What a node knows by itself of the slots it asks for, in their order: used, where Redis may have lost it.
pub type Seeds<'a> = &'a dyn Fn(Slot) -> u64;

/// Counters of all nodes that share one Redis.
#[derive(Debug)]
pub struct RedisCounters {
    redis: Redis,
    node: String,
    reserve: Script,
    settle: Script,
}

impl RedisCounters {
    /// `node` names this process among all that hold something.
    pub fn new(redis: Redis, node: Uuid) -> Self {
        Self {
            redis,
            node: node.simple().to_string(),
            reserve: Script::new(&[COMMON, RESERVE].concat()),
            settle: Script::new(&[COMMON, SETTLE].concat()),
        }
    }

    /// To be called more often than every ten seconds: what this node holds counts only while its lease lives.
    pub async fn renew_lease(&self) -> Result<(), RedisFailure> {
        let mut command = ::redis::cmd("SET");
        command.arg(format!("gateway:{{limits}}:node:{}", self.node)).arg(1).arg("EX").arg(LEASE.as_secs());
        self.redis.ask(&command).await
    }

    /// As [`gateway_domain::counters::Counters::reserve`]. On failure nothing is known to be taken; should Redis have
    /// taken it after all, requests stay counted and holds end with the window.
    pub async fn reserve(
        &self,
        asks: &mut [Ask],
        seeds: Seeds<'_>,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, RedisFailure> {
        let mut call = self.reserve.prepare_invoke();
        call.arg(&*self.node);
        for ask in asks.iter() {
            keys(&mut call, ask.slot);
            let take = match ask.take {
                Take::Now => 0,
                Take::Hold => 1,
                Take::Look => 2,
            };
            call.arg(whole(ask.limit)).arg(whole(ask.amount)).arg(take);
            window(&mut call, ask.slot, ask.ends, now);
            call.arg(whole(seeds(ask.slot)));
        }
        let told: Vec<i64> = self.redis.run(&call).await?;
        let unreadable = || RedisFailure::Refused("the script answered something else".into());
        match told.split_first() {
            Some((0, [at, taken])) => {
                let at = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1)).ok_or_else(unreadable)?;
                Ok(Err(Refusal { at, cause: Cause::Limit, taken: taken.unsigned_abs() }))
            }
            Some((1, rest)) if rest.len() == asks.len() * 2 => {
                for (ask, told) in asks.iter_mut().zip(rest.chunks_exact(2)) {
                    ask.left = told[0].unsigned_abs();
                    ask.lone = told[1] & 1 != 0;
                    ask.fresh = told[1] & 2 != 0;
                }
                Ok(Ok(()))
            }
            _ => Err(unreadable()),
        }
    }

    /// What each change leaves owed, in their order.
    pub async fn settle(&self, changes: &[Change], seeds: Seeds<'_>, now: Timestamp) -> Result<Vec<u64>, RedisFailure> {
        let mut call = self.settle.prepare_invoke();
        call.arg(&*self.node);
        for change in changes {
            keys(&mut call, change.slot);
            call.arg(whole(change.limit)).arg(whole(change.back)).arg(whole(change.more));
            call.arg(change.used.clamp(-MOST, MOST));
            call.arg(i32::from(change.owes)).arg(i32::from(change.keep != Keep::Memory));
            window(&mut call, change.slot, change.ends, now);
            call.arg(whole(seeds(change.slot)));
        }
        let owed: Vec<i64> = self.redis.run(&call).await?;
        Ok(owed.into_iter().map(i64::unsigned_abs).collect())
    }
}

fn keys(call: &mut ScriptInvocation<'_>, slot: Slot) {
    let counter = format!("gateway:{{limits}}:{:016x}{:016x}", slot.key.0, slot.key.1);
    call.key(format!("{counter}:{}", slot.began.0 / 1000)).key(format!("{counter}:debt"));
}

/// Began, ends and time to live, in milliseconds; a window without an end lives for ever, which 0 says.
fn window(call: &mut ScriptInvocation<'_>, slot: Slot, ends: Timestamp, now: Timestamp) {
    let ms = |t: Timestamp| (t.0 / 1000).clamp(-MOST, MOST);
    let ttl = if ends.0 == i64::MAX { 0 } else { (ms(ends) - ms(now) + GRACE_MS).max(1) };
    call.arg(ms(slot.began)).arg(ms(ends)).arg(ttl);
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(MOST).min(MOST)
}
