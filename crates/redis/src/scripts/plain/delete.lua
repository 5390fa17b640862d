-- delete (plain): the part that release and force_release begin with. Not a script of its own.

-- Deletes KEYS[i], one of so many names.
local function delete(i, _)
  redis.call('DEL', KEYS[i])
end

