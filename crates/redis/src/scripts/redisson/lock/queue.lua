-- queue (redisson fair lock): what the scripts of RFairLock begin with. Not a script of its own.
--
-- KEYS  1 the name: a hash of its owner, 2 the list of who waits, the next one first, 3 a sorted set: until
--       when each is waited for, in ms

-- The server's clock: Redisson takes that of its clients.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whoever is at the head and did not come in time is passed over. The head, if there is one.
local function head(now)
  local first = redis.call('LINDEX', KEYS[2], 0)
  while first do
    local until_ms = tonumber(redis.call('ZSCORE', KEYS[3], first) or '0')
    if until_ms > now then
      return first, until_ms
    end
    redis.call('ZREM', KEYS[3], first)
    redis.call('LPOP', KEYS[2])
    first = redis.call('LINDEX', KEYS[2], 0)
  end
end

-- The next one is told on a channel of its own.
local function call_next(first, how, channel)
  local tell, tell_slot = 'PUBLISH', 'SPUBLISH'
  if first then
    redis.pcall(tell, channel .. ':' .. first, '0')
    if how == 'c' then
      redis.pcall(tell_slot, channel .. ':' .. first, '0')
    end
  end
end

