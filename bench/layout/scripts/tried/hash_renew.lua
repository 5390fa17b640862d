-- Tried, not chosen: a hash, o nonce of the holder · x lease end us · f fencing token · b 1 if the nonce
-- wrote it · m metadata · l nonce of the last release. One name only.
-- KEYS, ARGV and replies as in the script of the same verb one folder up, unless said otherwise.

local nonce, ttl, life = ARGV[1], ARGV[2], ARGV[3]
local sub, format = string.sub, string.format

local time = redis.call('TIME')
local now = format('%010d%06d', time[1], time[2])
local now_number, held = tonumber(now), 'fl1mh' .. nonce

if #nonce ~= 32 or #ttl ~= 8 then
  return redis.error_reply('ERR fencelock: malformed nonce or ttl')
end

local record = redis.call('HMGET', KEYS[1], 'o', 'x', 'f')
if record[1] ~= nonce or record[2] <= now then
  return now .. (record[1] == nonce and 'x' or 't') .. '0001'
end
local asked_end = format('%016.0f', now_number + ttl * 1000)
redis.call('PEXPIRE', KEYS[1], life, 'GT')
if asked_end > record[2] then
  redis.call('HSET', KEYS[1], 'x', asked_end)
end
return now .. 'k' .. record[3] .. asked_end
