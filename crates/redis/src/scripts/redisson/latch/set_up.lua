-- set_up (redisson latch): shut a latch that is open. Begins with latch.lua.
--
-- KEYS  1 the name, 2 our steps
-- ARGV  1 how many steps, 2 and 3 how and where to tell (latch.lua)
--
-- Reply: a list, a letter first
--   s before      the steps that are missing where it was shut before, and stays as it is; -1: set up now
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
if left > 0 then
  return { 's', left }
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1])
say(ARGV[2], ARGV[3], '1')
return { 's', -1 }
