-- renew (redisson rw): compare, then move the expiry later, never nearer. Begins with held.lua.
--
-- KEYS  of each lease the names, and then the key of a reader's lease for each
-- ARGV  for each lease: how many names it has, the token's own field, ttl_ms
--
-- Reply: a list, for each lease a number, the least time left in ms (-1: for ever), or a string,
-- why it is not held (held.lua; nothing changed for this lease)
--
-- Atomic: all of it. Of each lease all keys are read and checked before the first write.

local replies = {}
local first = 1
for argument = 1, #ARGV, 3 do
  local count = tonumber(ARGV[argument])
  local reply = how_held(first, count, ARGV[argument + 1])
  if reply == 'w' or reply == 'r' then
    local least, ttl = -1, tonumber(ARGV[argument + 2])
    for i = first, first + count - 1 do
      local at = reply == 'r' and KEYS[i + count] or KEYS[i]
      -- Looked at before it is moved: whoever may not look has changed nothing.
      local left = redis.call('PTTL', at)
      redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
      if reply == 'r' then
        redis.call('PEXPIRE', at, ttl, 'GT')
      end
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
  first = first + 2 * count
end
return replies
