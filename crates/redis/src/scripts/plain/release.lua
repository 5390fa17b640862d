-- release (plain): compare and delete, of every name that still holds the token.
--
-- KEYS  the names, in order, none twice
-- ARGV  1 token
--
-- Reply, the worst letter over all names
--   h  deleted now   x  nothing was there   t  something else was there, and is untouched
--
-- Atomic: all of it. Each key is read before it is deleted.

if #KEYS == 1 and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 'h'
end
local gone, taken = false, false
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if value == ARGV[1] then
    redis.call('DEL', KEYS[i])
  elseif not value then
    gone = true
  else
    if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    taken = true
  end
end
return taken and 't' or gone and 'x' or 'h'
