-- release: give back every one of the names that the nonce still holds.
--
-- KEYS  the keys of the names, sorted, none twice
-- ARGV  1 nonce      32 hexadecimal digits
--       2 retain_ms  decimal: how long the fencing token and the nonce are kept; absent: as short as is
--                    safe, so the key goes now unless its fencing token is ahead of the clock
--
-- The record is described in acquire.lua.
--
-- Reply, one string: server time in us (16 digits), then for each key, in their order, one letter and
-- what belongs to it:
--   r token(16) stamp_us(16) ttl_ms(8)  released now; if that lease ended before the server time, it had
--                                       expired, but nobody else had taken the lock
--   a                                   already released by this nonce: the record is still kept
--   x                                   no lease is there: expired, or released and not kept
--   t                                   taken: another nonce has it; nothing changed
--   f                                   not a record this script knows; nothing changed
--
-- Atomic: all of it. Every key is read before the first write. Works when the server is out of memory:
-- DEL and PEXPIRE are allowed then, and after a PEXPIRE in the same script SET is too.

local nonce, retain = ARGV[1], ARGV[2]
local sub, find = string.sub, string.find

if #nonce ~= 32 then
  return redis.error_reply('ERR fencelock: malformed nonce')
end

-- Only the table of an error has `err`; for a string it is nil.
local records = {}
for i = 1, #KEYS do
  local record = redis.pcall('GET', KEYS[i])
  if record and record.err then
    if sub(record.err, 1, 9) ~= 'WRONGTYPE' then
      return record
    end
    record = ''
  end
  records[i] = record
end

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local held = 'fl1mh' .. nonce
local reply = now
for i = 1, #KEYS do
  local record = records[i]
  local owner = record and sub(record, 1, 37)
  if not record then
    reply = reply .. 'x'
  elseif owner == held and #record >= 78 then
    -- Begins with the fencing token, so it is less than `now` exactly if the fencing token is.
    local lease = sub(record, 39, 78)
    if lease < now and not retain then
      redis.call('DEL', KEYS[i])
    else
      -- The key outlives `retain`, and the instant that equals its fencing token.
      local life = retain or '1'
      if lease >= now then
        local until_token = math.ceil((sub(lease, 1, 16) - now) / 1000) + 1
        if until_token > tonumber(life) then
          life = string.format('%.0f', until_token)
        end
      end
      local free = 'fl1mf' .. sub(record, 6, 54)
      if redis.pcall('SET', KEYS[i], free, 'PX', life).err then
        redis.call('PEXPIRE', KEYS[i], life)
        redis.call('SET', KEYS[i], free, 'PX', life)
      end
    end
    reply = reply .. 'r' .. lease
  elseif owner == 'fl1mf' .. nonce then
    reply = reply .. 'a'
  elseif #record >= 54 and find(owner, '^fl1%lf') then
    reply = reply .. 'x'
  elseif #record >= 78 and find(owner, '^fl1mh') then
    reply = reply .. 't'
  else
    reply = reply .. 'f'
  end
end
return reply
