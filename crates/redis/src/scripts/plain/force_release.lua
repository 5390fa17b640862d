-- force_release (plain): delete a string, whatever it says. Begins with delete.lua,
-- signal.lua or publish.lua.
--
-- KEYS  1 the name; behind signal.lua 2 its list
-- ARGV  none; behind publish.lua what that says
--
-- Reply: a list of three elements
--   'e' '' 0         nothing was there
--   'h' value pttl   what was deleted, and how long it had left in ms, -1 for ever
--   'f' type 0       not a string, left alone
--
-- Atomic: all of it; the key is read before it is deleted.

local value = redis.pcall('GET', KEYS[1])
if not value then
  return { 'e', '', 0 }
end
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  return { 'f', redis.pcall('TYPE', KEYS[1]).ok or '', 0 }
end
local left = redis.call('PTTL', KEYS[1])
delete(1, 1)
return { 'h', value, left }
