-- cancel: ends a run at once. ARGV 5 revision of the header that the caller decided on, or '' for any, 6 reason record
-- answers cancelled | over <status> | gone | changed <revision>
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
if ARGV[5] ~= '' and ARGV[5] ~= get('rev') then return answer({'changed', get('rev')}) end
set('error', ARGV[6])
finish('cancelled')
return answer({'cancelled'})
