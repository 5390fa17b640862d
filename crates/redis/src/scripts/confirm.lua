-- Writes something behind a grant that changes nothing, so that WAIT on this connection waits for it.
--
-- KEYS  the key of one name that was granted, in any dialect
-- reply 1: written; 0: there is no such key, or it never expires
--
-- A held key expires; the expiry is set to what it is.
local ends = redis.call('PEXPIRETIME', KEYS[1])
if ends < 0 then
  return 0
end
return redis.call('PEXPIREAT', KEYS[1], ends)
