-- Removes fields of a fenced hash, if no larger fencing token was seen; what was seen is kept.
-- In the place of DEL, which forgets it. Comes behind check.lua.
--
-- ARGV  3.. fields   none: all of them
-- Reply {highest}

local fields = {}
for at = 3, #ARGV do
  if ARGV[at] == 'fencing_token' then
    return redis.error_reply('FENCED the field fencing_token is kept by these scripts')
  end
  fields[#fields + 1] = ARGV[at]
end
if #ARGV == 2 then
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if field ~= 'fencing_token' then fields[#fields + 1] = field end
  end
end
accept()
-- In pieces, as the stack of Lua holds some thousands.
for from = 1, #fields, 1000 do
  redis.call('HDEL', key, unpack(fields, from, math.min(from + 999, #fields)))
end
return {token}
