-- exchange_token: give a lease a fresh token and a larger fencing token: a new grant. Begins with
-- record.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 from, 2 to: the tokens; 3 ttl_ms (8 digits), 4 retain_ms (decimal), 5 metadata
--       6 deadline_us, 7 floor (16 digits each, all 9 and all 0 for none), 8 ahead_us
--
-- Reply, one string: server time in us (16), then
--   g fence(16) stamp(16) ttl(8)            granted; the lease of the member that ends first
--   y flag(1) fence(16) stamp(16) ttl(8)    `to` has the lease already, nothing changed
--   s, d, a                                 refused: as in acquire.lua
--   n why                                   `from` does not hold it: see record.lua
--
-- Atomic: all of it; all keys are read and checked before the first write.

local from, to, ttl, retain = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local seen, failure = look_all(1, #KEYS)
if failure then
  return failure
end
local why = why_not_held(seen, 1, #KEYS, from)
if why and sub(why, 1, 1) == 'f' then
  return now .. 'n' .. why
end

local mine, known = 0, false
local highest, flag = none, '1'
local first_end, first_lease
for i = 1, #KEYS do
  local record = seen[i]
  if record then
    if record.token == to then
      known = true
      if record.live then
        mine = mine + 1
        if not first_end or record.ends < first_end then
          first_end, first_lease = record.ends, record.lease
        end
        if record.flag ~= '1' or mine > 1 and record.fence ~= highest then
          flag = '0'
        end
      end
    end
    if record.fence > highest then
      highest = record.fence
    end
  end
end
if mine == #KEYS then
  return now .. 'y' .. flag .. highest .. first_lease
end
if known then
  return now .. 's'
end
if now > ARGV[6] then
  return now .. 'd'
end
if why then
  return now .. 'n' .. why
end
if tonumber(ARGV[7]) > clock + ARGV[8] then
  return now .. 'a'
end
if ARGV[7] > highest then
  highest = ARGV[7]
end
local fence = now
if highest >= now then
  local number = tonumber(highest) + 1
  if number > 9007199254740991 then
    return now .. 'a'
  end
  fence = format('%016.0f', number)
end

local asked = clock + ttl * 1000
first_end, first_lease = nil, nil
for i = 1, #KEYS do
  local lease, ends = seen[i].lease, seen[i].ends
  if asked > ends then
    lease, ends = now .. ttl, asked
  end
  redis.call('SET', KEYS[i], 'fl1mh' .. to .. '1' .. fence .. lease .. ARGV[5],
    'PX', life(ends, retain, fence))
  if not first_end or ends < first_end then
    first_end, first_lease = ends, lease
  end
end
return now .. 'g' .. fence .. first_lease
