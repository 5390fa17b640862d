-- inspect (plain, fenced): look at names. Writes nothing.
--
-- KEYS  the names, then the counter of each
-- ARGV  none
--
-- Reply: a list, for each name four elements
--   'e' '' 0 fence         nothing there; the counter, or ''
--   'h' value pttl fence   a string and its time left in ms, -1 for ever
--   'f' type 0 ''          not a string
--
-- Atomic: all of it.

local replies, count = {}, #KEYS / 2
for i = 1, count do
  local value = redis.pcall('GET', KEYS[i])
  local letter, what, left, fence = 'h', value, 0, ''
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    letter, what = 'f', redis.pcall('TYPE', KEYS[i]).ok or ''
  else
    fence = redis.call('GET', KEYS[count + i]) or ''
    if value then
      left = redis.call('PTTL', KEYS[i])
    else
      letter, what = 'e', ''
    end
  end
  replies[#replies + 1] = letter
  replies[#replies + 1] = what
  replies[#replies + 1] = left
  replies[#replies + 1] = fence
end
return replies
