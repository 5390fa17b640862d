-- release (plain): compare and delete, of every name that still holds the token. Begins with
-- is.lua, and delete.lua, signal.lua or publish.lua.
--
-- KEYS  the names, in order, none twice; behind signal.lua then the list of each
-- ARGV  1 token, 2 how many names (decimal); behind publish.lua then what that says
--
-- Reply, the worst letter over all names
--   h  deleted now   x  nothing was there   t  something else was there, and is untouched
--
-- Atomic: all of it. Each key is read before it is deleted.

local names = tonumber(ARGV[2])
if names == 1 and is(redis.pcall('GET', KEYS[1]), ARGV[1]) then
  delete(1, names)
  return 'h'
end
local gone, taken = false, false
for i = 1, names do
  local value = redis.pcall('GET', KEYS[i])
  if is(value, ARGV[1]) then
    delete(i, names)
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
