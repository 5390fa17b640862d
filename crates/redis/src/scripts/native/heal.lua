-- heal: take a lease that is provably ours elsewhere, where nobody holds it here. Begins with
-- record.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (8 digits), 3 retain_ms (decimal), 4 metadata, 5 deadline_us (16 digits,
--       all 9 for none), 6 fence (16 digits, all 0 for none), 7 ahead_us
--
-- Reply, one string: server time in us (16), then
--   k                                           every name is ours
--   b index(4) fence(16) stamp(16) ttl(8) meta  KEYS[index] is held by another token
--   s, d, a                                     refused: as in acquire.lua
--   f index(4) what                             KEYS[index] is foreign
--
-- Atomic: all of it; all keys are read and checked before the first write.

local token, ttl, retain, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local seen, failure = look_all(1, #KEYS)
if failure then
  return failure
end
for i = 1, #KEYS do
  if seen[i] and seen[i].foreign then
    return now .. 'f' .. format('%04d', i) .. seen[i].foreign
  end
end
if now > ARGV[5] then
  return now .. 'd'
end
for i = 1, #KEYS do
  if seen[i] and seen[i].free and seen[i].token == token then
    return now .. 's'
  end
end
for i = 1, #KEYS do
  local record = seen[i]
  if record and record.live and record.token ~= token then
    return now .. 'b' .. format('%04d', i) .. record.fence .. record.lease .. record.metadata
  end
end
if tonumber(fence) > clock + ARGV[7] then
  return now .. 'a'
end
for i = 1, #KEYS do
  local record = seen[i]
  if not (record and record.live) then
    local previous = record and record.fence or none
    local flag, written = '0', previous
    if fence > previous then
      flag, written = '1', fence
    elseif record and record.token == token then
      flag = record.flag
    end
    redis.call('SET', KEYS[i], 'fl1mh' .. token .. flag .. written .. now .. ttl .. ARGV[4],
      'PX', life(clock + ttl * 1000, retain, written))
  end
end
return now .. 'k'
