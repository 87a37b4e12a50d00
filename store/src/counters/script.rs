//! The scripts that Redis runs, each whole or not at all.

use crate::redis::Words;
use std::fmt;

/// The code of the answer when Redis does not know a script (any more).
pub(super) const JOIN: &str = "NOSCRIPT";

/// A script that Redis knows by its hash.
pub(super) struct Script {
    text: String,
    hash: String,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.hash).finish()
    }
}

impl Script {
    fn new(own: &str) -> Self {
        let text = [COMMON, own].concat();
        let hash = ::redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// So many keys come next, then so many arguments.
    pub(super) fn call(&self, call: &mut dyn Words, keys: usize, arguments: usize) {
        call.begin(3 + keys + arguments);
        call.word(b"EVALSHA");
        call.word(self.hash.as_bytes());
        call.word(itoa::Buffer::new().format(keys).as_bytes());
    }
}

/// `level`: used and held of a window, nothing when it is not there. `carried`: what a window begins with; with
/// `take` it is taken over from the debt. `told`: the field that has what one node used of a window, so that what it
/// tells later counts once: under the process when its counts end with it (keep 0), under the site when they outlive
/// it (1), under none when every node knows all of it (2).
const COMMON: &str = r"
local living = {}
local function lives(process)
  if living[process] == nil then living[process] = redis.call('EXISTS', 'gateway:{limits}:node:' .. process) end
  return living[process] == 1
end
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
    elseif string.sub(name, 1, 2) == 'h:' then
      if value > 0 and lives(string.sub(name, 3)) then held = held + value else redis.call('HDEL', key, name) end
    end
  end
  return used, held
end
local function open(key, used, ttl)
  redis.call('HSET', key, 'u', used)
  if ttl > 0 then redis.call('PEXPIRE', key, ttl) end
end
local function told(keep)
  if keep ~= '2' then return 's:' .. (keep == '1' and ARGV[2] or ARGV[1]) end
end
";

/// Keys: the membership, then window and debt of each ask. First the process and the site, then per ask: limit, amount,
/// take (0 now, 1 hold, 2 look), keep, began, ends, ttl (0: it never ends). Answers 1 and `left`, flags (1 lone, 2
/// fresh) of each; or 0, the place of the refusal that waits longest (as `Ask::fits_at` says), and what stands there;
/// or -1 to a stranger.
pub(super) fn reserve() -> Script {
    Script::new(
        r"
if redis.call('EXISTS', KEYS[1]) == 0 then return {-1} end
local process, n = ARGV[1], (#KEYS - 1) / 2
local at, wait, stands = 0, -1, 0
local seen = {}
local function passes(a, ends, limit, amount, taken)
  local length = ends - tonumber(ARGV[a + 5])
  if ARGV[a + 7] == '0' or length <= 0 then return ends end
  local most = math.max(1, limit)
  local windows = math.ceil(math.max(0, taken - math.max(0, most - amount)) / most)
  return ends + (math.max(1, windows) - 1) * length
end
for i = 1, n do
  local a = 2 + (i - 1) * 7
  local limit, amount, take, ends = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3], tonumber(ARGV[a + 6])
  local used, held = level(KEYS[2 * i])
  local taken
  if used then taken = used + held
  else taken = carried(KEYS[2 * i + 1], tonumber(ARGV[a + 5]), ends, limit, false) end
  local fits = take == '2' or taken + amount <= limit or taken == 0
  if taken >= limit or not fits then
    local until_then = passes(a, ends, limit, take == '2' and 1 or amount, taken)
    if until_then > wait then at, wait, stands = i, until_then, taken end
  end
  seen[i] = used and taken or -1
end
if at > 0 then return {0, at, stands} end
local out = {1}
for i = 1, n do
  local a = 2 + (i - 1) * 7
  local key, limit, amount, take = KEYS[2 * i], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3]
  local flags, taken = 0, math.max(0, seen[i])
  if take ~= '2' then
    if seen[i] < 0 then
      taken = carried(KEYS[2 * i + 1], tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6]), limit, true)
      open(key, taken, tonumber(ARGV[a + 7]))
      flags = 2
    end
    if take == '0' then
      redis.call('HINCRBY', key, 'u', amount)
      local mine = told(ARGV[a + 4])
      if mine then redis.call('HINCRBY', key, mine, amount) end
    else redis.call('HINCRBY', key, 'h:' .. process, amount) end
    if amount > limit then flags = flags + 1 end
    taken = taken + amount
  end
  out[#out + 1] = math.max(0, limit - taken)
  out[#out + 1] = flags
end
return out
",
    )
}

/// Keys: the membership, the number of the last batch, then window and debt of each change. First the process, the site
/// and the number of this batch, then per change: limit, back, more, used, owes, keep, began, ends, ttl. Answers what
/// each left owed, or -1 to a stranger.
pub(super) fn settle() -> Script {
    Script::new(
        r"
if redis.call('EXISTS', KEYS[1]) == 0 then return {-1} end
if tonumber(redis.call('GET', KEYS[2]) or '0') >= tonumber(ARGV[3]) then return {} end
redis.call('SET', KEYS[2], ARGV[3], 'EX', 86400)
local process, n = ARGV[1], (#KEYS - 2) / 2
local out = {}
for i = 1, n do
  local a = 3 + (i - 1) * 9
  local key, debt = KEYS[2 * i + 1], KEYS[2 * i + 2]
  local limit, back, more, spent = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local owes, keep = ARGV[a + 5] == '1', ARGV[a + 6]
  local began, ends, ttl = tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8]), tonumber(ARGV[a + 9])
  local known = redis.call('EXISTS', key) == 1
  out[i] = 0
  if known or (keep ~= '0' and spent > 0) then
    if not known then open(key, carried(debt, began, ends, limit, true), ttl) end
    local mine = 'h:' .. process
    local held = math.max(0, tonumber(redis.call('HGET', key, mine) or '0') - back) + more
    if held == 0 then redis.call('HDEL', key, mine) else redis.call('HSET', key, mine, held) end
    local used = math.max(0, tonumber(redis.call('HGET', key, 'u') or '0') + spent)
    redis.call('HSET', key, 'u', used)
    local own = told(keep)
    if own and spent ~= 0 then redis.call('HINCRBY', key, own, spent) end
    if owes then
      local u, h = level(key)
      local over = math.max(0, (u or 0) + (h or 0) - limit)
      local owed = math.min(over, math.max(0, math.max(0, spent) - back))
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
end
return out
",
    )
}

/// Keys: windows. First the process and the site, then per window: used, held, keep, ttl. Of what a node used the part
/// is added that is not there yet; a count that every node knows is only a floor.
pub(super) fn seed() -> Script {
    Script::new(
        r"
for i = 1, #KEYS do
  local a, key = 2 + (i - 1) * 4, KEYS[i]
  local used, held, ttl = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 4])
  local before = redis.call('HGET', key, 'u')
  if before or used > 0 or held > 0 then
    if not before then open(key, 0, ttl) end
    before = tonumber(before or '0')
    local own = told(ARGV[a + 3])
    if not own then redis.call('HSET', key, 'u', math.max(before, used))
    else
      local known = tonumber(redis.call('HGET', key, own) or '0')
      if used > known then redis.call('HSET', key, own, used, 'u', before + used - known) end
    end
    if held > 0 then redis.call('HSET', key, 'h:' .. ARGV[1], held) else redis.call('HDEL', key, 'h:' .. ARGV[1]) end
  end
end
return 1
",
    )
}
