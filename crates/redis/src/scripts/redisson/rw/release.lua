-- release (redisson rw): end the hold of each name. Begins with free.lua.
--
-- KEYS  the names, in order, none twice; then the key of a reader's lease for each
-- ARGV  1 how many names, 2 the token's own field, 3 how to tell (free.lua), then for each name its
--       channel and what the keys of readers' leases begin with
--
-- Reply, the worst letter over all names
--   h  ended now   x  nothing was there, or its lease was over   t  somebody else's, and untouched
--
-- Atomic: all of it. Each key is read before it is changed.

local count, own, how = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local worst = 'h'
for i = 1, count do
  local channel, before = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  local writes = redis.pcall('HDEL', KEYS[i], own .. ':write')
  if type(writes) == 'table' then
    if string.sub(writes.err, 1, 9) ~= 'WRONGTYPE' then
      return writes
    end
    worst = 't'
  elseif writes == 1 then
    after_writer(KEYS[i], how, channel)
  elseif redis.call('HDEL', KEYS[i], own) == 1 then
    if redis.call('DEL', KEYS[count + i]) == 0 and worst == 'h' then
      worst = 'x'
    end
    after_reader(KEYS[i], before, how, channel)
  elseif redis.call('EXISTS', KEYS[i]) == 1 then
    worst = 't'
  elseif worst == 'h' then
    worst = 'x'
  end
end
return worst
