#!lua flags=no-writes
-- looks: a small part of what is at a key, to tell what it is. Writes nothing, and reads a bounded part of
-- however much there is.
--
-- KEYS  1 the key
--
-- Reply: a list, first the type, then
--   string  length, the first 128 bytes
--   hash    how many fields, then up to 16 fields and the first 64 bytes of each value, in turn
--   zset    how many members, then up to 4 members, of each the first 64 bytes
--   other   nothing more
-- Nothing at all where that is denied.
--
-- Atomic: all of it.

local ask = redis.pcall
local function is_list(reply)
  return type(reply) == 'table' and not reply.err
end

local kind = ask('TYPE', KEYS[1])
local reply = { is_list(kind) and kind.ok or 'none' }
if reply[1] == 'string' then
  reply[2] = ask('STRLEN', KEYS[1])
  reply[3] = ask('GETRANGE', KEYS[1], 0, 127)
elseif reply[1] == 'hash' then
  reply[2] = ask('HLEN', KEYS[1])
  local step = ask('HSCAN', KEYS[1], '0', 'COUNT', '8')
  if is_list(step) then
    for i = 1, math.min(#step[2], 32) do
      reply[i + 2] = string.sub(step[2][i], 1, 64)
    end
  end
elseif reply[1] == 'zset' then
  reply[2] = ask('ZCARD', KEYS[1])
  local members = ask('ZRANGE', KEYS[1], 0, 3)
  if is_list(members) then
    for i, member in ipairs(members) do
      reply[i + 2] = string.sub(member, 1, 64)
    end
  end
end
for i = 1, #reply do
  if type(reply[i]) == 'table' then
    return {}
  end
end
return reply
