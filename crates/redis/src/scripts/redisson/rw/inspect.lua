-- inspect (redisson rw): look at names. Begins with look.lua. Writes nothing.
--
-- KEYS  the names
--
-- Reply: a list, for each name the five elements of look.lua
--
-- Atomic: all of it.

local replies = {}
for i = 1, #KEYS do
  local seen = look(KEYS[i])
  if seen.err then
    return seen
  end
  for _, element in ipairs(seen) do
    replies[#replies + 1] = element
  end
end
return replies
