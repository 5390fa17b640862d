-- exchange_token (symfony): another token for a lease, keeping or prolonging its end. Begins with
-- members.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 from, 2 to: the tokens; 3 ttl_ms
--
-- Reply: a list, a letter first
--   g ms   exchanged; the least time left
--   y ms   `to` has them all already, nothing changed
--   s      `to` has some of them: it lost the others
--   n why  `from` does not hold them: move.lua
--
-- Atomic: all of it; all keys are read and checked before the first write.

local now = clock()
local why, mine, least = nil, 0, nil
for i = 1, #KEYS do
  local from, other, failed = ends(KEYS[i], ARGV[1], now)
  if failed then
    return failed
  end
  if other then
    return { 'n', 'f' .. other }
  end
  local to = ends(KEYS[i], ARGV[2], now)
  if to then
    mine = mine + 1
    least = math.min(least or to, to)
  end
  if not from then
    why = why or (last(KEYS[i], now) and 't' or 'a')
  end
end
if mine == #KEYS then
  return { 'y', least - now }
end
if mine > 0 then
  return { 's' }
end
if why then
  return { 'n', why }
end
for i = 1, #KEYS do
  local moved = math.max(ends(KEYS[i], ARGV[1], now), now + tonumber(ARGV[3]))
  redis.call('ZADD', KEYS[i], moved, ARGV[2])
  redis.call('ZREM', KEYS[i], ARGV[1])
  if ends(KEYS[i], WRITE, now) then
    redis.call('ZADD', KEYS[i], moved, WRITE)
  end
  settle(KEYS[i], now)
  least = math.min(least or moved, moved)
end
return { 'g', least - now }
