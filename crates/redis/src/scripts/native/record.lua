-- record: the part that all scripts but acquire and release begin with. Not a script of its own.
--
-- The record is described in acquire.lua. A foreign value is said as
--   s a string that is no record, t<type> another type, v<n> another layout version,
--   k<kind> a held record of another kind of lock, u something unreadable.
-- Why a token does not hold a name is said as
--   a no record   r this token was released   x its lease had ended
--   t another token was granted since   f<foreign> as above

local sub, format = string.sub, string.format
local none = '0000000000000000'

local time = redis.call('TIME')
local now = format('%010d%06d', time[1], time[2])
local clock = tonumber(now)

-- Reads a key. Returns a table, its field `foreign` set for what is not ours; nothing where
-- nothing is; and an error of the server as the second value.
local function look(key)
  local record = redis.pcall('GET', key)
  if not record then
    return nil
  end
  if type(record) == 'table' then
    if sub(record.err, 1, 9) ~= 'WRONGTYPE' then
      return nil, record
    end
    local kind = redis.pcall('TYPE', key)
    return { foreign = kind.ok and 't' .. kind.ok or 'u' }
  end
  local head, length = sub(record, 1, 5), #record
  local seen = { token = sub(record, 6, 37), flag = sub(record, 38, 38),
    fence = sub(record, 39, 54), live = false, free = true, raw = record }
  if head == 'fl1mh' and length >= 78 then
    local stamp, span = tonumber(sub(record, 55, 70)), tonumber(sub(record, 71, 78))
    if not stamp or not span or not tonumber(seen.fence) then
      return { foreign = 'u' }
    end
    seen.free = false
    seen.lease = sub(record, 55, 78)
    seen.ends = stamp + span * 1000
    seen.live = seen.ends > clock
    seen.metadata = sub(record, 79)
    return seen
  end
  if sub(head, 1, 3) == 'fl1' and sub(head, 5) == 'f' and length >= 54 and tonumber(seen.fence) then
    return seen
  end
  local what = 's'
  if string.find(head, '^fl%d') and length >= 54 then
    what = sub(head, 3, 3) ~= '1' and 'v' .. sub(head, 3, 3)
      or sub(head, 4, 4) ~= 'm' and 'k' .. sub(head, 4, 4) or 'u'
  end
  return { foreign = what }
end

-- Reads several keys: the records, or an error of the server as the second value.
local function look_all(from, to)
  local seen = {}
  for i = from, to do
    local record, failure = look(KEYS[i])
    if failure then
      return nil, failure
    end
    seen[i] = record or false
  end
  return seen
end

-- Why the token does not hold all of the keys; nothing when it does.
local function why_not_held(seen, from, to, token)
  for i = from, to do
    if seen[i] and seen[i].foreign then
      return 'f' .. seen[i].foreign
    end
  end
  for i = from, to do
    local record = seen[i]
    if not record then
      return 'a'
    end
    if not (record.live and record.token == token) then
      if record.token == token then
        return record.free and 'r' or 'x'
      end
      return 't'
    end
  end
end

-- How long, in ms, a key lives whose lease ends then: `retain` longer, and never shorter than
-- until the clock has passed its fencing token. 2 ms more than that, since the server counts
-- expiry in whole ms from an instant before it was asked for the time.
local function life(ends, retain, fence)
  local span = (ends > clock and ends - clock or 0) / 1000 + retain
  local ahead = (fence - clock) / 1000
  return format('%.0f', math.ceil(span > ahead and span or ahead) + 2)
end

-- Writes a record in place of another, also when memory is full: then a SET is refused, but not
-- a PEXPIRE, nor any write that follows one.
local function rewrite(key, record, lives)
  local done = redis.pcall('SET', key, record, 'PX', lives)
  if done.err then
    redis.call('PEXPIRE', key, lives)
    redis.call('SET', key, record, 'PX', lives)
  end
end

