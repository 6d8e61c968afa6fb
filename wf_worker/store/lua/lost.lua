-- lost: the worker that held a frame is gone. The same loss found ten times is one loss: the token names it.
-- ARGV 5 frame key, 6 token, 7 losses a visit may have, 8 1 when the owner is known dead (its lease need not be over)
-- answers lost <losses> | alive | gone | over | stale
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
local key, head = ARGV[5], head_of(ARGV[5])
if not holds_token(head, ARGV[6]) then return answer({'stale'}) end
local expiry = call('ZSCORE', base .. LEASES, key)
if ARGV[8] ~= '1' and expiry and tonumber(expiry) > now() then return answer({'alive', expiry}) end
check_types()
take_claim(head, 'lost')
local losses, limit = tonumber(head[LOSSES]) + 1, tonumber(ARGV[7])
head[LOSSES] = tostring(losses)
tell_of('attempt_failed', key, head, head[ATTEMPT], 'lost')
set('recovered', tostring((tonumber(get('recovered')) or 0) + 1))
if losses > 2 * limit + 2 then
  -- Not even the kernel that should have failed this frame came back: what it reads kills its readers.
  leave(key, head)
  head[PLACE], head[TOKEN], head[OWNER], head[REV] = 'failed', '', '', revision()
  if head[PURPOSE] == 'lost' then head[PURPOSE] = head[STEP] ~= '' and 'step' or 'walk' end
  call('ZADD', base .. FAILED, ms(now()), key)
  save(key, head)
  tell_of('step_failed', key, head)
  if not failing() then
    set('failing', '!')
    set('fail_error', ARGV[9])
  end
else
  place(key, head, losses > limit and 'lost' or head[PURPOSE])
end
settle()
return answer({'lost', head[LOSSES]})
