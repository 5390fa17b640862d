-- give: the beginning of release, which see. Names that nobody waits for are given back here, before
-- anything else is made.

local token, retain = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local seconds, micros = time[1], time[2]
local now = #seconds == 10 and #micros == 6 and seconds .. micros
  or string.format('%010d%06d', seconds, micros)

local raws, plain = {}, true
for i = 1, #KEYS do
  local raw = redis.pcall('GET', KEYS[i])
  if raw and (raw.err or string.sub(raw, 1, 5) == 'fl2mr') then
    if raw.err and string.sub(raw.err, 1, 9) ~= 'WRONGTYPE' then
      return raw
    end
    plain = false
  end
  raws[i] = raw
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

