-- look (redisson permits): what inspect and force_release begin with. Not a script of its own.

-- Redisson's end of a lease that has none.
local NEVER = 922337203685477

-- What is at a name, five elements:
--   'e' '' 0 0 0            nobody holds a permit
--   'h' permit ms used limit  one that is held; when the last lease ends in ms, -1 never
--   'f' type 0 0 0          something else
local function look(key, set, now)
  local other, failed = not_permits(key, set)
  if failed then
    return failed
  end
  if other then
    return { 'f', other, 0, 0, 0 }
  end
  local used = redis.call('ZCOUNT', set, now + 1, '+inf')
  if used == 0 then
    return { 'e', '', 0, 0, 0 }
  end
  local last = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')
  local ends = tonumber(last[2])
  local over = redis.call('ZCARD', set) - used
  local free = tonumber(redis.call('GET', key) or '0')
  return { 'h', last[1], ends >= NEVER and -1 or ends - now, used, free + over + used }
end

