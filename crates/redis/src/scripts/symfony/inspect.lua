-- inspect (symfony): look at names. Begins with members.lua and look.lua. Writes nothing.
--
-- KEYS  the names
--
-- Reply: a list, for each name the four elements of look.lua
--
-- Atomic: all of it.

local replies, now = {}, clock()
for i = 1, #KEYS do
  local seen = look(KEYS[i], now)
  if seen.err then
    return seen
  end
  for _, element in ipairs(seen) do
    replies[#replies + 1] = element
  end
end
return replies
