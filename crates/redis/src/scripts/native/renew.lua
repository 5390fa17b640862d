-- renew: prolong leases, each of one name or a set. Begins with clock.lua and record.lua.
--
-- KEYS  the keys of all leases, one lease after the other
-- ARGV  1 ahead_us, and for each lease: how many keys it has, token, ttl_ms (8 digits), retain_ms
--       (decimal), and one string: how many fencing tokens more it wants (4 digits), '2' if nobody
--       will renew it else '0', its listener (16 hexadecimal digits) or nothing: as before
--
-- A renewal never brings a lease back, never moves its end or its key's expiry back, and keeps
-- metadata. Fencing tokens are added at the end of a range as far as they do not run ahead.
--
-- Reply: a list, server time in us (16) first, then for each lease
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

local replies = { now }
local from = 1
for argument = 2, #ARGV, 5 do
  local to = from + ARGV[argument] - 1
  local token, ttl, retain = ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3]
  local rest = ARGV[argument + 4]
  local unattended, listener = sub(rest, 5, 5), sub(rest, 6)
  local seen, failure = look_all(from, to, token)
  local why = seen and why_not_held(seen, from, to, token)
  local reply
  if failure then
    reply = 'e' .. failure.err
  elseif why then
    reply = 'n' .. why
  else
    local asked = clock + ttl * 1000
    local first_end, first_lease
    local last, revoked, longest = none, '0', 0
    for i = from, to do
      local record = seen[i]
      if asked > record.ends then
        record.lease, record.ends = now .. ttl, asked
      end
      if from == to and record.flag == '1' and record.first ~= none then
        if sub(rest, 1, 4) ~= '0000' then
          widen(record, sub(rest, 1, 4))
        end
        last = record.fence ~= record.first and record.fence or none
      end
      if listener ~= '' then
        record.listener = listener
      end
      local was_revoked = record.marks == '1' or record.marks == '3'
      if was_revoked then
        revoked = '1'
      end
      record.marks = was_revoked and (unattended == '2' and '3' or '1') or unattended
      record.forget, record.longer = forget_time(record.ends, retain, record.fence), true
      if waiting(record) > longest then
        longest = waiting(record)
      end
      local done, refused = pcall(store, KEYS[i], record)
      if not done then
        reply = 'e' .. (type(refused) == 'table' and refused.err or tostring(refused))
        break
      end
      if not first_end or record.ends < first_end then
        first_end, first_lease = record.ends, record.lease
      end
    end
    reply = reply or 'k' .. first_lease .. last .. revoked .. format('%08d', longest)
  end
  replies[#replies + 1] = reply
  from = to + 1
end
return replies
