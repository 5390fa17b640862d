-- renew: prolong leases, each of one name or a set. Begins with record.lua.
--
-- KEYS  the keys of all leases, one lease after the other
-- ARGV  for each lease: how many keys it has, token, ttl_ms (8 digits), retain_ms (decimal)
--
-- A renewal never brings a lease back, never moves its end or its key's expiry back, and keeps
-- fencing token and metadata.
--
-- Reply: a list, server time in us (16) first, then for each lease
--   k stamp(16) ttl(8)   kept: what the member that ends first counts from, and how long it runs
--   n why                not held: see record.lua; nothing changed for this lease
--   e error              the server could not say for this one
--
-- Atomic: all of it. Of each lease all keys are read and checked before the first write. Works
-- when memory is full.

local replies = { now }
local from = 1
for argument = 1, #ARGV, 4 do
  local to = from + ARGV[argument] - 1
  local token, ttl, retain = ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3]
  local seen, failure = look_all(from, to)
  local why = seen and why_not_held(seen, from, to, token)
  local reply
  if failure then
    reply = 'e' .. failure.err
  elseif why then
    reply = 'n' .. why
  else
    local asked = clock + ttl * 1000
    local first_end
    for i = from, to do
      local record = seen[i]
      local lease, ends = record.lease, record.ends
      if asked > ends then
        lease, ends = now .. ttl, asked
      end
      -- The expiry first: it is allowed when memory is full, and so is every write after it.
      local done = redis.pcall('PEXPIRE', KEYS[i], life(ends, retain, record.fence), 'GT')
      if type(done) ~= 'table' and asked > record.ends then
        done = redis.pcall('SET', KEYS[i], sub(record.raw, 1, 54) .. lease .. record.metadata,
          'KEEPTTL')
      end
      if type(done) == 'table' and done.err then
        reply = 'e' .. done.err
        break
      end
      if not first_end or ends < first_end then
        first_end, reply = ends, 'k' .. lease
      end
    end
  end
  replies[#replies + 1] = reply
  from = to + 1
end
return replies
