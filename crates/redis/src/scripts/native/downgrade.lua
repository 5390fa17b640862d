-- downgrade: make the lease of one name that is held alone a shared one, which readers in its line join
-- at once. Begins with never_rests.lua (or boot.lua), clock.lua, record.lua, crowd.lua,
-- crowd_changes.lua, line.lua and place.lua.
--
-- KEYS  1 the key of the name
-- ARGV  1 token, 2 the mark of channels, and what they begin with: see line.lua
--
-- Token, fencing token and end stay.
--
-- Reply, one string: server time in us (16), then
--   k stamp(16) ttl(8)   it is shared, or was: what it counts from, and how long it runs
--   n why                not held: see record.lua; nothing changed
--
-- Atomic: all of it; the key is read before it is written. Works when memory is full.

local key, token = KEYS[1], ARGV[1]
local record, failure = look(key, token)
if failure then
  return failure
end
local why = why_not_held({ record or false }, 1, 1, token)
if why then
  return now .. 'n' .. why
end
crowds = crowds or make_crowds()
if record.crowd and (record.kind ~= 'm' or record.crowd.owner) then
  -- Whoever re-enters or has permits holds nothing that could become a reader's.
  return now .. 'n' .. (crowds.is_spent(record, token) and 'r' or 'x')
elseif record.crowd then
  return now .. 'k' .. crowds.lease(record, crowds.share_of(record, token).ends)
elseif record.shape == 'string' and is_moving(ARGV[2]) then
  return redis.error_reply('TRYAGAIN the key is about to move to another server')
end
local lease = record.lease
crowds.share_alone(record)
-- It is held, so nobody is handed it alone, which would be written already.
if pass_on(key, record) ~= record then
  return now .. 'nfu'
end
store(key, record)
return now .. 'k' .. lease
