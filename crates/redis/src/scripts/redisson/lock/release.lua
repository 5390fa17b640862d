-- release (redisson lock): end one hold of each name that the token still has. Begins with free.lua.
--
-- KEYS  the names, in order, none twice; then a hold of each
-- ARGV  1 how many names, 2 the token's own field, 3 how to tell (free.lua), then the channel of each
--
-- Reply, the worst letter over all names
--   h  ended now   x  nothing was there   t  somebody else's, and untouched
--
-- Atomic: all of it. Each key is read before it is changed.

local count = tonumber(ARGV[1])
local worst = 'h'
for i = 1, count do
  local owner = redis.call('GET', KEYS[count + i])
  local field = owner or ARGV[2]
  local holds = redis.pcall('HGET', KEYS[i], field)
  if type(holds) == 'table' then
    if string.sub(holds.err, 1, 9) ~= 'WRONGTYPE' then
      return holds
    end
    worst = 't'
  elseif holds then
    if redis.call('HINCRBY', KEYS[i], field, -1) <= 0 then
      free(KEYS[i], ARGV[3], ARGV[3 + i])
    end
  elseif redis.call('EXISTS', KEYS[i]) == 1 then
    worst = 't'
  elseif worst == 'h' then
    worst = 'x'
  end
  if owner then
    redis.call('DEL', KEYS[count + i])
  end
end
return worst
