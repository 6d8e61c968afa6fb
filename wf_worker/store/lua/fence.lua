-- fence: a frame's deadline has passed. Whoever works on it is shut out first; the next claimer asks the kernel.
-- ARGV 5 frame key, 6 score it was read with
-- answers fenced <which deadline> | stopped: nobody could have claimed it | gone | refused
if gone() then return answer({'gone'}) end
local key, head, score = ARGV[5], head_of(ARGV[5]), call('ZSCORE', base .. DUE, ARGV[5])
if ended() or not head or head[UNTIL] == '' or not score or score ~= ARGV[6] or tonumber(score) > now() then
  return answer({'refused'})
end
check_types()
local which = head[UNTIL]
if which == 'queue' and (paused() or under_hold(head[CHAIN], nil)) then
  place(key, head, head[PURPOSE])
  settle()
  return answer({'stopped'})
end
take_claim(head, which .. '_timeout')
place(key, head, which .. '_timeout')
settle()
return answer({'fenced', which})
