-- place: a place in the line of a busy name, as acquire.lua and join.lua leave it for their caller.
-- Not a script of its own: needs line.lua.

local function is_full_memory(refusal)
  local text = type(refusal) == 'table' and refusal.err or tostring(refusal)
  return sub(text, 1, 3) == 'OOM'
end

-- Whether a string must not be made a hash now. That is to delete it first, and while its slot is on
-- the way to another server this one refuses whatever names a key that is not there: the rest of the
-- script, too, and what was there would be gone. It refuses this look then.
local function is_moving(channels)
  if sub(channels, 1, 1) ~= '2' then
    return false
  end
  local there = redis.pcall('GET', sub(channels, 2))
  return there and there.err ~= nil
end

-- A line for a key that has none. Nothing where it can't be made now: the slot is on its way, or
-- memory is full; and an error of the server as the second value.
local function open_line(key, record, channels)
  local crowd, shape = record.crowd, record.shape
  if shape == 'string' and is_moving(channels) then
    return nil
  end
  -- Of a string this can only fail, and says why: the type is another, full memory has no room for a
  -- line, or the right is missing. Then the other rights that making a hash of it takes.
  local done = redis.pcall('HSET', key, 'r', shape == 'hash' and record.raw or '')
  if type(done) == 'table' and sub(done.err, 1, 9) ~= 'WRONGTYPE' then
    if is_full_memory(done) then
      return nil
    end
    return nil, done
  end
  local expiry = ceil(record.ends / 1000)
  if shape then
    redis.call('PEXPIRE', key, 1, 'GT')
    local kept = redis.call('PEXPIRETIME', key)
    expiry = kept < 0 and expiry or kept
  else
    -- What was just made must not stay, should anything fail from here on. Not less: a server that is
    -- stopped for as long in between deletes it at once.
    done = redis.pcall('PEXPIRE', key, 10000)
    if type(done) == 'table' then
      redis.call('DEL', key)
      return nil, done
    end
  end
  return { head = 1, tail = 0, expiry = expiry, channels = channels, length = 0,
    inflated = shape ~= 'string', seen = {}, gone = crowd and crowd.gone or {}, ahead = 2 }
end

-- Leaves a place in the line of a key, or says that it is still wanted, and returns where it is;
-- nothing where memory is full. `asked` are the caller's token, lease, wish and floor; `bits` and
-- `mode` are as in line.lua, `reserve` has 4 digits.
local function leave_place(key, record, asked, bits, reserve, mode)
  local line, token, lease, wish = record.line, asked.token, asked.lease, asked.wish
  local was_empty = line.length == 0
  if not line.mine then
    line.tail, line.length = line.tail + 1, line.length + 1
    line.mine, line.is_longer = line.tail, true
  end
  line.span = tonumber(sub(wish, 9, 16))
  line.place = token .. now .. sub(wish, 9, 16) .. sub(wish, 1, 8) .. sub(wish, 17, 26) .. bits
    .. (asked.floor or none) .. reserve .. sub(lease, 9, 24) .. mode .. sub(lease, 26)
  line.seen[line.mine] = line.place
  local place = position(key, line, line.mine)
  local channels, listener, holder = line.channels, record.listener, record.token
  local stored, refusal = pcall(store, key, record)
  if not stored then
    if not is_full_memory(refusal) then
      error(refusal)
    end
    line.length = line.length - 1
    return nil
  end
  return place, was_empty and listener and function()
    -- The holder may be passing the lease around in its own process, since nobody waited.
    tell(channels, listener, 'w' .. holder)
  end
end

