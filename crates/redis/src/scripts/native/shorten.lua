-- shorten: bring the end of a lease nearer, never farther. Begins with never_rests.lua, clock.lua,
-- record.lua, crowd.lua, crowd_changes.lua and line.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (8 digits), 3 retain_ms (decimal)
--
-- The first in line is told: it has set its timer by the old end.
--
-- Reply, one string: server time in us (16), then
--   k stamp(16) ttl(8)   what the member that ends last counts from, and how long it runs
--   n why                not held: see record.lua; nothing changed
--
-- Atomic: all of it; all keys are read and checked before the first write.

local token, ttl, retain = ARGV[1], ARGV[2], ARGV[3]
local seen, failure = look_all(1, #KEYS, token)
if failure then
  return failure
end
local why = why_not_held(seen, 1, #KEYS, token)
if why then
  return now .. 'n' .. why
end

local asked = clock + ttl * 1000
local last_end, last_lease
for i = 1, #KEYS do
  local record = seen[i]
  local share = record.crowd and crowds.share_of(record, token)
  local ends, lease
  if share then
    -- The record is kept as long as before: others may need it.
    share.ends, share.changed = asked < share.ends and asked or share.ends, true
    crowds.measure(record)
    ends, lease = share.ends, crowds.lease(record, share.ends)
  else
    if asked < record.ends then
      record.lease, record.ends = now .. ttl, asked
    end
    record.forget = forget_time(record.ends, retain, record.fence)
    ends, lease = record.ends, record.lease
  end
  store(KEYS[i], record)
  if record.line then
    announce(KEYS[i], record.line, ends - clock)
  end
  if not last_end or ends > last_end then
    last_end, last_lease = ends, lease
  end
end
return now .. 'k' .. last_lease
