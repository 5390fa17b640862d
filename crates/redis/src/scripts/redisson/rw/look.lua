-- look (redisson rw): what inspect and force_release begin with. Not a script of its own.

-- What is at a key, five elements:
--   'e' '' 0 0 0                  nothing there
--   'w' field holds pttl 1        a writer; its field without `:write`, time left in ms, -1 for ever
--   'r' field holds pttl readers  readers; one of them
--   'f' type 0 0 0                something else; for a hash of other fields, what it is
local function look(key)
  local size = redis.pcall('HLEN', key)
  if type(size) == 'table' then
    if string.sub(size.err, 1, 9) ~= 'WRONGTYPE' then
      return size
    end
    return { 'f', redis.pcall('TYPE', key).ok or '', 0, 0, 0 }
  end
  if size == 0 then
    return { 'e', '', 0, 0, 0 }
  end
  local mode = redis.call('HGET', key, 'mode')
  if mode ~= 'read' and mode ~= 'write' or size < 2 then
    return { 'f', size == 1 and 'lock of redisson' or 'hash', 0, 0, 0 }
  end
  -- A few of very many are enough: one is shown.
  local step = redis.call('HSCAN', key, '0', 'COUNT', '16')
  local pairs, field, holds = step[2], '', 0
  for i = 1, #pairs, 2 do
    local is_writer = string.sub(pairs[i], -6) == ':write'
    if pairs[i] ~= 'mode' and is_writer == (mode == 'write') then
      field, holds = pairs[i], tonumber(pairs[i + 1]) or 1
    end
  end
  local left = redis.call('PTTL', key)
  if mode == 'write' then
    return { 'w', string.sub(field, 1, -7), holds, left, 1 }
  end
  return { 'r', field, holds, left, size - 1 }
end

