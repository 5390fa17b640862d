-- acquire: take one name, or several all or nothing, for one token alone; or wait in the line of the
-- first busy one. Begins with never_rests.lua (or boot.lua and rest.lua), take.lua, record.lua,
-- crowd.lua, crowd_changes.lua, line.lua and place.lua. Whoever shares a name comes by join.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token     32 hexadecimal digits, fresh for every attempt, the same when it is sent again
--       2 life_ms   decimal: how long the key lives at least (ttl + retain, rounded up, + 2)
--       3 lease     ttl_ms, 8 digits; the listener of the caller, 16 hexadecimal digits, all 0 for
--                   none; '2' if nobody will renew the lease, else '0'; and straight behind it 0 to
--                   1024 bytes of metadata
--       4 deadline  16 digits of server time in us: refused later than this; all 9 or absent: never
--       5 wish      absent, or 1-8 claim_ms, all 0: no place is wanted; 9-16 live_ms,
--                   17-26 retain_ms, 27 '1' if the line does not matter, '2' if it does and there
--                   probably is one, else '0'; 28-31 how many fencing tokens are reserved above
--                   the grant's own; 32 the mark of channels and 33- what they begin with: see
--                   line.lua
--    and either no more, or all of
--       6 floor     16 digits: the highest fencing token that the caller knows, all 0 for none
--       7 proposed  16 digits: the fencing token that the caller proposes, all 0 for none
--       8 ahead_us  how far floor and proposed may run ahead of the server's clock
-- An argument and a new string cost the same here: each comes in the form in which it is stored.
--
-- The record of a name is a string (positions count from 1, numbers are zero padded decimals):
--   1-3 layout 'fl2', 4 kind 'm', 5 state 'h' held, 'r' reserved for a set whose turn has come or
--   'f' free, 6-37 token of the holder or of the last release, 38 '1' if that token wrote the
--   fencing token else '0', 39-54 fencing token, the last of its range (all 0: none), and unless
--   free 55-70 the first of the range (all 0: no range), 71-86 stamp_us, 87-94 ttl_ms,
--   95-110 listener of the holder, 111 bits: 1 it was asked to give it back, 2 nobody renews;
--   112- metadata.
--   A lease ends at stamp_us + 1000 * ttl_ms. Numbers of one width compare as strings; none is
--   ever made by `..` or tostring() from a Lua number, which keep 14 digits only.
-- While somebody waits it is a field of a hash: see line.lua. Where several hold or held a name
-- together, the record is another: see crowd.lua.
--
-- Reply, one string: server time in us (16), a letter, and what belongs to it
--   g flag(1) fence(16)                      granted; flag '0': `proposed` was behind this
--     [last(16) waiting(8)]                  the last fencing token of the range; how many wait
--   y flag(1) fence(16) last(16) waiting(8) stamp(16) ttl(8)
--                                            this token has the lease already, nothing changed;
--                                            flag '0': not every name has `fence` by this token
--   b index(4) who                           KEYS[index] is held by another token: see record.lua
--   q index(4) position(8) who               the same, and this token has a place there
--   s   spent: this token had its lease, which was released or ended
--   d   the deadline has passed
--   a   floor or proposed is too far ahead of the clock, or the range is used up
--   l   the line has no room for another place
--   f index(4) what                          KEYS[index] is foreign: see record.lua
-- When memory is full there is no new grant and no new place: who wanted one hears b.
--
-- Atomic: all of it. What was read is checked before the first write, so that a refusal, an error
-- and a re-sent request leave every key as it was, except that a lease which is over may have been
-- handed to the first in line.

local seen, highest, longest = {}, none, 0
for i = 1, count do
  -- Out of memory refuses any SET, but a lock that is held must still be answered as held.
  local raw
  if i == 1 and taken and not (taken.err and sub(taken.err, 1, 3) == 'OOM') then
    raw = taken
  end
  local record, failure = look(KEYS[i], token, raw)
  if failure then
    return failure
  end
  seen[i] = record or false
  if record and not record.foreign then
    if record.fence > highest then
      highest = record.fence
    end
    if waiting(record) > longest then
      longest = waiting(record)
    end
  end
end

local known, mine = false, 0
for i = 1, count do
  local record = seen[i]
  if record and record.foreign then
    return now .. 'f' .. format('%04d', i) .. record.foreign
  end
  if is_holder(record, token) then
    mine = mine + 1
  end
  known = known or record and is_used(record, token)
end

if mine == count then
  return repeated(seen, highest, format('%08d', longest), token)
end
for i = 1, count do
  local kind = other_kind(KEYS[i], seen[i], 'm')
  if kind then
    return now .. 'f' .. format('%04d', i) .. 'k' .. kind
  end
end
-- A set that has lost a member is lost: the rest of it does not come back to the same token.
if known then
  return now .. 's'
end
if deadline and now > deadline then
  return now .. 'd'
end

-- Writes what passing on has changed and not written.
local function settle()
  for i = 1, count do
    local record = seen[i]
    if record and record.line and record.line.changed then
      store(KEYS[i], record)
    end
  end
end

if not wish or sub(wish, 27, 27) ~= '1' then
  for i = 1, count do
    local record = seen[i]
    if record and record.line then
      record = pass_on(KEYS[i], record, token)
      if not record then
        settle()
        return now .. 'f' .. format('%04d', i) .. 'u'
      end
      seen[i] = record
    end
  end
end

local busy
for i = count, 1, -1 do
  if seen[i] and seen[i].live and not is_reserved(seen[i], token) then
    busy = i
  end
end
local limit = floor and clock + ARGV[8]

if busy then
  local record = seen[busy]
  if not wish or sub(wish, 1, 8) == '00000000' then
    settle()
    return now .. 'b' .. format('%04d', busy) .. who(record)
  end
  if floor and tonumber(floor) > limit then
    settle()
    return now .. 'a'
  end
  local line = record.line
  if line and not line.mine and line.length >= waiting_max then
    settle()
    return now .. 'l'
  end
  if not line then
    local failure
    line, failure = open_line(KEYS[busy], record, sub(wish, 32))
    if failure then
      return failure
    elseif not line then
      return now .. 'b' .. format('%04d', busy) .. who(record)
    end
    record.line = line
  end
  -- A set that moves on to the line of another name holds nothing and waits nowhere else.
  for i = 1, count do
    local other = seen[i]
    if other and i ~= busy then
      local left = other.line and other.line.mine
      if left and not withdraw(KEYS[i], other.line) then
        return now .. 'f' .. format('%04d', i) .. 'u'
      end
      if is_reserved(other, token) then
        -- Free, and last used by nobody: the set will ask with the same token again.
        other.state, other.free, other.live, other.token = 'f', true, false, none .. none
        left = true
      end
      if left then
        -- It may have been the first in line of a name whose lease is over.
        local passed = pass_on(KEYS[i], other)
        if not passed then
          return now .. 'f' .. format('%04d', i) .. 'u'
        end
        seen[i] = passed
        if passed == other then
          store(KEYS[i], other)
        end
      end
    end
  end
  local bits = (count > 1 and 1 or 0) + (sub(wish, 27, 27) == '1' and 2 or 0)
  local asked = { token = token, lease = lease, wish = wish, floor = floor }
  local reserve = count > 1 and '0000' or sub(wish, 28, 31)
  local place, tell_holder = leave_place(KEYS[busy], record, asked, bits, reserve, '')
  if not place then
    return now .. 'b' .. format('%04d', busy) .. who(record)
  end
  settle()
  if tell_holder then
    tell_holder()
  end
  return now .. 'q' .. format('%04d%08d', busy, place) .. who(record)
end

proposed = floor and proposed or none
highest = none
for i = 1, count do
  if seen[i] and seen[i].fence > highest then
    highest = seen[i].fence
  end
end
if floor then
  if tonumber(floor) > limit or tonumber(proposed) > limit then
    settle()
    return now .. 'a'
  end
  if floor > highest then
    highest = floor
  end
end
local flag, fence, last = '1', now, none
if proposed ~= none then
  fence = proposed
  if proposed <= highest then
    flag, fence = '0', highest
  end
elseif now <= highest then
  if tonumber(highest) + 1 > largest then
    settle()
    return now .. 'a'
  end
  fence = format('%016.0f', highest + 1)
end
if flag == '1' then
  last = fence
  local reserve = wish and count == 1 and tonumber(sub(wish, 28, 31)) or 0
  if reserve > 0 then
    if fence + reserve > largest then
      settle()
      return now .. 'a'
    end
    last = format('%016.0f', fence + reserve)
  end
end

local ttl, ends = sub(lease, 1, 8), clock + sub(lease, 1, 8) * 1000
for i = 1, count do
  local old = seen[i]
  local line = old and old.line
  if line and line.mine and not withdraw(KEYS[i], line) then
    settle()
    return now .. 'f' .. format('%04d', i) .. 'u'
  end
end
longest = 0
for i = 1, count do
  local old = seen[i]
  local tokens = last
  if flag == '0' then
    tokens = old and old.fence or none
    -- The floor is kept too: a copy of this request must hear the same number.
    if floor and floor > tokens then
      tokens = floor
    end
  end
  local record = { kind = 'm', state = 'h', token = token, flag = flag, fence = tokens,
    first = flag == '1' and fence or none, lease = now .. ttl, listener = sub(lease, 9, 24),
    marks = sub(lease, 25, 25), metadata = sub(lease, 26), ends = ends, live = true,
    line = old and old.line, new = true }
  record.forget = forget_time(ends, life_ms - 2 - ttl, tokens)
  if waiting(record) > longest then
    longest = waiting(record)
  end
  store(KEYS[i], record)
end
return now .. 'g' .. flag .. fence .. last .. format('%08d', longest)
