-- release: give back every one of the names that the token still holds.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token      32 hexadecimal digits
--       2 retain_ms  decimal: how long fencing token and token are kept; '0': as short as is safe
--
-- The record is described in acquire.lua. After a release its first 54 bytes are kept, free.
--
-- Reply, one string: server time in us (16) and the worst letter over all names
--   h  held until now, or until an earlier copy of this request
--   x  it had ended or vanished; nobody was granted it since, as far as is known
--   t  another token was granted it since, or something foreign sits there
--
-- Atomic: all of it; every key is read before the first write. Works when memory is full.

local token, retain = ARGV[1], ARGV[2]
local sub = string.sub

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

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

local expired, taken = false, false
for i = 1, #KEYS do
  local record = records[i]
  local head = record and sub(record, 1, 5)
  if not record then
    expired = true
  elseif sub(record, 6, 37) == token and head == 'fl1mh' and #record >= 78 then
    local fence = sub(record, 39, 54)
    if sub(record, 55, 70) + sub(record, 71, 78) * 1000 <= tonumber(now) then
      -- It is free for everybody already, and a re-sent release must hear the same again.
      expired = true
    elseif retain == '0' and fence < now then
      redis.call('DEL', KEYS[i])
    else
      -- The key outlives `retain`, and the instant that equals its fencing token.
      local life = retain
      if fence >= now then
        local ahead = math.ceil((fence - now) / 1000) + 1
        if ahead > tonumber(life) then
          life = string.format('%.0f', ahead)
        end
      end
      local free = 'fl1mf' .. sub(record, 6, 54)
      local done = redis.pcall('SET', KEYS[i], free, 'PX', life)
      if done.err then
        -- Full memory refuses a SET, but not a PEXPIRE, nor any write that follows one.
        redis.call('PEXPIRE', KEYS[i], life)
        redis.call('SET', KEYS[i], free, 'PX', life)
      end
    end
  elseif sub(head, 1, 3) == 'fl1' and sub(head, 5) == 'f' and #record >= 54 then
    if sub(record, 6, 37) ~= token then
      taken = true
    end
  else
    taken = true
  end
end
return now .. (taken and 't' or expired and 'x' or 'h')
