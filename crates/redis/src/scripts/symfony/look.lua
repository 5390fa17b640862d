-- look (symfony): what inspect and force_release begin with. Not a script of its own.

-- What is at a key, four elements:
--   'e' '' 0 0           nobody holds it
--   'w' token ms 1       a writer, and the time left
--   'r' token ms readers readers, one of them, and until the last of them ends
--   'f' type 0 0         not a sorted set
local function look(key, now)
  local written, other, failed = ends(key, WRITE, now)
  if failed then
    return failed
  end
  if other then
    return { 'f', other, 0, 0 }
  end
  local until_ms = last(key, now)
  if not until_ms then
    return { 'e', '', 0, 0 }
  end
  local token = ''
  for _, member in ipairs(redis.call('ZRANGE', key, -2, -1)) do
    if member ~= WRITE then
      token = member
    end
  end
  local count = redis.call('ZCOUNT', key, now + 1, '+inf')
  return { written and 'w' or 'r', token, until_ms - now, written and 1 or count }
end

