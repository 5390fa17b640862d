-- force_release (redisson latch): open a latch, whatever is missing. Begins with latch.lua.
--
-- KEYS  1 the name, 2 our steps
-- ARGV  1 and 2 how and where to tell (latch.lua)
--
-- Reply: as that of inspect, of what was there
--
-- Atomic: all of it.

local left, other, failed = missing(KEYS[1])
if failed then
  return failed
end
if left and left > 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
  say(ARGV[1], ARGV[2], '0')
end
return { left or other }
