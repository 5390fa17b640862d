-- signal (plain): what stands in the place of delete.lua for python-redis-lock 4.0.1, whose waiters
-- block on a list of one element that lives for a second. Not a script of its own.
-- Interop test: tests/plain_family.rs.

-- Deletes KEYS[i], one of so many names; the list that signals it is as far behind.
local function delete(i, names)
  local signal = KEYS[names + i]
  redis.call('DEL', signal)
  redis.call('LPUSH', signal, '1')
  redis.call('PEXPIRE', signal, 1000)
  redis.call('DEL', KEYS[i])
end

