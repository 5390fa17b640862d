-- fair_release (redisson fair lock): give the name back, or the place in its queue. Begins with queue.lua.
--
-- KEYS  queue.lua
-- ARGV  1 the token's own field, 2 how to tell (free.lua), 3 what the channels of waiters begin with,
--       4 how long a waiter is waited for in ms
--
-- Reply: h given back now   x nothing was there   t somebody else's, and untouched
--
-- Atomic: all of it.

local own = ARGV[1]
local gone = redis.pcall('HDEL', KEYS[1], own)
if type(gone) == 'table' then
  if string.sub(gone.err, 1, 9) ~= 'WRONGTYPE' then
    return gone
  end
  return 't'
end
-- One that gives up: those behind it wait for one less.
if redis.call('ZREM', KEYS[3], own) == 1 then
  local is_behind = false
  for _, other in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    if is_behind then
      redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[4]), other)
    end
    is_behind = is_behind or other == own
  end
  redis.call('LREM', KEYS[2], 0, own)
end
local is_held = redis.call('EXISTS', KEYS[1]) == 1
if gone == 1 or not is_held then
  call_next(head(clock()), ARGV[2], ARGV[3])
end
return gone == 1 and 'h' or is_held and 't' or 'x'
