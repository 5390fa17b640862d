-- permits (redisson permits): what all scripts of RPermitExpirableSemaphore and RSemaphore begin with. Not a
-- script of its own.
--
-- KEYS[n]      how many permits are free, decimal, without a ttl
-- KEYS[n + 1]  a sorted set: a permit is a member of 16 bytes, its score the end of its lease in ms. Of an
--              RSemaphore, which has no such thing, it has ours only

-- The server's clock: Redisson takes that of its clients.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The permits of one token: itself, and numbers counted on from its last four bytes.
local function permit(token, number)
  if number == 0 then
    return token
  end
  local a, b, c, d = string.byte(token, 13, 16)
  local last = (((a * 256 + b) * 256 + c) * 256 + d + number) % 4294967296
  return string.sub(token, 1, 12)
    .. string.char(math.floor(last / 16777216), math.floor(last / 65536) % 256, math.floor(last / 256) % 256, last % 256)
end

-- How many a token has, and when their lease ends.
local function permits_of(set, token)
  local count, ends = 0, nil
  local score = redis.call('ZSCORE', set, token)
  while score do
    count, ends = count + 1, ends or tonumber(score)
    score = redis.call('ZSCORE', set, permit(token, count))
  end
  return count, ends
end

-- `how` is 'p' on one server, 'c' on a cluster.
local function say(how, channel, free)
  local tell, tell_slot = 'PUBLISH', 'SPUBLISH'
  redis.pcall(tell, channel, free)
  if how == 'c' then
    redis.pcall(tell_slot, channel, free)
  end
end

-- Permits whose lease is over are free again, and that is told.
local function purge(key, set, now, how, channel)
  local over = redis.call('ZRANGEBYSCORE', set, 0, now, 'LIMIT', 0, 1000)
  if #over > 0 then
    redis.call('ZREM', set, unpack(over))
    say(how, channel, redis.call('INCRBY', key, #over))
  end
end

-- What is no semaphore: its type, or 'string' for one that is no number; an error; nothing where it is
-- one, or nothing is there.
local function not_permits(key, set)
  local value = redis.pcall('GET', key)
  local members = redis.pcall('ZCARD', set)
  for at, reply in pairs({ [key] = value, [set] = members }) do
    if type(reply) == 'table' then
      if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then
        return nil, reply
      end
      return redis.pcall('TYPE', at).ok or ''
    end
  end
  return value and not tonumber(value) and 'string' or nil
end

