-- release (redisson permits): give the permits of a token back. Begins with permits.lua.
--
-- KEYS  1 the name, 2 its set
-- ARGV  1 token, 2 and 3 how and where to tell (permits.lua)
--
-- Reply: h given back now   x their lease was over, or nothing is known of it   t something else is there
--
-- Atomic: all of it.

local other, failed = not_permits(KEYS[1], KEYS[2])
if failed then
  return failed
end
if other then
  return 't'
end
local count, ends = permits_of(KEYS[2], ARGV[1])
if count == 0 then
  return 'x'
end
for number = 0, count - 1 do
  redis.call('ZREM', KEYS[2], permit(ARGV[1], number))
end
say(ARGV[2], ARGV[3], redis.call('INCRBY', KEYS[1], count))
return ends > clock() and 'h' or 'x'
