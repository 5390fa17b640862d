-- force_release (redisson rw): delete a lock, whoever holds it. Begins with look.lua and free.lua.
--
-- KEYS  1 the name
-- ARGV  1 how to tell (free.lua), 2 the channel
--
-- Reply: the five elements of look.lua, of what was there; what is no lock of this kind is left alone
--
-- Atomic: all of it; the key is read before it is deleted.

local seen = look(KEYS[1])
if seen[1] == 'w' or seen[1] == 'r' then
  redis.call('DEL', KEYS[1])
  say(ARGV[1], ARGV[2], '1')
end
return seen
