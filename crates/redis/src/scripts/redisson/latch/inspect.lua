-- inspect (redisson latch): look at names. Begins with latch.lua. Writes nothing.
--
-- KEYS  the names
-- ARGV  none
--
-- Reply: a list, for each name a number, the steps that are missing, 0 where it is open, or a string, the type of
-- something else
--
-- Atomic: all of it.

local replies = {}
for i = 1, #KEYS do
  local left, other, failed = missing(KEYS[i])
  if failed then
    return failed
  end
  replies[i] = left or other
end
return replies
