-- record: reads and writes what is at a key. Not a script of its own: it needs `now`, the server's
-- time as 16 digits, and crowd.lua behind it.
--
-- The record is described in acquire.lua, its line in line.lua, those who hold it together in
-- crowd.lua. A foreign value is said as
--   s a string that is no record, t<type> another type, v<n> another layout version,
--   k<kind> a held record of another kind of lock, u something unreadable.
-- Why a token does not hold a name is said as
--   a no record   r this token was released   x its lease had ended
--   t another token was granted since   f<foreign> as above
-- A holder is said as <who>
--   waiting(8) flag(1) fence(16) first(16) stamp(16) ttl(8) marks(1) metadata
-- and where several hold it, marks are 4 more, and before the metadata stands what crowd.lua says.
-- All 9 in stamp and ttl: no lease runs. Marks 8: nobody, and nothing is known of anybody.

local sub, find, format, ceil = string.sub, string.find, string.format, math.ceil
local none = '0000000000000000'
local largest = 9007199254740991
local clock = tonumber(now)
-- What is done for crowds, made when the first is met: most calls never meet one.
local crowds, make_crowds

-- Whether a run of one kind of characters covers these positions. An anchored run is by far the
-- cheapest that a pattern can be.
local function spans(text, run, from, to)
  local _, last = find(text, run, from)
  return last and last >= to
end

-- Takes a record apart; nothing where it is none.
local function parse(raw)
  local head, length = sub(raw, 1, 5), #raw
  if (head == 'fl2mh' or head == 'fl2mr') and length >= 111 then
    -- Anything else in a number, a token or a listener is nobody's.
    if not spans(raw, '^%d+', 38, 94) or not spans(raw, '^%x+', 6, 37)
      or not spans(raw, '^%x+', 95, 110) or not find(raw, '^[0-3]', 111) then
      return nil
    end
    local ends = tonumber(sub(raw, 71, 86)) + sub(raw, 87, 94) * 1000
    return { raw = raw, kind = 'm', state = sub(head, 5), token = sub(raw, 6, 37),
      flag = sub(raw, 38, 38), fence = sub(raw, 39, 54), first = sub(raw, 55, 70),
      lease = sub(raw, 71, 94),
      listener = sub(raw, 95, 110), marks = sub(raw, 111, 111), metadata = sub(raw, 112),
      ends = ends, live = ends > clock, free = false }
  end
  if length >= 92 and find(head, '^fl2[mslb][sf]') then
    crowds = crowds or make_crowds()
    local record = crowds.parse(raw)
    if record then
      return record
    end
  end
  -- Free, whatever kind it was: only its fencing token and its last token still count.
  if sub(head, 1, 3) == 'fl2' and sub(head, 5) == 'f' and length >= 54
    and spans(raw, '^%d+', 38, 54) then
    return { raw = raw, state = 'f', token = sub(raw, 6, 37), flag = sub(raw, 38, 38),
      fence = sub(raw, 39, 54), first = none, live = false, free = true }
  end
  return nil
end

-- What a string is that is no record of ours.
local function what_is(raw)
  local head = sub(raw, 1, 5)
  if not find(head, '^fl%d') or #raw < 54 then
    return 's'
  end
  return sub(head, 3, 3) ~= '2' and 'v' .. sub(head, 3, 3)
    or find(head, '^[mslb]', 4) and 'u' or 'k' .. sub(head, 4, 4)
end

-- The line of a key that somebody waits at; nothing where its parts do not fit each other. `others`
-- are the fields of the key that are neither the record nor of the line.
local function read_line(key, bounds, mine, others)
  if not bounds or not spans(bounds, '^%d+', 1, 49) then
    return nil
  end
  local line = { head = tonumber(sub(bounds, 1, 16)), tail = tonumber(sub(bounds, 17, 32)),
    expiry = tonumber(sub(bounds, 33, 48)), channels = sub(bounds, 49),
    length = (redis.call('HLEN', key) - 2 - others) / 2, inflated = true, seen = {}, gone = {},
    ahead = 2 }
  if mine then
    line.mine = spans(mine, '^%d+', 1, #mine) and tonumber(mine) or -1
  end
  local span = line.tail - line.head + 1
  if line.length % 1 ~= 0 or line.length < 0 or line.length > span or span > 1e15
    or line.mine and (line.mine < line.head or line.mine > line.tail) then
    return nil
  end
  return line
end

-- Reads a key, or takes what was read there. Returns a table, its field `foreign` set for what is
-- not ours, `absent` for a line whose record is forgotten; nothing where nothing is; and an error
-- of the server as the second value. `line.mine` is the number of the token's place. Of a crowd that
-- is read in part, only the share of the token is known.
local function look(key, token, raw, in_part)
  if raw == nil then
    raw = redis.pcall('GET', key)
  end
  if not raw then
    return nil
  end
  if type(raw) ~= 'table' then
    local record = parse(raw)
    if not record or record.state == 's' then
      return { foreign = what_is(raw) }
    end
    record.shape = 'string'
    return record
  end
  if sub(raw.err, 1, 9) ~= 'WRONGTYPE' then
    return nil, raw
  end
  local fields = redis.pcall('HMGET', key, 'r', 'q', 'i' .. token)
  if fields.err and sub(fields.err, 1, 9) ~= 'WRONGTYPE' then
    return nil, fields
  end
  local record = fields[1] and parse(fields[1])
  if not record then
    local kind = redis.pcall('TYPE', key)
    return { foreign = kind.ok and 't' .. kind.ok or 'u' }
  end
  record.shape = 'hash'
  if record.crowd then
    return crowds.look(key, record, token, fields[2], fields[3], in_part)
  end
  record.line = read_line(key, fields[2], fields[3], 0)
  if not record.line then
    return { foreign = 'u' }
  end
  if not record.live and record.line.expiry * 1000 < clock then
    return { raw = record.raw, line = record.line, absent = true, state = 'f', token = '',
      flag = '0', fence = none, first = none, live = false, free = true, shape = 'hash' }
  end
  return record
end

-- Reads several keys: the records, or an error of the server as the second value.
local function look_all(from, to, token, in_part)
  local seen = {}
  for i = from, to do
    local record, failure = look(KEYS[i], token, nil, in_part)
    if failure then
      return nil, failure
    end
    seen[i] = record or false
  end
  return seen
end

-- Whether the token has a running lease here.
local function is_holder(record, token)
  if record and record.crowd then
    return crowds.has(record, token)
  end
  return record and record.live and record.state == 'h' and record.token == token
end

-- Whether the name is kept for the token of a set.
local function is_reserved(record, token)
  return record and record.live and record.state == 'r' and record.token == token
end

-- Whether a request with this token can only be a late copy, where it does not hold the name.
local function is_used(record, token)
  if record.crowd then
    return crowds.is_spent(record, token) or crowds.has(record, token)
  end
  return record.token == token and not is_reserved(record, token)
end

-- Why the token does not hold all of the keys; nothing when it does.
local function why_not_held(seen, from, to, token)
  for i = from, to do
    if seen[i] and seen[i].foreign then
      return 'f' .. seen[i].foreign
    end
  end
  for i = from, to do
    local record = seen[i]
    if not record or record.absent then
      return 'a'
    end
    if not is_holder(record, token) then
      if record.crowd then
        -- That others hold it or held it says nothing of this one.
        return crowds.is_spent(record, token) and 'r' or 'x'
      elseif record.token == token then
        return record.free and 'r' or 'x'
      end
      return 't'
    end
  end
end

local function waiting(record)
  return record and record.line and record.line.length or 0
end

-- A holder, for a reply. Of several, with others of them or without.
local function who(record, others)
  if record.crowd then
    return crowds.who(record, others)
  end
  return format('%08d', waiting(record)) .. record.flag .. record.fence .. record.first
    .. record.lease .. record.marks .. record.metadata
end

-- The token of a holder, for whoever inspects: of several, that of the last grant.
local function proof(record)
  return record.crowd and crowds.latest(record).token or record.token
end

-- The fencing token of the grant itself, where a range goes with it: the first.
local function own_fence(record)
  return record.flag == '1' and record.first ~= none and record.first or record.fence
end

-- The reply to a copy of a request whose token has the lease of all keys already. Its fencing token
-- counts only where every key has it, by this token.
local function repeated(seen, highest, waiting_digits, token)
  if #seen == 1 and seen[1].crowd then
    return now .. 'y1' .. crowds.repeated(seen[1], token, waiting_digits)
  end
  local first_end, first_lease, own
  local flag = '1'
  for i = 1, #seen do
    local record = seen[i]
    if not first_end or record.ends < first_end then
      first_end, first_lease = record.ends, record.crowd and crowds.lease(record) or record.lease
    end
    if record.flag ~= '1' or record.fence ~= highest then
      flag = '0'
    end
    if not own and own_fence(record) ~= none then
      own = own_fence(record)
    end
  end
  local fence, last = highest, none
  if flag == '1' then
    fence, last = own or highest, highest
  end
  return now .. 'y' .. flag .. fence .. last .. waiting_digits .. first_lease
end

-- When a record may be forgotten whose lease ends then: `retain` ms later, and never before the
-- clock has passed its fencing token.
local function forget_time(ends, retain, fence)
  local used = (ends > clock and ends or clock) + retain * 1000
  local ahead = tonumber(fence)
  return used > ahead and used or ahead
end

-- In how many ms that is: 2 ms more, since the server counts expiry in whole ms from an instant
-- before it was asked for the time.
local function life(forget)
  return format('%.0f', ceil((forget - clock) / 1000) + 2)
end

-- Ends a lease.
local function finish(record, state)
  record.state, record.free, record.live, record.ends = state, state == 'f', false, clock
  record.first, record.lease, record.metadata = none, now .. '00000000', ''
  record.listener, record.marks = none, '0'
end

local function written(record)
  if record.absent then
    return record.raw
  elseif record.crowd then
    return crowds.written(record)
  end
  local head = 'fl2m' .. record.state .. record.token .. record.flag .. record.fence
  if record.state == 'f' then
    return head
  end
  return head .. record.first .. record.lease .. record.listener .. record.marks .. record.metadata
end

local function bounds_of(line)
  return format('%016.0f%016.0f%016.0f', line.head, line.tail, line.expiry) .. line.channels
end

-- When the record alone may be forgotten.
local function set_expiry(line, record)
  if record.forget then
    local expiry = ceil(record.forget / 1000)
    line.expiry = record.longer and line.expiry > expiry and line.expiry or expiry
  end
end

-- How long a key with a line lives, in ms: as long as its record, and as the place of the caller.
local function span_of(line)
  local span = line.expiry - clock / 1000
  if line.span and line.span > span then
    span = line.span
  end
  return format('%.0f', ceil(span > 0 and span or 0) + 2)
end

-- Writes a key with a line, or the last of it.
local function store_line(key, record)
  local line, raw = record.line, written(record)
  line.changed = false
  set_expiry(line, record)
  local span = span_of(line)
  if line.inflated and not line.is_longer then
    -- Harmless, allowed when memory is full, and so is every write after it.
    redis.call('PEXPIRE', key, span, 'GT')
  end
  if line.length == 0 then
    -- Nobody waits any more: a plain record again.
    line.inflated, line.gone = false, {}
    record.line, record.shape = nil, 'string'
    if record.crowd then
      record.crowd.gone = line.gone
    end
    if record.absent or not record.live and line.expiry * 1000 <= clock then
      redis.call('DEL', key)
      record.shape = nil
    else
      redis.call('SET', key, raw, 'PXAT', format('%.0f', line.expiry))
    end
    return
  end
  if line.crowded then
    -- That what is there is written again shows that it may be, before a part of it goes.
    redis.call('HSET', key, 'r', line.crowded)
    line.crowded = nil
  end
  -- A place that is lost is taken anew: so this comes before what gives it the lease.
  for i = 1, #line.gone, 1000 do
    redis.call('HDEL', key, unpack(line.gone, i, math.min(i + 999, #line.gone)))
  end
  local fields = { 'r', raw, 'q', bounds_of(line) }
  if line.place then
    local number = format('%.0f', line.mine)
    fields[5], fields[6], fields[7], fields[8] =
      'w' .. number, line.place, 'i' .. sub(line.place, 1, 32), number
  end
  if not line.inflated then
    redis.call('DEL', key)
  end
  redis.call('HSET', key, unpack(fields))
  if not line.inflated then
    redis.call('PEXPIRE', key, span)
  elseif line.is_longer then
    redis.call('PEXPIRE', key, span, 'GT')
  end
  line.inflated, line.is_longer, line.place, line.gone = true, false, nil, {}
  record.raw, record.shape = raw, 'hash'
  if record.crowd then
    record.crowd.gone = line.gone
  end
end

-- Writes a key. `record.forget` says when it may be forgotten, nothing: as before; `longer`: not
-- before it may be already. Works when memory is full, but for what is `new`.
local function store(key, record)
  if record.crowd and record.crowd.count > 0 then
    return crowds.store(key, record)
  elseif record.line then
    return store_line(key, record)
  end
  local raw = written(record)
  if not record.forget then
    return redis.call('SET', key, raw, 'KEEPTTL')
  end
  local lives = life(record.forget)
  if record.longer then
    -- The expiry first: it is allowed when memory is full, and so is every write after it.
    redis.call('PEXPIRE', key, lives, 'GT')
    if raw ~= record.raw then
      redis.call('SET', key, raw, 'KEEPTTL')
    end
  elseif not record.live and record.forget <= clock and record.fence < now then
    redis.call('DEL', key)
    record.shape = nil
  elseif record.new then
    redis.call('SET', key, raw, 'PX', lives)
  else
    -- Full memory refuses a SET, but not a PEXPIRE, nor any write that follows one.
    local done = redis.pcall('SET', key, raw, 'PX', lives)
    if done.err then
      redis.call('PEXPIRE', key, lives)
      redis.call('SET', key, raw, 'PX', lives)
    end
  end
end

