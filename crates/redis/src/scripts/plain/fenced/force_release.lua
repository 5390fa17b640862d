-- force_release (plain, fenced): delete a string, whatever it says; its counter stays. Begins with delete.lua.
--
-- KEYS  1 the name, 2 its counter
-- ARGV  none
--
-- Reply: a list of four elements
--   'e' '' 0 fence         nothing was there; the counter, or ''
--   'h' value pttl fence   what was deleted, and how long it had left in ms, -1 for ever
--   'f' type 0 ''          not a string, left alone
--
-- Atomic: all of it; all keys are read before one is deleted.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  return { 'f', redis.pcall('TYPE', KEYS[1]).ok or '', 0, '' }
end
local fence = redis.call('GET', KEYS[2]) or ''
if not value then
  return { 'e', '', 0, fence }
end
local left = redis.call('PTTL', KEYS[1])
delete(1, 1)
return { 'h', value, left, fence }
