-- acquire: take one lock, or several all or nothing, for one nonce.
--
-- KEYS  the keys of the names, sorted, none twice
-- ARGV  1 nonce        32 hexadecimal digits, new for every attempt, the same when a request is re-sent
--       2 life_ms      decimal, no leading zero: max(ttl, retain), how long a key lives at least
--       3 lease        ttl_ms, 8 digits, zero padded, and straight behind it 0 to 1024 bytes of metadata
--       4 deadline_us  16 digits of server time: refused later than this; '' or absent: never
--       5 expect       '1' if a record is likely to be there (the caller retains), '' or absent if not: a
--                      hint which of two ways of looking is cheaper, without effect on the outcome
--       6 floor        16 digits: the highest fencing token the caller knows; absent: none
--       7 ahead_us     decimal, only with a floor: how far that may run ahead of the server's clock
-- An argument and a new string cost the same here, so each comes in the form in which it is stored, and
-- what is seldom needed comes last.
--
-- The record of a key, a string (positions count from 1, as in Lua):
--   1-3 layout 'fl1' · 4 kind 'm' · 5 state 'h' held, 'f' free · 6-37 nonce of the holder, or of the last
--   release · 38 '1' if that nonce wrote the fencing token, else '0' · 39-54 fencing token · 55-70
--   stamp_us, the server time the lease counts from · 71-78 ttl_ms · 79- metadata
-- A free record ends after 54, and 1-54 mean the same in every kind.
-- The lease ends at stamp_us + 1000 * ttl_ms. Numbers are zero padded decimals, so those of one width
-- compare as strings; none is ever made by `..` or tostring() from a Lua number (14 digits only).
--
-- Reply, one string: server time in us (16 digits), one letter, and what belongs to the letter:
--   g token(16)                                      granted now, for ttl_ms from the server time
--   y token(16) stamp_us(16) ttl_ms(8)               this nonce has the lease already; nothing changed
--   b index(4) token(16) stamp_us(16) ttl_ms(8) metadata   KEYS[index] is held by another nonce
--   s                                                spent: this nonce had its lease, and it is over
--   d                                                the deadline has passed
--   a                                                `floor` is too far ahead of the server's clock
--   f index(4)                                       KEYS[index] is not a record this script knows
--
-- Atomic: all of it. Everything is read and checked before the first write, so a refusal, an error and
-- a re-sent request leave every key as it was; on a grant every key gets the same fencing token.

local nonce, life, lease, deadline, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]

if #nonce ~= 32 or #lease < 8 or #lease > 1032 then
  return redis.error_reply('ERR fencelock: malformed nonce or lease')
end

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

if deadline and deadline ~= '' and now > deadline then
  return now .. 'd'
end

local token = now
if floor and floor >= now then
  if floor - now > tonumber(ARGV[7]) then
    return now .. 'a'
  end
  token = string.format('%016.0f', floor + 1)
end

-- One name without a record is taken by the very command that looks. If there is a record, the same
-- command has read it and written nothing. pcall, so that another type of key is an answer.
local first
if #KEYS == 1 and token == now and ARGV[5] ~= '1' then
  first = redis.pcall('SET', KEYS[1],
    'fl1mh' .. nonce .. '1' .. token .. now .. lease, 'NX', 'GET', 'PX', life)
  if not first then
    return now .. 'g' .. token
  end
end

local sub, find, format = string.sub, string.find, string.format
-- Only the table of an error has `err`; for a string it is nil.
local records = { first }
for i = 1, #KEYS do
  -- Out of memory refuses any SET, but a lock that is held must still be answered as what it is.
  if not first or first.err and sub(first.err, 1, 3) == 'OOM' then
    records[i] = redis.pcall('GET', KEYS[i])
  end
end

local mine, spent, first_end, first_lease = 0, false, nil, nil
for i = 1, #KEYS do
  local record = records[i]
  if record then
    if record.err then
      if sub(record.err, 1, 9) == 'WRONGTYPE' then
        return now .. 'f' .. format('%04d', i)
      end
      return record
    end
    local head = sub(record, 1, 5)
    if head == 'fl1mh' and #record >= 78 then
      local lease_end = sub(record, 55, 70) + sub(record, 71, 78) * 1000
      if find(record, nonce, 6, true) ~= 6 then
        if lease_end > tonumber(now) then
          return now .. 'b' .. format('%04d', i) .. sub(record, 39)
        end
      elseif lease_end > tonumber(now) then
        mine = mine + 1
        if not first_end or lease_end < first_end then
          first_end, first_lease = lease_end, sub(record, 39, 78)
        end
      else
        spent = true
      end
    elseif #record >= 54 and (head == 'fl1mf' or find(head, '^fl1%lf')) then
      -- Free, whatever kind it was: only its fencing token and its last nonce still count.
      if find(record, nonce, 6, true) == 6 then
        spent = true
      end
    else
      return now .. 'f' .. format('%04d', i)
    end
    local previous = sub(record, 39, 54)
    if previous >= token then
      local number = tonumber(previous)
      if not number or number >= 9007199254740991 then
        return now .. 'f' .. format('%04d', i)
      end
      token = format('%016.0f', number + 1)
    end
  end
end

if mine == #KEYS then
  return now .. 'y' .. first_lease
end
-- A set that has lost a member is lost: the rest of it does not come back to the same nonce.
if spent or mine > 0 then
  return now .. 's'
end

-- A fencing token that runs ahead of the clock keeps its key until the clock has passed it.
if token > now then
  local until_token = math.ceil((token - now) / 1000) + 1
  if until_token > tonumber(life) then
    life = format('%.0f', until_token)
  end
end
local record = 'fl1mh' .. nonce .. '1' .. token .. now .. lease
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], record, 'PX', life)
end
return now .. 'g' .. token
