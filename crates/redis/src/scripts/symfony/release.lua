-- release (symfony): end the hold of every name that is still ours. Begins with members.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token
--
-- Reply, the worst letter over all names
--   h  ended now   x  nothing was there, or its lease was over   t  somebody else's, and untouched
--
-- Atomic: all of it. Each key is read before it is changed.

local worst, now = 'h', clock()
for i = 1, #KEYS do
  local own, other, failed = ends(KEYS[i], ARGV[1], now)
  if failed then
    return failed
  end
  if other then
    worst = 't'
  elseif own then
    redis.call('ZREM', KEYS[i], ARGV[1], WRITE)
    settle(KEYS[i], now)
  elseif last(KEYS[i], now) then
    worst = 't'
  elseif worst == 'h' then
    worst = 'x'
  end
end
return worst
