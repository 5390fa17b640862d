-- Tried, not chosen: the chosen layout with one argument for each value.
-- KEYS and replies nearly as in the script of the same verb one folder up.

-- ARGV  1 nonce        32 hexadecimal digits, new for every attempt, the same when a request is re-sent
--       2 ttl_ms       8 digits, zero padded: the lease asked for
--       3 life_ms      decimal, no leading zero: max(ttl, retain), how long a key lives at least
--       4 deadline_us  16 digits of server time: refused later than this ('9999999999999999': never)
--       5 floor        16 digits: the highest fencing token the caller knows ('0000000000000000': none)
--       6 ahead_us     decimal: how far `floor` may run ahead of the server's clock
--       7 metadata     0 to 1024 bytes
--
-- The record of a key, a string (positions count from 1, as in Lua):
--   1-3 layout 'fl1' · 4 kind 'm' · 5 state 'h' held, 'f' free · 6-37 nonce of the holder, or of the last
--   release · 38 '1' if that nonce wrote the fencing token, else '0' · 39-54 fencing token · and if held:
--   55-70 stamp_us, the server time the lease counts from · 71-78 ttl_ms · 79- metadata
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

local nonce, ttl, life, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local sub, format = string.sub, string.format

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or format('%010d%06d', seconds, micros)

if #nonce ~= 32 or #ttl ~= 8 then
  return redis.error_reply('ERR fencelock: malformed nonce or ttl')
end
if now > ARGV[4] then
  return now .. 'd'
end

local token = now
if floor >= now then
  if floor - now > tonumber(ARGV[6]) then
    return now .. 'a'
  end
  token = format('%016.0f', floor + 1)
end

-- One name that nobody uses is the common case: taken by the very command that looks. Otherwise the
-- same command has read the record and written nothing. pcall, so that another type of key is an answer.
local records = {}
if #KEYS == 1 and token == now then
  records[1] = redis.pcall('SET', KEYS[1],
    'fl1mh' .. nonce .. '1' .. token .. now .. ttl .. ARGV[7], 'NX', 'GET', 'PX', life)
  local answer = records[1]
  if not answer then
    return now .. 'g' .. token
  end
  -- Out of memory refuses any SET, but a lock that is held must still be answered as what it is.
  if type(answer) == 'table' and sub(answer.err, 1, 3) == 'OOM' then
    records[1] = redis.pcall('GET', KEYS[1])
  end
else
  for i = 1, #KEYS do
    records[i] = redis.pcall('GET', KEYS[i])
  end
end

local mine, spent, first_end, first_lease = 0, false, nil, nil
for i = 1, #KEYS do
  local record = records[i]
  if record then
    if type(record) == 'table' then
      if sub(record.err, 1, 9) == 'WRONGTYPE' then
        return now .. 'f' .. format('%04d', i)
      end
      return record
    end
    local head = sub(record, 1, 5)
    if head == 'fl1mh' and #record >= 78 then
      local lease_end = sub(record, 55, 70) + sub(record, 71, 78) * 1000
      if sub(record, 6, 37) ~= nonce then
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
    elseif sub(head, 1, 3) == 'fl1' and sub(head, 5) == 'f' and #record >= 54 then
      -- Free, whatever kind it was: only its fencing token and its last nonce still count.
      if sub(record, 6, 37) == nonce then
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
local record = 'fl1mh' .. nonce .. '1' .. token .. now .. ttl .. ARGV[7]
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], record, 'PX', life)
end
return now .. 'g' .. token
