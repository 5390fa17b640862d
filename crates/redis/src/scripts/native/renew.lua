-- renew: prolong leases, each of one name or a set. Begins with clock.lua,
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

local said, leases = {}, 0

local function say(number, what)
  what = sub(what, 1, 9999)
  said[#said + 1] = format('%04d%04d', number, #what) .. what
end

-- When a lease ends, from what its record has from there to its marks: nothing where that is not
-- the plainest, with no mark, and every digit in its place.
local function plain_end(lease)
  if sub(lease, 41) == '0' and spans(lease, '^%d+', 1, 24) and spans(lease, '^%x+', 25, 40) then
    return sub(lease, 1, 16) + sub(lease, 17, 24) * 1000
  end
  return false
end

-- Prolongs a group, whose leases start at a key and at an argument. What is plain is renewed here,
-- in as few steps as can be: only the lease is written over, in its place. All else goes the long
-- way, also where the server refuses one of these commands.
local function prolong_alike(key, argument, count, ttl, retain)
  -- What the loop uses, as near as can be.
  local KEYS, ARGV, pcall = KEYS, ARGV, redis.pcall
  local sub, find, byte = sub, find, string.byte
  local lease, asked = now .. ttl, clock + ttl * 1000
  local lives = life(forget_time(asked, retain, none))
  local raws = pcall('MGET', unpack(KEYS, key, key + count - 1))
  local usable = not raws.err
  -- Leases that were renewed together have the same.
  local ends_of = {}
  for i = 1, count do
    local raw, start, done = usable and raws[i], ARGV[argument + i - 1], false
    if raw and sub(raw, 1, 37) == start then
      local was = sub(raw, 71, 111)
      local ends = ends_of[was]
      if ends == nil then
        ends = plain_end(was)
        ends_of[was] = ends
      end
      -- A fencing token of its own, and no range of them: the first is the last.
      local fence, first = sub(raw, 39, 54), sub(raw, 55, 70)
      if ends and ends > clock and ends < asked and (first == fence or first == none)
        and fence < now and find(fence, '^%d+$') and byte(raw, 38) == 49 then
        -- The expiry first: it is allowed when memory is full, and so is every write after it.
        local lived = pcall('PEXPIRE', KEYS[key], lives, 'GT')
        done = (lived == 1 or lived == 0) and pcall('SETRANGE', KEYS[key], '70', lease) == #raw
        usable = done
      end
    end
    if not done then
      say(leases + i, prolong(key, key, sub(start, 6), ttl, retain, '00000'))
    end
    key = key + 1
  end
  leases = leases + count
end

local key, argument = 1, 2
while ARGV[argument] ~= '0' do
  local count = tonumber(ARGV[argument])
  prolong_alike(key, argument + 3, count, ARGV[argument + 1], ARGV[argument + 2])
  key, argument = key + count, argument + 3 + count
end
for i = argument + 1, #ARGV, 5 do
  local to = key + ARGV[i] - 1
  leases = leases + 1
  say(leases, prolong(key, to, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]))
  key = to + 1
end
return now .. format('%04d', leases) .. table.concat(said)
