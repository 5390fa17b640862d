-- free (redisson rw): what ends a hold. Not a script of its own.

-- Tells waiters: '0' wakes one of theirs, '1' all. `how` is 'p' on one server, 'c' on a cluster.
local function say(how, channel, what)
  local tell, tell_slot = 'PUBLISH', 'SPUBLISH'
  redis.pcall(tell, channel, what)
  if how == 'c' then
    redis.pcall(tell_slot, channel, what)
  end
end

-- A reader has gone: the lock ends with the last of those who are left. Whose lease is over is not.
-- Their keys are built here, from `before`: nobody else knows whose they are.
local function after_reader(key, before, how, channel)
  local most, fields = 0, redis.call('HKEYS', key)
  for _, field in ipairs(fields) do
    local holds = field ~= 'mode' and string.sub(field, -6) ~= ':write' and tonumber(redis.call('HGET', key, field))
    for i = holds or 0, 1, -1 do
      most = math.max(most, redis.call('PTTL', before .. field .. ':rwlock_timeout:' .. i))
    end
  end
  if most > 0 then
    redis.call('PEXPIRE', key, most)
  elseif redis.call('HGET', key, 'mode') ~= 'write' then
    redis.call('DEL', key)
    say(how, channel, '0')
  end
end

-- The writer has gone. What it read meanwhile is left, and then others may read, too: they are told,
-- which Redisson itself leaves out.
local function after_writer(key, how, channel)
  if redis.call('HLEN', key) <= 1 then
    redis.call('DEL', key)
  else
    redis.call('HSET', key, 'mode', 'read')
  end
  say(how, channel, '1')
end

