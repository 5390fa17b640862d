-- Tried, not chosen: the record keeps the lease end as one number, 55-70 end_us · 71- metadata.
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

-- One name that nobody uses is the common case: taken by the very command that looks. Otherwise the
-- same command has read the record and written nothing. pcall, so that another type of key is an answer.
local records = {}
if #KEYS == 1 and token == now then
  records[1] = redis.pcall('SET', KEYS[1],
    'fl1mh' .. nonce .. '1' .. token .. format('%016.0f', now + ttl * 1000) .. ARGV[7], 'NX', 'GET', 'PX', life)
  local answer = records[1]
  if not answer then
    return now .. 'g' .. token
  end
  -- Out of memory refuses any SET, but a lock that is held must still be answered as what it is.
  if type(answer) == 'table' and sub(answer.err, 1, 3) == 'OOM' then
    records[1] = redis.pcall('GET', KEYS[1])
  end
else
  for i = 1, #KEYS do
    records[i] = redis.pcall('GET', KEYS[i])
  end
end

local mine, spent, first_end, first_lease = 0, false, nil, nil
for i = 1, #KEYS do
  local record = records[i]
  if record then
    if type(record) == 'table' then
      if sub(record.err, 1, 9) == 'WRONGTYPE' then
        return now .. 'f' .. format('%04d', i)
      end
      return record
    end
    local head = sub(record, 1, 5)
    if head == 'fl1mh' and #record >= 70 then
      local lease_end = tonumber(sub(record, 55, 70))
      if sub(record, 6, 37) ~= nonce then
        if lease_end > tonumber(now) then
          return now .. 'b' .. format('%04d', i) .. sub(record, 39)
        end
      elseif lease_end > tonumber(now) then
        mine = mine + 1
        if not first_end or lease_end < first_end then
          first_end, first_lease = lease_end, sub(record, 39, 70)
        end
      else
        spent = true
      end
    elseif sub(head, 1, 3) == 'fl1' and sub(head, 5) == 'f' and #record >= 54 then
      -- Free, whatever kind it was: only its fencing token and its last nonce still count.
      if sub(record, 6, 37) == nonce then
        spent = true
      end
    else
      return now .. 'f' .. format('%04d', i)
    end
    local previous = sub(record, 39, 54)
    if previous >= token then
      local number = tonumber(previous)
      if not number or number >= 9007199254740991 then
        return now .. 'f' .. format('%04d', i)
      end
      token = format('%016.0f', number + 1)
    end
  end
end

if mine == #KEYS then
  return now .. 'y' .. first_lease
end
-- A set that has lost a member is lost: the rest of it does not come back to the same nonce.
if spent or mine > 0 then
  return now .. 's'
end

-- A fencing token that runs ahead of the clock keeps its key until the clock has passed it.
if token > now then
  local until_token = math.ceil((token - now) / 1000) + 1
  if until_token > tonumber(life) then
    life = format('%.0f', until_token)
  end
end
local record = 'fl1mh' .. nonce .. '1' .. token .. format('%016.0f', now + ttl * 1000) .. ARGV[7]
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], record, 'PX', life)
end
return now .. 'g' .. token
