-- rest: behind boot.lua, before an acquire: a server that rests grants nothing, and one that counts
-- no lease that is longer than what it was made for. Not a script of its own.
--
-- Reply  what boot.lua says, or server time in us (16), 'm', max_ttl_ms (8)

if resting then
  return resting
end
if string.sub(ARGV[3], 1, 8) > longest_ttl then
  local time = redis.call('TIME')
  return string.format('%010d%06d', time[1], time[2]) .. 'm' .. longest_ttl
end

