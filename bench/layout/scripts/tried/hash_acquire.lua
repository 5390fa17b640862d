-- Tried, not chosen: a hash, o nonce of the holder · x lease end us · f fencing token · b 1 if the nonce
-- wrote it · m metadata · l nonce of the last release. One name only.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

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

local record = redis.call('HMGET', KEYS[1], 'o', 'x', 'f', 'l', 'm')
local owner, lease_end = record[1], record[2]
if record[4] == nonce then
  return now .. 's'
end
if owner then
  if lease_end > now then
    if owner == nonce then
      return now .. 'y' .. record[3] .. lease_end
    end
    return now .. 'b' .. '0001' .. record[3] .. lease_end .. record[5]
  elseif owner == nonce then
    return now .. 's'
  end
end
local previous = record[3]
if previous and previous >= token then
  token = format('%016.0f', previous + 1)
end
redis.call('HSET', KEYS[1], 'o', nonce, 'x', format('%016.0f', now + ttl * 1000), 'f', token,
  'b', '1', 'm', ARGV[7])
redis.call('PEXPIRE', KEYS[1], life)
return now .. 'g' .. token
