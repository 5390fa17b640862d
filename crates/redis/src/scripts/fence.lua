-- fence: what acquire and exchange_token begin with in formats that have a counter beside the lock, which is the
-- fencing token of whoever holds it: RFencedLock, redislock's FenceKey. Not a script of its own.

-- As large as a number of Lua can be and still be told from the next.
local LARGEST = 9007199254740991

-- The highest of the counters KEYS[first..]; 0 where there is none.
local function highest(first)
  local most = 0
  for i = first, #KEYS do
    most = math.max(most, tonumber(redis.call('GET', KEYS[i]) or '0') or LARGEST)
  end
  return most
end

local function digits(fence)
  return string.format('%.0f', fence)
end

-- Writes one fencing token to all counters.
local function write(first, fence)
  for i = first, #KEYS do
    redis.call('SET', KEYS[i], digits(fence))
  end
end

