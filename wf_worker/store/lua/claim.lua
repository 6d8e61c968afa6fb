-- claim: gives a ready frame to a token, with the slice that its step reads.
-- ARGV 5 frame key, 6 revision of the message, 7 token, 8 owner, 9 lease (ms), 10 whether the input is wanted,
--      11 number of state fields wanted (-1 for all), 12.. their names
-- answers granted <purpose> <step> <attempt> <losses> <failures> <denied> <revision> <deadline> <last heartbeat> <slice>
--       | gone | over | stale | paused | held | admitted | damaged <record>
-- Run again: the token is current, so the slice is answered again.
if gone() then return answer({'gone'}) end
local key, token = ARGV[5], ARGV[7]
local head = head_of(key)
if ended() or failing() then return answer({'over', get('status')}) end
if holds_token(head, token) then
  return granted('granted', key, head, (head[PURPOSE] == 'step' and head[STEP] == '') and '1' or '0', 10)
end
if not head or head[PLACE] ~= 'ready' or head[REV] ~= ARGV[6] then return answer({'stale'}) end
check_types()
if paused() or under_hold(head[CHAIN], held_act(head)) then
  place(key, head, head[PURPOSE])
  settle()
  return answer({head[PLACE]})
end
if head[PURPOSE] == 'admit' then
  if not act_of(head[ACT]) then return answer({'damaged', ACTIVATIONS .. ' ' .. head[ACT]}) end
  check_activation(head[ACT])
  leave(key, head)
  head[PLACE], head[PURPOSE], head[REV] = 'blocked', '', revision()
  save(key, head)
  admit(head[ACT])
  settle()
  return answer({'admitted'})
end
-- What the slice reads is asked for its type now: after the grant an error would leave half of it.
call('HLEN', base .. BODIES)
call('HLEN', base .. BEATS)
call('HLEN', base .. ACTIVATIONS)
call('HLEN', base .. SCOPES)
call('HLEN', base .. STATE .. head[SCOPE])
local denied = grant(key, head, token, ARGV[8], tonumber(ARGV[9]))
settle()
return granted('granted', key, head, denied, 10)
