-- never_rests: what scripts that grant or hand over begin with where there is no strict restart guard;
-- boot.lua takes its place where there is one. Not a script of its own.

local resting = false

