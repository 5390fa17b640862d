-- move (symfony): move the ends of leases later, never nearer; or nearer, never later. Begins with
-- members.lua.
--
-- KEYS  the names of all leases, one lease after the other
-- ARGV  1 'l' later, 'n' nearer; then for each lease: how many names it has, token, ttl_ms
--
-- Reply: a list, for each lease a number, the least (nearer: the most) time left in ms, or a string: 'a' it
-- is over, or nothing is known of it, 't' somebody else holds it, 'f' and the type of what is no sorted set,
-- 'e' and an error; nothing changed for this lease
--
-- Atomic: all of it. Of each lease all keys are read and checked before the first write.

local replies, now, first = {}, clock(), 1
for argument = 2, #ARGV, 3 do
  local to, token, ttl = first + ARGV[argument] - 1, ARGV[argument + 1], tonumber(ARGV[argument + 2])
  local why
  for i = first, to do
    local own, other, failed = ends(KEYS[i], token, now)
    if failed then
      why = 'e' .. failed.err
    elseif other then
      why = 'f' .. other
    elseif not own then
      why = why or (last(KEYS[i], now) and 't' or 'a')
    end
  end
  local reply = why
  if not why then
    for i = first, to do
      local own = ends(KEYS[i], token, now)
      local later = ARGV[1] == 'l'
      local moved = later and math.max(own, now + ttl) or math.min(own, now + ttl)
      redis.call('ZADD', KEYS[i], 'XX', moved, token)
      if ends(KEYS[i], WRITE, now) then
        redis.call('ZADD', KEYS[i], 'XX', moved, WRITE)
      end
      settle(KEYS[i], now)
      local left = moved - now
      reply = not reply and left or later and math.min(reply, left) or math.max(reply, left)
    end
  end
  replies[#replies + 1] = reply
  first = to + 1
end
return replies
