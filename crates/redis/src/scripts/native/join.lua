-- join: take one name beside others, or wait in its line. Begins with never_rests.lua (or boot.lua and
-- rest.lua), clock.lua, record.lua, crowd.lua, crowd_changes.lua, line.lua and place.lua. Whoever takes
-- a name alone comes by acquire.lua.
--
-- KEYS  the key of the name. (Several are refused; they are looked at in the order of acquire.lua.)
-- ARGV  1 token, 2 retain_ms (decimal)
--       3 lease, 4 deadline, 5 wish, 6 floor: as in acquire.lua, but all of them are there
--       7 mode      how the lease lives beside others: see crowd.lua
--       8 ahead_us  how far floor may run ahead of the server's clock
--
-- Reply, one string: as in acquire.lua, and
--   c            the name has as many holders as it can have
--   i            so many can't be had: none, more than the limit, or more than there can be
--   o limit(10)  this limit is kept, and the mode names another
-- What is open holds nothing: its grant has the fencing token that the last step had.
-- When memory is full there is no new grant and no new place: where others hold the name, whoever
-- wanted one hears b.
--
-- Atomic: all of it. What was read is checked before the first write, so that a refusal, an error
-- and a re-sent request leave every key as it was, except that a lease which is over may have been
-- handed to the first in line, and that whoever waits for a latch or at a barrier makes the name one.

crowds = crowds or make_crowds()
local token, retain, lease, deadline, wish, floor =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local mode = crowds.mode(ARGV[7], 1)
local waiting_max = 10000
local key, limit = KEYS[1], clock + ARGV[8]
local wants_place, barging = sub(wish, 1, 8) ~= '00000000', sub(wish, 27, 27) == '1'

local seen, failure = look_all(1, #KEYS, token)
if failure then
  return failure
end
local mine, known = 0, false
for i = 1, #KEYS do
  local record = seen[i]
  if record and record.foreign then
    return now .. 'f' .. format('%04d', i) .. record.foreign
  end
  mine = mine + (is_holder(record, token) and 1 or 0)
  known = known or record and is_used(record, token)
end
local record = seen[1] or crowds.nobodys()
if mine == #KEYS then
  local highest, longest = none, 0
  for i = 1, #KEYS do
    highest = seen[i].fence > highest and seen[i].fence or highest
    longest = waiting(seen[i]) > longest and waiting(seen[i]) or longest
  end
  return repeated(seen, highest, format('%08d', longest), token)
end
for i = 1, #KEYS do
  local kind = other_kind(KEYS[i], seen[i], mode.kind)
  if kind then
    return now .. 'f' .. format('%04d', i) .. 'k' .. kind
  end
end
if known then
  return now .. 's'
elseif now > deadline then
  return now .. 'd'
elseif #KEYS > 1 then
  return now .. 'c'
elseif not crowds.is_possible(mode) then
  return now .. 'i'
end

local unreadable = now .. 'f0001u'

-- Writes what has changed and is not written. Nobody's record is a convenience: where memory has no
-- room for it, it does without.
local function settle()
  if record.new and record.changed and not record.line then
    redis.pcall('SET', key, crowds.written(record), 'PX', life(record.forget))
  elseif record.changed or record.line and record.line.changed then
    store(key, record)
  end
end

-- A holder, or that there is none.
local function whoever()
  if record.live and record.crowd then
    return crowds.who(record, false, record.crowd.first)
  elseif record.live then
    return who(record)
  elseif record.absent or not record.token then
    return format('%08d', waiting(record)) .. '0' .. none .. none .. none .. '000000008'
  elseif record.crowd then
    return crowds.who(record, false)
  end
  return format('%08d', waiting(record)) .. record.flag .. record.fence .. record.first
    .. '999999999999999999999999' .. (record.marks or '0') .. (record.metadata or '')
end

local function granted(fence, waiting_now)
  return now .. 'g1' .. fence .. fence .. format('%08d', waiting_now)
end

-- Adds the share of the caller to what is held.
local function admit(fence)
  crowds.add(record, mode, { token = token, ends = clock + sub(lease, 1, 8) * 1000, fence = fence,
    weight = mode.weight, listener = sub(lease, 9, 24), marks = sub(lease, 25, 25),
    metadata = sub(lease, 26) }, retain)
end

-- Writes a new grant, and says so with how many wait; where memory is full, that it is busy.
local function grant(fence, waiting_now)
  record.new = true
  local stored, refusal = pcall(store, key, record)
  if stored then
    return granted(fence, waiting_now)
  elseif not is_full_memory(refusal) then
    error(refusal)
  end
  record = look(key, token)
  if not record or record.foreign or not record.live then
    return type(refusal) == 'table' and refusal or redis.error_reply(refusal)
  end
  return now .. 'b0001' .. whoever()
end

-- The places of the other parties, in their order, if they are enough with the caller; false where a
-- place can't be read. Who has lapsed is no party, nor who waits for another kind of lock.
local function met()
  local line, needed = record.line, mode.limit - 1
  local there = line and line.length - (line.mine and 1 or 0) or 0
  if there < needed then
    return nil
  end
  local others, gaps, number = {}, 0, line and line.head or 1
  while line and #others < needed and number <= line.tail do
    local raw = raw_place(key, line, number)
    gaps = gaps + (raw and 0 or 1)
    if gaps > gaps_max then
      return nil
    end
    local place = raw and parse_place(raw, number)
    if raw and not place then
      return false
    elseif place and place.token ~= token and not place.is_lapsed and place.mode
      and place.mode.kind == mode.kind then
      others[#others + 1] = place
    end
    number = number + 1
  end
  return #others >= needed and others or nil
end

-- The last party has come: all go on, and what they have is given back by each.
local function meet(others, fence)
  for _, place in ipairs(others) do
    -- It has arrived, whether or not it hears of it.
    post(record.line, place.listener, 'g' .. place.token .. place.seen .. now .. place.claim .. fence
      .. fence .. '00000000')
    drop(record.line, place.number, place.token)
    crowds.add(record, mode, { token = place.token, ends = clock + place.claim * 1000, fence = fence,
      weight = 1, listener = place.listener, marks = '0', metadata = place.metadata },
      sub(place.raw, 65, 74))
  end
  local line = record.line
  if line and line.mine and not withdraw(key, line) then
    return unreadable
  end
  admit(fence)
  return grant(fence, 0)
end

local kept = crowds.other_limit(record, mode)
if kept then
  return now .. 'o' .. format('%010.0f', kept)
end
if not barging and record.line then
  record = pass_on(key, record, token)
  if not record then
    return unreadable
  end
  -- Somebody may have been granted it just now, behind a place that lapsed.
  local kind = other_kind(key, record, mode.kind)
  kept = not kind and crowds.other_limit(record, mode)
  if kind or kept then
    settle()
    return now .. (kind and 'f0001k' .. kind or 'o' .. format('%010.0f', kept))
  end
end
local line = record.line
if (mode.letter == 'e' or mode.letter == 'c') and crowds.is_full(record) then
  if line and line.mine and not withdraw(key, line) then
    return unreadable
  end
  settle()
  return granted(record.fence, 0)
end
local next_fence = tonumber(floor) <= limit and mint(record.fence, floor) or nil
if mode.letter == 'm' and next_fence then
  local others = met()
  if others == false then
    return unreadable
  elseif others then
    return meet(others, next_fence)
  end
end
if record.crowd and record.crowd.count >= crowds.most and not wants_place then
  settle()
  return now .. 'c'
end
local same = crowds.same_fence(record, mode)
local goes = crowds.fits(record, mode)
if goes and not same and mode.letter ~= 'c' and not barging and line then
  local place = first_place(key, line)
  if place == false then
    return unreadable
  end
  goes = not place or place.token == token or place.barging or place.is_lapsed
end

if not goes then
  if mode.letter == 'e' or mode.letter == 'm' then
    -- Nobody holds it yet: what waits here still makes the name what it is.
    crowds.gather(record, mode)
    crowds.keep(record, forget_time(record.ends, retain, record.fence))
  end
  if not wants_place then
    settle()
    return now .. 'b0001' .. whoever()
  elseif tonumber(floor) > limit then
    settle()
    return now .. 'a'
  elseif line and not line.mine and line.length >= waiting_max then
    settle()
    return now .. 'l'
  end
  if not line then
    line, failure = open_line(key, record, sub(wish, 32))
    if failure then
      return failure
    elseif not line then
      return now .. 'b0001' .. whoever()
    end
    record.line, record.new = line, nil
  end
  local asked = { token = token, lease = lease, wish = wish, floor = floor }
  local bits, reserve = 4 + (barging and 2 or 0), sub(wish, 28, 31)
  local place, tell_holder = leave_place(key, record, asked, bits, reserve, ARGV[7])
  if not place then
    return now .. 'b0001' .. whoever()
  end
  if tell_holder then
    tell_holder()
  end
  return now .. 'q0001' .. format('%08d', place) .. whoever()
end

local fence = same or next_fence
if not fence then
  settle()
  return now .. 'a'
end
-- What goes to others does not depend on whether there is room for the caller.
settle()
line = record.line
if record.shape == 'string' and is_moving(sub(wish, 32)) then
  return redis.error_reply('TRYAGAIN the key is about to move to another server')
end
if line and line.mine and not withdraw(key, line) then
  return unreadable
end
admit(fence)
-- Who was first may have kept others back that fit beside it; and a latch may be open now.
if line and not pass_on(key, record) then
  return unreadable
end
return grant(fence, waiting(record))
