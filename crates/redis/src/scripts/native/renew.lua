-- renew: prolong leases, each of one name or a set. Begins with clock.lua, keep.lua,
-- record.lua, crowd.lua and crowd_changes.lua.
--
-- KEYS  the keys of all leases, one lease after the other
-- ARGV  1 ahead_us
--       then groups of leases of one key each that are asked the same, and nothing but to go on:
--       how many, ttl_ms (8 digits), retain_ms (decimal), and of each how its record begins:
--       fl2mh token
--       then '0', and for each other lease: how many keys it has, token, ttl_ms (8 digits),
--       retain_ms (decimal), and one string: how many fencing tokens more it wants (4 digits), '2'
--       if nobody will renew it else '0', its listener (16 hexadecimal digits) or nothing: as before
--
-- A step of a latch prolongs all others.
--
-- A renewal never brings a lease back, never moves its end or its key's expiry back, and keeps
-- metadata. Fencing tokens are added at the end of a range as far as they do not run ahead.
--
-- Reply: server time in us (16), how many leases were asked for (4), and what is to say of some:
--   number(4) length(4) and so many bytes
--                        number counts the leases from 1, and grows. A lease of a group that is not
--                        here is kept: it runs for the ttl from now, has no range of fencing tokens,
--                        is not asked back, and nobody waits
--   k stamp(16) ttl(8) last(16) marks(1) waiting(8)
--                        kept: what the member that ends first counts from, and how long it runs;
--                        the last fencing token of its range, all 0 for none; how many wait
--   n why                not held: see record.lua; nothing changed for this lease
--   e error              the server could not say for this one
--
-- Atomic: all of it. Of each lease all keys are read and checked before the first write. Works
-- when memory is full.

local limit = clock + ARGV[1]

local function widen(record, reserve)
  local wider = record.fence + reserve
  if wider <= limit and wider <= largest then
    record.fence = format('%016.0f', wider)
  end
end

-- Prolongs any lease. Returns what is to say of it.
local function prolong(from, to, token, ttl, retain, rest)
  local unattended, listener = sub(rest, 5, 5), sub(rest, 6)
  local seen, failure = look_all(from, to, token, true)
  if failure then
    return 'e' .. failure.err
  end
  for i = from, to do
    local record = seen[i]
    if record and record.crowd and record.kind == 'l' and not record.crowd.shares
      and not crowds.load(KEYS[i], record) then
      seen[i] = { foreign = 'u' }
    end
  end
  local why = why_not_held(seen, from, to, token)
  if why then
    return 'n' .. why
  end
  local asked = clock + ttl * 1000
  local first_end, first_lease
  local last, revoked, longest = none, '0', 0
  for i = from, to do
    local record = seen[i]
    local share = record.crowd and crowds.share_of(record, token)
    local held = share or record
    if share and asked > share.ends then
      share.ends = asked
    elseif not share and asked > record.ends then
      record.lease, record.ends = now .. ttl, asked
    end
    if from == to and record.flag == '1' and record.first ~= none then
      if sub(rest, 1, 4) ~= '0000' then
        widen(record, sub(rest, 1, 4))
      end
      last = record.fence ~= record.first and record.fence or none
    end
    if listener ~= '' then
      held.listener = listener
    end
    local was_revoked = held.marks == '1' or held.marks == '3'
    if was_revoked then
      revoked = '1'
    end
    held.marks = was_revoked and (unattended == '2' and '3' or '1') or unattended
    record.forget, record.longer = forget_time(held.ends, retain, record.fence), true
    if waiting(record) > longest then
      longest = waiting(record)
    end
    local done, refused
    if share then
      done, refused = pcall(crowds.prolong, KEYS[i], record, share)
    else
      done, refused = pcall(store, KEYS[i], record)
    end
    if not done then
      return 'e' .. (type(refused) == 'table' and refused.err or tostring(refused))
    end
    if not first_end or held.ends < first_end then
      first_end, first_lease = held.ends, share and crowds.lease(record, share.ends) or record.lease
    end
  end
  return 'k' .. first_lease .. last .. revoked .. format('%08d', longest)
end

local said = {}

local function say(number, what)
  what = sub(what, 1, 9999)
  said[#said + 1] = format('%04d%04d', number, #what) .. what
end

for _, lease in ipairs(odd) do
  local at = lease[2]
  say(lease[1], prolong(at, at, lease[3], lease[4], lease[5], '00000'))
end
for i = argument + 1, #ARGV, 5 do
  local to = key + ARGV[i] - 1
  leases = leases + 1
  say(leases, prolong(key, to, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]))
  key = to + 1
end
return now .. format('%04d', leases) .. table.concat(said)
