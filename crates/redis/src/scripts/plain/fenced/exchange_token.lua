-- exchange_token (plain, fenced): another token for a lease, with a fencing token of its own. Begins with
-- fence.lua, is.lua and held.lua.
--
-- KEYS  1 the name, 2 its counter
-- ARGV  1 from, 2 to: the tokens; 3 ttl_ms (decimal); 4 the value: `to` and what is behind it; 5 floor or ''
--
-- Reply: a list, a letter first
--   g pttl fence  exchanged; the time left in ms, -1 for ever
--   y pttl fence  `to` has it already, nothing changed
--   n why         `from` does not hold it: held.lua
--   o             there is no larger fencing token
--
-- Atomic: all of it; all keys are read and checked before the first write.

local why = why_not_held(1, 1, ARGV[1])
if why and (string.sub(why, 1, 1) == 'f' or string.sub(why, 1, 1) == 'e') then
  return { 'n', why }
end
if is(redis.call('GET', KEYS[1]), ARGV[2]) then
  return { 'y', redis.call('PTTL', KEYS[1]), digits(highest(2)) }
end
if why then
  return { 'n', why }
end
local fence = math.max(highest(2), tonumber(ARGV[5]) or 0) + 1
if fence >= LARGEST then
  return { 'o' }
end
-- An expiry that nothing moves to: a right that is missing then refuses the whole.
redis.call('PEXPIRE', KEYS[1], 1, 'GT')
write(2, fence)
redis.call('SET', KEYS[1], ARGV[4], 'KEEPTTL')
redis.call('PEXPIRE', KEYS[1], ARGV[3], 'GT')
return { 'g', redis.call('PTTL', KEYS[1]), digits(fence) }
