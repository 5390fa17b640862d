-- take: the beginning of acquire, which see. What is nearly always the case is decided here, before
-- anything else is made.

local token, life_ms, lease, deadline, wish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local floor, proposed = ARGV[6], ARGV[7]

local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

-- One name that nobody uses is the common case: taken by the very command that looks. Otherwise
-- the same command has read the record and written nothing.
local count = #KEYS
local taken
if count == 1 and (not deadline or now <= deadline)
  and (not floor or floor < now and proposed == '0000000000000000') then
  local last = now
  if wish and string.sub(wish, 28, 31) ~= '0000' then
    -- At most 4,096 us ahead of the clock, less than any record lives.
    last = string.format('%016.0f', now + string.sub(wish, 28, 31))
  end
  local record = 'fl2mh' .. token .. '1' .. last .. now .. now .. lease
  taken = redis.pcall('SET', KEYS[1], record, 'NX', 'GET', 'PX', life_ms)
  local sub, find = string.sub, string.find
  if not taken then
    return last == now and now .. 'g1' .. now or now .. 'g1' .. now .. last .. '00000000'
  end
  local head = taken.err or sub(taken, 1, 5)
  -- Nearly as common: another token gave it back, and its fencing token is behind the clock. All
  -- that is decided below comes to the same for it.
  if head == 'fl2mf' then
    if #taken == 54 and sub(taken, 6, 37) ~= token and sub(taken, 39) < now
      and tonumber(sub(taken, 39)) then
      redis.call('SET', KEYS[1], record, 'PX', life_ms)
      return last == now and now .. 'g1' .. now or now .. 'g1' .. now .. last .. '00000000'
    end
  elseif head == 'fl2mh' and #taken >= 111 and sub(taken, 6, 37) ~= token
    and (not wish or sub(wish, 1, 8) == '00000000') then
    -- And that another token holds it, where nobody waits and nobody wants to.
    local _, digits = find(taken, '^%d+', 38)
    local _, hex = find(taken, '^%x+', 6)
    if digits and digits >= 94 and hex and hex >= 110 and find(taken, '^[0-3]', 111)
      and sub(taken, 71, 86) + sub(taken, 87, 94) * 1000 > tonumber(now) then
      return now .. 'b000100000000' .. sub(taken, 38, 94) .. sub(taken, 111)
    end
  end
end

