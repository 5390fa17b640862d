-- acquire (plain): take several names, all or nothing. One name is taken by `SET NX PX GET` alone. Begins with
-- is.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (decimal), 3 the value: the token and what is behind it
--
-- Reply: a list, a letter first
--   g            taken
--   y pttl       this token has them all already, nothing changed; the least time left, -1 for ever
--   s            this token has some of them: it lost the others
--   b index pttl value  KEYS[index] holds something else: time left, -1 for ever, and what it is
--   f index type KEYS[index] is not a string
--
-- Atomic: all of it; everything is read and checked before the first write.

local mine, busy, holder = 0, nil, nil
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    local kind = redis.pcall('TYPE', KEYS[i])
    return { 'f', i, kind.ok or '' }
  end
  if is(value, ARGV[1]) then
    mine = mine + 1
  elseif value and not busy then
    busy, holder = i, value
  end
end
if mine == #KEYS then
  local least = -1
  for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left >= 0 and (least < 0 or left < least) then
      least = left
    end
  end
  return { 'y', least }
end
if mine > 0 then
  return { 's' }
end
if busy then
  return { 'b', busy, redis.call('PTTL', KEYS[busy]), holder }
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[2])
end
return { 'g' }
