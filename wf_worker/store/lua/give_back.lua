-- give_back: a worker that cannot do a claimed frame puts it back; the attempt does not count, its queue's clock goes on.
-- ARGV 5 frame key, 6 token, 7 when to look for it next (ms from now; its message is not sent again before), 8 capability
--      that the worker does not serve, or ''
-- answers given | gone | over | stale
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
local key, head = ARGV[5], head_of(ARGV[5])
if not holds_token(head, ARGV[6]) then return answer({'stale'}) end
check_types()
call('SCARD', shard .. PARKED_RUNS)
if head[PURPOSE] == 'step' then
  head[ATTEMPT] = tostring(math.max(0, tonumber(head[ATTEMPT]) - 1))
  if head[ATTEMPT] == '0' then head[BEGAN] = '' end
end
place(key, head, head[PURPOSE], head[LEFT])
local later = tonumber(ARGV[7])
if later > 0 and head[PLACE] == 'ready' then
  call('ZADD', base .. READY, ms(now() + later), key)
  out = {}
end
if ARGV[8] ~= '' and head[PLACE] == 'ready' then
  park(key, head, ARGV[8])
  save(key, head)
end
settle()
return answer({'given'})
