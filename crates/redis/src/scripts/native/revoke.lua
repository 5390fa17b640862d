-- revoke: ask the holder of a name to give it back. Begins with never_rests.lua, clock.lua,
-- record.lua, crowd.lua, crowd_changes.lua and line.lua.
--
-- KEYS  1 the key of the name
-- ARGV  1 the mark of channels, and what they begin with: see line.lua
--
-- It stands in the record, where each renewal finds it; and the holder is told, if it listens.
--
-- Reply, one string: server time in us (16), then
--   r token(32) who   asked: see record.lua
--   u token(32) who   nobody renews this lease, so nothing would be heard: nothing changed
--   w                 nobody holds it
--   f what            foreign, left alone: see record.lua
--
-- Atomic: all of it; the key is read before it is written. Works when memory is full.

local record, failure = look(KEYS[1], none)
if failure then
  return failure
end
if record and record.foreign then
  return now .. 'f' .. record.foreign
end
if not (record and record.live and record.state ~= 'r') then
  return now .. 'w'
end
if record.crowd then
  local token, asked = proof(record), crowds.ask_back(record)
  if #asked == 0 then
    return now .. 'u' .. token .. who(record, true)
  end
  -- What is said of the others is what was so before.
  local reply = now .. 'r' .. token .. crowds.who(record, true, nil, true)
  for _, share in ipairs(asked) do
    share.marks, share.changed = '1', true
  end
  store(KEYS[1], record)
  for _, share in ipairs(asked) do
    tell(ARGV[1], share.listener, 'r' .. share.token)
  end
  return reply
end
if record.marks == '2' or record.marks == '3' then
  return now .. 'u' .. record.token .. who(record)
end
if record.marks ~= '1' then
  record.marks = '1'
  -- Harmless, allowed when memory is full, and so is every write after it.
  redis.call('PEXPIRE', KEYS[1], 1, 'GT')
  store(KEYS[1], record)
end
tell(ARGV[1], record.listener, 'r' .. record.token)
return now .. 'r' .. record.token .. who(record)
