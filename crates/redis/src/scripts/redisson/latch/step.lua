-- step (redisson latch): count down by one, as RCountDownLatch of Redisson 4.7 does. Begins with latch.lua.
-- Interop test: testing/interop.
--
-- KEYS  1 the name, 2 our steps
-- ARGV  1 token, 2 ttl_ms, 3 and 4 how and where to tell (latch.lua)
--
-- Reply: a list, a letter first
--   g             counted, or it was open already
--   y             this token has counted before, nothing changed
--   f index type  something else is at the name
--
-- Atomic: all of it.

local left, other, failed = missing(KEYS[1])
if failed then
  return failed
end
if other then
  return { 'f', 1, other }
end
-- It opened, or was set up anew, since our last step: what is remembered is of an earlier use.
local before = redis.call('HGET', KEYS[2], 'left')
if before and (left == 0 or left > tonumber(before)) then
  redis.call('DEL', KEYS[2])
end
if left == 0 then
  return { 'g' }
end
if redis.call('HGET', KEYS[2], ARGV[1]) then
  return { 'y' }
end
left = left - 1
if left == 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
  say(ARGV[3], ARGV[4], '0')
else
  redis.call('HSET', KEYS[2], ARGV[1], '1', 'left', left)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  redis.call('DECRBY', KEYS[1], 1)
end
return { 'g' }
