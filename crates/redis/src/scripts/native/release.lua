-- release: give back every one of the names that the token still holds, and its places in their
-- lines. Begins with never_rests.lua (or boot.lua), give.lua, record.lua, crowd.lua,
-- crowd_changes.lua and line.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token      32 hexadecimal digits
--       2 retain_ms  decimal, + 2: how long fencing token and token are kept; '0': as short as is
--                    safe
--       3            anything, where a line is probable at the only key; else absent
--
-- The record is described in acquire.lua. After a release its first 54 bytes are kept, free; or the
-- lease belongs to the first in line.
--
-- Reply, one string: server time in us (16) and the worst letter over all names
--   w  it was not held yet: its place was given up
--   h  held until now, or until an earlier copy of this request
--   x  it had ended or vanished; nobody was granted it since, as far as is known
--   t  another token was granted it since, or something foreign sits there
--
-- Atomic: all of it; every key is read before the first write. Works when memory is full.

-- Tells the first in line when those before it are over sooner than they were: one of several gave its
-- lease back, and those of the others end before.
local function announce_nearer(key, record, before)
  local line = record.line
  if record.state ~= 's' or not line or before <= record.ends then
    return
  end
  local place = first_place(key, line)
  if place and not place.mode and not place.is_lapsed then
    post(line, place.listener, 'n' .. place.token .. format('%016.0f', record.ends - clock))
  end
end

local seen = {}
for i = 1, #KEYS do
  local record, failure = look(KEYS[i], token, raws[i], true)
  if failure then
    return failure
  end
  seen[i] = record or false
end

local keep = retain == '0' and 0 or retain - 2
local held, withdrawn, expired, taken, foreign = false, false, false, false, false
for i = 1, #KEYS do
  local record = seen[i]
  local left
  local before = record and record.ends or 0
  if record and record.crowd then
    left = crowds.leave(KEYS[i], record, token)
    if not left and not crowds.load(KEYS[i], record) then
      left = 'f'
    end
  end
  if not record then
    expired = true
  elseif record.foreign or left == 'f' then
    foreign = true
  elseif left then
    held, expired = held or left == 'h', expired or left == 'x'
  elseif record.line and record.line.mine and not withdraw(KEYS[i], record.line) then
    foreign = true
  else
    local line = record.line
    local changed = line and line.changed
    withdrawn = withdrawn or changed
    if is_reserved(record, token) then
      withdrawn, changed = true, true
      record.live, record.ends, record.lease = false, clock, now .. '00000000'
    elseif record.crowd and is_holder(record, token) then
      held, changed = true, true
      crowds.remove(record, token)
      crowds.spend(record.crowd, token)
      if record.free then
        record.forget = forget_time(clock, keep, record.fence)
      end
    elseif record.crowd then
      held = held or crowds.is_spent(record, token)
      expired = expired or not crowds.is_spent(record, token)
    elseif is_holder(record, token) then
      held, changed = true, true
      finish(record, 'f')
      record.forget = forget_time(clock, keep, record.fence)
    elseif record.absent or record.token == token and not record.free then
      expired = true
    elseif record.token ~= token then
      taken = true
    else
      held = true
    end
    local passed = pass_on(KEYS[i], record)
    if not passed then
      foreign = true
    elseif passed == record and (changed or line and line.changed) then
      announce_nearer(KEYS[i], record, before)
      store(KEYS[i], record)
    end
  end
end
-- A place beside a lease: that was healed, or given by exchange. What counts is that it was held.
local only_waited = withdrawn and (taken or expired or not held)
return now .. (foreign and 't' or only_waited and 'w' or taken and 't' or expired and 'x' or 'h')
