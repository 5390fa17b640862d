-- acquire (redisson lock): take one or several names, all or nothing, as RLock, RFencedLock and
-- RedissonSpinLock of Redisson 4.7 do. Begins with fence.lua. Interop test: testing/interop.
--
-- KEYS  the names, in order, none twice; then a hold of each; then the counter of each, if fenced
-- ARGV  1 how many names, 2 the token's own field, 3 the field of its owner or '', 4 ttl_ms,
--       5 floor: a fencing token, or ''
--
-- Reply: a list, a letter first. A fence is '' where there is no counter
--   g fence       taken
--   y pttl fence  this token has them all already, nothing changed; the least time left, -1 for ever
--   s             this token has some of them: it lost the others
--   b index pttl fence  KEYS[index] is held by somebody else; time left, -1 for ever
--   f index type  KEYS[index] is not a hash
--   o             there is no larger fencing token
--
-- Atomic: all of it; everything is read and checked before the first write.

local count, ttl = tonumber(ARGV[1]), ARGV[4]
local owner = ARGV[3] ~= '' and ARGV[3]
local field, counters = owner or ARGV[2], 2 * count + 1
local mine, again, busy, least = 0, 0, nil, -1
for i = 1, count do
  local holds = redis.pcall('HGET', KEYS[i], field)
  if type(holds) == 'table' then
    if string.sub(holds.err, 1, 9) ~= 'WRONGTYPE' then
      return holds
    end
    return { 'f', i, redis.pcall('TYPE', KEYS[i]).ok or '' }
  end
  if not holds then
    busy = busy or (redis.call('EXISTS', KEYS[i]) == 1 and i)
  else
    local at = owner and KEYS[count + i] or KEYS[i]
    again = again + 1
    if not owner or redis.call('EXISTS', at) == 1 then
      mine = mine + 1
      local left = redis.call('PTTL', at)
      if left >= 0 and (least < 0 or left < least) then
        least = left
      end
    end
  end
end
local fenced = #KEYS >= counters
local before = fenced and highest(counters) or 0
if mine == count then
  return { 'y', least, fenced and digits(before) or '' }
end
if mine > 0 then
  return { 's' }
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]), fenced and digits(before) or '' }
end
local fence = ''
if fenced then
  -- One more hold of an owner has the fencing token of the first.
  if again < count or before == 0 then
    before = math.max(before, tonumber(ARGV[5]) or 0)
    before = before + 1
    if before >= LARGEST then
      return { 'o' }
    end
    write(counters, before)
  end
  fence = digits(before)
end
for i = 1, count do
  local held = redis.call('HINCRBY', KEYS[i], field, 1)
  if held > 1 then
    -- Never nearer: other holds count on it.
    redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
  else
    redis.call('PEXPIRE', KEYS[i], ttl)
  end
  if owner then
    redis.call('SET', KEYS[count + i], owner, 'PX', ttl)
  end
end
return { 'g', fence }
