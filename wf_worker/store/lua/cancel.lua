-- cancel: ends a run at once. ARGV 5 revision of the header that the caller decided on, or '' for any, 6 reason record
-- answers cancelled | over <status> | gone | changed <revision>
-- Run again: the header's revision is still this call's, so it answers the same.
if gone() then return answer({'gone'}) end
if ended() then
  if get('status') == 'cancelled' and string.sub(get('rev'), -#call_id - 1) == '.' .. call_id then return answer({'cancelled'}) end
  return answer({'over', get('status')})
end
if ARGV[5] ~= '' and ARGV[5] ~= get('rev') then return answer({'changed', get('rev')}) end
check_types()
set('error', ARGV[6])
finish('cancelled')
return answer({'cancelled'})
