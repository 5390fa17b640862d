-- free (redisson lock): what release and force_release begin with. Not a script of its own.

-- Deletes a lock and tells its waiters, on a cluster in both ways in which they may listen. Whoever
-- may not publish wakes nobody, and they look when the lease is over.
-- `how` is '' where nobody listens, 'p' on one server, 'c' on a cluster.
local function free(key, how, channel)
  redis.call('DEL', key)
  local tell, tell_slot = 'PUBLISH', 'SPUBLISH'
  if how ~= '' then
    redis.pcall(tell, channel, '0')
  end
  if how == 'c' then
    redis.pcall(tell_slot, channel, '0')
  end
end

