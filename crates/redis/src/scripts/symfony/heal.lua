-- heal (symfony): write the names that are absent, where the token holds all others already. Begins with
-- members.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms
--
-- Reply: a list, a letter first
--   k             every name is held by the token
--   b index ms    KEYS[index] is held by somebody else; until the last of them ends
--   f index type  KEYS[index] is not a sorted set
--
-- Atomic: all of it; all keys are read and checked before the first write.

local now, absent, busy = clock(), {}, nil
for i = 1, #KEYS do
  local own, other, failed = ends(KEYS[i], ARGV[1], now)
  if failed then
    return failed
  end
  if other then
    return { 'f', i, other }
  end
  if not own then
    if last(KEYS[i], now) then
      busy = busy or i
    else
      absent[#absent + 1] = KEYS[i]
    end
  end
end
if busy then
  return { 'b', busy, last(KEYS[busy], now) - now }
end
for i = 1, #absent do
  local until_ms = now + tonumber(ARGV[2])
  redis.call('ZADD', absent[i], until_ms, ARGV[1], until_ms, WRITE)
  settle(absent[i], now)
end
return { 'k' }
