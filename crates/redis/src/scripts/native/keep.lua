-- keep: the beginning of renew, which see. Leases that only have to go on, and of which nothing is to
-- say, are prolonged here, before anything else is made: in as few steps as can be, since only the
-- lease is written over, in its place. Whatever is not the plainest, and where the server refuses one of
-- these commands, is left to what is below.

-- Of each lease that is left: its number, key, start, ttl and retain.
local odd, leases, key, argument = {}, 0, 1, 2
do
  -- What the loops use, as near as can be.
  local KEYS, ARGV, pcall = KEYS, ARGV, redis.pcall
  local sub, find, byte = string.sub, string.find, string.byte
  local none, clock = '0000000000000000', now + 0
  while ARGV[argument] ~= '0' do
    local count, ttl, retain = ARGV[argument] + 0, ARGV[argument + 1], ARGV[argument + 2]
    local lease, asked = now .. ttl, clock + ttl * 1000
    -- 2 ms more: see record.lua.
    local lives = string.format('%.0f', ttl + retain + 2)
    local raws = pcall('MGET', unpack(KEYS, key, key + count - 1))
    local usable = not raws.err
    -- Leases that were renewed together have the same.
    local ends_of = {}
    for i = 1, count do
      local raw, start, done = usable and raws[i], ARGV[argument + 2 + i], false
      if raw and sub(raw, 1, 37) == start then
        -- From there to its marks: none, and every digit in its place.
        local was = sub(raw, 71, 111)
        local ends = ends_of[was]
        if ends == nil then
          local _, digits = find(was, '^%d+')
          local _, hex = find(was, '^%x+', 25)
          ends = byte(was, 41) == 48 and digits and digits >= 24 and hex and hex >= 40
            and sub(was, 1, 16) + sub(was, 17, 24) * 1000
          ends_of[was] = ends or false
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
        odd[#odd + 1] = { leases + i, key, sub(start, 6), ttl, retain }
      end
      key = key + 1
    end
    leases, argument = leases + count, argument + 3 + count
  end
  if not odd[1] and argument == #ARGV then
    return now .. string.format('%04d', leases)
  end
end

