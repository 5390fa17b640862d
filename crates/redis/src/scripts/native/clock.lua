-- clock: what all scripts but acquire and release begin with. Not a script of its own.

local time = redis.call('TIME')
local now = string.format('%010d%06d', time[1], time[2])

