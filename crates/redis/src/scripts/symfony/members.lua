-- members (symfony): what all scripts begin with. Not a script of its own.
--
-- A sorted set of those who hold: a member is a token, its score the end of its lease in ms on the server's
-- clock; the member `__write__` says that there is one, and that it writes. The key ends with the last.

local WRITE = '__write__'

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- When a member's lease ends; nothing where it is over or was never there. Also the type of what is no
-- sorted set, and an error.
local function ends(key, member, now)
  local score = redis.pcall('ZSCORE', key, member)
  if type(score) == 'table' and score.err then
    if string.sub(score.err, 1, 9) ~= 'WRONGTYPE' then
      return nil, nil, score
    end
    return nil, redis.pcall('TYPE', key).ok or ''
  end
  score = tonumber(score or '0')
  return score > now and score or nil
end

-- Whether somebody's lease goes on, and until when.
local function last(key, now)
  local entry = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local score = tonumber(entry[2] or '0')
  return score > now and score or nil
end

-- Those whose lease is over go; the key ends with those who are left.
local function settle(key, now)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local until_ms = last(key, now)
  if until_ms then
    redis.call('PEXPIREAT', key, until_ms)
  end
end

