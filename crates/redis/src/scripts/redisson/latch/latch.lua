-- latch (redisson latch): what all scripts of RCountDownLatch begin with. Not a script of its own.
--
-- KEYS[n]      how many steps are missing, decimal, without a ttl; absent: it is open, or was never set up
-- KEYS[n + 1]  ours, a hash: a field for each step of ours, so that one which is sent twice counts once, and
--              `left`, how many were missing after the last of them. Its ttl is that of the last step

-- Steps that are missing, 0 where it is open; or its type where it is something else, 'string' for one that is no
-- number; or an error.
local function missing(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return nil, nil, value
    end
    return nil, redis.pcall('TYPE', key).ok or ''
  end
  if value and not tonumber(value) then
    return nil, 'string'
  end
  return math.max(tonumber(value or '0'), 0)
end

-- `how` is 'p' on one server, 'c' on a cluster; what is told is 0, it opened, or 1, it is shut.
local function say(how, channel, what)
  local tell, tell_slot = 'PUBLISH', 'SPUBLISH'
  redis.pcall(tell, channel, what)
  if how == 'c' then
    redis.pcall(tell_slot, channel, what)
  end
end

