-- heal: take a lease that is provably ours elsewhere, where nobody holds it here. Begins with
-- clock.lua, record.lua, crowd.lua and crowd_changes.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (8 digits), 3 retain_ms (decimal), 4 metadata, 5 deadline_us (16 digits,
--       all 9 for none), 6 fence (16 digits, all 0 for none), 7 ahead_us
--
-- Reply, one string: server time in us (16), then
--   k              every name is ours
--   b index(4) who KEYS[index] is held by another token: see record.lua, but waiting is 0
--   s, d, a        refused: as in acquire.lua
--   f index(4) what  KEYS[index] is foreign
--
-- Atomic: all of it; all keys are read and checked before the first write.

local token, ttl, retain, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local seen, failure = look_all(1, #KEYS, token)
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
  local record = seen[i]
  if record and (record.free and record.token == token
    or record.crowd and crowds.is_spent(record, token)) then
    return now .. 's'
  end
end
for i = 1, #KEYS do
  local record = seen[i]
  if record and record.live and record.token ~= token and not is_holder(record, token) then
    return now .. 'b' .. format('%04d', i) .. '00000000' .. sub(who(record), 9)
  end
end
if tonumber(fence) > clock + ARGV[7] then
  return now .. 'a'
end
for i = 1, #KEYS do
  local old = seen[i]
  if not is_holder(old, token) then
    local previous = old and old.fence or none
    local flag, tokens = '0', previous
    if fence > previous then
      flag, tokens = '1', fence
    elseif old and old.token == token then
      flag = old.flag
    end
    local ends = clock + ttl * 1000
    store(KEYS[i], { kind = 'm', state = 'h', token = token, flag = flag, fence = tokens,
      first = tokens, lease = now .. ttl, listener = none, marks = '0', metadata = ARGV[4], ends = ends,
      live = true, line = old and old.line, new = true,
      forget = forget_time(ends, retain, tokens) })
  end
end
return now .. 'k'
