-- pause: nothing more is claimed; running handlers commit. ARGV 5 1 to pause, 0 to go on
-- answers paused | running | over <status> | gone
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
check_types()
set('paused', ARGV[5])
if ARGV[5] == '0' then
  set('release', '1')
  release()
end
settle()
return answer({ARGV[5] == '1' and 'paused' or 'running'})
