-- held (redisson lock): what renew, shorten and exchange_token begin with. Not a script of its own.

-- Whether a token holds KEYS[first..first+count-1]: the holds that are keys of ours follow them. A
-- token of its own is the field `own`, one of an owner is a hold whose value is the field.
-- Why it does not: 'a' nothing there, 't' somebody else, 'f' and the type of what is no hash, 'e' and
-- an error; nothing when it does, and then the owner by the index of each key, or false.
local function why_not_held(first, count, own)
  local why, owners = nil, {}
  for i = first, first + count - 1 do
    local hold = redis.pcall('GET', KEYS[i + count])
    if type(hold) == 'table' then
      return 'e' .. hold.err
    end
    local owner = hold
    local holds = redis.pcall('HGET', KEYS[i], owner or own)
    if type(holds) == 'table' then
      if string.sub(holds.err, 1, 9) ~= 'WRONGTYPE' then
        return 'e' .. holds.err
      end
      return 'f' .. (redis.pcall('TYPE', KEYS[i]).ok or '')
    end
    if not holds then
      why = why or (redis.call('EXISTS', KEYS[i]) == 1 and 't' or 'a')
    end
    owners[i] = owner
  end
  return why, owners
end

