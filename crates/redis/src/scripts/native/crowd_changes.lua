-- crowd_changes: what is done to those who hold one name together. Not a script of its own: needs
-- record.lua and crowd.lua, which see. Nothing is written before `store`.

local make_readers = make_crowds
make_crowds = function()
  local most, spent_most, limit_most = 1024, 32, 1000000
  local unpack, min, concat = unpack, math.min, table.concat
  local crowds = make_readers()
  local nobody, measure, share_of = crowds.nobody, crowds.measure, crowds.share_of
  crowds.most, crowds.limit_most = most, limit_most

  -- The fencing token that all holds of one owner have; nothing where there are none.
  function crowds.same_fence(record, mode)
    local crowd, highest = mode.letter == 'o' and record and record.crowd, none
    for _, share in ipairs(crowd and crowd.shares or {}) do
      highest = share.fence > highest and share.fence or highest
    end
    return highest ~= none and highest or nil
  end

  function crowds.is_full(record)
    local crowd = record.live and record.crowd
    return crowd and crowd.limit and crowd.used >= crowd.limit or false
  end

  -- Whether a lease of this mode has room beside what is held.
  function crowds.fits(record, mode)
    local live = record and record.live
    if mode.letter == 'e' then
      return live and record.kind == mode.kind and crowds.is_full(record) or false
    elseif mode.letter == 'm' or live and (record.state ~= 's' or record.kind ~= mode.kind) then
      return false
    elseif not live then
      return true
    end
    local crowd, letter = record.crowd, mode.letter
    if crowd.count >= most then
      return false
    elseif letter == 's' then
      return not crowd.owner
    elseif letter == 'o' then
      return crowd.owner == mode.owner
    elseif letter == 'p' then
      return crowd.used + mode.weight <= (crowd.limit or 0)
    end
    return true
  end

  -- Whether the numbers of a mode can be had at all.
  function crowds.is_possible(mode)
    local limit = mode.limit
    if not limit then
      return true
    elseif mode.letter == 'p' then
      return mode.weight >= 1 and mode.weight <= limit and limit <= limit_most
    end
    return limit >= 1 and limit <= most
  end

  -- The limit that is kept, where it is another than what a mode says.
  function crowds.other_limit(record, mode)
    local kept = record and record.kind == mode.kind and record.crowd and record.crowd.limit
    return kept and (mode.limit ~= kept or mode.weight > kept) and kept or nil
  end

  -- How long it takes at most until somebody who waits in this mode has reason to look, in us.
  function crowds.left_for(record, mode)
    local first = mode and record.crowd and record.crowd.first
    return (first or record.ends) - clock
  end

  -- Nobody's record of a key that is not there.
  function crowds.nobodys()
    return { state = 'f', fence = none, live = false, free = true, new = true }
  end

  -- Makes a record that nobody holds alone one of a crowd of this kind.
  function crowds.gather(record, mode)
    local old = record.crowd
    if record.kind ~= mode.kind or not old then
      record.crowd = { count = 0, limit = mode.limit, spent = {}, shares = {}, by = {}, used = 0,
        gone = old and old.gone or record.line and record.line.gone or {} }
    end
    record.kind, record.absent, record.changed = mode.kind, nil, true
    if record.state ~= 's' then
      record.state, record.free, record.live, record.ends = 'f', true, false, clock
    end
    record.token, record.flag, record.first = nobody, '0', none
    record.listener, record.marks, record.metadata = none, '0', ''
  end

  -- When the record may be forgotten: not before it may be already.
  function crowds.keep(record, forget)
    if record.forget then
      record.forget = record.forget > forget and record.forget or forget
    else
      record.forget, record.longer = forget, not record.new
    end
  end

  -- When the last share ends, or then, if that is later.
  function crowds.latest_end(record, ends)
    for _, share in ipairs(record.crowd.shares) do
      ends = share.ends > ends and share.ends or ends
    end
    return ends
  end

  -- The steps of a latch are forgotten together: none ends before then.
  function crowds.end_together(record, ends)
    for _, step in ipairs(record.crowd.shares) do
      if step.ends < ends then
        step.ends, step.changed = ends, true
      end
    end
  end

  -- Adds a share.
  function crowds.add(record, mode, share, retain)
    crowds.gather(record, mode)
    local crowd, is_step = record.crowd, mode.letter == 'c'
    if is_step then
      share.ends = crowds.latest_end(record, share.ends)
    end
    if crowd.by[share.token] then
      -- A token that was given a lease while it waited has one share all the same.
      crowds.remove(record, share.token)
    end
    if share.fence > record.fence then
      record.fence = share.fence
    end
    crowd.owner = mode.owner or crowd.owner
    if is_step then
      crowds.end_together(record, share.ends)
      crowd.first = share.ends
    end
    share.changed = true
    crowd.shares[#crowd.shares + 1], crowd.by[share.token] = share, share
    crowd.count, crowd.used = crowd.count + 1, crowd.used + share.weight
    crowd.first = crowd.first and crowd.first < share.ends and crowd.first or share.ends
    record.ends = record.live and record.ends > share.ends and record.ends or share.ends
    record.state, record.live, record.free = 's', true, false
    crowds.keep(record, forget_time(record.ends, retain, record.fence))
  end

  -- Removes the share of a token.
  function crowds.remove(record, token)
    local crowd = record.crowd
    for i, share in ipairs(crowd.shares) do
      if share.token == token then
        table.remove(crowd.shares, i)
        break
      end
    end
    crowd.by[token] = nil
    crowd.gone[#crowd.gone + 1] = 's' .. token
    if #crowd.shares == 0 then
      crowd.gone[#crowd.gone + 1] = 'm'
    end
    measure(record)
  end

  -- Removes all shares. The limit stays, and the tokens that were released.
  function crowds.clear(record)
    local crowd = record.crowd
    for _, share in ipairs(crowd.shares) do
      crowd.gone[#crowd.gone + 1] = 's' .. share.token
    end
    crowd.gone[#crowd.gone + 1] = 'm'
    crowd.shares, crowd.by = {}, {}
    measure(record)
  end

  -- Those whom a request to give the name back would reach, the latest last.
  function crowds.ask_back(record)
    local asked = {}
    for _, share in ipairs(record.crowd.shares) do
      if share.marks ~= '2' and share.marks ~= '3' then
        asked[#asked + 1] = share
      end
    end
    table.sort(asked, crowds.is_before)
    return asked
  end

  -- Notes that a token was released.
  local function spend(crowd, token)
    table.insert(crowd.spent, 1, token)
    crowd.spent[spent_most + 1] = nil
  end
  crowds.spend = spend

  -- Gives a share another token, in its place.
  function crowds.rename(record, share, to)
    local crowd = record.crowd
    crowd.gone[#crowd.gone + 1] = 's' .. share.token
    crowd.by[share.token], crowd.by[to] = nil, share
    share.token, share.changed = to, true
  end

  -- Makes the one who holds a name alone one of several who may.
  function crowds.share_alone(record)
    local share = { token = record.token, ends = record.ends, fence = own_fence(record), weight = 1,
      listener = record.listener, marks = record.marks, metadata = record.metadata, changed = true }
    record.state, record.token, record.kind = 's', nobody, 'm'
    record.flag, record.first, record.listener, record.marks, record.metadata = '0', none, none, '0', ''
    record.crowd = { spent = {}, shares = { share }, by = { [share.token] = share },
      gone = record.line and record.line.gone or {} }
    measure(record)
  end

  -- Writes fields, few at a time: what can be given to a call is limited.
  local function set_fields(key, fields)
    for from = 1, #fields, 1000 do
      redis.call('HSET', key, unpack(fields, from, min(from + 999, #fields)))
    end
  end

  -- Makes way for the fields of a crowd, before which nothing was written. A hash lives for `span`
  -- ms at least. Returns until when a string was kept, in ms.
  local function make_way(key, record, is_strict, span)
    local gone = record.crowd.gone
    if record.shape == 'hash' then
      if is_strict then
        -- Full memory refuses this, before anything is changed.
        redis.call('HSET', key, 'r', record.raw)
      end
      -- Harmless, allowed when memory is full, and so is every write after it.
      redis.call('PEXPIRE', key, span, 'GT')
      if #gone > 0 and not is_strict then
        -- That what is there is written again shows that it may be, before a part of it goes.
        redis.call('HSET', key, 'r', record.raw)
      end
      for i = 1, #gone, 1000 do
        redis.call('HDEL', key, unpack(gone, i, min(i + 999, #gone)))
      end
      return nil
    elseif record.shape then
      -- This can only fail, and says why: the type is another, memory is full, or the right is missing.
      local done = redis.pcall('HSET', key, 'r', '')
      local is_full = sub(done.err, 1, 3) == 'OOM'
      if is_full and is_strict or not is_full and sub(done.err, 1, 9) ~= 'WRONGTYPE' then
        error(done)
      end
      redis.call('PEXPIRE', key, 1, 'GT')
      local expiry = redis.call('PEXPIRETIME', key)
      redis.call('DEL', key)
      return expiry
    end
  end

  -- Writes a key that several hold, with its line if it has one. Works when memory is full, but for a
  -- new grant and a new place.
  function crowds.store(key, record)
    local crowd, line = record.crowd, record.line
    local raw, roster, fields = crowds.written(record), {}, {}
    for i, share in ipairs(crowd.shares) do
      roster[i] = share.token
      if share.changed then
        fields[#fields + 1], fields[#fields + 2] = 's' .. share.token, crowds.written_share(share)
        share.changed = nil
      end
    end
    local head = { 'r', raw, 'm', concat(roster) }
    local is_lined = line and line.length > 0
    if line then
      set_expiry(line, record)
      line.changed = false
    end
    if is_lined then
      head[5], head[6] = 'q', bounds_of(line)
      if line.place then
        local number = format('%.0f', line.mine)
        head[7], head[8], head[9], head[10] =
          'w' .. number, line.place, 'i' .. sub(line.place, 1, 32), number
      end
    elseif line then
      crowd.gone[#crowd.gone + 1] = 'q'
    end
    local shape, is_strict = record.shape, record.new or line and line.is_longer
    local span = is_lined and span_of(line) or not line and record.forget and life(record.forget)
    -- Whether the key has to live longer, if it does not anyway.
    local is_later = shape == 'hash' and span and (is_lined or record.longer)
    local kept = make_way(key, record, is_strict, is_later and span or '1')
    set_fields(key, head)
    set_fields(key, fields)
    if line and not is_lined then
      redis.call('PEXPIRE', key, format('%.0f', ceil(line.expiry - clock / 1000) + 2))
      record.line = nil
    elseif span and not is_later then
      local done = redis.pcall('PEXPIRE', key, span)
      if type(done) == 'table' then
        -- A key that was just made must not stay for ever.
        if not shape then
          redis.call('DEL', key)
        end
        error(done)
      end
    end
    if kept and not record.forget then
      redis.call('PEXPIRE', key, format('%.0f', ceil(kept - clock / 1000) + 1))
    elseif kept and record.longer then
      redis.call('PEXPIRE', key, format('%.0f', ceil(kept - clock / 1000) + 1), 'GT')
    end
    crowd.gone = {}
    if is_lined then
      line.inflated, line.is_longer, line.place, line.gone = true, false, nil, crowd.gone
    end
    record.raw, record.shape, record.new, record.changed = raw, 'hash', nil, nil
    record.forget, record.longer = nil, nil
  end

  -- Writes a share that was prolonged: alone, of a crowd that was read in part; of a latch, which was
  -- read whole, with all others.
  function crowds.prolong(key, record, share)
    local line = record.line
    if record.crowd.shares then
      share.changed = true
      crowds.end_together(record, share.ends)
      measure(record)
      return crowds.store(key, record)
    end
    local fields = { 's' .. share.token, crowds.written_share(share) }
    if share.ends > record.ends then
      record.ends = share.ends
      fields[3], fields[4] = 'r', crowds.written(record)
    end
    local expiry = ceil(record.forget / 1000)
    if line and expiry > line.expiry then
      line.expiry = expiry
      fields[#fields + 1], fields[#fields + 2] = 'q', bounds_of(line)
    end
    -- The expiry first: it is allowed when memory is full, and so is every write after it.
    redis.call('PEXPIRE', key, life(record.forget), 'GT')
    redis.call('HSET', key, unpack(fields))
  end

  -- Releases a share of a crowd that was read in part and that nobody waits for, where others hold it
  -- for longer. Returns what comes of it, 'f' for what can't be read; nothing where all is to be read.
  function crowds.leave(key, record, token)
    local crowd, share = record.crowd, share_of(record, token)
    if record.line then
      return nil
    elseif not share then
      return crowds.is_spent(record, token) and 'h' or 'x'
    elseif share.ends >= record.ends then
      return nil
    end
    local roster = redis.call('HMGET', key, 'm')[1] or ''
    local at = find(roster, token, 1, true)
    while at and at % 32 ~= 1 do
      at = find(roster, token, at + 1, true)
    end
    if not at or #roster ~= 32 * crowd.count then
      return 'f'
    end
    crowd.count = crowd.count - 1
    spend(crowd, token)
    -- Nothing, which is allowed when memory is full, and so is every write after it; and shows that
    -- fields may be removed.
    redis.call('HDEL', key, '-')
    redis.call('HSET', key, 'r', crowds.written(record), 'm',
      sub(roster, 1, at - 1) .. sub(roster, at + 32))
    redis.call('HDEL', key, 's' .. token)
    return 'h'
  end

  return crowds
end

