-- Notes the fencing token and reads a fenced hash, in one step: what is read can't be changed any
-- more by a holder before. The first thing a new holder does. Comes behind check.lua.
--
-- Reply {highest, field, value, field, value ...}   fields only when it was accepted

accept()
local reply = {token}
local pairs = redis.call('HGETALL', key)
for at = 1, #pairs, 2 do
  if pairs[at] ~= 'fencing_token' then
    reply[#reply + 1] = pairs[at]
    reply[#reply + 1] = pairs[at + 1]
  end
end
return reply
