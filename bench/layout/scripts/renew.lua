-- renew: prolong the lease of a nonce, for one name or for all names of a set.
--
-- KEYS  the keys of the names, sorted, none twice
-- ARGV  1 nonce    32 hexadecimal digits
--       2 ttl_ms   8 digits, zero padded: the lease ends no earlier than this from now
--       3 life_ms  decimal, no leading zero: max(ttl, retain), how long a key lives at least
--
-- The record is described in acquire.lua. A renewal never brings a lease back, never moves its end or
-- its key's expiry back, and keeps fencing token and metadata.
--
-- Reply, one string: server time in us (16 digits), one letter, and what belongs to the letter:
--   k token(16) stamp_us(16) ttl_ms(8)   kept: what the lease counts from and lasts now (of a set: the
--                                        member that ends first)
--   x index(4)                           KEYS[index] expired or was released: nothing changed
--   t index(4)                           KEYS[index] is held by another nonce: nothing changed
--   f index(4)                           KEYS[index] is not a record this script knows: nothing changed
--
-- Atomic: all of it. Every key is read and checked before the first write. Works when the server is
-- out of memory: PEXPIRE is allowed then, and after it SET.

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
  if sub(record, 1, 37) ~= held or #record < 78 then
    local answer = 'f'
    if sub(record, 1, 5) == 'fl1mh' and #record >= 78 then
      answer = 't'
    elseif #record >= 54 and string.find(record, '^fl1%lf') then
      answer = 'x'
    end
    return now .. answer .. format('%04d', i)
  end
  local lease_end = sub(record, 55, 70) + sub(record, 71, 78) * 1000
  if lease_end <= now_number then
    return now .. 'x' .. format('%04d', i)
  end
  local lease = sub(record, 39, 78)
  if lease_end < asked_end then
    lease_end, lease = asked_end, sub(record, 39, 54) .. now .. ttl
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
    redis.call('SET', KEYS[i], sub(record, 1, 54) .. now .. ttl .. sub(record, 79), 'KEEPTTL')
  end
end
return now .. 'k' .. first_lease
