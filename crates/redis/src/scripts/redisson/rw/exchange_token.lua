-- exchange_token (redisson rw): another token for a lease, keeping or prolonging the expiry. Begins
-- with held.lua.
--
-- KEYS  the names, in order, none twice; then the keys of readers' leases by `from`; then those by `to`
-- ARGV  1 how many names, 2 and 3 the own fields of `from` and `to`, 4 ttl_ms
--
-- Reply: a list, a letter first
--   g pttl  exchanged; the least time left in ms, -1 for ever
--   y pttl  `to` has them all already, nothing changed
--   s       `to` has some of them: it lost the others
--   n why   `from` does not hold them: held.lua
--
-- Atomic: all of it; all keys are read and checked before the first write.

local count, from, to, ttl = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])

local function reply(letter, reads)
  local least = -1
  for i = 1, count do
    local left = redis.call('PTTL', reads and KEYS[2 * count + i] or KEYS[i])
    if left >= 0 and (least < 0 or left < least) then
      least = left
    end
  end
  return { letter, least }
end

local how = how_held(1, count, from)
local first = string.sub(how, 1, 1)
if first == 'f' or first == 'e' then
  return { 'n', how }
end
local mine, reads = 0, false
for i = 1, count do
  if redis.call('HEXISTS', KEYS[i], to .. ':write') == 1 then
    mine = mine + 1
  elseif redis.call('HEXISTS', KEYS[i], to) == 1 and redis.call('EXISTS', KEYS[2 * count + i]) == 1 then
    mine, reads = mine + 1, true
  end
end
if mine == count then
  return reply('y', reads)
end
if mine > 0 then
  return { 's' }
end
if how ~= 'w' and how ~= 'r' then
  return { 'n', how }
end
for i = 1, count do
  if how == 'w' then
    redis.call('HSET', KEYS[i], to .. ':write', '1')
    redis.call('HDEL', KEYS[i], from .. ':write')
  else
    local left = redis.call('PTTL', KEYS[count + i])
    redis.call('HSET', KEYS[i], to, '1')
    redis.call('SET', KEYS[2 * count + i], '1', 'PX', math.max(left, ttl))
    redis.call('HDEL', KEYS[i], from)
    redis.call('DEL', KEYS[count + i])
  end
  redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
end
return reply('g', how == 'r')
