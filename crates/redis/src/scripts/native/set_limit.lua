-- set_limit: change how many permits a semaphore has. Begins with never_rests.lua (or boot.lua),
-- clock.lua, record.lua, crowd.lua, crowd_changes.lua and line.lua.
--
-- KEYS  1 the key of the name
-- ARGV  1 limit (10 digits), 2 retain_ms (decimal)
--
-- The limit is at least 1, and at most 1,000,000. Permits that are held stay. Who waits and named another limit is told to ask again.
--
-- Reply, one string: server time in us (16), then
--   k before(10) used(10)   it is kept; the one before, all 0 for none, and how many are taken
--   f what                  foreign, or another kind of lock: see record.lua
--
-- Atomic: all of it; the key is read before it is written. Works when memory is full, but where nothing
-- is at the key.

local key = KEYS[1]
local record, failure = look(key, none)
if failure then
  return failure
end
if record and record.foreign then
  return now .. 'f' .. record.foreign
end
crowds = crowds or make_crowds()
local kind = other_kind(key, record, 's')
if kind then
  return now .. 'fk' .. kind
end
record = pass_on(key, record or crowds.nobodys())
if not record then
  return now .. 'fu'
end
-- Somebody may have been granted it just now, behind a place that lapsed.
kind = other_kind(key, record, 's')
if kind then
  if record.line and record.line.changed then
    store(key, record)
  end
  return now .. 'fk' .. kind
end
local before = record.kind == 's' and record.crowd and record.crowd.limit or 0
local limit = math.min(math.max(tonumber(ARGV[1]), 1), crowds.limit_most)
crowds.gather(record, { kind = 's', limit = limit })
record.crowd.limit = limit
local used = record.crowd.used
crowds.keep(record, forget_time(record.live and record.ends or clock, ARGV[2], record.fence))
local passed = pass_on(key, record)
if not passed then
  return now .. 'fu'
elseif passed == record then
  store(key, record)
end
return now .. 'k' .. format('%010.0f%010.0f', before, used)
