-- inspect (redisson permits): look at names. Begins with permits.lua and look.lua. Writes nothing.
--
-- KEYS  of each name it and its set
--
-- Reply: a list, for each name the five elements of look.lua
--
-- Atomic: all of it.

local replies, now = {}, clock()
for name = 1, #KEYS / 2 do
  local seen = look(KEYS[2 * name - 1], KEYS[2 * name], now)
  if seen.err then
    return seen
  end
  for _, element in ipairs(seen) do
    replies[#replies + 1] = element
  end
end
return replies
