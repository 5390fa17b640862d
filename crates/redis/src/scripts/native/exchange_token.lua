-- exchange_token: give a lease a fresh token and a larger fencing token: a new grant. Begins with
-- clock.lua, record.lua, crowd.lua and crowd_changes.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 from, 2 to: the tokens; 3 ttl_ms (8 digits), 4 retain_ms (decimal), 5 metadata
--       6 deadline_us, 7 floor (16 digits each, all 9 and all 0 for none), 8 ahead_us
--       9 the listener of the new holder, 16 hexadecimal digits, all 0 for none
--
-- Reply, one string: server time in us (16), then
--   g fence(16) stamp(16) ttl(8)            granted; the lease of the member that ends first
--   y flag(1) fence(16) last(16) waiting(8) stamp(16) ttl(8)
--                                           `to` has the lease already, nothing changed; waiting 0
--   s, d, a                                 refused: as in acquire.lua
--   n why                                   `from` does not hold it: see record.lua
--
-- Atomic: all of it; all keys are read and checked before the first write.

local from, to, ttl, retain = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local seen, failure = look_all(1, #KEYS, from)
if failure then
  return failure
end
local why = why_not_held(seen, 1, #KEYS, from)
if why and sub(why, 1, 1) == 'f' then
  return now .. 'n' .. why
end

local mine, known, highest = 0, false, none
for i = 1, #KEYS do
  local record = seen[i]
  if record then
    if record.fence > highest then
      highest = record.fence
    end
    if is_holder(record, to) then
      mine = mine + 1
    end
    known = known or is_used(record, to)
  end
end
if mine == #KEYS then
  return repeated(seen, highest, '00000000', to)
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
  if tonumber(highest) + 1 > largest then
    return now .. 'a'
  end
  fence = format('%016.0f', highest + 1)
end

local asked = clock + ttl * 1000
local first_end, first_lease
for i = 1, #KEYS do
  local record = seen[i]
  local share = record.crowd and crowds.share_of(record, from)
  local held = share or record
  if share then
    share.ends = asked > share.ends and asked or share.ends
    share.fence, record.fence = fence, fence
    crowds.rename(record, share, to)
    crowds.measure(record)
    crowds.keep(record, forget_time(share.ends, retain, fence))
    record.new = true
  else
    if asked > record.ends then
      record.lease, record.ends = now .. ttl, asked
    end
    record.token, record.flag, record.fence, record.first = to, '1', fence, fence
    record.forget, record.new = forget_time(record.ends, retain, fence), true
  end
  held.listener, held.metadata = ARGV[9], ARGV[5]
  held.marks = (held.marks == '1' or held.marks == '3') and '1' or '0'
  store(KEYS[i], record)
  if not first_end or held.ends < first_end then
    first_end, first_lease = held.ends, share and crowds.lease(record, share.ends) or record.lease
  end
end
return now .. 'g' .. fence .. first_lease
