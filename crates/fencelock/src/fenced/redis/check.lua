-- The check with which each of the scripts begins: write.lua, read.lua, remove.lua,
-- read_shared.lua.
--
-- KEYS  1 the guarded value: a hash. Its field `fencing_token` has the highest token that was seen
-- ARGV  1 fencing token, 16 digits
--       2 keep_s, 10 digits: how long after its last use the key is kept at least; all 0: for ever
--
-- The reply begins with the highest token, 16 digits: the call's own when it was accepted, a larger
-- one when it was not, and then nothing was changed. An error `FENCED ...` changed nothing, either.
-- Tokens are compared as text: a Lua number would leave as 1.7645420001235e+15.

local key, token, keep = KEYS[1], ARGV[1], ARGV[2]

local function is_token(text)
  return #text == 16 and not string.find(text, '%D')
    and text > '0000000000000000' and text <= '9007199254740991'
end

if not is_token(token) then
  return redis.error_reply('FENCED the offered fencing token is not one in 16 digits')
end
if #keep ~= 10 or string.find(keep, '%D') then
  return redis.error_reply('FENCED how long to keep the key is not 10 digits')
end

local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then
  return redis.error_reply('FENCED the key is a ' .. kind .. ', not a fenced hash')
end
local highest = redis.call('HGET', key, 'fencing_token')
if highest then
  if not is_token(highest) then
    return redis.error_reply('FENCED the field fencing_token was not written by these scripts')
  end
  if highest > token then return {highest} end
elseif keep ~= '0000000000' then
  -- The key may have been here and gone. The largest token that it had seen is older than `keep`,
  -- since its expiry left a minute more for clocks that differ and tokens that run ahead of them.
  -- So what is older is refused.
  local oldest = string.format('%010.0f000000', redis.call('TIME')[1] - keep)
  if token < oldest then return {oldest} end
end

local function accept()
  redis.call('HSET', key, 'fencing_token', token)
  if keep == '0000000000' then
    redis.call('PERSIST', key)
  else
    -- Longer than before, or as it was: a key that is there without an end stays so.
    redis.call('EXPIRE', key, string.format('%.0f', keep + 60), kind == 'none' and 'NX' or 'GT')
  end
end
