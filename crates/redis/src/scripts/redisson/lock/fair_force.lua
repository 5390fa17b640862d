-- fair_force (redisson fair lock): delete a lock, whoever holds it, and call the next. Begins with look.lua
-- and queue.lua.
--
-- KEYS  queue.lua
-- ARGV  1 how to tell (free.lua), 2 what the channels of waiters begin with
--
-- Reply: the five elements of look.lua, of what was there; what is no lock of this kind is left alone
--
-- Atomic: all of it; the key is read before it is deleted.

local seen = look(KEYS[1])
if seen[1] == 'h' then
  redis.call('DEL', KEYS[1])
  call_next(head(clock()), ARGV[1], ARGV[2])
end
return seen
