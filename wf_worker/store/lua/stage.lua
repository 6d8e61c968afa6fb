-- stage: writes one chunk of a large value, or some items of a large foreach, under a claim, before the commit that
-- makes them reachable and checks that they are complete.
-- ARGV 5 frame key, 6 token, 7 items | value, 8 name, 9 offset, 10 number of pieces, 11.. the pieces
-- An offset of 0 empties what an earlier claimer left. Items count from the offset; a value is appended at it.
-- answers staged <length> | gap <length> | gone | stale
-- Run again: seen by the length, which then is past the offset.
if gone() then return answer({'gone'}) end
if ended() or not holds_token(head_of(ARGV[5]), ARGV[6]) then return answer({'stale'}) end
local kind, name, offset, n = ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local key = base .. (kind == 'items' and ITEMS or STAGED) .. name
if offset == 0 then call('DEL', key) end
if kind == 'items' then
  local length = call('HLEN', key)
  if length ~= offset and length ~= offset + n then return answer({'gap', ms(length)}) end
  local pairs_ = {}
  for i = 1, n do pairs_[2 * i - 1], pairs_[2 * i] = ms(offset + i - 1), ARGV[10 + i] end
  if n > 0 then call('HSET', key, unpack(pairs_)) end
  call('SADD', base .. NAMES, name)
  return answer({'staged', ms(call('HLEN', key))})
end
local length = call('STRLEN', key)
if length == offset + #ARGV[11] then return answer({'staged', ms(length)}) end
if length ~= offset then return answer({'gap', ms(length)}) end
call('APPEND', key, ARGV[11])
call('SADD', base .. NAMES, STAGED .. name)
return answer({'staged', ms(offset + #ARGV[11])})
