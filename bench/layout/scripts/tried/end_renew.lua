-- Tried, not chosen: the record keeps the lease end as one number, 55-70 end_us · 71- metadata.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

local nonce, ttl, life = ARGV[1], ARGV[2], ARGV[3]
local sub, format = string.sub, string.format

local time = redis.call('TIME')
local now = format('%010d%06d', time[1], time[2])
local now_number, held = tonumber(now), 'fl1mh' .. nonce

if #nonce ~= 32 or #ttl ~= 8 then
  return redis.error_reply('ERR fencelock: malformed nonce or ttl')
end

local records = {}
local asked_end = now_number + ttl * 1000
local first_end, first_lease
local ends = {}
for i = 1, #KEYS do
  local record = redis.pcall('GET', KEYS[i])
  if type(record) == 'table' then
    if sub(record.err, 1, 9) ~= 'WRONGTYPE' then
      return record
    end
    record = ''
  end
  if not record then
    return now .. 'x' .. format('%04d', i)
  end
  if sub(record, 1, 37) ~= held or #record < 70 then
    local answer = 'f'
    if sub(record, 1, 5) == 'fl1mh' and #record >= 70 then
      answer = 't'
    elseif sub(record, 1, 3) == 'fl1' and sub(record, 5, 5) == 'f' then
      answer = 'x'
    end
    return now .. answer .. format('%04d', i)
  end
  local lease_end = tonumber(sub(record, 55, 70))
  if lease_end <= now_number then
    return now .. 'x' .. format('%04d', i)
  end
  local lease = sub(record, 39, 70)
  if lease_end < asked_end then
    lease_end, lease = asked_end, sub(record, 39, 54) .. format('%016.0f', asked_end)
    ends[i] = true
  end
  if not first_end or lease_end < first_end then
    first_end, first_lease = lease_end, lease
  end
  records[i] = record
end

for i = 1, #KEYS do
  redis.call('PEXPIRE', KEYS[i], life, 'GT')
  if ends[i] then
    local record = records[i]
    redis.call('SET', KEYS[i], sub(record, 1, 54) .. format('%016.0f', asked_end) .. sub(record, 71), 'KEEPTTL')
  end
end
return now .. 'k' .. first_lease
