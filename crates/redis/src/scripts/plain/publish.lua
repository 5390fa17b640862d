-- publish (plain): what stands in the place of delete.lua for Spring's RedisLockRegistry, whose
-- PUB_SUB_LOCK waiters listen: since 6.4.8, 6.5.3 and 7.0 on a channel of the key, before on one of
-- the registry. Not a script of its own. Interop test: testing/interop.
--
-- ARGV  the last: the registry key

-- Deletes KEYS[i], one of so many names, in its own words: UNLINK, where that is there and allowed.
-- Whoever may not publish wakes nobody, and the waiters look by themselves.
local function delete(i, _)
  local key, registry, tell = KEYS[i], ARGV[#ARGV], 'PUBLISH'
  local unlink = 'UNLINK'
  if type(redis.pcall(unlink, key)) == 'table' then
    redis.call('DEL', key)
  end
  redis.pcall(tell, registry .. '-channel:' .. key, key)
  redis.pcall(tell, registry .. '-channel', key)
end

