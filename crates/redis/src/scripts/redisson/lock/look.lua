-- look (redisson lock): what inspect and force_release begin with. Not a script of its own.

-- What is at a key, five elements:
--   'e' '' 0 0 fence             nothing there; the counter, or ''
--   'h' field holds pttl fence   a hash of one owner; time left in ms, -1 for ever
--   'f' type 0 0 ''              something else; for a hash of other fields, what it is
local function look(key, counter)
  local size = redis.pcall('HLEN', key)
  if type(size) == 'table' then
    if string.sub(size.err, 1, 9) ~= 'WRONGTYPE' then
      return size
    end
    return { 'f', redis.pcall('TYPE', key).ok or '', 0, 0, '' }
  end
  local fence = counter and redis.call('GET', counter) or ''
  if size == 0 then
    return { 'e', '', 0, 0, fence }
  end
  if redis.call('HEXISTS', key, 'mode') == 1 then
    return { 'f', 'read-write lock of redisson', 0, 0, '' }
  end
  if size > 1 then
    return { 'f', 'hash', 0, 0, '' }
  end
  local pair = redis.call('HGETALL', key)
  return { 'h', pair[1], tonumber(pair[2]) or 1, redis.call('PTTL', key), fence }
end

