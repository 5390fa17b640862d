-- force_release (symfony): delete a lock, whoever holds it. Begins with members.lua and look.lua.
--
-- KEYS  1 the name
--
-- Reply: the four elements of look.lua, of what was there; what is no sorted set is left alone
--
-- Atomic: all of it; the key is read before it is deleted.

local seen = look(KEYS[1], clock())
if seen[1] == 'w' or seen[1] == 'r' then
  redis.call('DEL', KEYS[1])
end
return seen
