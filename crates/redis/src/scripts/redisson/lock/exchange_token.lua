-- exchange_token (redisson lock): another token for a lease, keeping or prolonging the expiry. Begins
-- with fence.lua and held.lua.
--
-- KEYS  the names, in order, none twice; then a hold of each by `from`; then one by `to`; then the
--       counter of each, if fenced
-- ARGV  1 how many names, 2 and 3 the own fields of `from` and `to`, 4 ttl_ms, 5 floor or ''
--
-- Reply: a list, a letter first
--   g pttl fence  exchanged; the least time left in ms, -1 for ever
--   y pttl fence  `to` has them all already, nothing changed
--   s             `to` has some of them: it lost the others
--   n why         `from` does not hold them: held.lua
--   o             there is no larger fencing token
--
-- Atomic: all of it; all keys are read and checked before the first write.

local count, ttl = tonumber(ARGV[1]), tonumber(ARGV[4])
local counters = 3 * count + 1
local fenced = #KEYS >= counters

local function reply(letter, owned)
  local least = -1
  for i = 1, count do
    local left = redis.call('PTTL', owned and KEYS[2 * count + i] or KEYS[i])
    if left >= 0 and (least < 0 or left < least) then
      least = left
    end
  end
  return { letter, least, fenced and digits(highest(counters)) or '' }
end

local why, owners = why_not_held(1, count, ARGV[2])
if why and string.sub(why, 1, 1) == 'f' or why and string.sub(why, 1, 1) == 'e' then
  return { 'n', why }
end
local mine, owned = 0, false
for i = 1, count do
  local hold = redis.call('GET', KEYS[2 * count + i])
  if hold then
    owned = true
    mine = mine + (redis.call('HGET', KEYS[i], hold) and 1 or 0)
  elseif redis.call('HGET', KEYS[i], ARGV[3]) then
    mine = mine + 1
  end
end
if mine == count then
  return reply('y', owned)
end
if mine > 0 then
  return { 's' }
end
if why then
  return { 'n', why }
end
if fenced then
  local fence = math.max(highest(counters), tonumber(ARGV[5]) or 0) + 1
  if fence >= LARGEST then
    return { 'o' }
  end
  write(counters, fence)
end
for i = 1, count do
  local owner = owners[i]
  if owner then
    local left = redis.call('PTTL', KEYS[count + i])
    redis.call('SET', KEYS[2 * count + i], owner, 'PX', math.max(left, ttl))
    redis.call('DEL', KEYS[count + i])
  else
    redis.call('HSET', KEYS[i], ARGV[3], '1')
    redis.call('HDEL', KEYS[i], ARGV[2])
  end
  redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
end
return reply('g', owners[1])
