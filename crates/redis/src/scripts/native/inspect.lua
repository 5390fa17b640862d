-- inspect: look at names. Begins with clock.lua, record.lua and crowd.lua. Writes nothing.
--
-- KEYS  the keys of the names
-- ARGV  none
--
-- Reply: a list, server time in us (16) first, then for each key
--   e fence(16)       nobody holds it; all 0: no fencing token known
--   h token(32) who   held: see record.lua
--   f what            foreign: see record.lua
--
-- Atomic: all of it.

local replies = { now }
for i = 1, #KEYS do
  local record, failure = look(KEYS[i], none)
  if failure then
    return failure
  end
  local reply
  if not record then
    reply = 'e' .. none
  elseif record.foreign then
    reply = 'f' .. record.foreign
  elseif record.live then
    reply = 'h' .. proof(record) .. who(record, true)
  else
    reply = 'e' .. record.fence
  end
  replies[i + 1] = reply
end
return replies
