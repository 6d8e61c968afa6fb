-- stage: writes one chunk of a large value, or some items of a large foreach, under a claim, before the commit that
-- makes them reachable and checks that they are complete.
-- ARGV 5 frame key, 6 token, 7 items | value, 8 name, 9 offset, 10 number of pieces, 11.. the pieces
-- An offset of 0 empties what an earlier claimer left, unless it begins with the very same pieces: a first chunk that is
-- executed once more after the others must not take them away, and what a claim stages follows from what is frozen.
-- Items count from the offset; a value is appended at it.
-- answers staged <length> | gap <length> | gone | stale
-- Run again: seen by the length, which then is past the offset.
if gone() then return answer({'gone'}) end
if ended() or not holds_token(head_of(ARGV[5]), ARGV[6]) then return answer({'stale'}) end
local kind, name, offset, n = ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local key = base .. (kind == 'items' and ITEMS or STAGED) .. name
if kind == 'items' then
  local length, indexes, pairs_ = call('HLEN', key), {}, {}
  for i = 1, n do
    indexes[i] = ms(offset + i - 1)
    pairs_[2 * i - 1], pairs_[2 * i] = indexes[i], ARGV[10 + i]
  end
  if offset == 0 and length > 0 then
    local kept = n > 0 and call('HMGET', key, unpack(indexes)) or {}
    for i = 1, n do
      if kept[i] ~= ARGV[10 + i] then
        call('DEL', key)
        length = 0
        break
      end
    end
  end
  if length < offset then return answer({'gap', ms(length)}) end
  if n > 0 then call('HSET', key, unpack(pairs_)) end
  call('SADD', base .. NAMES, name)
  return answer({'staged', ms(call('HLEN', key))})
end
local piece, length = ARGV[11], call('STRLEN', key)
if offset == 0 and length > 0 and string.sub(call('GETRANGE', key, 0, #piece), 1, #piece) ~= piece then
  call('DEL', key)
  length = 0
end
if length >= offset + #piece then return answer({'staged', ms(length)}) end
if length ~= offset then return answer({'gap', ms(length)}) end
call('APPEND', key, piece)
call('SADD', base .. NAMES, STAGED .. name)
return answer({'staged', ms(offset + #piece)})
