-- Reads a fenced hash for a reader beside others, in one step. Refused, by check.lua, when a writer came
-- after this reader; it notes nothing, since a reader that raised the token would shut out the writer
-- before it, and it prolongs nothing. Comes behind check.lua.
--
-- Reply {number, field, value, field, value ...}   fields only when it was accepted

local reply = {token}
local pairs = redis.call('HGETALL', key)
for at = 1, #pairs, 2 do
  if pairs[at] ~= 'fencing_token' then
    reply[#reply + 1] = pairs[at]
    reply[#reply + 1] = pairs[at + 1]
  end
end
return reply
