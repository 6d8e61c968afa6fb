-- republish: the message of a ready frame is sent again, or only looked for later.
-- ARGV 5 frame key, 6 score it was read with, 7 when to look next (ms from now), 8 1 to send,
--      9 what nobody who lives serves, or '': a frame is parked for as long as that is so
-- answers sent | later | gone | refused
if gone() then return answer({'gone'}) end
if ended() or failing() then return answer({'refused'}) end
local key = ARGV[5]
local head, score = head_of(key), call('ZSCORE', base .. READY, key)
if not head or not score or score ~= ARGV[6] then return answer({'refused'}) end
call('HLEN', base .. PARKED)
call('SCARD', shard .. PARKED_RUNS)
call('ZADD', base .. READY, ms(now() + tonumber(ARGV[7])), key)
attend(now() + tonumber(ARGV[7]))
head[LOOKS] = tostring(tonumber(head[LOOKS]) + 1)
if ARGV[9] ~= '' then
  park(key, head, ARGV[9])
elseif head[OWNER] == '!parked' then
  call('HDEL', base .. PARKED, key)
  head[OWNER] = ''
end
save(key, head)
if ARGV[8] == '1' then
  out = {key, head[REV], head[NODE]}
  return answer({'sent'})
end
return answer({'later'})
