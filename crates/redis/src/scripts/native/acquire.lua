-- acquire: take one name, or several all or nothing, for one token.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token     32 hexadecimal digits, fresh for every attempt, the same when it is sent again
--       2 life_ms   decimal: how long the key lives at least (ttl + retain, rounded up)
--       3 lease     ttl_ms, 8 digits, and straight behind it 0 to 1024 bytes of metadata
--       4 deadline  16 digits of server time in us: refused later than this; absent: never
--    and either no more, or all of
--       5 floor     16 digits: the highest fencing token that the caller knows, all 0 for none
--       6 proposed  16 digits: the fencing token that the caller proposes, all 0 for none
--       7 ahead_us  how far floor and proposed may run ahead of the server's clock
-- An argument and a new string cost the same here: each comes in the form in which it is stored.
--
-- The record of a name is a string (positions count from 1, numbers are zero padded decimals):
--   1-3 layout 'fl1', 4 kind 'm', 5 state 'h' held or 'f' free, 6-37 token of the holder or of the
--   last release, 38 '1' if that token wrote the fencing token else '0',
--   39-54 fencing token (all 0: none), and when held 55-70 stamp_us, 71-78 ttl_ms, 79- metadata.
--   A lease ends at stamp_us + 1000 * ttl_ms. Numbers of one width compare as strings; none is
--   ever made by `..` or tostring() from a Lua number, which keep 14 digits only.
--
-- Reply, one string: server time in us (16), a letter, and what belongs to it
--   g flag(1) fence(16)                          granted; flag '0': `proposed` was behind this
--   y flag(1) fence(16) stamp(16) ttl(8)         this token has the lease already, nothing changed;
--                                                flag '0': not every name has `fence` by this token
--   b index(4) fence(16) stamp(16) ttl(8) meta   KEYS[index] is held by another token
--   s   spent: this token had its lease, which was released or ended
--   d   the deadline has passed
--   a   floor or proposed is too far ahead of the clock, or the range is used up
--   f index(4) what                              KEYS[index] is foreign: see record.lua
--
-- Atomic: all of it. Everything is read and checked before the first write, so that a refusal, an
-- error and a re-sent request leave every key as it was.

local token, life, lease, deadline, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local none = '0000000000000000'

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local sub, format = string.sub, string.format

-- One name that nobody uses is the common case: taken by the very command that looks. Otherwise
-- the same command has read the record and written nothing.
local count = #KEYS
local first
if count == 1 and (not deadline or now <= deadline)
  and (not floor or floor < now and ARGV[6] == none) then
  local record = 'fl1mh' .. token .. '1' .. now .. now .. lease
  first = redis.pcall('SET', KEYS[1], record, 'NX', 'GET', 'PX', life)
  -- Nearly as common: another token gave it back, and its fencing token is behind the clock. All
  -- that is decided below comes to the same for it.
  local released = first and #first == 54 and sub(first, 1, 5) == 'fl1mf'
    and sub(first, 6, 37) ~= token and sub(first, 39) < now and tonumber(sub(first, 39))
  if released then
    redis.call('SET', KEYS[1], record, 'PX', life)
  end
  if released or not first then
    return now .. 'g1' .. now
  end
end

-- Only the table of an error has `err`; for a string it is nil.
local records = { first }
for i = 1, count do
  -- Out of memory refuses any SET, but a lock that is held must still be answered as held.
  if not first or first.err and sub(first.err, 1, 3) == 'OOM' then
    records[i] = redis.pcall('GET', KEYS[i])
  end
end

local clock = tonumber(now)
local highest, flag, fence = none, '1', none
local mine, known, busy = 0, false, nil
local first_end, first_lease
for i = 1, count do
  local record = records[i]
  if record then
    if record.err then
      if sub(record.err, 1, 9) ~= 'WRONGTYPE' then
        return record
      end
      local kind = redis.pcall('TYPE', KEYS[i])
      return now .. 'f' .. format('%04d', i) .. (kind.ok and 't' .. kind.ok or 'u')
    end
    local head, length = sub(record, 1, 5), #record
    local previous = sub(record, 39, 54)
    if head == 'fl1mh' and length >= 78 then
      local stamp, span = tonumber(sub(record, 55, 70)), tonumber(sub(record, 71, 78))
      if not stamp or not span or not tonumber(previous) then
        return now .. 'f' .. format('%04d', i) .. 'u'
      end
      local lease_end = stamp + span * 1000
      local live = lease_end > clock
      if sub(record, 6, 37) == token then
        known = true
        if live then
          mine = mine + 1
          if not first_end or lease_end < first_end then
            first_end, first_lease = lease_end, sub(record, 55, 78)
          end
          if sub(record, 38, 38) ~= '1' or mine > 1 and previous ~= highest then
            flag = '0'
          end
        end
      elseif live and not busy then
        busy = i
      end
    elseif sub(head, 1, 3) == 'fl1' and sub(head, 5) == 'f' and length >= 54
      and tonumber(previous) then
      -- Free, whatever kind it was: only its fencing token and its last token still count.
      known = known or sub(record, 6, 37) == token
    else
      local what = 's'
      if string.find(head, '^fl%d') and length >= 54 then
        what = sub(head, 3, 3) ~= '1' and 'v' .. sub(head, 3, 3)
          or sub(head, 4, 4) ~= 'm' and 'k' .. sub(head, 4, 4) or 'u'
      end
      return now .. 'f' .. format('%04d', i) .. what
    end
    if previous > highest then
      highest = previous
    end
  end
end

if mine == count then
  return now .. 'y' .. flag .. highest .. first_lease
end
-- A set that has lost a member is lost: the rest of it does not come back to the same token.
if known then
  return now .. 's'
end
if deadline and now > deadline then
  return now .. 'd'
end
if busy then
  local record = records[busy]
  return now .. 'b' .. format('%04d', busy) .. sub(record, 39)
end

local proposed = floor and ARGV[6] or none
if floor then
  local limit = clock + ARGV[7]
  if tonumber(floor) > limit or tonumber(proposed) > limit then
    return now .. 'a'
  end
  if floor > highest then
    highest = floor
  end
end
flag = '1'
if proposed ~= none then
  fence = proposed
  if proposed <= highest then
    flag, fence = '0', highest
  end
elseif now > highest then
  fence = now
else
  local number = tonumber(highest) + 1
  if number > 9007199254740991 then
    return now .. 'a'
  end
  fence = format('%016.0f', number)
end

for i = 1, count do
  local written = fence
  if flag == '0' then
    written = records[i] and sub(records[i], 39, 54) or none
    -- The floor is kept too: a copy of this request must hear the same number.
    if floor > written then
      written = floor
    end
  end
  -- A fencing token that runs ahead of the clock keeps its key until the clock has passed it.
  local lives = life
  if written > now then
    local ahead = math.ceil((written - now) / 1000) + 1
    if ahead > tonumber(life) then
      lives = format('%.0f', ahead)
    end
  end
  redis.call('SET', KEYS[i], 'fl1mh' .. token .. flag .. written .. now .. lease, 'PX', lives)
end
return now .. 'g' .. flag .. fence
