-- acquire (plain, fenced): take one name, and the next number of the counter beside it. Begins with fence.lua
-- and is.lua.
--
-- KEYS  1 the name, 2 its counter
-- ARGV  1 token, 2 ttl_ms (decimal), 3 the value: the token and what is behind it, 4 floor: a fencing
--       token, or ''
--
-- Reply: a list, a letter first
--   g fence         taken
--   y pttl fence    this token has it already, nothing changed; time left, -1 for ever
--   b 1 pttl value fence  something else holds it
--   f 1 type        it is not a string
--   o               there is no larger fencing token
--
-- Atomic: all of it; everything is read and checked before the first write.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  return { 'f', 1, redis.pcall('TYPE', KEYS[1]).ok or '' }
end
local before = highest(2)
if is(value, ARGV[1]) then
  return { 'y', redis.call('PTTL', KEYS[1]), digits(before) }
end
if value then
  return { 'b', 1, redis.call('PTTL', KEYS[1]), value, digits(before) }
end
local fence = math.max(before, tonumber(ARGV[4]) or 0) + 1
if fence >= LARGEST then
  return { 'o' }
end
write(2, fence)
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return { 'g', digits(fence) }
