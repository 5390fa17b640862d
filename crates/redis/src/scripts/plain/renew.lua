-- renew (plain): compare, then move the expiry later, never nearer. Begins with held.lua.
--
-- KEYS  the names of all leases, one lease after the other
-- ARGV  for each lease: how many names it has, token, ttl_ms (decimal)
--
-- Reply: a list, for each lease a number, the least time left in ms (-1: for ever), or a string,
-- why it is not held (held.lua; nothing changed for this lease)
--
-- Atomic: all of it. Of each lease all keys are read and checked before the first write.

local replies = {}
local from = 1
for argument = 1, #ARGV, 3 do
  local to = from + ARGV[argument] - 1
  local reply = why_not_held(from, to, ARGV[argument + 1])
  if not reply then
    local least, ttl = -1, tonumber(ARGV[argument + 2])
    for i = from, to do
      -- Looked at before it is moved: whoever may not look has changed nothing.
      local left = redis.call('PTTL', KEYS[i])
      redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
      if left >= 0 and left < ttl then
        left = ttl
      end
      if left >= 0 and (least < 0 or left < least) then
        least = left
      end
    end
    reply = least
  end
  replies[#replies + 1] = reply
  from = to + 1
end
return replies
