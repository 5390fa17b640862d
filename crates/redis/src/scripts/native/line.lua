-- line: who waits for a name, and how its lease goes from one to the next. Not a script of its
-- own: needs record.lua, crowd.lua and crowd_changes.lua, and `resting`, set where nothing must be
-- granted. What is done here is written down in Rust in core/src/rules/line.rs.
--
-- The first who waits turns the key into a hash, the last who leaves turns it back:
--   r         the record
--   q         head(16) and tail(16): the numbers of the first and the last place; expiry(16): until
--             when, in ms, the record alone would be kept; a mark; what channels begin with. The
--             mark is '1' where PUBSUB NUMSUB counts all that listen, '0' where it does not, '2' on
--             a cluster: there channels are sharded, and a tag puts them into the slot of the key
--   w<n>      a place: 1-32 token, 33-48 seen_us, 49-56 live_ms, 57-64 claim_ms, 65-74 retain_ms,
--             75 bits: 1 a set of names, 2 barging, 4 a mode follows; 76-91 floor, 92-95 reserve,
--             96-111 listener, 112- the mode, where one follows (see crowd.lua), and metadata
--   i<token>  the number of the place of that token
-- So the length of the line is half of HLEN less 2 (and less what a crowd has there), and all that is
-- asked of a place is one look.
-- A place that is given up leaves a gap in the numbers.
--
-- A process is told on the channel <what channels begin with> <listener>, in a message of one or
-- more parts:
--   g token(32) seen(16) at(16) claim_ms(8) fence(16) last(16) waiting(8)  the lease is the waiter's
--   t token(32)                  the waiter should ask: its turn has come
--   n token(32) left_us(16)      the waiter is the next; the lease before it ends then
--   w token(32)                  somebody began to wait for the lease of this token
--   r token(32)                  somebody asked for the lease of this token back
-- It is sent when what it tells is written. A place whose channel nobody listens to is passed over
-- before anything is written or sent for it: a message goes to replicas, too, and whoever still
-- listens at one that was the primary would begin with a fencing token that the next gets as well.
-- That a command is denied says nothing about the waiter.

-- How many places whose waiters are gone, and how many gaps, one step passes over; the next step
-- goes on. A step must stay short.
local passed_max, gaps_max = 1000, 10000
-- The client writes `false` here for the server that a slot is on the way to: those who listen are
-- still at the old one, and a count of none means nothing.
local counts = true
-- Channels, and whether nobody listens to them.
local dead = {}

-- The string of a place, false for a gap. Reads ahead.
local function raw_place(key, line, number)
  if line.seen[number] == nil then
    local names = {}
    for n = number, math.min(number + line.ahead - 1, line.tail) do
      names[#names + 1] = 'w' .. format('%.0f', n)
    end
    line.ahead = 100
    local found = redis.call('HMGET', key, unpack(names))
    for i = 1, #names do
      -- What was given up in this step is still there until it is written.
      if line.seen[number + i - 1] == nil then
        line.seen[number + i - 1] = found[i]
      end
    end
  end
  return line.seen[number]
end

local function drop(line, number, token)
  local name = format('%.0f', number)
  line.gone[#line.gone + 1] = 'w' .. name
  line.gone[#line.gone + 1] = 'i' .. token
  line.seen[number] = false
  line.length = line.length - 1
  if line.mine == number then
    line.mine = nil
  end
  line.changed = true
end

-- Takes a place apart; false where it is none.
local function parse_place(raw, number)
  if #raw < 111 or not spans(raw, '^%d+', 33, 95) or not spans(raw, '^%x+', 1, 32)
    or not spans(raw, '^%x+', 96, 111) or not find(raw, '^[0-7]', 75) then
    return false
  end
  local bits, mode, after = tonumber(sub(raw, 75, 75)), nil, 112
  if bits >= 4 then
    crowds = crowds or make_crowds()
    mode, after = crowds.mode(raw, 112)
    if not mode then
      return false
    end
  end
  local claim, live = sub(raw, 57, 64), sub(raw, 49, 56)
  if mode and mode.letter == 'm' and claim < live then
    -- A party excludes nobody, and has to find its share whenever it asks next.
    claim = live
  end
  return { number = number, raw = raw, token = sub(raw, 1, 32), seen = sub(raw, 33, 48),
    is_lapsed = sub(raw, 33, 48) + live * 1000 < clock, claim = claim,
    is_set = bits % 2 == 1, barging = bits % 4 >= 2, listener = sub(raw, 96, 111), mode = mode,
    metadata = sub(raw, after) }
end

-- The first place; nothing where there is none, and false where what is there can't be read.
local function first_place(key, line)
  local gaps = 0
  while line.length > 0 do
    local number = line.head
    if number > line.tail then
      return false
    end
    local raw = raw_place(key, line, number)
    if raw then
      return parse_place(raw, number)
    end
    line.head, gaps = number + 1, gaps + 1
    line.changed = true
    if gaps > gaps_max then
      return nil
    end
  end
  return nil
end

-- Removes the place of the token that the key was read for. False where it can't be read.
local function withdraw(key, line)
  local number = line.mine
  local raw = raw_place(key, line, number)
  if not raw or #raw < 111 then
    return false
  end
  drop(line, number, sub(raw, 1, 32))
  -- Gaps at the end are no gaps.
  local steps = 0
  while number == line.tail and number > line.head and steps < 64 do
    number, steps = number - 1, steps + 1
    line.tail = number
    if raw_place(key, line, number) then
      break
    end
  end
  return true
end

-- How far a place is from the head: 1 is the first. Counted exactly where the gaps are few; else
-- places that were given up may be counted too.
local function position(key, line, number)
  local before = number - line.head
  local gaps = line.tail - line.head + 1 - line.length
  if gaps > 0 and before <= 100 then
    local there = 1
    for n = line.head, number - 1 do
      if raw_place(key, line, n) then
        there = there + 1
      end
    end
    return there
  end
  return math.min(before + 1, line.length)
end

-- Whether somebody may listen. False where certainly nobody does.
local function is_heard(channels, listener)
  local mark = sub(channels, 1, 1)
  if listener == none or mark ~= '1' and not (mark == '2' and counts) then
    return true
  end
  if dead[listener] == nil then
    local count = redis.pcall('PUBSUB', mark == '2' and 'SHARDNUMSUB' or 'NUMSUB', sub(channels, 2) .. listener)
    dead[listener] = not count.err and count[2] == 0
  end
  return not dead[listener]
end

-- Tells somebody something. False where certainly nobody listens.
local function tell(channels, listener, message)
  if listener == none then
    return true
  end
  if dead[listener] then
    return false
  end
  local mark = sub(channels, 1, 1)
  local heard = redis.pcall(mark == '2' and 'SPUBLISH' or 'PUBLISH', sub(channels, 2) .. listener,
    message)
  if heard == 0 and (mark == '1' or mark == '2' and counts) then
    dead[listener] = true
    return false
  end
  return true
end

-- Tells the first in line when the lease before it ends, so that it looks then.
local function announce(key, line, left)
  local place = first_place(key, line)
  if place and not place.is_lapsed then
    tell(line.channels, place.listener, 'n' .. place.token .. format('%016.0f', left))
  end
end

-- What is told as soon as it is written.
local function post(line, listener, message)
  line.post = line.post or {}
  line.post[#line.post + 1] = { listener, message }
end

-- Writes a key, and tells what was posted: several things to one process in one message.
local write = store
local function store(key, record)
  local line = record.line
  write(key, record)
  local posted = line and line.post or {}
  local i = 1
  while i <= #posted do
    local listener, parts = posted[i][1], {}
    while posted[i] and posted[i][1] == listener do
      parts[#parts + 1], i = posted[i][2], i + 1
    end
    tell(line.channels, listener, table.concat(parts))
  end
  if line then
    line.post = nil
  end
end

-- The next fencing token; nothing when the range is used up.
local function mint(highest, floor)
  highest = floor > highest and floor or highest
  if highest < now then
    return now
  end
  return tonumber(highest) + 1 <= largest and format('%016.0f', highest + 1) or nil
end

-- The kind of the lock that a name is at the moment, if it is another one: of whoever holds it, or
-- else of whoever waits for it.
local function other_kind(key, record, kind)
  local there
  if record and record.live then
    there = record.kind
  elseif record and record.line then
    local place = first_place(key, record.line)
    there = place and not place.is_lapsed and (place.mode and place.mode.kind or 'm')
  end
  return there and there ~= kind and there or nil
end

-- The record of a lease that is handed to a place, and what its waiter is told. Nothing when the
-- range of fencing tokens is used up.
local function handed(record, place)
  local line, raw = record.line, place.raw
  local new = { kind = 'm', state = 'h', token = place.token, flag = '1', lease = now .. place.claim,
    listener = place.listener, marks = '0', metadata = place.metadata, line = line,
    ends = clock + place.claim * 1000, live = true, free = false }
  if place.is_set then
    new.state, new.flag, new.first, new.fence = 'r', '0', none, record.fence
    new.message = 't' .. place.token
  else
    local reserve = tonumber(sub(raw, 92, 95))
    new.first = mint(record.fence, sub(raw, 76, 91))
    if not new.first or new.first + reserve > largest then
      return nil
    end
    new.fence = reserve == 0 and new.first or format('%016.0f', new.first + reserve)
    new.message = 'g' .. place.token .. place.seen .. now .. place.claim .. new.first .. new.fence
      .. format('%08d', line.length - 1)
  end
  new.forget = forget_time(new.ends, sub(raw, 65, 74), new.fence)
  return new
end

-- Hands a name to a place, alone. Returns its record; nothing, where nobody would hear of it, and
-- false where the range of fencing tokens is used up.
local function hand_alone(key, record, place)
  local line = record.line
  if not is_heard(line.channels, place.listener) then
    drop(line, place.number, place.token)
    return nil
  end
  local new = handed(record, place)
  if not new then
    return false
  end
  drop(line, place.number, place.token)
  local follower = first_place(key, line)
  local message, same = new.message, false
  if follower and not follower.is_lapsed and follower.listener == place.listener then
    message, same = message .. 'n' .. follower.token .. '00000' .. place.claim .. '000', true
  end
  post(line, place.listener, message)
  store(key, new)
  if new.line and not same then
    announce(key, line, place.claim * 1000)
  end
  return new
end

-- Hands a share to a place, beside those who have one. Whether it has it now; it is not written yet.
-- Nothing, and nothing was done, where the range of fencing tokens is used up.
local function hand_share(record, place)
  local line, mode, raw = record.line, place.mode, place.raw
  local fence = crowds.same_fence(record, mode) or mint(record.fence, sub(raw, 76, 91))
  if not fence then
    return nil
  end
  local heard = is_heard(line.channels, place.listener)
  if heard then
    post(line, place.listener, 'g' .. place.token .. place.seen .. now .. place.claim .. fence .. fence
      .. format('%08d', line.length - 1))
  end
  drop(line, place.number, place.token)
  if heard then
    crowds.add(record, mode, { token = place.token, ends = clock + place.claim * 1000, fence = fence,
      weight = mode.weight, listener = place.listener, marks = '0', metadata = place.metadata },
      sub(raw, 65, 74))
  end
  return heard
end

-- Hands a name that nobody holds to the first in its line, or shares of it to as many as there is
-- room for, but not to `keep`, who is about to be granted it anyway. Returns the record that is there
-- then, with `line.changed` set where it is not all written; nothing, and nothing was changed, where
-- the line can't be read.
local function pass_on(key, record, keep)
  local line = record.line
  if not line or resting or record.live and record.state ~= 's' then
    return record
  end
  local joined = false
  for _ = 1, passed_max do
    local place = first_place(key, line)
    if place == false then
      return nil
    elseif not place then
      return record
    end
    local mode = place.mode
    if place.is_lapsed then
      drop(line, place.number, place.token)
    elseif keep == place.token then
      return record
    elseif mode and (mode.letter == 'e' and crowds.fits(record, mode)
      or crowds.other_limit(record, mode)) then
      -- It is to ask: the latch is open, or what it waits for is not to be had any more.
      post(line, place.listener, 't' .. place.token)
      drop(line, place.number, place.token)
    elseif mode and not crowds.fits(record, mode) or not mode and record.live then
      if joined then
        local left = format('%016.0f', crowds.left_for(record, mode))
        post(line, place.listener, 'n' .. place.token .. left)
      end
      return record
    elseif place.barging then
      -- It does not insist: the lock stays free for whoever asks first.
      local heard
      if line.post then
        heard = is_heard(line.channels, place.listener)
        if heard then
          post(line, place.listener, 't' .. place.token)
        end
      else
        heard = tell(line.channels, place.listener, 't' .. place.token)
      end
      if heard then
        return record
      end
      drop(line, place.number, place.token)
    elseif mode then
      local handed_over = hand_share(record, place)
      if handed_over == nil then
        return record
      end
      joined = handed_over or joined
    else
      local new = hand_alone(key, record, place)
      if new == false then
        return record
      elseif new then
        return new
      end
    end
  end
  return record
end

