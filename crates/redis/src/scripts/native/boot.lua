-- boot: what scripts that grant or hand over begin with under the strict restart guard. Not a script
-- of its own: it takes what is its own off the ends of KEYS and ARGV, and the rest of the script
-- finds the others as it always does.
--
-- KEYS  last  the marker: run_id|since_us(16)|max_ttl_ms(8)|how. The life of the server with this
--             run_id counts from since_us on, for leases of at most max_ttl_ms. `how` says who wrote
--             it: 'i' seed.lua, 'n' this, without a marker before, 'r' this, where another life had
--             one
-- ARGV  last but one  max_ttl_ms, 8 digits: no lease of this client is longer
--       last          the run_id that the client was told on its connection; empty: not told
--
-- Sets `resting` where the server must grant nothing, to what an acquire is answered with: server
-- time in us (16), 'z', since_us (16), max_ttl_ms (8); and `longest`, the max_ttl_ms of the marker.
--
-- A marker that is missing or of another life means that leases may have been forgotten: a restart,
-- FLUSHALL, another server at the same address. All of them are over a max_ttl later, and a second
-- more for those who round.

local resting, longest_ttl
do
  local key, run_id, max_ttl = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local time = redis.call('TIME')
  local now = string.format('%010d%06d', time[1], time[2])
  local marker = redis.pcall('GET', key)
  local id, since, stored
  if type(marker) == 'string' then
    id, since, stored = string.match(marker, '^([^|]+)|(%d+)|(%d+)|%a$')
    if since and (#since ~= 16 or #stored ~= 8) then
      id, since, stored = nil, nil, nil
    end
  end
  if id and id == run_id then
    longest_ttl = stored
    if since > now then
      resting = now .. 'z' .. since .. stored
    end
  else
    longest_ttl = stored and stored > max_ttl and stored or max_ttl
    since = string.format('%016.0f', now + (longest_ttl + 1000) * 1000)
    resting = now .. 'z' .. since .. longest_ttl
    -- Full memory refuses it, and it is tried again by the next; whoever was not told who the
    -- server is must not write it.
    if run_id ~= '' then
      redis.pcall('SET', key, run_id .. '|' .. since .. '|' .. longest_ttl .. '|' .. (id and 'r' or 'n'))
    end
  end
end

