-- fail_run: ends a run whose records are damaged. It touches the header and the shard's indexes only: of the rest nothing
-- is known. What its workers commit later is refused. ARGV 5 error record
-- answers failed | over <status> | gone
if gone() then return answer({'gone'}) end
if ended() then return answer({'over', get('status')}) end
set('failing', '!')
set('damaged', '1')
set('error', ARGV[5])
finish('failed')
return answer({'failed'})
