-- shorten: bring the end of a lease nearer, never farther. Begins with record.lua.
--
-- KEYS  the keys of the names, in order, none twice
-- ARGV  1 token, 2 ttl_ms (8 digits), 3 retain_ms (decimal)
--
-- Reply, one string: server time in us (16), then
--   k stamp(16) ttl(8)   what the member that ends last counts from, and how long it runs
--   n why                not held: see record.lua; nothing changed
--
-- Atomic: all of it; all keys are read and checked before the first write.

local token, ttl, retain = ARGV[1], ARGV[2], ARGV[3]
local seen, failure = look_all(1, #KEYS)
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
  local lease, ends = record.lease, record.ends
  if asked < ends then
    lease, ends = now .. ttl, asked
  end
  rewrite(KEYS[i], sub(record.raw, 1, 54) .. lease .. record.metadata,
    life(ends, retain, record.fence))
  if not last_end or ends > last_end then
    last_end, last_lease = ends, lease
  end
end
return now .. 'k' .. last_lease
