-- inspect (plain): look at names. Writes nothing.
--
-- KEYS  the names
-- ARGV  none
--
-- Reply: a list, for each name three elements
--   'e' '' 0         nothing there
--   'h' value pttl   a string and its time left in ms, -1 for ever
--   'f' type 0       not a string
--
-- Atomic: all of it.

local replies = {}
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  local letter, what, left = 'h', value, 0
  if not value then
    letter, what = 'e', ''
  elseif type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    letter, what = 'f', redis.pcall('TYPE', KEYS[i]).ok or ''
  else
    left = redis.call('PTTL', KEYS[i])
  end
  replies[#replies + 1] = letter
  replies[#replies + 1] = what
  replies[#replies + 1] = left
end
return replies
