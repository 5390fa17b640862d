-- force_release (redisson lock): delete a lock, whoever holds it. Begins with look.lua and free.lua.
--
-- KEYS  1 the name; then its counter, if fenced
-- ARGV  1 how to tell (free.lua), 2 the channel
--
-- Reply: the five elements of look.lua, of what was there; what is no lock of this kind is left alone
--
-- Atomic: all of it; the key is read before it is deleted.

local seen = look(KEYS[1], KEYS[2])
if seen[1] == 'h' then
  free(KEYS[1], ARGV[1], ARGV[2])
end
return seen
