-- inspect (redisson lock): look at names. Begins with look.lua. Writes nothing.
--
-- KEYS  the names; then the counter of each, if fenced
-- ARGV  1 how many names
--
-- Reply: a list, for each name the five elements of look.lua
--
-- Atomic: all of it.

local replies, count = {}, tonumber(ARGV[1])
for i = 1, count do
  local seen = look(KEYS[i], KEYS[count + i])
  if seen.err then
    return seen
  end
  for _, element in ipairs(seen) do
    replies[#replies + 1] = element
  end
end
return replies
