-- raise_fence: write a larger fencing token to a lease. Begins with record.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token, 2 fence (16 digits), 3 ahead_us
--
-- Accepted where it is above the record's, or equal and written by this very token: a plain "equal"
-- could adopt another client's number.
--
-- Reply, one string: server time in us (16), then
--   k             every name has it now, written by this token
--   h fence(16)   not above this one
--   a             too far ahead of the server's clock
--   n why         not held: see record.lua
--
-- Atomic: all of it; all keys are read and checked before the first write. Works when memory is
-- full.

local token, fence = ARGV[1], ARGV[2]
local seen, failure = look_all(1, #KEYS)
if failure then
  return failure
end
local why = why_not_held(seen, 1, #KEYS, token)
if why then
  return now .. 'n' .. why
end
if tonumber(fence) > clock + ARGV[3] then
  return now .. 'a'
end
for i = 1, #KEYS do
  local record = seen[i]
  if record.fence > fence or record.fence == fence and record.flag ~= '1' then
    return now .. 'h' .. record.fence
  end
end
for i = 1, #KEYS do
  local record = seen[i]
  -- The expiry first: a right that is missing then refuses the whole, and it is allowed when
  -- memory is full, as is every write after it.
  redis.call('PEXPIRE', KEYS[i], life(record.ends, 0, fence), 'GT')
  redis.call('SET', KEYS[i], 'fl1mh' .. token .. '1' .. fence .. sub(record.raw, 55), 'KEEPTTL')
end
return now .. 'k'
