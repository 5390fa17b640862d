#!lua flags=no-writes
-- rights: which commands its user may not run. Writes nothing: rights are looked at before that a
-- script like this one may not write, and every command that could do something is one that writes.
--
-- KEYS  none, or a key that the user may use
-- ARGV  for each command: its name, how many words follow, those words; '@' is KEYS[1]
--
-- Reply: a list of the names that are denied

local denied = {}
local at = 1
while ARGV[at] do
  local words = {}
  for i = 1, ARGV[at + 1] do
    local word = ARGV[at + 1 + i]
    words[i] = word == '@' and KEYS[1] or word
  end
  local reply = redis.pcall(ARGV[at], unpack(words))
  local why = type(reply) == 'table' and reply.err
  if why and (string.find(why, "can't run this command", 1, true) or string.find(why, 'no permissions', 1, true)) then
    denied[#denied + 1] = ARGV[at]
  end
  at = at + 2 + #words
end
return denied
