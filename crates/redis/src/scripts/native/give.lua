-- give: the beginning of release, which see. One name that others wait for is handed to the first
-- in line, and names that nobody waits for are given back here, before anything else is made.

local token, retain = ARGV[1], ARGV[2]
-- See line.lua.
local counts = true
local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local raws, plain, fields = {}, true, nil
-- The caller has seen a line here: to look for it first saves the error of a command for strings,
-- which costs as much as two commands.
if ARGV[3] and #KEYS == 1 then
  fields = redis.pcall('HMGET', KEYS[1], 'r', 'q', 'i' .. token)
  plain = not fields[1]
end
if plain then
  for i = 1, #KEYS do
    local raw = redis.pcall('GET', KEYS[i])
    -- What is reserved, and the memory of a crowd.
    if raw and (raw.err or string.sub(raw, 1, 5) == 'fl2mr'
      or #raw > 54 and string.byte(raw, 5) == 102) then
      if raw.err then
        if string.sub(raw.err, 1, 9) ~= 'WRONGTYPE' then
          return raw
        elseif #KEYS == 1 then
          fields = redis.pcall('HMGET', KEYS[1], 'r', 'q', 'i' .. token)
        end
      end
      plain = false
    end
    raws[i] = raw
  end
end

if plain then
  local sub = string.sub
  local expired, taken = false, false
  for i = 1, #KEYS do
    local raw = raws[i]
    local head = raw and sub(raw, 1, 5)
    if not raw then
      expired = true
    elseif sub(raw, 6, 37) == token and head == 'fl2mh' and #raw >= 111 then
      local fence = sub(raw, 39, 54)
      if sub(raw, 71, 86) + sub(raw, 87, 94) * 1000 <= tonumber(now) then
        -- It is free for everybody already, and a re-sent release must hear the same again.
        expired = true
      elseif retain == '0' and fence < now then
        redis.call('DEL', KEYS[i])
      else
        -- The key outlives `retain`, and the instant that equals its fencing token.
        local life = retain
        if fence >= now then
          local ahead = math.ceil((fence - now) / 1000) + 1
          if ahead > tonumber(life) then
            life = string.format('%.0f', ahead)
          end
        end
        local free = 'fl2mf' .. sub(raw, 6, 54)
        local done = redis.pcall('SET', KEYS[i], free, 'PX', life)
        if done.err then
          -- Full memory refuses a SET, but not a PEXPIRE, nor any write that follows one.
          redis.call('PEXPIRE', KEYS[i], life)
          redis.call('SET', KEYS[i], free, 'PX', life)
        end
      end
    elseif sub(head, 1, 3) == 'fl2' and sub(head, 5) == 'f' and #raw >= 54 then
      if sub(raw, 6, 37) ~= token then
        taken = true
      end
    else
      taken = true
    end
  end
  return now .. (taken and 't' or expired and 'x' or 'h')
end

-- A running lease of the token, which has no place besides, and a line in good order whose first
-- place is that of somebody who waits for this name alone and may still want it. Everything else is
-- left to what is below, and nothing was written for it. What is done here, and why, is told in
-- line.lua: pass_on.
if fields and fields[1] and fields[2] and not fields[3] and not resting then
  local sub, byte, find, format = string.sub, string.byte, string.find, string.format
  local tonumber, call = tonumber, redis.call
  local key, raw, bounds, clock = KEYS[1], fields[1], fields[2], now + 0
  local _, digits = find(raw, '^%d+', 38)
  local _, numbers = find(bounds, '^%d+')
  local marks = byte(raw, 111)
  if sub(raw, 6, 37) == token and sub(raw, 1, 5) == 'fl2mh' and digits and digits >= 94
    and marks and marks >= 48 and marks <= 51 and numbers and numbers >= 49
    and sub(raw, 71, 86) + sub(raw, 87, 94) * 1000 > clock then
    local length = (call('HLEN', key) - 2) / 2
    local head, tail = sub(bounds, 1, 16), sub(bounds, 17, 32)
    local good = length % 1 == 0 and length > 0 and length <= tail - head + 1
      and tail < '1000000000000000'
    -- Counted up as text: to format a number costs as much as a command.
    local digit = byte(bounds, 16)
    local wide = digit < 57 and sub(head, 1, 15) .. string.char(digit + 1)
      or format('%016.0f', head + 1)
    local number = string.match(head, '^0*(.+)')
    local places = good
      and call('HMGET', key, 'w' .. number, 'w' .. string.match(wide, '^0*(.+)'))
    local place, follower = good and places[1], good and places[2]
    local heir, listener, mate, mate_listener
    if place and (follower or length == 1) and byte(place, 75) == 48 then
      heir, listener = sub(place, 1, 32), sub(place, 96, 111)
      _, digits = find(place, '^%d+', 33)
      good = #listener == 16 and digits >= 95 and find(heir, '^%x+$') and find(listener, '^%x+$')
        and sub(place, 33, 48) + sub(place, 49, 56) * 1000 >= clock
    else
      good = false
    end
    if good and length > 1 then
      mate, mate_listener = sub(follower, 1, 32), sub(follower, 96, 111)
      local seen, live = tonumber(sub(follower, 33, 48)), tonumber(sub(follower, 49, 56))
      good = seen and live and #mate_listener == 16 and find(mate, '^%x+$')
        and (mate_listener == listener or find(mate_listener, '^%x+$'))
      if good and seen + live * 1000 < clock then
        mate = nil
      end
    end
    local channel = sub(bounds, 50)
    local mark = byte(bounds, 49)
    local publish = mark == 50 and 'SPUBLISH' or 'PUBLISH'
    if good and listener ~= '0000000000000000' and (mark == 49 or mark == 50 and counts) then
      local heard = redis.pcall('PUBSUB', mark == 50 and 'SHARDNUMSUB' or 'NUMSUB',
        channel .. listener)
      good = heard.err or heard[2] ~= 0
    end
    local highest, floor = sub(raw, 39, 54), good and sub(place, 76, 91)
    if good and floor > highest then
      highest = floor
    end
    if good and highest < '9007199254000000' and now < '9007199254000000' then
      local claim = sub(place, 57, 64)
      local first = highest < now and now or format('%016.0f', highest + 1)
      local last, reserve = first, sub(place, 92, 95)
      if reserve ~= '0000' then
        last = format('%016.0f', first + reserve)
      end
      local forget = clock + (claim + sub(place, 65, 74)) * 1000
      if last ~= now and last + 0 > forget then
        forget = last + 0
      end
      local record = 'fl2mh' .. heir .. '1' .. last .. first .. now .. claim .. listener .. '0'
        .. sub(place, 112)
      local expiry = (forget + 999 - (forget + 999) % 1000) / 1000
      if call('PEXPIRETIME', key) < expiry + 3 then
        -- A while longer than needed, so that the next one finds it so.
        call('PEXPIRE', key, expiry - (clock - clock % 1000) / 1000 + 60000, 'GT')
      end
      -- Allowed when memory is full, and so is every write after it.
      call('HDEL', key, 'w' .. number, 'i' .. heir)
      if length == 1 then
        -- Nobody waits any more: a plain record again.
        call('SET', key, record, 'PXAT', expiry)
      else
        call('HSET', key, 'r', record, 'q', wide .. tail .. format('%016.0f', expiry)
          .. sub(bounds, 49))
      end
      local n = length - 1
      local message = 'g' .. heir .. sub(place, 33, 48) .. now .. claim .. first .. last .. '000'
        .. string.char(48 + (n - n % 10000) / 10000, 48 + (n % 10000 - n % 1000) / 1000,
          48 + (n % 1000 - n % 100) / 100, 48 + (n % 100 - n % 10) / 10, 48 + n % 10)
      local next_message = mate and 'n' .. mate .. '00000' .. claim .. '000'
      if mate and mate_listener == listener then
        message, next_message = message .. next_message, nil
      end
      if listener ~= '0000000000000000' then
        redis.pcall(publish, channel .. listener, message)
      end
      if next_message and mate_listener ~= '0000000000000000' then
        redis.pcall(publish, channel .. mate_listener, next_message)
      end
      return now .. 'h'
    end
  end
end

