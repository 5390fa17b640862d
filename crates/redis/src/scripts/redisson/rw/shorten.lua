-- shorten (redisson rw): compare, then bring the expiry nearer, never later. Begins with held.lua.
--
-- KEYS  the names, in order, none twice; then the key of a reader's lease for each
-- ARGV  1 how many names, 2 the token's own field, 3 ttl_ms
--
-- Reply: the most time left in ms, or why it is not held (held.lua; nothing changed)
--
-- Atomic: all of it; all keys are read and checked before the first write. Where others read, too, the
-- hash lasts as long as they do.

local count, own, ttl = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local how = how_held(1, count, own)
if how ~= 'w' and how ~= 'r' then
  return how
end
local most = 0
for i = 1, count do
  local at = how == 'r' and KEYS[i + count] or KEYS[i]
  -- Looked at before it is moved: whoever may not look has changed nothing.
  local left = redis.call('PTTL', at)
  redis.call('PEXPIRE', at, ttl, 'LT')
  if how == 'r' and redis.call('HLEN', KEYS[i]) == 2 then
    redis.call('PEXPIRE', KEYS[i], ttl, 'LT')
  end
  most = math.max(most, left >= 0 and left < ttl and left or ttl)
end
return most
