-- give_back: a worker that cannot do a claimed frame puts it back; the attempt does not count.
-- ARGV 5 frame key, 6 token, 7 when to look for it next (ms from now; its message is not sent again before)
-- answers given | gone | over | stale
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
local head = head_of(ARGV[5])
if not holds_token(head, ARGV[6]) then return answer({'stale'}) end
check_types()
if head[PURPOSE] == 'step' then head[ATTEMPT] = tostring(math.max(0, tonumber(head[ATTEMPT]) - 1)) end
place(ARGV[5], head, head[PURPOSE])
local later = tonumber(ARGV[7])
if later > 0 and head[PLACE] == 'ready' then
  call('ZADD', base .. READY, ms(now() + later), ARGV[5])
  out = {}
end
settle()
return answer({'given'})
