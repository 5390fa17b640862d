-- held (plain): the part that renew, shorten and exchange_token begin with. Not a script of its own.

-- Why the token does not hold all of the keys: 'a' nothing there, 't' something else there,
-- 'f' and the type of what is no string, 'e' and an error; nothing when it does.
local function why_not_held(from, to, token)
  local why
  for i = from, to do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then
      if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
        return 'e' .. value.err
      end
      return 'f' .. (redis.pcall('TYPE', KEYS[i]).ok or '')
    end
    if not is(value, token) then
      why = why or (value and 't' or 'a')
    end
  end
  return why
end

