-- heal (redisson lock): take the names that are absent, where all others hold the token already.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 the token's own field, 2 ttl_ms
--
-- Reply: a list, a letter first
--   k             every name holds the token
--   b index pttl  KEYS[index] is held by somebody else; time left, -1 for ever
--   f index type  KEYS[index] is not a hash
--
-- Atomic: all of it; all keys are read and checked before the first write.

local absent, busy = {}, nil
for i = 1, #KEYS do
  local holds = redis.pcall('HGET', KEYS[i], ARGV[1])
  if type(holds) == 'table' then
    if string.sub(holds.err, 1, 9) ~= 'WRONGTYPE' then
      return holds
    end
    return { 'f', i, redis.pcall('TYPE', KEYS[i]).ok or '' }
  end
  if not holds then
    if redis.call('EXISTS', KEYS[i]) == 1 then
      busy = busy or i
    else
      absent[#absent + 1] = KEYS[i]
    end
  end
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]) }
end
for i = 1, #absent do
  redis.call('HSET', absent[i], ARGV[1], '1')
  redis.call('PEXPIRE', absent[i], ARGV[2])
end
return { 'k' }
