-- Tried, not chosen: a hash, o nonce of the holder · x lease end us · f fencing token · b 1 if the nonce
-- wrote it · m metadata · l nonce of the last release. One name only.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

local nonce, retain = ARGV[1], ARGV[2]
local sub = string.sub

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local record = redis.call('HMGET', KEYS[1], 'o', 'x', 'f', 'l')
if record[1] ~= nonce then
  return now .. (record[4] == nonce and 'r' or record[1] and 't' or 'x')
end
if retain == '0' and record[3] < now then
  redis.call('DEL', KEYS[1])
else
  redis.call('HDEL', KEYS[1], 'o', 'x', 'm')
  redis.call('HSET', KEYS[1], 'l', nonce)
  redis.call('PEXPIRE', KEYS[1], retain)
end
return now .. (record[2] > now and 'r' or 'x')
