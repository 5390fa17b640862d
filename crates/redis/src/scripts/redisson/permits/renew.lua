-- renew (redisson permits): move the end of leases later, never nearer; or nearer, never later. Begins with
-- permits.lua.
--
-- KEYS  of each lease the name and its set
-- ARGV  1 'l' later, 'n' nearer; then for each lease: token, ttl_ms
--
-- Reply: a list, for each lease a number, the time left in ms, or a string: 'a' it is over, or nothing is
-- known of it, 'f' and what is there else, 'e' and an error
--
-- Atomic: all of it. Each lease is read and checked before it is changed.

local replies, now = {}, clock()
for lease = 1, #KEYS / 2 do
  local key, set = KEYS[2 * lease - 1], KEYS[2 * lease]
  local token, ttl = ARGV[2 * lease], tonumber(ARGV[2 * lease + 1])
  local other, failed = not_permits(key, set)
  if failed then
    replies[lease] = 'e' .. failed.err
  elseif other then
    replies[lease] = 'f' .. other
  else
    local count, ends = permits_of(set, token)
    if count == 0 or ends <= now then
      replies[lease] = 'a'
    else
      local moved = ARGV[1] == 'l' and math.max(ends, now + ttl) or math.min(ends, now + ttl)
      for number = 0, count - 1 do
        redis.call('ZADD', set, 'XX', moved, permit(token, number))
      end
      replies[lease] = moved - now
    end
  end
end
return replies
