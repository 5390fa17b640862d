-- exchange_token (plain): compare and set, keeping or prolonging the expiry. Begins with held.lua.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 from, 2 to: the tokens; 3 ttl_ms (decimal); 4 the value: `to` and what is behind it
--
-- Reply: a list, a letter first
--   g pttl   exchanged; the least time left in ms, -1 for ever
--   y pttl   `to` has them all already, nothing changed
--   s        `to` has some of them: it lost the others
--   n why    `from` does not hold them: held.lua
--
-- Atomic: all of it; all keys are read and checked before the first write.

local function least_left()
  local least = -1
  for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left >= 0 and (least < 0 or left < least) then
      least = left
    end
  end
  return least
end

local why = why_not_held(1, #KEYS, ARGV[1])
local mine = 0
for i = 1, #KEYS do
  if is(redis.pcall('GET', KEYS[i]), ARGV[2]) then
    mine = mine + 1
  end
end
if why and string.sub(why, 1, 1) == 'f' then
  return { 'n', why }
end
if mine == #KEYS then
  return { 'y', least_left() }
end
if mine > 0 then
  return { 's' }
end
if why then
  return { 'n', why }
end
-- An expiry that nothing moves to: a right that is missing then refuses the whole, and it is allowed
-- when memory is full, as is every write after it.
redis.call('PEXPIRE', KEYS[1], 1, 'GT')
local least, ttl = least_left(), tonumber(ARGV[3])
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[4], 'KEEPTTL')
  redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
end
return { 'g', least >= 0 and least < ttl and ttl or least }
