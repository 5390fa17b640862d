-- force_release (redisson permits): give all permits back, whoever has them. Begins with permits.lua and
-- look.lua.
--
-- KEYS  1 the name, 2 its set
-- ARGV  1 and 2 how and where to tell (permits.lua)
--
-- Reply: the five elements of look.lua, of what was there
--
-- Atomic: all of it.

local seen = look(KEYS[1], KEYS[2], clock())
if seen[1] == 'h' then
  local count = redis.call('ZCARD', KEYS[2])
  redis.call('DEL', KEYS[2])
  say(ARGV[1], ARGV[2], redis.call('INCRBY', KEYS[1], count))
end
return seen
