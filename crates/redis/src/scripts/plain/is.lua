-- is (plain): what scripts begin with that compare. Not a script of its own.

-- Whether a value is this token, or begins with it: where a format has metadata, it is behind.
local function is(value, token)
  return value == token or type(value) == 'string' and string.sub(value, 1, #token) == token
end

