-- heal (redisson rw): write the names that are absent, where the token holds all others already.
--
-- KEYS  the names, in order, none twice; then the key of a reader's lease for each
-- ARGV  1 how many names, 2 the token's own field, 3 ttl_ms
--
-- Reply: a list, a letter first
--   k             every name is held by the token
--   b index pttl  KEYS[index] is held by somebody else; time left, -1 for ever
--   f index type  KEYS[index] is not a hash
--
-- Atomic: all of it; all keys are read and checked before the first write.

local count, own = tonumber(ARGV[1]), ARGV[2]
local absent, busy = {}, nil
for i = 1, count do
  local writes = redis.pcall('HEXISTS', KEYS[i], own .. ':write')
  if type(writes) == 'table' then
    if string.sub(writes.err, 1, 9) ~= 'WRONGTYPE' then
      return writes
    end
    return { 'f', i, redis.pcall('TYPE', KEYS[i]).ok or '' }
  end
  if redis.call('EXISTS', KEYS[i]) == 0 then
    absent[#absent + 1] = KEYS[i]
  elseif writes == 0 and redis.call('EXISTS', KEYS[count + i]) == 0 then
    busy = busy or i
  end
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]) }
end
for i = 1, #absent do
  redis.call('HSET', absent[i], 'mode', 'write', own .. ':write', '1')
  redis.call('PEXPIRE', absent[i], ARGV[3])
end
return { 'k' }
