-- acquire (redisson rw): write or read one or several names, all or nothing, as RReadWriteLock of
-- Redisson 4.7 does. Begins with held.lua. Interop test: testing/interop.
--
-- KEYS  the names, in order, none twice; then the key of a reader's lease for each
-- ARGV  1 how many names, 2 the token's own field, 3 'w' or 'r', 4 ttl_ms
--
-- Reply: a list, a letter first
--   g             taken
--   y pttl        this token has them all already, nothing changed; the least time left, -1 for ever
--   s             this token has some of them, or not in this way, or its lease is over
--   b index pttl  KEYS[index] is held by somebody else; time left, -1 for ever
--   f index type  KEYS[index] is not a hash
--
-- Atomic: all of it; everything is read and checked before the first write.

local count, own, way, ttl = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local mine, partly, busy, least = 0, false, nil, -1
for i = 1, count do
  local writes = redis.pcall('HEXISTS', KEYS[i], own .. ':write')
  if type(writes) == 'table' then
    if string.sub(writes.err, 1, 9) ~= 'WRONGTYPE' then
      return writes
    end
    return { 'f', i, redis.pcall('TYPE', KEYS[i]).ok or '' }
  end
  local reads = redis.call('HEXISTS', KEYS[i], own) == 1
  if writes == 1 or reads then
    local at = reads and KEYS[count + i] or KEYS[i]
    if (way == 'w') == (writes == 1) and redis.call('EXISTS', at) == 1 then
      mine = mine + 1
      local left = redis.call('PTTL', at)
      if left >= 0 and (least < 0 or left < least) then
        least = left
      end
    else
      partly = true
    end
  else
    local is_there = redis.call('EXISTS', KEYS[i]) == 1
    local joins = way == 'r' and redis.call('HGET', KEYS[i], 'mode') == 'read'
    if is_there and not joins then
      busy = busy or i
    end
  end
end
if mine == count then
  return { 'y', least }
end
if mine > 0 or partly then
  return { 's' }
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]) }
end
for i = 1, count do
  if way == 'w' then
    redis.call('HSET', KEYS[i], 'mode', 'write', own .. ':write', '1')
    redis.call('PEXPIRE', KEYS[i], ttl)
  else
    local left = redis.call('PTTL', KEYS[i])
    redis.call('HSET', KEYS[i], 'mode', 'read', own, '1')
    redis.call('SET', KEYS[count + i], '1', 'PX', ttl)
    -- A hash of readers without an end stays one: somebody made it so.
    if left ~= -1 and left < tonumber(ttl) then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
  end
end
return { 'g' }
