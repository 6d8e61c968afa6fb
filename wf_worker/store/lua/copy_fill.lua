-- copy_fill: a page of one record of a run that is being made.
-- ARGV 5 hash | scores | set | text | trace, 6 the record's key below the run, 7 its name among the names of keys, or '',
--      8 offset of a text's piece, 9 number of values, then the values: fields and values, members and scores, members,
--      one piece, or ordinal, step number, worker, entry and why it did not count
-- answers filled | gap <length> | gone: it is no longer being made
-- Run again: the same values are written to the same places.
if get('status') ~= 'creating' then return answer({'gone'}) end
local kind, key, n = ARGV[5], base .. ARGV[6], tonumber(ARGV[9])
-- Whatever is written is found again by whoever removes the run: its name comes first.
if ARGV[7] ~= '' then call('SADD', base .. NAMES, ARGV[7]) end
if kind == 'text' then
  local length, offset = call('STRLEN', key), tonumber(ARGV[8])
  if length < offset then return answer({'gap', ms(length)}) end
  if n > 0 then call('SETRANGE', key, offset, ARGV[10]) end
elseif kind == 'trace' then
  local last = call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  local known = last and tonumber(string.match(last[1], '^%d+')) or 0
  for i = 10, 9 + n, 5 do
    if tonumber(ARGV[i]) > known then
      local words = {'n', ARGV[i + 1], 'w', ARGV[i + 2], 'e', ARGV[i + 3]}
      if ARGV[i + 4] ~= '' then words[7], words[8] = 'd', ARGV[i + 4] end
      call('XADD', key, ARGV[i] .. '-0', unpack(words))
    end
  end
elseif kind == 'scores' then
  for i = 10, 9 + n, 2 do call('ZADD', key, ARGV[i + 1], ARGV[i]) end
else
  local command = kind == 'hash' and 'HSET' or 'SADD'
  for i = 10, 9 + n, 1000 do call(command, key, unpack(ARGV, i, math.min(i + 999, 9 + n))) end
end
return answer({'filled'})
