-- raise_fence: write a larger fencing token to a lease. Begins with clock.lua, record.lua,
-- crowd.lua and crowd_changes.lua.
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
local seen, failure = look_all(1, #KEYS, token)
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
  local share = record.crowd and crowds.share_of(record, token)
  local is_own = share and share.fence == fence or record.flag == '1'
  if record.fence > fence or record.fence == fence and not is_own then
    return now .. 'h' .. record.fence
  end
end
for i = 1, #KEYS do
  local record = seen[i]
  local share = record.crowd and crowds.share_of(record, token)
  if share then
    share.fence, share.changed, record.fence = fence, true, fence
  else
    record.flag, record.fence, record.first = '1', fence, fence
  end
  -- Not before its lease is over either, which the record was written to outlive.
  record.forget, record.longer = forget_time(record.ends, 0, fence), true
  store(KEYS[i], record)
end
return now .. 'k'
