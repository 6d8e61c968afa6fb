-- pause: nothing more is claimed; running handlers commit. ARGV 5 1 to pause, 0 to go on, 6 revision of the header that
-- the caller decided on, or '' for any. The header gets a new one: executed again later, the call is refused.
-- answers paused | running | over <status> | gone | changed <revision>
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
if (get('paused') or '0') == ARGV[5] then return answer({ARGV[5] == '1' and 'paused' or 'running'}) end
if ARGV[6] ~= '' and ARGV[6] ~= get('rev') then return answer({'changed', get('rev')}) end
check_types()
set('paused', ARGV[5])
set('paused_at', ms(now()))
set('rev', revision())
tell(ARGV[5] == '1' and 'paused' or 'unpaused')
if ARGV[5] == '0' then
  set('release', '1')
  release()
end
settle()
return answer({ARGV[5] == '1' and 'paused' or 'running'})
