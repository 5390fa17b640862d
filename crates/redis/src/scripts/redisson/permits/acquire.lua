-- acquire (redisson permits): take permits, all at once, as RPermitExpirableSemaphore and RSemaphore of
-- Redisson 4.7 do. Begins with permits.lua. Interop test: testing/interop.
--
-- KEYS  1 the name, 2 its set
-- ARGV  1 token, 2 how many, 3 the limit, 4 ttl_ms, 5 and 6 how and where to tell (permits.lua),
--       7 'a' all who hold permits are in the set, 'o' only ours are
--
-- Reply: a list, a letter first
--   g                 taken
--   y ms              this token has them already, nothing changed; the time left
--   b ms used limit   too few are free; when the next one ends in ms, -1 unknown
--   l limit           there is another limit
--   f index type      something else is at the name
--
-- Atomic: all of it.

local token, wanted, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local other, failed = not_permits(KEYS[1], KEYS[2])
if failed then
  return failed
end
if other then
  return { 'f', 1, other }
end
local now = clock()
local _, ends = permits_of(KEYS[2], token)
if ends and ends > now then
  return { 'y', ends - now }
end
purge(KEYS[1], KEYS[2], now, ARGV[5], ARGV[6])
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], limit - redis.call('ZCARD', KEYS[2]))
end
local free, used = tonumber(redis.call('GET', KEYS[1])), redis.call('ZCARD', KEYS[2])
-- Where others hold permits that nobody counts, no limit can be compared.
if ARGV[7] == 'a' and free + used ~= limit then
  return { 'l', free + used }
end
if free < wanted then
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  return { 'b', first[2] and math.max(tonumber(first[2]) - now, 0) or -1, used, limit }
end
redis.call('DECRBY', KEYS[1], wanted)
for number = 0, wanted - 1 do
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), permit(token, number))
end
return { 'g' }
