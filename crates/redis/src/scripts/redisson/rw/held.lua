-- held (redisson rw): what most scripts of RReadWriteLock begin with. Not a script of its own.
--
-- A hash: `mode` is `read` or `write`, a reader is a field with its count, the writer one that ends in
-- `:write`. Beside each hold of a reader is a key with its lease; the hash lasts as long as the longest.

-- How a token holds KEYS[first..first+count-1]: 'w' it writes, 'r' it reads; the key of a reader's lease
-- follows those of the names. Else why it does not: 'a' nothing there, or its lease is over, 't' somebody
-- else, 'f' and the type of what is no hash, 'e' and an error.
local function how_held(first, count, own)
  local how
  for i = first, first + count - 1 do
    local writes = redis.pcall('HEXISTS', KEYS[i], own .. ':write')
    if type(writes) == 'table' then
      if string.sub(writes.err, 1, 9) ~= 'WRONGTYPE' then
        return 'e' .. writes.err
      end
      return 'f' .. (redis.pcall('TYPE', KEYS[i]).ok or '')
    end
    local one
    if writes == 1 then
      one = 'w'
    elseif redis.call('HEXISTS', KEYS[i], own) == 1 then
      one = redis.call('EXISTS', KEYS[i + count]) == 1 and 'r' or 'a'
    else
      one = redis.call('EXISTS', KEYS[i]) == 1 and 't' or 'a'
    end
    if not how or one ~= 'w' and one ~= 'r' then
      how = one
    end
  end
  return how
end

