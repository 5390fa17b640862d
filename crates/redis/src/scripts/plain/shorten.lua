-- shorten (plain): compare, then bring the expiry nearer, never later. Begins with held.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (decimal)
--
-- Reply: the most time left in ms, or why it is not held (held.lua; nothing changed)
--
-- Atomic: all of it; all keys are read and checked before the first write.

local why = why_not_held(1, #KEYS, ARGV[1])
if why then
  return why
end
local most, ttl = 0, tonumber(ARGV[2])
for i = 1, #KEYS do
  -- Looked at before it is moved: whoever may not look has changed nothing.
  local left = redis.call('PTTL', KEYS[i])
  redis.call('PEXPIRE', KEYS[i], ttl, 'LT')
  most = math.max(most, left >= 0 and left < ttl and left or ttl)
end
return most
