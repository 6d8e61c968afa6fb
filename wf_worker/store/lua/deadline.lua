-- deadline: the time of the whole run is over. It fails at once; what its workers commit later is refused.
-- ARGV 5 time of the deadline as it was read, 6 error record
-- answers failed | gone | refused
if gone() then return answer({'gone'}) end
local score = call('ZSCORE', base .. DUE, 'run')
if ended() or not score or score ~= ARGV[5] or tonumber(score) > now() then return answer({'refused'}) end
check_types()
call('ZREM', base .. DUE, 'run')
set('failing', '!')
set('error', ARGV[6])
finish('failed')
return answer({'failed'})
