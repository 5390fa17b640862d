-- set_limit (redisson permits): change how many permits there are. Begins with permits.lua.
--
-- KEYS  1 the name, 2 its set
-- ARGV  1 the limit, 2 and 3 how and where to tell (permits.lua)
--
-- Reply: a list, a letter first
--   s before used  set; the one before, -1 where there was none, and how many are held
--   f index type   something else is at the name
--
-- Atomic: all of it.

local other, failed = not_permits(KEYS[1], KEYS[2])
if failed then
  return failed
end
if other then
  return { 'f', 1, other }
end
purge(KEYS[1], KEYS[2], clock(), ARGV[2], ARGV[3])
local free, used = redis.call('GET', KEYS[1]), redis.call('ZCARD', KEYS[2])
local before = free and tonumber(free) + used or -1
redis.call('SET', KEYS[1], tonumber(ARGV[1]) - used)
say(ARGV[2], ARGV[3], tonumber(ARGV[1]) - used)
return { 's', before, used }
