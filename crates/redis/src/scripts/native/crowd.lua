-- crowd: those who hold one name together. Not a script of its own: needs record.lua. What is done
-- here is written down in Rust in core/src/rules/crowd.rs and hold.rs.
--
-- The key is a hash, beside whose line (line.lua) there are
--   r         the record: 1-3 layout 'fl2'; 4 kind: 'm' lock, 's' semaphore, 'l' latch, 'b' barrier;
--             5 's' shared; 6-38 all 0; 39-54 the highest fencing token; 55-62 how many shares there
--             are; 63-72 the limit, all 0 for a lock; 73-88 when the last share ends; 89-90 how many
--             bytes the owner has; 91-92 how many tokens were spent; 93- these, the latest first; and
--             behind them the owner
--   m         the tokens of all shares, in the order of the grants
--   s<token>  a share: 1-16 its end, 17-32 its fencing token (all 0: none), 33-42 its weight, 43-58 its
--             listener, 59 marks as in acquire.lua, 60- metadata
-- A share whose end has passed is none, and is removed by the next who writes the crowd. When the
-- last one goes, the record stays with state 'f': a string, or the field of a line. A record of a
-- crowd that is free begins with what every free record has, so whoever knows no crowds takes it.
--
-- A mode is written as
--   letter(1): s shared, o owned, p permits, c a step of a latch, e waits for a latch to
--   open, m meets at a barrier; weight(10) limit(10) bytes of the owner(2) owner
-- A holder (record.lua: <who>) has before its metadata
--   kind(1) holders(8) used(10) limit(10) bytes of the owner(2) owner, how many others follow(2),
--   and of each token(32) end(16) fence(16) marks(1) bytes of metadata(4) metadata
-- The first of them is the latest: with the highest fencing token, and then the highest token.

make_crowds = function()
  local spent_most, others_max = 32, 15
  local unpack, min, concat, byte = unpack, math.min, table.concat, string.byte
  local nobody = none .. none
  local crowds = {}
  local kinds = { s = 'm', o = 'm', p = 's', c = 'l', e = 'l', m = 'b' }

  local function instant(micros)
    return format('%016.0f', micros)
  end

  local function ten(number)
    return format('%010.0f', number)
  end

  -- Reads a mode that begins there, and says where it ends; nothing where it is none.
  function crowds.mode(text, from)
    local letter = sub(text, from, from)
    local kind = kinds[letter]
    if not kind or not spans(text, '^%d+', from + 1, from + 22) then
      return nil
    end
    local length = tonumber(sub(text, from + 21, from + 22))
    local after = from + 23 + length
    if #text < after - 1 or (letter == 'o') ~= (length > 0) then
      return nil
    end
    return { letter = letter, kind = kind, weight = tonumber(sub(text, from + 1, from + 10)),
      limit = kind ~= 'm' and tonumber(sub(text, from + 11, from + 20)) or nil,
      owner = length > 0 and sub(text, from + 23, after - 1) or nil }, after
  end

  -- Takes the record of a crowd apart; nothing where it is none.
  function crowds.parse(raw)
    if not spans(raw, '^%d+', 38, 92) or not spans(raw, '^%x+', 6, 37) then
      return nil
    end
    local kind, state, count = sub(raw, 4, 4), sub(raw, 5, 5), tonumber(sub(raw, 55, 62))
    local length, spent_count = tonumber(sub(raw, 89, 90)), tonumber(sub(raw, 91, 92))
    local behind = 93 + 32 * spent_count
    if #raw ~= behind + length - 1 or spent_count > spent_most or (state == 's') ~= (count > 0)
      or spent_count > 0 and not spans(raw, '^%x+', 93, behind - 1) then
      return nil
    end
    local spent = {}
    for i = 1, spent_count do
      spent[i] = sub(raw, 61 + 32 * i, 92 + 32 * i)
    end
    local ends = tonumber(sub(raw, 73, 88))
    local limit = tonumber(sub(raw, 63, 72))
    local is_empty = count == 0
    return { raw = raw, kind = kind, state = state, token = nobody, flag = '0',
      fence = sub(raw, 39, 54), first = none, listener = none, marks = '0', metadata = '',
      ends = ends, live = state == 's' and ends > clock, free = state == 'f',
      crowd = { count = count, limit = kind ~= 'm' and limit or nil, spent = spent, gone = {},
        shares = is_empty and {} or nil, by = is_empty and {} or nil, used = is_empty and 0 or nil,
        owner = length > 0 and sub(raw, behind) or nil } }
  end

  local function parse_share(token, text)
    local marks = text and byte(text, 59)
    if not marks or marks < 48 or marks > 51 or not spans(text, '^%d+', 1, 42)
      or not spans(text, '^%x+', 43, 58) then
      return nil
    end
    return { token = token, ends = tonumber(sub(text, 1, 16)), fence = sub(text, 17, 32),
      weight = tonumber(sub(text, 33, 42)), listener = sub(text, 43, 58), marks = sub(text, 59, 59),
      metadata = sub(text, 60) }
  end

  function crowds.written_share(share)
    return instant(share.ends) .. share.fence .. ten(share.weight) .. share.listener .. share.marks
      .. share.metadata
  end

  -- Says of the record what its shares say. Without any the name is free.
  local function measure(record)
    local crowd = record.crowd
    local used, ends, first = 0, 0, nil
    for _, share in ipairs(crowd.shares) do
      used = used + share.weight
      ends = share.ends > ends and share.ends or ends
      first = first and first < share.ends and first or share.ends
    end
    crowd.used, crowd.count, crowd.first = used, #crowd.shares, first
    if crowd.count > 0 then
      record.state, record.live, record.free, record.ends = 's', true, false, ends
    elseif record.state == 's' then
      record.state, record.live, record.free, crowd.owner = 'f', false, true, nil
      record.ends = min(record.ends, clock)
    end
  end

  -- Reads all shares. False where they are not what the record says.
  local function load(key, record)
    local crowd = record.crowd
    crowd.shares, crowd.by = {}, {}
    if crowd.count > 0 then
      local roster = redis.call('HMGET', key, 'm')[1]
      if not roster or #roster ~= 32 * crowd.count or not spans(roster, '^%x+', 1, #roster) then
        return false
      end
      for from = 1, crowd.count, 500 do
        local tokens, names = {}, {}
        for i = from, min(from + 499, crowd.count) do
          tokens[#tokens + 1] = sub(roster, 32 * i - 31, 32 * i)
          names[#names + 1] = 's' .. tokens[#tokens]
        end
        local found = redis.call('HMGET', key, unpack(names))
        for i = 1, #tokens do
          local share = parse_share(tokens[i], found[i])
          if not share or crowd.by[share.token] then
            return false
          elseif share.ends > clock then
            crowd.shares[#crowd.shares + 1], crowd.by[share.token] = share, share
          else
            crowd.gone[#crowd.gone + 1] = names[i]
          end
        end
      end
      if #crowd.shares == 0 then
        crowd.gone[#crowd.gone + 1] = 'm'
      end
    end
    measure(record)
    return true
  end
  crowds.load = load

  -- Reads what else belongs to a record of a crowd that was found in a hash.
  function crowds.look(key, record, token, bounds, mine, in_part)
    local crowd = record.crowd
    local others = crowd.count > 0 and crowd.count + 1 or 0
    if bounds then
      record.line = read_line(key, bounds, mine, others)
      if not record.line then
        return { foreign = 'u' }
      end
      crowd.gone = record.line.gone
      record.line.crowded = crowd.count > 0 and record.raw
    elseif others == 0 or redis.call('HLEN', key) ~= others + 1 then
      return { foreign = 'u' }
    end
    local is_forgotten = not record.live and record.line and record.line.expiry * 1000 < clock
    if in_part and not is_forgotten then
      local text = crowd.count > 0 and redis.call('HMGET', key, 's' .. token)[1]
      crowd.mine = text and parse_share(token, text) or nil
      if text and not crowd.mine then
        return { foreign = 'u' }
      end
    elseif not load(key, record) then
      return { foreign = 'u' }
    end
    if is_forgotten then
      return { raw = 'fl2mf' .. nobody .. '0' .. none, line = record.line, absent = true, state = 'f',
        token = '', flag = '0', fence = none, first = none, live = false, free = true,
        shape = 'hash' }
    end
    return record
  end

  -- The share of a token, if its lease runs.
  local function share_of(record, token)
    local crowd = record.crowd
    local share = crowd.by and crowd.by[token] or crowd.mine
    return share and share.token == token and share.ends > clock and share or nil
  end

  function crowds.has(record, token)
    return share_of(record, token) ~= nil
  end

  function crowds.is_spent(record, token)
    for _, spent in ipairs(record.crowd.spent) do
      if spent == token then
        return true
      end
    end
    return false
  end

  local function is_before(one, other)
    return one.fence < other.fence or one.fence == other.fence and one.token < other.token
  end

  function crowds.latest(record)
    local latest
    for _, share in ipairs(record.crowd.shares) do
      latest = latest and is_before(share, latest) and latest or share
    end
    return latest
  end

  -- An end as a lease that a reply says: from then on, for no time.
  function crowds.lease(record, ends)
    return instant(ends or record.ends) .. '00000000'
  end

  function crowds.written(record)
    local crowd, owner = record.crowd, record.crowd.owner or ''
    local shared = crowd.count > 0
    return 'fl2' .. record.kind .. (shared and 's' or 'f') .. nobody .. '0' .. record.fence
      .. format('%08.0f', crowd.count) .. ten(crowd.limit or 0)
      .. (shared and instant(record.ends) or none) .. format('%02d%02d', #owner, #crowd.spent)
      .. concat(crowd.spent) .. owner
  end

  -- A holder, for a reply: what is said in record.lua. `left` says when the lease ends, if it is not
  -- the last one that counts; `revoked` that it was just asked back.
  function crowds.who(record, with_others, ends, revoked)
    local crowd = record.crowd
    local shares, owner = crowd.shares, crowd.owner or ''
    local latest = crowds.latest(record) or { fence = none, metadata = '' }
    local unattended, others, sorted = true, {}, {}
    for i, share in ipairs(shares) do
      sorted[i] = share
      local is_revoked = share.marks == '1' or share.marks == '3'
      local is_unattended = share.marks == '2' or share.marks == '3'
      revoked, unattended = revoked or is_revoked, unattended and is_unattended
    end
    if with_others and #shares > 1 then
      table.sort(sorted, is_before)
      for i = #sorted - 1, math.max(#sorted - others_max, 1), -1 do
        local share = sorted[i]
        others[#others + 1] = share.token .. instant(share.ends) .. share.fence .. share.marks
          .. format('%04d', #share.metadata) .. share.metadata
      end
    end
    local lease = record.live and crowds.lease(record, ends) or '999999999999999999999999'
    return format('%08d', waiting(record)) .. '0' .. latest.fence .. none .. lease
      .. format('%d', 4 + (revoked and 1 or 0) + (unattended and 2 or 0)) .. record.kind
      .. format('%08.0f', #shares) .. ten(min(crowd.used, 4294967295)) .. ten(crowd.limit or 0)
      .. format('%02d', #owner) .. owner .. format('%02d', #others) .. concat(others)
      .. latest.metadata
  end

  -- What a copy of a request hears whose token has a share: behind time, letter and flag.
  function crowds.repeated(record, token, waiting_digits)
    local share = share_of(record, token)
    return share.fence .. share.fence .. waiting_digits .. crowds.lease(record, share.ends)
  end

  crowds.measure, crowds.share_of, crowds.nobody = measure, share_of, nobody
  crowds.is_before = is_before
  return crowds
end

