-- seed: write the marker of the restart guard, so that this life of the server counts at once.
--
-- KEYS  1 the marker: see boot.lua
-- ARGV  1 max_ttl_ms, 8 digits
--       2 '1' even where another life of the server had a marker, else '0'; '?' writes nothing
--       3 the run_id that the client was told on its connection
--
-- Reply, one string: server time in us (16), then
--   w max_ttl_ms(8)                written
--   k max_ttl_ms(8)                it counts already, for leases of at most so much
--   r since_us(16) max_ttl_ms(8)   another life had a marker: nothing was written. since_us is all
--                                  9 where nobody knows when it counts by itself
--   n                              there is no marker, and nothing was to be written
--
-- Atomic: all of it.

local time = redis.call('TIME')
local now = string.format('%010d%06d', time[1], time[2])
local max_ttl, force, run_id = ARGV[1], ARGV[2], ARGV[3]
local marker = redis.call('GET', KEYS[1])
local id, since, stored, how
if marker then
  id, since, stored, how = string.match(marker, '^([^|]+)|(%d+)|(%d+)|(%a)$')
  if id and (#since ~= 16 or #stored ~= 8) then
    id = nil
  end
end
local counts = id == run_id and since <= now
if counts and stored >= max_ttl then
  return now .. 'k' .. stored
end
if id and not counts and (id ~= run_id or how == 'r') and force ~= '1' then
  return now .. 'r' .. (id == run_id and since or '9999999999999999') .. stored
end
if force == '?' then
  return now .. (id and 'k' .. stored or 'n')
end
if id == run_id and stored > max_ttl then
  max_ttl = stored
end
redis.call('SET', KEYS[1], run_id .. '|' .. now .. '|' .. max_ttl .. '|i')
return now .. 'w' .. max_ttl
