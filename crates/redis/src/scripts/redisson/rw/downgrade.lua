-- downgrade (redisson rw): the writer becomes a reader for the rest of its lease. Begins with held.lua
-- and free.lua.
--
-- KEYS  1 the name, 2 the key of a reader's lease
-- ARGV  1 the token's own field, 2 how to tell (free.lua), 3 the channel
--
-- Reply: a list, a letter first
--   d pttl  it reads, also if it did before; time left in ms, -1 for ever
--   n why   it is not held: held.lua
--
-- Atomic: all of it.

local own = ARGV[1]
local how = how_held(1, 1, own)
if how == 'r' then
  return { 'd', redis.call('PTTL', KEYS[2]) }
end
if how ~= 'w' then
  return { 'n', how }
end
local left = redis.call('PTTL', KEYS[1])
redis.call('HSET', KEYS[1], own, '1')
redis.call('SET', KEYS[2], '1', 'PX', math.max(left, 1))
redis.call('HDEL', KEYS[1], own .. ':write')
after_writer(KEYS[1], ARGV[2], ARGV[3])
return { 'd', left }
