-- shorten (redisson lock): compare, then bring the expiry nearer, never later. Begins with held.lua.
--
-- KEYS  the names, in order, none twice; then a hold of each
-- ARGV  1 how many names, 2 the token's own field, 3 ttl_ms
--
-- Reply: the most time left in ms, or why it is not held (held.lua; nothing changed)
--
-- Atomic: all of it; all keys are read and checked before the first write. Where an owner has other
-- holds, the lock lasts as long as they do.

local count = tonumber(ARGV[1])
local why, owners = why_not_held(1, count, ARGV[2])
if why then
  return why
end
local most, ttl = 0, tonumber(ARGV[3])
for i = 1, count do
  local at = owners[i] and KEYS[i + count] or KEYS[i]
  -- Looked at before it is moved: whoever may not look has changed nothing.
  local left = redis.call('PTTL', at)
  if owners[i] then
    redis.call('PEXPIRE', at, ttl, 'LT')
  end
  if redis.call('HGET', KEYS[i], owners[i] or ARGV[2]) == '1' then
    redis.call('PEXPIRE', KEYS[i], ttl, 'LT')
  end
  most = math.max(most, left >= 0 and left < ttl and left or ttl)
end
return most
