-- downgrade (symfony): the writer becomes a reader for the rest of its lease. Begins with members.lua.
--
-- KEYS  1 the name
-- ARGV  1 token
--
-- Reply: a list, a letter first
--   d ms   it reads, also if it did before; the time left
--   n why  it is not held: move.lua
--
-- Atomic: all of it.

local now = clock()
local own, other, failed = ends(KEYS[1], ARGV[1], now)
if failed then
  return failed
end
if other then
  return { 'n', 'f' .. other }
end
if not own then
  return { 'n', last(KEYS[1], now) and 't' or 'a' }
end
redis.call('ZREM', KEYS[1], WRITE)
return { 'd', own - now }
