-- force_release: free a name whoever holds it. Begins with never_rests.lua (or boot.lua), clock.lua,
-- record.lua, crowd.lua, crowd_changes.lua and line.lua.
--
-- KEYS  1 the key of the name
-- ARGV  1 retain_ms (decimal)
--
-- Its lease ends now. The record stays, so that the old holder is told that it expired, and a late
-- copy of its acquire can't take the lock again; or the lease belongs to the first in line.
--
-- Reply, one string: server time in us (16), then
--   r token(32) who   taken away from this holder: see record.lua
--   w                 nobody held it
--   f what            foreign, left alone: see record.lua
--
-- Atomic: all of it; the key is read before it is written.

local record, failure = look(KEYS[1], none)
if failure then
  return failure
end
if not record then
  return now .. 'w'
end
if record.foreign then
  return now .. 'f' .. record.foreign
end
local reply, changed = 'w', false
if record.live then
  reply, changed = 'r' .. proof(record) .. who(record, true), true
  if record.crowd then
    -- Its limit stays, and the tokens that were released.
    crowds.clear(record)
  else
    finish(record, 'h')
  end
  record.forget = forget_time(clock, ARGV[1], record.fence)
end
local passed = pass_on(KEYS[1], record)
if not passed then
  return now .. 'fu'
end
if passed == record and (changed or record.line and record.line.changed) then
  store(KEYS[1], record)
end
return now .. reply
