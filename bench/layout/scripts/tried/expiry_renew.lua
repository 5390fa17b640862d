-- Tried, not chosen: the lease end is the key's own expiry minus a pad of
-- milliseconds in the record, 55-62 pad_ms · 63- metadata. ARGV[8] of acquire is the pad.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

local nonce, ttl, life = ARGV[1], ARGV[2], ARGV[3]
local sub, format = string.sub, string.format

local time = redis.call('TIME')
local now = format('%010d%06d', time[1], time[2])
local held = 'fl1mh' .. nonce

if #nonce ~= 32 or #ttl ~= 8 then
  return redis.error_reply('ERR fencelock: malformed nonce or ttl')
end

local pads, first_left = {}, nil
for i = 1, #KEYS do
  local record = redis.pcall('GET', KEYS[i])
  if not record then
    return now .. 'x' .. format('%04d', i)
  end
  if type(record) == 'table' or sub(record, 1, 37) ~= held or #record < 62 then
    return now .. 't' .. format('%04d', i)
  end
  local pad = sub(record, 55, 62)
  local left = redis.call('PTTL', KEYS[i]) - pad
  if left < 0 then
    return now .. 'x' .. format('%04d', i)
  end
  left = math.max(left, tonumber(ttl))
  first_left = math.min(first_left or left, left)
  pads[i] = pad
end
for i = 1, #KEYS do
  redis.call('PEXPIRE', KEYS[i], format('%.0f', ttl + pads[i]), 'GT')
end
return now .. 'k' .. format('%08d', first_left)
