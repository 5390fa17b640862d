-- Tried, not chosen: the chosen layout with one argument for each value.
-- KEYS and replies nearly as in the script of the same verb one folder up.

-- ARGV  1 nonce      32 hexadecimal digits
--       2 retain_ms  decimal: how long the fencing token and the nonce are kept; '0': as short as is safe
--
-- The record is described in acquire.lua. What is kept after a release is its first 54 bytes, free.
--
-- Reply, one string: server time in us (16 digits), then one letter for each key, in their order:
--   r  released: by this call, or by an earlier one whose record is still kept
--   x  expired: it was this nonce's, but the lease had ended (freed all the same); or no lease is there
--   t  taken: another nonce has it; nothing changed
--   f  not a record this script knows; nothing changed
--
-- Atomic: all of it. Every key is read before the first write. Works when the server is out of memory.

local nonce, retain = ARGV[1], ARGV[2]
local sub = string.sub

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local held, freed = 'fl1mh' .. nonce, 'fl1mf' .. nonce

local records = {}
for i = 1, #KEYS do
  local record = redis.pcall('GET', KEYS[i])
  if type(record) == 'table' then
    if sub(record.err, 1, 9) ~= 'WRONGTYPE' then
      return record
    end
    record = ''
  end
  records[i] = record
end

local reply = now
for i = 1, #KEYS do
  local record = records[i]
  local owner = record and sub(record, 1, 37)
  local answer = 'f'
  if not record then
    answer = 'x'
  elseif owner == held and #record >= 78 then
    local token = sub(record, 39, 54)
    if token < now and retain == '0' then
      redis.call('DEL', KEYS[i])
    else
      -- The key outlives `retain`, and the instant that equals its fencing token.
      local life = retain
      if token >= now then
        local until_token = math.ceil((token - now) / 1000) + 1
        if until_token > tonumber(life) then
          life = string.format('%.0f', until_token)
        end
      end
      local free = freed .. sub(record, 38, 54)
      local done = redis.pcall('SET', KEYS[i], free, 'PX', life)
      if done.err then
        -- Out of memory refuses a SET, but not a PEXPIRE, nor any write that follows one.
        redis.call('PEXPIRE', KEYS[i], life)
        redis.call('SET', KEYS[i], free, 'PX', life)
      end
    end
    local lease_end = sub(record, 55, 70) + sub(record, 71, 78) * 1000
    answer = lease_end > tonumber(now) and 'r' or 'x'
  elseif owner == freed then
    answer = 'r'
  elseif sub(record, 1, 5) == 'fl1mh' then
    answer = 't'
  elseif sub(record, 1, 3) == 'fl1' and sub(record, 5, 5) == 'f' then
    answer = 'x'
  end
  reply = reply .. answer
end
return reply
