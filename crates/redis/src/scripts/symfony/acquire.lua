-- acquire (symfony): write or read one or several names, all or nothing, as the RedisStore of Symfony Lock
-- does since 5.2. Begins with members.lua. Interop test: testing/interop.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token, 2 'w' or 'r', 3 ttl_ms
--
-- Reply: a list, a letter first
--   g           taken
--   y ms        this token has them all already, nothing changed; the least time left
--   s           this token has some of them, or not in this way
--   b index ms  KEYS[index] is held by somebody else; until the last of them ends
--   f index type  KEYS[index] is not a sorted set
--
-- Atomic: all of it; everything is read and checked before the first write.

local token, writes = ARGV[1], ARGV[2] == 'w'
local now = clock()
local mine, partly, busy, least = 0, false, nil, nil
for i = 1, #KEYS do
  local own, other, failed = ends(KEYS[i], token, now)
  if failed then
    return failed
  end
  if other then
    return { 'f', i, other }
  end
  local written = ends(KEYS[i], WRITE, now)
  if own and (written ~= nil) == writes then
    mine = mine + 1
    least = math.min(least or own, own)
  elseif own then
    partly = true
  elseif writes and last(KEYS[i], now) or written then
    busy = busy or i
  end
end
if mine == #KEYS then
  return { 'y', least - now }
end
if mine > 0 or partly then
  return { 's' }
end
if busy then
  return { 'b', busy, last(KEYS[busy], now) - now }
end
local until_ms = now + tonumber(ARGV[3])
for i = 1, #KEYS do
  redis.call('ZADD', KEYS[i], until_ms, token)
  if writes then
    redis.call('ZADD', KEYS[i], until_ms, WRITE)
  end
  settle(KEYS[i], now)
end
return { 'g' }
