-- Writes fields of a fenced hash, if no larger fencing token was seen. Comes behind check.lua.
--
-- ARGV  3.. field, value, field, value ...   none: only the token is noted
-- Reply {highest}

if #ARGV % 2 ~= 0 then
  return redis.error_reply('FENCED a field has no value')
end
for at = 3, #ARGV, 2 do
  if ARGV[at] == 'fencing_token' then
    return redis.error_reply('FENCED the field fencing_token is kept by these scripts')
  end
end
accept()
-- In pieces, as the stack of Lua holds some thousands.
for from = 3, #ARGV, 1000 do
  redis.call('HSET', key, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return {token}
