-- fair_acquire (redisson fair lock): take one name in its turn, as RFairLock of Redisson 4.7 does. Begins
-- with queue.lua. Interop test: testing/interop.
--
-- KEYS  queue.lua
-- ARGV  1 the token's own field, 2 ttl_ms, 3 how long a waiter is waited for in ms; '' for one try, which
--       does not queue
--
-- Reply: a list, a letter first
--   g ''        taken
--   y pttl ''   this token has it already, nothing changed; the time left, -1 for ever
--   b 1 pttl '' somebody else holds it, or is next; the time left, of the next until when it is waited for
--   f 1 type    the name is not a hash
--
-- Atomic: all of it.

local own, wait = ARGV[1], tonumber(ARGV[3])
local holds = redis.pcall('HGET', KEYS[1], own)
if type(holds) == 'table' then
  if string.sub(holds.err, 1, 9) ~= 'WRONGTYPE' then
    return holds
  end
  return { 'f', 1, redis.pcall('TYPE', KEYS[1]).ok or '' }
end
if holds then
  return { 'y', redis.call('PTTL', KEYS[1]), '' }
end
local now = clock()
local first, until_ms = head(now)
local is_held = redis.call('EXISTS', KEYS[1]) == 1
if not is_held and (not first or first == own) then
  if first then
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], own)
    -- Those behind wait for one less.
    for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
      redis.call('ZINCRBY', KEYS[3], -(wait or 0), other)
    end
  end
  redis.call('HSET', KEYS[1], own, '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 'g', '' }
end
local left = is_held and redis.call('PTTL', KEYS[1]) or until_ms - now
if wait then
  local known = tonumber(redis.call('ZSCORE', KEYS[3], own) or '0')
  local last = redis.call('LINDEX', KEYS[2], -1)
  local before = known == 0 and last and tonumber(redis.call('ZSCORE', KEYS[3], last) or '0') - now
  local limit = now + math.max(before or left, 0) + wait
  -- Whoever asks again is there: it is waited for anew. Redisson's own waiters keep their first limit.
  if limit > known then
    redis.call('ZADD', KEYS[3], limit, own)
  end
  if known == 0 then
    redis.call('RPUSH', KEYS[2], own)
  end
end
return { 'b', 1, left, '' }
