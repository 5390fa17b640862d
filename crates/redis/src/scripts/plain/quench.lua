-- quench (plain): take the signal of a lock away that is held again. Whoever holds it signals anew.
--
-- KEYS  1 the name, 2 the list that signals it
-- ARGV  none
--
-- Reply: how many lists were taken away
--
-- Atomic: all of it.

if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('DEL', KEYS[2])
end
return 0
