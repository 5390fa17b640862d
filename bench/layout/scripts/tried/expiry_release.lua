-- Tried, not chosen: the lease end is the key's own expiry minus a pad of
-- milliseconds in the record, 55-62 pad_ms · 63- metadata. ARGV[8] of acquire is the pad.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

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
  elseif owner == held and #record >= 62 then
    local token, pad = sub(record, 39, 54), sub(record, 55, 62)
    answer = (pad == '00000000' or redis.call('PTTL', KEYS[i]) - pad >= 0) and 'r' or 'x'
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
