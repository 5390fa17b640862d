-- heal (plain): take the names that are absent, where all others hold the token already. Begins
-- with is.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (decimal), 3 the value: the token and what is behind it
--
-- Reply: a list, a letter first
--   k             every name holds the token
--   b index pttl  KEYS[index] holds something else; time left, -1 for ever
--   f index type  KEYS[index] is not a string
--
-- Atomic: all of it; all keys are read and checked before the first write.

local absent, busy = {}, nil
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    return { 'f', i, redis.pcall('TYPE', KEYS[i]).ok or '' }
  end
  if not value then
    absent[#absent + 1] = KEYS[i]
  elseif not is(value, ARGV[1]) then
    busy = busy or i
  end
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]) }
end
for i = 1, #absent do
  redis.call('SET', absent[i], ARGV[3], 'PX', ARGV[2])
end
return { 'k' }
