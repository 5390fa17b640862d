-- take: the beginning of acquire, which see. What is nearly always the case is decided here, before
-- anything else is made: one name that is free, or held, or that others wait for already.

local token, life_ms, lease, deadline, wish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local floor, proposed = ARGV[6], ARGV[7]

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local waiting_max = 10000
local sub, byte = string.sub, string.byte
local count = #KEYS
local taken, fields
-- The caller has seen a line here: to look for it first saves the error of a command for strings,
-- which costs as much as two commands.
if wish and byte(wish, 27) == 50 and count == 1 then
  fields = redis.pcall('HMGET', KEYS[1], 'r', 'q', 'i' .. token)
end

-- One name that nobody uses is the common case: taken by the very command that looks. Otherwise
-- the same command has read the record and written nothing.
local fence = now
if floor and proposed ~= '0000000000000000' then
  -- As a member of a quorum: the proposed number, unless it is behind, or so far ahead that the
  -- record would have to outlive its lease for it.
  local ahead = proposed - now
  fence = floor < proposed and ahead <= ARGV[8] + 0 and ahead <= sub(lease, 1, 8) * 1000
    and sub(wish, 28, 31) == '0000' and proposed
elseif floor and floor >= now then
  fence = false
end
if count == 1 and not (fields and fields[1]) and (not deadline or now <= deadline) and fence then
  local last = fence
  if wish and sub(wish, 28, 31) ~= '0000' then
    -- At most 4,096 us ahead of the clock, less than any record lives.
    last = string.format('%016.0f', now + sub(wish, 28, 31))
  end
  local record = 'fl2mh' .. token .. '1' .. last .. fence .. now .. lease
  taken = redis.pcall('SET', KEYS[1], record, 'NX', 'GET', 'PX', life_ms)
  if not taken then
    return last == fence and now .. 'g1' .. fence or now .. 'g1' .. fence .. last .. '00000000'
  end
  local head = taken.err or sub(taken, 1, 5)
  -- Nearly as common: another token gave it back, and its fencing token is behind the new one. All
  -- that is decided below comes to the same for it.
  if head == 'fl2mf' then
    if #taken == 54 and sub(taken, 6, 37) ~= token and sub(taken, 39) < fence
      and tonumber(sub(taken, 39)) then
      redis.call('SET', KEYS[1], record, 'PX', life_ms)
      return last == fence and now .. 'g1' .. fence or now .. 'g1' .. fence .. last .. '00000000'
    end
  elseif head == 'fl2mh' and #taken >= 111 and sub(taken, 6, 37) ~= token
    and (not wish or sub(wish, 1, 8) == '00000000') then
    -- And that another token holds it, where nobody waits and nobody wants to.
    local find = string.find
    local _, digits = find(taken, '^%d+', 38)
    local _, hex = find(taken, '^%x+', 6)
    if digits and digits >= 94 and hex and hex >= 110 and find(taken, '^[0-3]', 111)
      and sub(taken, 71, 86) + sub(taken, 87, 94) * 1000 > tonumber(now) then
      return now .. 'b000100000000' .. sub(taken, 38, 94) .. sub(taken, 111)
    end
  elseif wish and taken.err and sub(head, 1, 9) == 'WRONGTYPE' then
    fields = redis.pcall('HMGET', KEYS[1], 'r', 'q', 'i' .. token)
  end
end

-- A place in a line in good order, new or refreshed, behind a lease that runs. Everything else is
-- left to what is below, and nothing was written for it. Numbers are counted up as text, because
-- to format one costs as much as a command.
if fields and fields[1] and fields[2] and sub(wish, 1, 8) ~= '00000000' and byte(wish, 27) ~= 49
  and (not deadline or now <= deadline) and (not floor or floor < now) then
  local find, tonumber, call = string.find, tonumber, redis.call
  local raw, bounds, mine = fields[1], fields[2], fields[3]
  local _, digits = find(raw, '^%d+', 38)
  local _, numbers = find(bounds, '^%d+')
  local marks = byte(raw, 111)
  if sub(raw, 1, 5) == 'fl2mh' and sub(raw, 6, 37) ~= token and digits and digits >= 94
    and marks and marks >= 48 and marks <= 51 and numbers and numbers >= 49
    and (not mine or #mine < 16 and find(mine, '^[1-9]%d*$'))
    and sub(raw, 71, 86) + sub(raw, 87, 94) * 1000 >= now + 1 then
    local key = KEYS[1]
    local length = (call('HLEN', key) - 2) / 2
    local head, tail = sub(bounds, 1, 16) + 0, sub(bounds, 17, 32) + 0
    local gaps = tail - head + 1 - length
    local ahead = (mine or tail + 1) - head
    if length % 1 == 0 and length > 0 and gaps >= 0 and tail < 1e15
      and (gaps == 0 or ahead > 100)
      and (mine and ahead >= 0 and mine + 0 <= tail or not mine and length < waiting_max) then
      local live, who = sub(wish, 9, 16), sub(raw, 38, 94) .. sub(raw, 111)
      local place = token .. now .. live .. sub(wish, 1, 8) .. sub(wish, 17, 26) .. '0'
        .. (floor or '0000000000000000') .. sub(wish, 28, 31) .. sub(lease, 9, 24)
        .. sub(lease, 26)
      local n = length
      if mine then
        local done = redis.pcall('HSET', key, 'w' .. mine, place)
        if done ~= 0 and type(done) == 'table' then
          -- Full memory refuses a HSET, but not a PEXPIRE, nor any write that follows one.
          call('PEXPIRE', key, '1', 'GT')
          call('HSET', key, 'w' .. mine, place)
        end
      else
        local last = byte(bounds, 32)
        local wide = last < 57 and sub(bounds, 17, 31) .. string.char(last + 1)
          or string.format('%016.0f', tail + 1)
        local number = string.match(wide, '^0*(.+)')
        local done = redis.pcall('HSET', key, 'q', sub(bounds, 1, 16) .. wide .. sub(bounds, 33),
          'w' .. number, place, 'i' .. token, number)
        if done ~= 2 and type(done) == 'table' then
          if sub(done.err, 1, 3) == 'OOM' then
            return now .. 'b0001' .. string.format('%08d', length) .. who
          end
          return done
        end
        n = n + 1
      end
      -- The key lives as long as the record would at least, mostly longer than anybody waits, and
      -- else a while longer, so that the next one finds it so.
      local needed = now / 1000 + live + 3
      if sub(bounds, 33, 48) + 0 < needed and call('PEXPIRETIME', key) < needed then
        call('PEXPIRE', key, live + 60000, 'GT')
      end
      local waiting = '000' .. string.char(48 + (n - n % 10000) / 10000,
        48 + (n % 10000 - n % 1000) / 1000, 48 + (n % 1000 - n % 100) / 100,
        48 + (n % 100 - n % 10) / 10, 48 + n % 10)
      ahead = ahead + 1
      return now .. 'q0001' .. (ahead < n and string.format('%08d', ahead) or waiting) .. waiting
        .. who
    end
  end
end

