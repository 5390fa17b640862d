-- force_release: free a name whoever holds it. Begins with record.lua.
--
-- KEYS  1 the key of the name
-- ARGV  1 retain_ms (decimal)
--
-- Its lease ends now. The record stays, so that the old holder is told that it expired, and a late
-- copy of its acquire can't take the lock again.
--
-- Reply, one string: server time in us (16), then
--   r token(32) fence(16) stamp(16) ttl(8) meta   taken away from this holder
--   w                                             nobody held it
--   f what                                        foreign, left alone: see record.lua
--
-- Atomic: all of it; the key is read before it is written.

local record, failure = look(KEYS[1])
if failure then
  return failure
end
if record and record.foreign then
  return now .. 'f' .. record.foreign
end
if not (record and record.live) then
  return now .. 'w'
end
if ARGV[1] == '0' and record.fence < now then
  redis.call('DEL', KEYS[1])
else
  rewrite(KEYS[1], sub(record.raw, 1, 54) .. now .. '00000000',
    life(clock, ARGV[1], record.fence))
end
return now .. 'r' .. record.token .. record.fence .. record.lease .. record.metadata
